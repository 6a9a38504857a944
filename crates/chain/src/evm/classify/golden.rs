//! Every text that is known, and the class it must get: with other words around it, and with any code.

use std::sync::LazyLock;

use landfall_core::outcome::SendOutcome::{self, *};
use proptest::prelude::*;

use super::{Table, Trouble, Verdict};

/// Texts as nodes write them, with numbers and addresses in place.
const ROWS: &[(SendOutcome, &[&str])] = &[
    (
        NonceTooLow,
        &[
            "nonce too low: next nonce 7, tx nonce 5",
            "nonce too low: address 0xAb, tx: 5 state: 7",
            "INTERNAL_ERROR: nonce too low",
            "nonce too low, Current nonce: 7",
            "OldNonce, Current nonce: 7, nonce of rejected tx: 5",
            "wrong transaction nonce",
            "Nonce too low",
            "invalid transaction nonce",
            "nonce too low. allowed nonce range: 7 - 57, actual: 5",
            "insertion of another transaction with the same nonce is in progress",
            "nonce too low: address 0xAb current nonce (7) > tx nonce (5)",
            "Nonce too low. Expected nonce to be 7 but got 5. Note that transactions can't be queued when automining.",
            "Transaction nonce too low. Expected nonce to be at least 7 but got 5.",
            "Transaction nonce is too low. Try incrementing the nonce.",
            "Pool(Stale)",
            "invalid nonce; got 5, expected 7: invalid sequence",
            "incorrect account sequence",
            "Nonce too low. Provided nonce: 5, current nonce: 7",
            "transaction already finalized",
        ],
    ),
    (
        NonceTooHigh,
        &[
            "nonce too high: tx nonce 9, gapped nonce 7",
            "gapped-nonce tx from delegated accounts",
            "nonce too high",
            "INTERNAL_ERROR: nonce gap too large: transaction nonce is too far ahead of sender's on-chain nonce",
            "queued sender dormant: no on-chain state change for too long",
            "NonceGap, Future nonce. Expected nonce: 7",
            "nonce too far in future",
            "delegation nonce gap",
            "Nonce too high",
            "Transaction nonce is too distant from current sender nonce",
            "An invalid transaction with a lower nonce exists",
            "nonce too high: address 0xAb, tx: 9 state: 7",
            "nonce too high. allowed nonce range: 7 - 57, actual: 99",
            "Nonce too high. Expected nonce to be 7 but got 9.",
            "transaction nonce too high",
            "nonce too far in the future",
            "exceeds next nonce",
            "nonce out of range",
            "tx-nonce-too-high",
            "future transaction tries to replace pending",
        ],
    ),
    (
        AlreadyKnown,
        &[
            "already known",
            "ALREADY_EXISTS: already known",
            "INTERNAL_ERROR: existing txn with same hash",
            "AlreadyKnown",
            "OwnNonceAlreadyUsed",
            "Known transaction",
            "known transaction. transaction with hash 0xab is already in the system",
            "transaction already imported",
            "Known transaction: 0xab",
            "Transaction with the same hash was already imported.",
            "Pool(AlreadyImported)",
            "alreadyknown",
            "0xab: this transaction is already in the TxPool",
        ],
    ),
    (
        ReplacementUnderpriced,
        &[
            "replacement transaction underpriced",
            "replacement transaction underpriced: new tx gas fee cap 5 <= 6 queued",
            "replacement transaction underpriced: new tx gas tip cap 5 < 6 queued + 100% replacement penalty",
            "FEE_TOO_LOW: replacement transaction underpriced",
            "INTERNAL_ERROR: could not replace existing tx",
            "ReplacementNotAllowed",
            "Replacement transaction underpriced",
            "Replacement transaction underpriced. A gasPrice/maxFeePerGas of at least 7 is necessary to replace the \
             existing transaction with nonce 5.",
            "an existing transaction had higher priority",
            "Transaction gas price 5wei is too low. There is another transaction with same nonce in the queue with \
             gas price: 6wei. Try increasing the gas price or incrementing the nonce.",
            "there is another tx which has the same nonce in the tx pool",
            "replacement gas too low",
        ],
    ),
    (
        Underpriced,
        &[
            "transaction gas price below minimum: gas tip cap 1, minimum needed 25000000000",
            "transaction underpriced",
            "transaction underpriced: gas tip cap 1, minimum needed 2",
            "transaction underpriced: tip needed 2, tip permitted 1",
            "transaction underpriced: address 0xab have gas fee cap (1) < pool minimum fee cap (2)",
            "transaction priority fee below minimum required priority fee 7",
            "FEE_TOO_LOW: underpriced",
            "FEE_TOO_LOW: fee too low",
            "FeeTooLow, MaxFeePerGas too low",
            "FeeTooLowToCompete",
            "Gas price below configured minimum gas price",
            "gas price too low",
            "gas price too low: 1 wei, use at least tx.gasPrice = 2 wei",
            "gasprice is less than gas price minimum floor",
            "Transaction gas price is 1, which is below the minimum of 2",
        ],
    ),
    (
        FeeBelowBase,
        &[
            "max fee per gas less than block base fee: address 0xab, maxFeePerGas: 1, baseFee: 2",
            "max fee per blob gas less than block blob gas fee",
            "max fee per gas less than block base fee: address 0xab, maxFeePerGas: 1 baseFee: 2",
            "MaxFeePerBlobGas needs to be at least equal to CurrentFeePerBlobGas (2), is 1.",
            "Gas price below current base fee",
            "blob gas price below current blob base fee",
            "Transaction maxFeePerGas (1) is too low for the next block, which has a baseFeePerGas of 2",
            "fee cap less than block base fee",
            "transaction is outdated",
        ],
    ),
    (
        InsufficientFunds,
        &[
            "insufficient funds for gas * price + value: balance 1, tx cost 2, overshot 1",
            "insufficient funds for gas * price + value: balance 1, queued cost 1, tx cost 2, overshot 2",
            "insufficient funds for gas * price + value: balance 1, queued cost 1, tx bumped 2, overshot 2",
            "insufficient funds for gas * price + value: address 0xab have 1 want 2",
            "insufficient funds for transfer",
            "transaction would cause overdraft",
            "insufficient funds for gas * price + value: have 1 want 2",
            "INTERNAL_ERROR: insufficient funds",
            "insufficient funds for gas * price + value, Account balance: 1, cumulative cost: 2",
            "insufficient funds for gas * price + value, Balance is zero, cannot pay gas",
            "InsufficientFunds, Account balance: 1, cumulative cost: 2",
            "Upfront cost exceeds account balance",
            "not enough funds for gas",
            "insufficient funds for gas + value. balance: 1, fee: 2, value: 3",
            "not enough balance to cover the fee. error message: x",
            "Insufficient funds for gas * price + value",
            "Sender doesn't have enough funds to send tx. The max upfront cost is: 2 and the sender's balance is: 1.",
            "gas required exceeds allowance (0)",
            "insufficient funds for gas * price + value + gatewayFee",
            "failed precheck with status INSUFFICIENT_PAYER_BALANCE",
            "transaction execution error: user cant pay the bills",
        ],
    ),
    (
        AccountLimit,
        &[
            "account limit exceeded: pooled 16 txs",
            "in-flight transaction limit reached for delegated accounts",
            "authority already reserved",
            "address already reserved",
            "INTERNAL_ERROR: spammer",
            "can't replace blob-txn with a non-blob-txn",
            "pending transaction type conflict",
            "delegation authority has pending transaction",
        ],
    ),
    (
        PoolFull,
        &[
            "txpool is full",
            "INTERNAL_ERROR: pending sub-pool is full",
            "INTERNAL_ERROR: baseFee sub-pool is full",
            "INTERNAL_ERROR: queued sub-pool is full",
            "INTERNAL_ERROR: blobs limit in txpool is full",
            "currently not accepting transactions due to expected surplus being below threshold",
            "sequencer pending tx pool full, please try again",
            "There are too many transactions in the queue. Your transaction was dropped due to limit. Try \
             increasing the fee.",
        ],
    ),
    (
        Invalid,
        &[
            // gas
            "intrinsic gas too low: gas 5, minimum needed 21000",
            "insufficient gas for floor data gas cost: gas 5, minimum needed 21000",
            "intrinsic gas too low",
            "INTERNAL_ERROR: IntrinsicGas",
            "gas below floor data cost",
            "Intrinsic gas exceeds gas limit",
            "failed to validate the transaction. reason: Validation revert: unknown",
            "not enough gas to publish compressed bytecodes",
            "exceeds block gas limit",
            "transaction gas limit too high (cap: 16777216, tx: 30000000)",
            "exceeds max transaction gas limit",
            "gas limit too high",
            "intrinsic gas too high",
            "INTERNAL_ERROR: gas limit is too high",
            "gas limit reached, Gas limit: 1, gas limit of rejected tx: 2",
            "TxGasLimitCapExceeded: Gas limit 2 exceeded cap of 1.",
            "Transaction gas limit exceeds block gas limit",
            "Transaction gas limit cap exceeded",
            "intrinsic gas too high -- CallGasCostMoreThanGasLimit",
            "Transaction gas limit is greater than the block gas limit, gas_limit: 2, cap: 1",
            "Transaction gas limit is 2 and exceeds block gas limit of 1",
            "Transaction gas limit is 2 and exceeds transaction gas cap of 1",
            // type
            "transaction type not supported: type 3 rejected, pool not yet in Cancun",
            "transaction type not supported: tx type 3 not supported by this pool",
            "INVALID: fork supporting this transaction type is not activated yet",
            "unsupported transaction type",
            "NotSupportedTxType",
            "Invalid transaction type",
            "transaction type 3 not supported",
            "access lists are not supported",
            "Invalid transaction type 3.",
            // size
            "oversized data: transaction size 200000, limit 131072",
            "max initcode size exceeded",
            "transaction too large",
            "MaxTxSizeExceeded",
            "oversized data. max: 1; actual: 2",
            "RLPTooLong",
            "initcode too large",
            "l2message too long",
            "transaction blob limit exceeded",
            // sender, chain id, fee order
            "invalid sender",
            "sender not an eoa",
            "sender is not an EOA",
            "failed to recover sender",
            "invalid sender. can't start a transaction from a non-account",
            "only replay-protected (EIP-155) transactions allowed over RPC",
            "invalid chain id for signer",
            "invalid chain ID",
            "invalid chain id, expected: 1 got: 2",
            "Wrong chainId",
            "Trying to send an incompatible EIP-155 transaction, signed for another chain.",
            "max priority fee per gas higher than max fee per gas",
            "Max priority fee per gas exceeds max fee per gas",
            "InvalidMaxPriorityFeePerGas: Cannot be higher than maxFeePerGas.",
        ],
    ),
    (
        NodePolicy,
        &[
            "Sender account not authorized to send transactions",
            "sender or to in black list",
            "transaction sender is not on the whitelist",
            "tx fee (2.00 ether) exceeds the configured cap (1.00 ether)",
            "tx fee (2 wei) exceeds the configured cap (1 wei)",
            "Transaction fee cap exceeded",
            "Transaction rejected by chain policy",
            "Plugin has marked the transaction as invalid",
            "publishing transactions not supported by this endpoint",
            "storage condition not met",
        ],
    ),
    (
        NeverIncludable,
        &["out of counters at node level (gas)", "not enough keccak counters to continue the execution"],
    ),
    (
        Reverted,
        &[
            "execution reverted",
            "execution reverted: not the owner",
            "Execution reverted",
            "VM Exception while processing transaction: reverted with reason string 'no'",
            "Transaction processing could not be completed due to an exception",
            // A contract may say anything.
            "execution reverted: nonce too low",
            "execution reverted: insufficient funds",
            "execution reverted: already known",
        ],
    ),
    (
        Endpoint,
        &[
            "Transaction pool not enabled. (Either txpool explicitly disabled, or node not yet in sync).",
            "node is syncing",
            "Initial sync is still in progress",
            "header not found",
            "unknown block",
            "block not found",
            "block 0x12 not found",
            "header for hash not found",
            "hash 0xab is not currently canonical",
            "transaction indexing is in progress",
            "cannot query unfinalized data",
            "daily request count exceeded, request rate limited",
            "your app has exceeded its rate limit",
            "rate exceeded",
            "Too Many Requests",
            "credits limited",
            "100/second request limit reached",
            "exceeded the maximum number of concurrent requests",
        ],
    ),
    (
        Unknown,
        &[
            "sequencer temporarily not available",
            "sequencer internal error",
            "failed to publish transaction to any of the forwarding targets",
            "context deadline exceeded",
            "queue full",
            "server shutting down",
            "internal error",
            "transaction not found",
            "502 Bad Gateway: [no body]",
            "503 Service Unavailable: [no body]",
            // not what they look like
            "unknown transaction",
            "ERC20: transfer amount exceeds balance",
            "",
            "something nobody has seen",
        ],
    ),
];

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::load().unwrap());

