//! Starting and stopping: the server, the miner and the handle that keeps both alive.

use std::{net::SocketAddr, ops::Deref, sync::Arc};

use tokio::{net::TcpListener, sync::watch, time::MissedTickBehavior};

use crate::{
    config::{Config, Mining},
    control::Control,
    server,
};

/// A running chain. It stops when the last clone is dropped. What can be done to it is on [`Control`].
#[derive(Clone, Debug)]
pub struct Devchain {
    control: Control,
    address: SocketAddr,
    stop: Arc<watch::Sender<bool>>,
}

#[derive(Debug, thiserror::Error)]
#[error("devchain cannot listen on {address}: {source}")]
pub struct StartError {
    pub address: SocketAddr,
    pub source: std::io::Error,
}

impl Devchain {
    /// Starts the chain, its miner and its server. Must be called inside a tokio runtime.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let failed = |source| StartError { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, stopped) = watch::channel(false);
        let mining = config.mining;
        let control = Control::new(config);
        tokio::spawn(mine_on_schedule(control.clone(), mining, stopped.clone()));
        tokio::spawn(server::serve(listener, control.clone(), stopped));
        Ok(Self { control, address, stop: Arc::new(stop) })
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn http_url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn ws_url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Stops server and miner for all clones. What the chain holds can still be read.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

impl Deref for Devchain {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

async fn mine_on_schedule(control: Control, mining: Mining, stopped: watch::Receiver<bool>) {
    let work = async {
        match mining {
            Mining::Manual => std::future::pending::<()>().await,
            Mining::Instant => loop {
                control.woken().await;
                mine_aside(&control).await;
            },
            Mining::Interval(every) => {
                let mut ticks = tokio::time::interval(every);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                // The first tick comes at once; the first block after one interval.
                ticks.tick().await;
                loop {
                    ticks.tick().await;
                    mine_aside(&control).await;
                }
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = until_stopped(stopped) => {}
    }
}

/// A full block takes a while: not on a thread that serves connections.
async fn mine_aside(control: &Control) {
    let control = control.clone();
    if let Err(error) = tokio::task::spawn_blocking(move || control.mine_by_schedule()).await {
        tracing::error!(%error, "a block could not be made");
    }
}

/// Returns once `stop` was called or the last handle is gone.
pub(crate) async fn until_stopped(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is the other way to stop.
    stopped.wait_for(|stop| *stop).await.ok();
}
