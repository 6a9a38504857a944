//! A door in front of an endpoint: shut, nobody listens there, as when a node is down.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::free_port;

pub(crate) struct Gate {
    here: SocketAddr,
    there: SocketAddr,
    open: Option<JoinHandle<()>>,
}

impl Gate {
    /// A door to the endpoint at this URL, shut at first.
    pub(crate) fn shut_before(url: &str) -> Self {
        let there = url.trim_start_matches("http://").parse().expect("an address");
        Self { here: SocketAddr::from(([127, 0, 0, 1], free_port())), there, open: None }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.here)
    }

    pub(crate) async fn open(&mut self) {
        let listener = TcpListener::bind(self.here).await.expect("the door's address is free");
        let there = self.there;
        self.open = Some(tokio::spawn(async move {
            // Ends with this task, and so do all connections.
            let mut connections = JoinSet::new();
            while let Ok((mut from, _)) = listener.accept().await {
                connections.spawn(async move {
                    let Ok(mut to) = TcpStream::connect(there).await else { return };
                    // Either side may hang up at any time.
                    tokio::io::copy_bidirectional(&mut from, &mut to).await.ok();
                });
            }
        }));
    }

    pub(crate) async fn shut(&mut self) {
        let open = self.open.take().expect("the door is open");
        open.abort();
        open.await.unwrap_err();
    }
}
