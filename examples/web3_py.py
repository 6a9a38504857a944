# web3.py, with nothing but Landfall's RPC URL: python web3_py.py http://127.0.0.1:8645/rpc/31337
# Sends payments, deploys a contract, calls it, and waits for every receipt.
import json
import pathlib
import sys

from web3 import Web3

url, which, count = (sys.argv[1:] + ["0", "200"][len(sys.argv) - 2 :])[:3]
counter = json.loads(pathlib.Path(__file__).with_name("counter.json").read_text())
receiver = "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720"

w3 = Web3(Web3.HTTPProvider(url))
account = w3.eth.accounts[int(which)]

hashes = [
    w3.eth.send_transaction({"from": account, "to": receiver, "value": n + 1})
    for n in range(int(count))
]

factory = w3.eth.contract(abi=counter["abi"], bytecode=counter["bytecode"])
deployed = w3.eth.wait_for_transaction_receipt(factory.constructor().transact({"from": account}))
contract = w3.eth.contract(abi=counter["abi"], address=deployed["contractAddress"])
called = w3.eth.wait_for_transaction_receipt(contract.functions.increment().transact({"from": account}))
value = contract.functions.count().call()

receipts = [w3.eth.wait_for_transaction_receipt(hash) for hash in hashes]
landed = sum(receipt["status"] for receipt in [*receipts, deployed, called])
print(json.dumps({"account": account, "hashes": [Web3.to_hex(hash) for hash in hashes], "landed": landed, "value": value}))
