#!/usr/bin/env bash
# Plain JSON-RPC with curl: ./curl.sh http://127.0.0.1:8645/rpc/31337
# Sends one payment and waits for its receipt.
set -euo pipefail
url="$1"
call() {
  curl -sS --fail-with-body "$url" -H 'content-type: application/json' \
    -d "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"$1\",\"params\":$2}" | sed 's/.*"result"://; s/}$//'
}

account="$(call eth_accounts '[]' | tr -d '[]"' | cut -d, -f1)"
payment="{\"from\":\"$account\",\"to\":\"0xa0Ee7A142d267C1f36714E4a8F75612F20a79720\",\"value\":\"0x1\"}"
hash="$(call eth_sendTransaction "[$payment]")"
for _ in $(seq 100); do
  receipt="$(call eth_getTransactionReceipt "[$hash]")"
  [ "$receipt" = null ] || break
  sleep 0.3
done
echo "$receipt"
