//! One file for each command.

mod api_key;
mod audit;
mod bench;
mod chain;
mod demo;
mod dev;
mod dev_keys;
mod failover;
mod hostile;
mod import;
mod key;
mod lane;
mod migrate;
mod rig;
mod serve;
mod sim;
mod store;
mod tx;
mod unknown;
mod webhook;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::{Cli, Command};
use crate::client::Client;
use crate::config::printed;

/// The store is an older copy of itself: every lane is on hold, and what is asked for waits.
async fn is_older(client: &Client) -> bool {
    client.store().await.is_ok_and(|store| store["older"] == true)
}

pub(crate) async fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Serve(args) => serve::run(&args).await?,
        Command::Dev(args) => dev::run(&args).await?,
        Command::Demo(args) => return demo::run(&args).await,
        Command::Bench(args) => return bench::run(&args).await,
        Command::BenchChain(args) => bench::run_chain(&args).await?,
        // It has a runtime of its own, of one thread.
        Command::BenchLoad => tokio::task::spawn_blocking(bench::run_load).await??,
        // A run has a runtime of its own, which cannot start inside this one.
        Command::Sim(args) => return tokio::task::spawn_blocking(move || sim::execute(&args)).await?,
        Command::Tx(command) => return tx::run(command).await,
        Command::Lane(command) => lane::run(command).await?,
        Command::Webhook(command) => return webhook::run(command).await,
        Command::Chain(command) => chain::run(command).await?,
        Command::Import(command) => import::run(command)?,
        Command::Key(command) => key::run(command)?,
        Command::ApiKey(command) => api_key::run(command).await?,
        Command::Audit(command) => return audit::run(command).await,
        Command::Migrate(args) => migrate::run(&args).await?,
        Command::Backup(args) => store::backup(&args)?,
        Command::Store(command) => return store::run(command).await,
        Command::Config(args) if args.markdown => print!("{}", printed::page()),
        Command::Config(args) => print!("{}", printed::example(args.chain, &args.rpc)?),
        Command::Openapi => print!("{}", *landfall_server::OPENAPI),
    }
    Ok(ExitCode::SUCCESS)
}
