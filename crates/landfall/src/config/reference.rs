//! A sentence for each key. `printed.rs` makes the example file and the page of them.

/// One key.
pub(crate) struct Key {
    /// `server.listen`; entries of lists as `chain.id`.
    pub(crate) path: &'static str,
    /// As it would be written; in lists, an example.
    pub(crate) value: &'static str,
    pub(crate) sentence: &'static str,
    /// The key is commented out in the example.
    pub(crate) optional: bool,
    /// The default is what is known of the chain by its id.
    pub(crate) by_chain: bool,
}

const fn key(path: &'static str, value: &'static str, sentence: &'static str) -> Key {
    Key { path, value, sentence, optional: false, by_chain: false }
}

const fn optional(path: &'static str, value: &'static str, sentence: &'static str) -> Key {
    Key { path, value, sentence, optional: true, by_chain: false }
}

const fn by_chain(path: &'static str, value: &'static str, sentence: &'static str) -> Key {
    Key { path, value, sentence, optional: false, by_chain: true }
}

/// Every key, in the order of the file.
pub(crate) const KEYS: &[Key] = &[
    key("server.listen", "\"127.0.0.1:8645\"", "Where HTTP is served."),
    key(
        "server.health_listen",
        "\"\"",
        "Where health is served beside, and nothing else: /health/live, /health/ready and gRPC's health, without TLS and without \
         keys. Empty: only with the rest.",
    ),
    key(
        "server.advertise",
        "\"\"",
        "Where callers reach this node, such as http://node-1:8645; told to callers of a lane that this node owns. Empty: \
         where it listens.",
    ),
    key(
        "server.tls_certificate",
        "\"\"",
        "A PEM file with the certificate and those that lead to its authority, read again when it changes. Empty: without TLS.",
    ),
    key(
        "server.tls_key",
        "\"\"",
        "The PEM file with the certificate's key, which nobody but its owner may read; `credential:NAME` is one of systemd's.",
    ),
    key(
        "server.cors_origins",
        "[]",
        "Origins of web pages that may call, such as https://app.example.com. Empty: none but the server's own.",
    ),
    key("server.max_body_bytes", "8388608", "The largest body that is read."),
    key(
        "server.max_bytes_in_flight",
        "67108864",
        "The most bytes of bodies that are read or worked on at once; beyond it, callers wait a moment and are then refused.",
    ),
    key(
        "server.max_bytes_in_flight_per_address",
        "16777216",
        "The same for one address, or the /64 of an IPv6 address. At least one largest body always fits.",
    ),
    key("server.max_batch", "1000", "The most transactions of one batch."),
    key(
        "server.max_connections",
        "1000",
        "The most connections at once; beyond it, an idle one is closed for a new one, and where none is idle 16 more places are there for \
         administrators and health.",
    ),
    key(
        "server.max_connections_per_address",
        "1000",
        "The most connections of one address; further ones are closed. Behind a proxy all callers have one address: keep it at \
         max_connections there.",
    ),
    key(
        "server.max_keyless_connections",
        "500",
        "The most connections on which nobody has shown a key, never more than half of max_connections; beyond it, the one \
         that was silent longest, of the address that has most of them, is closed.",
    ),
    key(
        "server.max_keyless_streams",
        "64",
        "The most gRPC calls (health, reflection) of callers that show no key, a quarter of it for one address; each ends after \
         5 minutes.",
    ),
    key(
        "server.max_listeners",
        "200",
        "The most callers that listen to server-sent events at once; further ones are refused.",
    ),
    key(
        "server.header_timeout_s",
        "30",
        "How long a caller may take to send a request's headers, and how long its connection may be idle.",
    ),
    key("server.body_timeout_s", "30", "How long a caller may take to send a request's body."),
    key(
        "store.url",
        "\"sqlite://landfall.db\"",
        "The database: a SQLite file, made if missing, or postgres://user:password@host/database for many nodes, with ?sslmode=verify-full for checked TLS.",
    ),
    key(
        "store.url_file",
        "\"\"",
        "A file that holds the URL instead, since it may have a password in it; credential:NAME for a credential of systemd.",
    ),
    key("store.namespace", "\"default\"", "Keeps installations apart that share one store."),
    key(
        "store.keep_finished_days",
        "90.0",
        "How long the history of a finished transaction is kept; its id, key and end stay for ever. 0: all for ever.",
    ),
    key(
        "store.wait_s",
        "60",
        "How long a start waits, in seconds, for a PostgreSQL that is not there yet or is starting. A refused login is not waited for.",
    ),
    key(
        "node.name",
        "\"\"",
        "A readable name in leases and logs, such as env-region-pod-instance. Empty: the name of the machine.",
    ),
    key(
        "lease.duration_s",
        "10",
        "How long this process owns its lanes without renewing, in seconds; 2.5 is a number too.",
    ),
    key("lease.renew_s", "3", "How often it renews; under half of the duration."),
    key("lease.skew_s", "1", "How long before the end it stops acting."),
    key(
        "metrics.mask_signers",
        "false",
        "Show made-up names instead of signers' addresses in metrics and log lines; the API shows addresses.",
    ),
    key(
        "traces.otlp",
        "\"\"",
        "The gRPC address of an OpenTelemetry collector, such as http://127.0.0.1:4317. Empty: no traces.",
    ),
    key("traces.sample", "1.0", "The share of transactions whose traces are sent."),
    key(
        "access.open",
        "false",
        "Let everybody who reaches the server do everything, as long as no API key was ever made, on a loopback address only: \
         also other users of this machine, and whoever a proxy on it lets through.",
    ),
    key(
        "access.admin_key_env",
        "\"LANDFALL_ADMIN_KEY\"",
        "The environment variable that may hold a key of an administrator: the first key, where the store has none yet.",
    ),
    key(
        "access.admin_key_file",
        "\"\"",
        "Or the file that holds it, or credential:NAME. It is read again every second: another content ends the old key at once, \
         and without the file there is no such key.",
    ),
    key(
        "access.loose_files",
        "false",
        "Use files with secrets also if other users of the machine can read or change them, by their mode, their owner or their folder. \
         Files in $CREDENTIALS_DIRECTORY and in /run/secrets always are.",
    ),
    key(
        "access.rate_per_s",
        "1000",
        "Requests per second of an API key that does not say otherwise; 0: no limit.",
    ),
    key(
        "access.max_connections_per_key",
        "250",
        "The most connections on which one API key was shown last, never more than half of server.max_connections; beyond it, its own most \
         silent idle one is closed. Behind a proxy that shares connections between keys, raise it.",
    ),
    key(
        "access.max_bytes_in_flight_per_key",
        "8388608",
        "The most bytes of bodies of one API key that are read or worked on at once, never more than a quarter of \
         server.max_bytes_in_flight. One largest body always fits, and small bodies have 4 MiB beside.",
    ),
    key("access.max_listeners_per_key", "50", "The most event streams of one API key at once."),
    key("access.max_sockets_per_key", "50", "The most WebSockets of one API key at once."),
    key(
        "access.max_raw_bytes_per_key",
        "4194304",
        "How many bytes of transactions that callers signed themselves (`eth_sendRawTransaction`) are kept for one API key.",
    ),
    key(
        "access.max_raw_accounts_per_key",
        "100",
        "And of how many accounts. What is beyond is refused until some have landed.",
    ),
    key("access.open_metrics", "false", "Let everybody read /metrics, without an API key."),
    key("access.keep_audit_days", "365.0", "How long the audit log is kept; 0: for ever."),
    key(
        "rpc.allow",
        "{}",
        "Methods that `/rpc` passes on to the endpoints, by role: `{ viewer = [\"eth_call\"], admin = [\"debug_trace*\"] }`. Each role has those of the roles below it. A list for viewers replaces the built-in one, which has what only reads. What signs, sends or steers a node cannot be listed: docs/json-rpc.md says what that is.",
    ),
    key(
        "rpc.max_answer_bytes",
        "16777216",
        "The longest answer of a node that is passed on; a longer one is not read to its end.",
    ),
    key(
        "rpc.max_batch_answer_bytes",
        "33554432",
        "The most bytes of all answers to one batch; calls beyond it are told so.",
    ),
    key(
        "rpc.max_answer_bytes_in_flight",
        "134217728",
        "The most bytes of answers that callers have not been sent yet, all together.",
    ),
    key(
        "rpc.answer_time_s",
        "10",
        "How long a call that is passed on may take, in seconds, its wait for a turn included.",
    ),
    key("rpc.batch_time_s", "30", "How long the calls of one batch may take that are passed on."),
    key(
        "rpc.requests_per_s",
        "250",
        "How many calls a second are passed on to each endpoint, beside what the engine asks; as many more for raw transactions; 0: no limit.",
    ),
    key(
        "rpc.max_at_once",
        "64",
        "How many calls are passed on at once for a chain; four times as many wait, further ones are refused.",
    ),
    key(
        "webhooks.secret_env",
        "\"LANDFALL_WEBHOOK_SECRET\"",
        "The environment variable with at least 32 random characters that the secrets of webhooks are derived from; the same on all nodes. Without it there are no webhooks.",
    ),
    key("webhooks.secret_file", "\"\"", "Or the file that holds them, or credential:NAME."),
    key(
        "webhooks.allow_private",
        "false",
        "Receivers in private networks and on this machine may be reached. Link-local and metadata addresses never are.",
    ),
    key("webhooks.allow_http", "false", "Receivers may be reached without TLS."),
    key("webhooks.timeout_ms", "15000", "How long a receiver may take to answer."),
    key("webhooks.at_once", "8", "How many events are delivered to one webhook at once."),
    key(
        "webhooks.retry_first_ms",
        "5000",
        "How long after its first failure an event is tried again; three times as long after each other one.",
    ),
    key("webhooks.retry_longest_s", "3600", "The longest wait between two tries."),
    key(
        "webhooks.give_up_after_s",
        "259200",
        "An event that failed for so long, while others got through, is given up; a webhook that took nothing for so long is disabled.",
    ),
    key(
        "webhooks.max_waiting",
        "10000",
        "How many events of one webhook may wait to be tried again; beyond it, new ones wait in the journal.",
    ),
    key(
        "webhooks.rotation_s",
        "86400",
        "How long an old secret signs beside its successor after a rotation, unless the caller says otherwise.",
    ),
    key(
        "trades.max_head_age_s",
        "60",
        "The gRPC entry for trades refuses while the newest block that was seen is older than this.",
    ),
    key("chain.id", "31337", "The EIP-155 id; an endpoint that reports another is not used."),
    key(
        "chain.rpc",
        "[\"http://127.0.0.1:8545\"]",
        "Endpoints: failover on reads, fan-out on sends. http, https, ws or wss.",
    ),
    key(
        "chain.caller_rpc",
        "[]",
        "Endpoints for what callers ask through `/rpc` and sign themselves, and for nothing else. Empty: those of rpc, on connections of their own.",
    ),
    key(
        "chain.rpc_file",
        "\"\"",
        "A file that holds the endpoints, instead of `rpc`, one a line, since they may have keys in them; or credential:NAME.",
    ),
    key(
        "chain.caller_rpc_file",
        "\"\"",
        "A file that holds the endpoints for callers, instead of `caller_rpc`, one a line; or credential:NAME.",
    ),
    key(
        "chain.development",
        "false",
        "Nothing on this chain is worth anything, so keys that everybody knows (anvil's, Hardhat's, …) may be used on it. Chains \
         31337, 1337 and 31377 are such without it.",
    ),
    key(
        "chain.resubmit_after_s",
        "60",
        "After this time the same bytes are sent again, and the lowest nonce is re-priced if it stalled.",
    ),
    key("chain.bump_percent", "20", "How much a re-price adds at least; nodes ask for 10."),
    key("chain.max_fee_gwei", "500", "The ceiling of maxFeePerGas for any attempt."),
    key(
        "chain.max_spend_per_day_eth",
        "0.0",
        "The most that the fees of one lane may come to in a day (UTC, by block time), in ether, with what a rollup charges for bytes on its parent chain: beyond it no nonce is assigned and nothing is re-priced, but cancels go on. 0: no budget.",
    ),
    key(
        "chain.low_balance_eth",
        "0.0",
        "At or below this balance, in ether, `lane.low_balance` is emitted; 0: only when a transaction that waits, or the bump of one in flight, needs more.",
    ),
    key(
        "chain.checks",
        "false",
        "Every transaction is simulated before it is signed, also one that brings its own gas.",
    ),
    key(
        "chain.watch_depth",
        "64",
        "Where the chain has no finalized block: how many blocks after its end a transaction's nonce is still watched, in case the chain takes back more than was called final; and how deep the block of another program's transaction must lie before ours, whose nonce it took, is queued again or fails.",
    ),
    key(
        "chain.witness_wait_s",
        "600",
        "With two or more endpoints nothing becomes final before two have shown the block that makes it so. After this time without a second one the word of one is enough, unless two disagree, and that is said of what became final so; 0: never.",
    ),
    optional(
        "chain.approve_above_wei",
        "\"1000000000000000000\"",
        "A value above this, and every delegation of the signer's code, waits for a person's yes (`POST /tx/{txId}/approve`); no limit if left out.",
    ),
    key(
        "chain.max_signed_ahead",
        "1000",
        "How many nonces may be signed and not mined, for signers whose allocation is \"admission\".",
    ),
    key(
        "chain.max_waiting",
        "1000000",
        "How many transactions of a signer may wait for their nonces; more are refused (429 `too_many_waiting`) until some are sent.",
    ),
    key(
        "chain.max_waiting_bytes",
        "1073741824",
        "How many bytes those that wait may have in the store, where data takes two for each; more are refused (429 `too_many_waiting`).",
    ),
    key(
        "chain.reset_above_returned",
        "64",
        "More free nonces than this (given back without signed bytes) make a lane reset itself.",
    ),
    key("chain.request_timeout_ms", "10000", "How long one request to an endpoint may take."),
    key(
        "chain.requests_per_s",
        "[0]",
        "How many requests a second each endpoint may get: a number, or one for each of rpc; 0 for no limit.",
    ),
    by_chain(
        "chain.finality",
        "20",
        "When a mined transaction is done: blocks on top of the including one, or \"safe\", or \"finalized\".",
    ),
    by_chain(
        "chain.tags",
        "true",
        "Nodes know the safe and finalized blocks; false: they are not asked for them.",
    ),
    by_chain("chain.poll_ms", "500", "How often the head is asked for where there is no subscription."),
    by_chain("chain.max_in_flight", "16", "How many nonces of a lane may be in flight at once."),
    by_chain("chain.delegated_in_flight", "1", "The same for an account with delegated code (EIP-7702)."),
    by_chain(
        "chain.mempool",
        "true",
        "Nodes keep what cannot be mined yet; if false, a nonce is sent only when every lower one was taken.",
    ),
    by_chain("chain.tips", "true", "Tips matter; if false, none are looked up or offered."),
    by_chain("chain.min_tip_wei", "1", "The smallest tip that is offered: nodes refuse less."),
    by_chain("chain.min_price_wei", "1", "The smallest price per gas that is offered, tip included."),
    by_chain(
        "chain.replacement_percent",
        "10",
        "How much dearer a replacement must be for the chain's pools.",
    ),
    by_chain("chain.gas_headroom_percent", "20", "Added to gas estimates."),
    by_chain(
        "chain.calldata_floor",
        "false",
        "Gas that a caller gives must cover the data as if that were all the transaction did (EIP-7623).",
    ),
    by_chain(
        "chain.first_alone",
        "false",
        "An account's first transaction is sent alone, since the chain's gateway drops those that race with it.",
    ),
    by_chain(
        "chain.data_fee",
        "\"none\"",
        "What a rollup charges for bytes: \"none\", \"in_gas\" (the estimate has it) or \"op_stack\" (on top, told by a contract).",
    ),
    by_chain(
        "chain.tx_types",
        "[0, 1, 2, 4]",
        "The transaction types that are taken; 1 also stands for access lists in other types.",
    ),
    by_chain("chain.max_tx_gas", "0", "The most gas of one transaction; 0: only the block's limit."),
    by_chain("chain.max_tx_bytes", "131072", "The most bytes of one signed transaction; 0: no limit."),
    optional(
        "signer.address",
        "\"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\"",
        "The address the key must have; a check.",
    ),
    key("signer.private_key_env", "\"KEY_A\"", "The environment variable that holds the key in hex."),
    optional("signer.private_key_file", "\"keys/a.hex\"", "Or the file that does, or credential:NAME."),
    optional(
        "signer.keystore",
        "\"keys/a.json\"",
        "An encrypted key file instead; `landfall key new` makes one.",
    ),
    optional("signer.password_env", "\"KEY_A_PASSWORD\"", "The variable that holds the keystore's password."),
    optional("signer.password_file", "\"keys/a.password\"", "Or the file that does, or credential:NAME."),
    optional("signer.mnemonic_env", "\"PHRASE\"", "Or the variable that holds a BIP-39 phrase."),
    optional("signer.mnemonic_file", "\"keys/phrase\"", "Or the file that does, or credential:NAME."),
    optional("signer.index", "0", "Which account of the phrase: m/44'/60'/0'/0/index."),
    optional("signer.chains", "[31337]", "The chains it may be used on; all if left out."),
    key(
        "signer.allocation",
        "\"dispatch\"",
        "When a transaction gets its nonce: \"dispatch\", when it can go out; or \"admission\", before its 202, which only \
         the lane's owner then gives.",
    ),
    key(
        "signer.on_unknown_slots",
        "\"hold\"",
        "When the chain has used nonces that this store does not know and that may be its own: \"hold\" until somebody resumes the lane, \
         or \"adopt\" them once they are final and none of them does what a waiting transaction is to do.",
    ),
    key(
        "signer.delegate_to",
        "[]",
        "Addresses whose code the account may be delegated to by callers (EIP-7702); the zero address stands for taking a \
         delegation back. Whoever has an account's code can spend all it has. Empty: none. When an address is taken off, delegations \
         to it that wait fail, and an empty transaction is put in the place of those that were sent.",
    ),
];
