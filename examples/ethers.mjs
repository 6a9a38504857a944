// ethers v6, with nothing but Landfall's RPC URL: node ethers.mjs http://127.0.0.1:8645/rpc/31337
// Sends payments, deploys a contract, calls it, and waits for every receipt.
import { readFileSync } from 'node:fs'
import { ContractFactory, JsonRpcProvider } from 'ethers'

const [url, which = '0', count = '200'] = process.argv.slice(2)
const counter = JSON.parse(readFileSync(new URL('counter.json', import.meta.url)))
const receiver = '0xa0Ee7A142d267C1f36714E4a8F75612F20a79720'

const provider = new JsonRpcProvider(url, undefined, { pollingInterval: 250 })
const signer = await provider.getSigner(Number(which))

const sent = []
for (let n = 1; n <= Number(count); n++) {
  sent.push(await signer.sendTransaction({ to: receiver, value: n }))
}

const contract = await new ContractFactory(counter.abi, counter.bytecode, signer).deploy()
const deployed = await contract.deploymentTransaction().wait()
const called = await (await contract.increment()).wait()
const value = await contract.count()

// Throws if ethers sees a transaction replaced.
const receipts = await Promise.all(sent.map((tx) => tx.wait()))
const landed = [...receipts, deployed, called].filter((receipt) => receipt.status === 1).length
const hashes = sent.map((tx) => tx.hash)
console.log(JSON.stringify({ account: signer.address, hashes, landed, value: Number(value) }))
provider.destroy()
