//! A small TCP proxy between a store and the database, which breaks a connection at the worst moment when told.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

use crate::world::Database;

/// What happens to the next message that contains the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trap {
    /// It reaches the server, which answers; the answer is dropped and the client cut off.
    CutAnswer,
    /// It never reaches the server; both are cut off.
    CutRequest,
    /// The client is cut off; the message waits on its way until it is let go, then reaches the server.
    HoldAndCut,
    /// It waits on its way until it is let go. Nobody is cut off.
    Hold,
    /// It passes; what the client says next waits until it is let go.
    HoldNext,
}

pub(super) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    trap: Mutex<Option<(&'static str, Trap)>>,
    sprung: Notify,
    release: watch::Sender<bool>,
    refusing: watch::Sender<bool>,
    /// How often a client spoke.
    spoken: AtomicU64,
}

impl Proxy {
    /// In front of a database; `database.url` leads through it from now on.
    pub(super) async fn before(database: &mut Database) -> Self {
        let config: tokio_postgres::Config = database.url.parse().unwrap();
        let port = config.get_ports()[0];
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        database.url = database.url.replace(&format!(":{port}/"), &format!(":{}/", address.port()));
        // What is said must be readable here.
        database.url.push_str(if database.url.contains('?') {
            "&sslmode=disable"
        } else {
            "?sslmode=disable"
        });
        let shared = Arc::new(Shared {
            trap: Mutex::new(None),
            sprung: Notify::new(),
            release: watch::Sender::new(false),
            refusing: watch::Sender::new(false),
            spoken: AtomicU64::new(0),
        });
        tokio::spawn(accept(listener, port, Arc::clone(&shared)));
        Self { address, shared }
    }

    /// Waits for the next message with this text.
    pub(super) fn set(&self, text: &'static str, trap: Trap) {
        assert_ne!(self.address.port(), 0);
        *self.shared.trap.lock().unwrap() = Some((text, trap));
    }

    pub(super) async fn sprung(&self) {
        tokio::time::timeout(super::PATIENCE, self.shared.sprung.notified()).await.unwrap();
    }

    pub(super) fn let_go(&self) {
        self.shared.release.send_replace(true);
    }

    /// How many times something came from a client: about as many trips as it made.
    pub(super) fn spoken(&self) -> u64 {
        self.shared.spoken.load(Ordering::SeqCst)
    }

    /// Cuts every connection off, and takes no more of them.
    pub(super) fn refuse(&self, refusing: bool) {
        self.shared.refusing.send_replace(refusing);
    }
}

async fn accept(listener: TcpListener, port: u16, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        if *shared.refusing.borrow() {
            continue;
        }
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut refusing = shared.refusing.subscribe();
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tokio::select! {
                _ = carry(client, server, &shared) => {}
                _ = refusing.wait_for(|refusing| *refusing) => {}
            }
        });
    }
}

async fn carry(client: TcpStream, server: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut request, mut answer) = (vec![0; 65_536], vec![0; 65_536]);
    let mut hold_next = false;
    loop {
        tokio::select! {
            biased;
            read = from_server.read(&mut answer) => {
                let read = read?;
                if read == 0 { return Ok(()); }
                to_client.write_all(&answer[..read]).await?;
            }
            read = from_client.read(&mut request) => {
                let read = read?;
                if read == 0 { return Ok(()); }
                shared.spoken.fetch_add(1, Ordering::SeqCst);
                let said = &request[..read];
                if std::mem::take(&mut hold_next) {
                    shared.sprung.notify_one();
                    released(shared).await;
                }
                match trap_for(shared, said).map(|(trap, end)| (trap, said.split_at(end))) {
                    None => to_server.write_all(said).await?,
                    Some((Trap::CutAnswer, _)) => {
                        to_server.write_all(said).await?;
                        // Its answer, which nobody gets.
                        from_server.readable().await?;
                        shared.sprung.notify_one();
                        return Ok(());
                    }
                    Some((Trap::CutRequest, _)) => {
                        shared.sprung.notify_one();
                        return Ok(());
                    }
                    Some((Trap::HoldAndCut, _)) => {
                        drop((from_client, to_client));
                        shared.sprung.notify_one();
                        released(shared).await;
                        to_server.write_all(said).await?;
                        from_server.readable().await?;
                        return Ok(());
                    }
                    Some((Trap::Hold, _)) => {
                        shared.sprung.notify_one();
                        released(shared).await;
                        to_server.write_all(said).await?;
                    }
                    Some((Trap::HoldNext, (passes, next))) => {
                        to_server.write_all(passes).await?;
                        // The client may have said what comes next in the same breath.
                        if next.is_empty() {
                            hold_next = true;
                        } else {
                            shared.sprung.notify_one();
                            released(shared).await;
                            to_server.write_all(next).await?;
                        }
                    }
                }
            }
        }
    }
}

/// The trap that what was said springs, and where the message with its text ends.
fn trap_for(shared: &Shared, said: &[u8]) -> Option<(Trap, usize)> {
    let mut trap = shared.trap.lock().unwrap();
    let (text, _) = trap.as_ref()?;
    let at = said.windows(text.len()).position(|window| window == text.as_bytes())?;
    trap.take().map(|(_, trap)| (trap, end_of_message(said, at)))
}

/// Where the message around this place ends. Each is one byte for its kind, then four for the length of the rest.
fn end_of_message(said: &[u8], place: usize) -> usize {
    let mut end = 0;
    while end <= place {
        let Some(length) = said.get(end + 1..end + 5) else { return said.len() };
        end += 1 + u32::from_be_bytes(length.try_into().unwrap()) as usize;
    }
    end.min(said.len())
}

async fn released(shared: &Shared) {
    let mut release = shared.release.subscribe();
    release.wait_for(|released| *released).await.unwrap();
    shared.release.send_replace(false);
}
