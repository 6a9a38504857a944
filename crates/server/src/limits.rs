//! Limits of callers, as configured, and what follows from them.

use std::time::Duration;

/// Fewer bytes in flight than one piece of a body could never be taken.
const LEAST_BYTES: usize = 1 << 20;

/// Bounds on callers.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one body.
    pub body: usize,
    /// Transactions of one batch.
    pub batch: usize,
    /// Connections at once.
    pub connections: usize,
    /// Connections of one address at once.
    pub connections_per_address: usize,
    /// Connections at once on which nobody has shown a key.
    pub keyless_connections: usize,
    /// Connections of one key at once.
    pub connections_per_key: usize,
    /// gRPC calls at once of callers that show no key.
    pub keyless_streams: usize,
    /// Bytes of bodies that are read or worked on at once, of all callers, of one address and of one key.
    pub bytes: usize,
    pub bytes_per_address: usize,
    pub bytes_per_key: usize,
    /// Callers that listen to events at once.
    pub listeners: usize,
    /// Time for a request's headers, and how long a connection may be idle.
    pub header_time: Duration,
    /// Time for a request's body.
    pub body_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 8 << 20,
            batch: 1_000,
            connections: 1_000,
            connections_per_address: 1_000,
            keyless_connections: 500,
            connections_per_key: 250,
            keyless_streams: 64,
            bytes: 64 << 20,
            bytes_per_address: 16 << 20,
            bytes_per_key: 8 << 20,
            listeners: 200,
            header_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// Connections without a key: never more than half of the places.
    pub(crate) fn connections_without_key(&self) -> usize {
        self.keyless_connections.min(self.connections / 2).max(1)
    }

    /// Connections of one key: never more than half of the places.
    pub(crate) fn connections_of_key(&self) -> usize {
        self.connections_per_key.min(self.connections / 2).max(1)
    }

    /// Streams without a key never keep all connections without a key busy.
    pub(crate) fn streams_without_key(&self) -> usize {
        self.keyless_streams.min(self.connections_without_key() / 2).max(1)
    }

    /// One whole body always fits.
    pub(crate) fn bytes_in_flight(&self) -> usize {
        self.bytes.max(self.bytes_in_flight_per_address())
    }

    pub(crate) fn bytes_in_flight_per_address(&self) -> usize {
        self.bytes_per_address.max(self.body).max(LEAST_BYTES)
    }

    /// Of one key: never more than a quarter of all, but always one whole body.
    pub(crate) fn bytes_in_flight_of_key(&self) -> usize {
        self.bytes_per_key.min(self.bytes_in_flight() / 4).max(self.body).max(LEAST_BYTES)
    }

    /// Of a listener for health: small requests, of callers of whom none shows a key.
    pub(crate) fn for_health(self) -> Self {
        Self { connections: 200, connections_per_address: 100, keyless_connections: 100, body: 0, ..self }
    }
}
