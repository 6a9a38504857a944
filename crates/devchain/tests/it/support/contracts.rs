//! Two contracts small enough to be written by hand.

use alloy_primitives::Bytes;

/// Reverts with `Error("nope")`, whatever it is asked.
pub(crate) const REVERTER: &str = concat!(
    "6308c379a060e01b600052", // selector
    "6020600452",             // offset
    "6004602452",             // length
    "636e6f706560e01b604452", // "nope"
    "60646000fd",             // revert(0, 100)
);

pub(crate) const REVERT_DATA: &str = concat!(
    "0x08c379a0",
    "0000000000000000000000000000000000000000000000000000000000000020",
    "0000000000000000000000000000000000000000000000000000000000000004",
    "6e6f706500000000000000000000000000000000000000000000000000000000",
);

/// Stores the first word of its input in slot 0 and logs it under topic 42.
pub(crate) const LOGGER: &str = concat!(
    "6000358060005560005260", // sstore(0, word), mstore(0, word)
    "2a60206000a100",         // log1(0, 32, 42), stop
);

pub(crate) const LOG_TOPIC: &str = "0x000000000000000000000000000000000000000000000000000000000000002a";

/// Code that puts the given code in place.
pub(crate) fn creation(runtime: &str) -> Bytes {
    let length = runtime.len() / 2;
    format!("60{length:02x}600c60003960{length:02x}6000f3{runtime}").parse().unwrap()
}
