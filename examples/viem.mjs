// viem, with nothing but Landfall's RPC URL: node viem.mjs http://127.0.0.1:8645/rpc/31337
// Sends payments, deploys a contract, calls it, and waits for every receipt.
import { readFileSync } from 'node:fs'
import { createPublicClient, createWalletClient, http } from 'viem'

const [url, which = '0', count = '200'] = process.argv.slice(2)
const counter = JSON.parse(readFileSync(new URL('counter.json', import.meta.url)))
const receiver = '0xa0Ee7A142d267C1f36714E4a8F75612F20a79720'

const wallet = createWalletClient({ transport: http(url) })
const chain = createPublicClient({ transport: http(url), pollingInterval: 250 })
const account = (await wallet.getAddresses())[Number(which)]

const hashes = []
for (let n = 1; n <= Number(count); n++) {
  hashes.push(await wallet.sendTransaction({ account, to: receiver, value: BigInt(n), chain: null }))
}

const deployed = await chain.waitForTransactionReceipt({
  hash: await wallet.deployContract({ account, ...counter, chain: null }),
})
const contract = { abi: counter.abi, address: deployed.contractAddress }
const called = await chain.waitForTransactionReceipt({
  hash: await wallet.writeContract({ account, ...contract, functionName: 'increment', chain: null }),
})
const value = await chain.readContract({ ...contract, functionName: 'count' })

const receipts = await Promise.all(
  hashes.map((hash) => chain.waitForTransactionReceipt({ hash, onReplaced: (by) => { throw new Error(by.reason) } })),
)
const landed = [...receipts, deployed, called].filter((receipt) => receipt.status === 'success').length
console.log(JSON.stringify({ account, hashes, landed, value: Number(value) }))
