#!/usr/bin/env bash
# cast, with nothing but Landfall's RPC URL: ./cast.sh http://127.0.0.1:8645/rpc/31337
# Sends payments, deploys a contract, calls it, and waits for every receipt.
set -euo pipefail
export ETH_RPC_URL="$1"
which="${2:-0}" count="${3:-200}"
cast="${CAST:-cast}"
here="$(dirname "${BASH_SOURCE[0]}")"
bytecode="$(sed -n 's/.*"bytecode": "\(.*\)".*/\1/p' "$here/counter.json")"
receiver=0xa0Ee7A142d267C1f36714E4a8F75612F20a79720

account="$("$cast" rpc eth_accounts | tr -d '[]"' | cut -d, -f$((which + 1)))"

# cast takes the count of what is in blocks for the next nonce; with payments that wait it has to be told.
next="$("$cast" nonce --block pending "$account")"
hashes=()
for n in $(seq "$count"); do
  hashes+=("$("$cast" send --async --unlocked --from "$account" --nonce $((next + n - 1)) --value "$n" "$receiver")")
done

contract="$("$cast" send --unlocked --from "$account" --nonce $((next + count)) --json --create "$bytecode" | sed 's/.*"contractAddress":"\([^"]*\)".*/\1/')"
status=("$("$cast" send --unlocked --from "$account" "$contract" 'increment()' --json | sed 's/.*"status":"\([^"]*\)".*/\1/')")
value="$("$cast" call "$contract" 'count()(uint256)')"

# Waits where a receipt is not there yet.
status+=($(printf '%s\n' "${hashes[@]}" | xargs -P 4 -I {} "$cast" receipt {} status | cut -d' ' -f1))
landed=1
for one in "${status[@]}"; do
  case "$one" in 1 | 0x1 | true) landed=$((landed + 1)) ;; esac
done
list="$(printf '"%s",' "${hashes[@]}")"
echo "{\"account\":\"$account\",\"hashes\":[${list%,}],\"landed\":$landed,\"value\":$value}"
