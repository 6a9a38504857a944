//! One kept HTTP connection, as cheap as it gets: a request is bytes that were made before, an answer is a status and
//! a body of known length. The load must not cost what it measures.

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Answers are never so long; a server that sends more is not ours.
const LONGEST: usize = 16 * 1024 * 1024;

pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A request with everything before its body.
pub(super) fn post(host: &str, path: &str, more: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{more}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

impl Connection {
    pub(super) async fn open(host: &str) -> Result<Self> {
        let stream = TcpStream::connect(host).await.with_context(|| format!("{host} does not answer"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(64 * 1024) })
    }

    /// Sends a request and gives the answer's status and body.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> Result<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (status, body) = loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            if let Some(head) = read_head(&self.buffer)? {
                let (status, begin, length) = head;
                break (status, begin..begin + length);
            }
        };
        if body.end > LONGEST {
            bail!("the answer is too long");
        }
        while self.buffer.len() < body.end {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
        }
        Ok((status, self.buffer.get(body).unwrap_or_default()))
    }
}

/// Status, where the body begins and how long it is; none while the head is not whole.
fn read_head(bytes: &[u8]) -> Result<Option<(u16, usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(bytes.get(..end).unwrap_or_default()).context("the head is no text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    match (status, length) {
        (Some(status), Some(length)) => Ok(Some((status, end + 4, length))),
        _ => bail!("the answer has no status or no length: {head}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_read_once_it_is_whole() {
        let answer = b"HTTP/1.1 202 Accepted\r\nx: y\r\nContent-Length: 12\r\n\r\n{";
        assert_eq!(read_head(answer).unwrap(), Some((202, answer.len() - 1, 12)));
        assert_eq!(read_head(&answer[..30]).unwrap(), None);
        assert!(read_head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
