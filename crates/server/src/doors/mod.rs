//! Doors: how much those outside may take before anybody knows who they are, and how much altogether.
//!
//! ```text
//! connection ─► crowd (is there a place?) ─► line (bytes, requests, age) ─► admit (which key?) ─► intake (the body)
//! ```
//!
//! A connection on which nobody has shown a key yet is keyless. Keyless ones have a share of the places, and bytes, requests
//! and an age that are bounded; where there is no place left, the most silent of them yields. Who has shown a key has the share of
//! that key: of connections, and of bytes. Nothing here knows what is asked for.
//!
//! | file | what |
//! |---|---|
//! | `crowd`, `here` | who is connected, and who yields |
//! | `line` | one connection |
//! | `neighbour` | all connections of one address |
//! | `bytes` | bytes of bodies that are being read or worked on |
//! | `partial` | a WebSocket's message that is not whole |
//! | `intake` | a request's body, once its caller may come in |
//! | `streams` | gRPC streams of callers without a key |

mod bytes;
mod crowd;
mod here;
pub(crate) mod intake;
mod line;
mod measured;
mod neighbour;
mod partial;
pub(crate) mod streams;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::Semaphore;

pub(crate) use bytes::{Budget, Charge};
pub(crate) use crowd::{Crowd, MOMENT, Room, Yielded};
pub(crate) use line::{Line, Running};
pub(crate) use partial::{More, Partial};

use bytes::OfKeys;

use crate::access::Caller;
use crate::limits::Limits;

/// Refused requests whose rest is taken in and forgotten at once, so that their callers hear the answer.
const DISCARDS: usize = 64;

/// Address that a request's connection comes from, as an extension of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Bounds that all listeners of a server share.
pub(crate) struct Doors {
    bytes: Arc<Budget>,
    bytes_of_keys: OfKeys,
    bytes_of_small: Arc<Budget>,
    /// Streams of callers without a key.
    streams: Arc<Semaphore>,
    discards: Semaphore,
    most_streams: usize,
    most_streams_per_address: usize,
}

impl Doors {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let most_streams = limits.streams_without_key();
        Arc::new(Self {
            bytes: Arc::new(Budget::new(limits.bytes_in_flight())),
            bytes_of_keys: OfKeys::new(limits.bytes_in_flight_of_key()),
            bytes_of_small: bytes::reserve(),
            streams: Arc::new(Semaphore::new(most_streams)),
            discards: Semaphore::new(DISCARDS),
            most_streams,
            most_streams_per_address: most_streams.div_ceil(4),
        })
    }

    /// Account of the bytes that a request of this caller holds, on this connection.
    pub(crate) fn charge(&self, line: Option<&Arc<Line>>, caller: &Caller) -> Charge {
        let key = caller.key.as_ref().map(|key| self.bytes_of_keys.of(key));
        let address = line.map(|line| line.neighbour().clone());
        Charge::new(self.bytes.clone(), address, key, self.bytes_of_small.clone())
    }
}

/// A connection that nobody made.
#[cfg(test)]
pub(crate) fn test_line() -> Arc<Line> {
    let metrics = Arc::new(crate::metrics::Metrics::new("test", []).unwrap());
    let crowd = Crowd::new(Room::of(&Limits::default()), metrics);
    let neighbour = Arc::new(neighbour::Neighbour::new(1));
    Arc::new(Line::new(0, SocketAddr::from(([127, 0, 0, 1], 1)), crowd, neighbour, false))
}