fn table() -> &'static Table {
    &TABLE
}

#[test]
fn every_known_text_gets_its_class() {
    let table = table();
    for (class, texts) in ROWS {
        for text in *texts {
            assert_eq!(table.classify(None, text).of_send(), *class, "{text}");
            assert_eq!(table.classify(None, &text.to_uppercase()).of_send(), *class, "{text}");
        }
    }
}

#[test]
fn every_class_of_the_rules_has_a_row() {
    for rule in &table().rule {
        assert!(ROWS.iter().any(|(class, _)| *class == rule.class), "{:?}", rule.class);
    }
}

/// Compared in lower case, so written in lower case; and no entry hides behind an earlier one for nothing.
#[test]
fn the_table_is_in_lower_case() {
    let table = table();
    let rules = table.rule.iter().flat_map(|rule| rule.any.iter().chain(&rule.all).chain(&rule.unless));
    let troubles = table.trouble.iter().flat_map(|rule| rule.any.iter().chain(&rule.all));
    for part in rules.chain(troubles).chain(&table.unsupported.any).chain(&table.bad_parameter.any) {
        assert_eq!(part, &part.to_lowercase());
        assert!(!part.trim().is_empty());
    }
}

#[test]
fn a_code_alone_decides_only_about_rate_limits() {
    let table = table();
    for (class, texts) in ROWS {
        for text in *texts {
            for code in [-32603, 3, 4, 1000, -32000, -32001, -32003, -32010, 1, 2] {
                assert_eq!(table.classify(Some(code), text).of_send(), *class, "{code} {text}");
            }
        }
    }
    let limited = Verdict::Endpoint(Trouble::Limited);
    for (code, text) in [
        (429, "slow down"),
        (1008, "closing"),
        (-32055, "please wait"),
        (-32005, "project ID request rate exceeded"),
        (-32005, "limit exceeded"),
        (-32012, "out of credits"),
        (-32007, "50/second request limit reached - reduce calls"),
        (-32016, "over the rate limit"),
    ] {
        assert_eq!(table.classify(Some(code), text), limited, "{code} {text}");
    }
    // The same codes mean other things at other nodes.
    assert_eq!(table.classify(Some(-32005), "x").of_send(), Unknown);
    assert_eq!(
        table.classify(Some(-32005), "Transaction gas limit exceeds block gas limit").of_send(),
        Invalid
    );
    assert_eq!(
        table.classify(Some(-32007), "Sender account not authorized to send transactions").of_send(),
        NodePolicy
    );
}

