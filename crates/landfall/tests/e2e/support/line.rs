//! A TCP line from a node to its database or its chain, which can be held up, cut, and led elsewhere.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What a line does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Carries,
    /// Nothing arrives for now, and nothing is lost.
    Held,
    /// Nothing arrives and nobody is told, as when a cable is pulled. Those who wait then wait for ever.
    Silent,
}

struct Shared {
    to: Mutex<u16>,
    state: watch::Sender<State>,
    /// Raised to end every connection.
    age: watch::Sender<u64>,
    /// Of so many commits one loses its answer; 0: none.
    lose_one_of: AtomicU64,
    commits: AtomicU64,
    lost: AtomicU64,
}

pub(crate) struct Line {
    here: SocketAddr,
    shared: Arc<Shared>,
}

impl Line {
    /// A line to a port of this machine.
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let here = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            to: Mutex::new(port),
            state: watch::Sender::new(State::Carries),
            age: watch::Sender::new(0),
            lose_one_of: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        });
        tokio::spawn(accept(listener, shared.clone()));
        Self { here, shared }
    }

    /// A line in front of what a URL names, and the URL that leads through it.
    pub(crate) async fn before(url: &str) -> (Self, String) {
        let authority = url.split_once("://").expect("a URL").1.split('/').next().unwrap();
        let port = authority.rsplit(':').next().unwrap().parse().expect("a port in the URL");
        let line = Self::to(port).await;
        let through = url.replacen(&format!(":{port}"), &format!(":{}", line.here.port()), 1);
        (line, through)
    }

    pub(crate) fn hold(&self) {
        self.shared.state.send_replace(State::Held);
    }

    pub(crate) fn silence(&self) {
        self.shared.state.send_replace(State::Silent);
    }

    /// Carries again. What was held arrives; connections that had gone silent end.
    pub(crate) fn mend(&self) {
        let before = self.shared.state.send_replace(State::Carries);
        if before == State::Silent {
            self.end_connections();
        }
    }

    /// All connections end, and new ones go to another port.
    pub(crate) fn lead_to(&self, port: u16) {
        *self.shared.to.lock().unwrap() = port;
        self.end_connections();
    }

    fn end_connections(&self) {
        self.shared.age.send_modify(|age| *age += 1);
    }

    /// From now on, of so many commits one is done and its answer lost with the connection; 0: none.
    pub(crate) fn lose_answers_of_commits(&self, one_of: u64) {
        self.shared.lose_one_of.store(one_of, Ordering::SeqCst);
    }

    pub(crate) fn lost_answers(&self) -> u64 {
        self.shared.lost.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let shared = shared.clone();
        tokio::spawn(async move {
            let mut age = shared.age.subscribe();
            let born = *age.borrow_and_update();
            let to = *shared.to.lock().unwrap();
            let carried = async {
                shared.passes().await;
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await else { return };
                // Either side may hang up at any time.
                carry(client, server, &shared).await.ok();
            };
            tokio::select! {
                () = carried => {}
                _ = age.wait_for(|age| *age != born) => {}
            }
        });
    }
}

impl Shared {
    async fn passes(&self) {
        let mut state = self.state.subscribe();
        state.wait_for(|state| *state == State::Carries).await.unwrap();
    }

    fn loses_answer(&self, said: &[u8]) -> bool {
        let one_of = self.lose_one_of.load(Ordering::SeqCst);
        let commits = said.windows(6).any(|window| window == b"COMMIT");
        one_of > 0 && commits && self.commits.fetch_add(1, Ordering::SeqCst) % one_of == one_of - 1
    }
}

async fn carry(client: TcpStream, server: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut request, mut answer) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = from_server.read(&mut answer) => {
                let read = read?;
                shared.passes().await;
                if read == 0 { return Ok(()); }
                to_client.write_all(&answer[..read]).await?;
            }
            read = from_client.read(&mut request) => {
                let read = read?;
                shared.passes().await;
                if read == 0 { return Ok(()); }
                to_server.write_all(&request[..read]).await?;
                if shared.loses_answer(&request[..read]) {
                    // The commit is done when its answer is here; nobody gets it.
                    from_server.readable().await?;
                    shared.lost.fetch_add(1, Ordering::SeqCst);
                    return Ok(());
                }
            }
        }
    }
}