#[test]
fn what_an_endpoint_does_not_do_is_recognised() {
    let table = table();
    assert!(table.is_unsupported(-32601, "x"));
    assert!(table.is_unsupported(0, "the method eth_getBlockReceipts does not exist/is not available"));
    assert!(!table.is_unsupported(-32000, "header not found"));
    assert!(table.is_bad_parameter(-32602, "x"));
    assert!(table.is_bad_parameter(0, "invalid argument 1: json: cannot unmarshal object"));
}

fn rows() -> impl Strategy<Value = (SendOutcome, &'static str)> {
    let all: Vec<_> =
        ROWS.iter().flat_map(|(class, texts)| texts.iter().map(|text| (*class, *text))).collect();
    prop::sample::select(all)
}

proptest! {
    #[test]
    fn words_around_a_text_do_not_change_its_class(
        (class, text) in rows(),
        prefix in prop::sample::select(vec![
            "", "err: ", "rpc error: code = Unknown desc = ", "INTERNAL_ERROR: ", "RPC submit: ", "[eth] ",
        ]),
        suffix in "( [0-9a-f]{0,20})?(, please)?[.!]?",
        code in any::<i32>(),
    ) {
        prop_assume!(![429, 1008, -32055, -32005, -32012, -32007, -32016].contains(&code));
        let whole = format!("{prefix}{text}{suffix}");
        prop_assert_eq!(table().classify(Some(i64::from(code)), &whole).of_send(), class, "{}", whole);
    }

    #[test]
    fn any_text_at_all_can_be_classified(text in ".{0,200}", code in any::<Option<i64>>()) {
        table().classify(code, &text);
    }
}
