//! # landfall
//!
//! The one binary. It names the adapters, fills them from the configuration, and offers the commands. Nothing here
//! decides about transactions: that is `landfall-core`.

/// As the standard library's, without its panic when the reader has gone: see [`output::write`].
macro_rules! print {
    ($($said:tt)*) => { $crate::output::write(format_args!($($said)*)) };
}

/// The same, with the end of a line.
macro_rules! println {
    () => { $crate::output::write(format_args!("\n")) };
    ($($said:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($said)*))) };
}

mod amount;
mod cli;
mod client;
mod commands;
mod config;
mod exit;
mod node;
mod output;
mod system;
mod traces;

use std::process::ExitCode;

use clap::Parser;

/// A server that makes and drops millions of small strings, on threads that hand them to each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long what still blocks at the end is waited for.
const STOP_TIME: std::time::Duration = std::time::Duration::from_secs(5);

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    system::start_logging(cli.log.as_deref(), cli.command.logs());
    // Both HTTP clients use this TLS; a second call finds it set and changes nothing.
    rustls::crypto::ring::default_provider().install_default().ok();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("landfall: the runtime could not be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = match runtime.block_on(commands::run(cli)) {
        Ok(code) => code,
        Err(error) => {
            output::failure(&error);
            exit::Exit::of(&error).into()
        }
    };
    // A file that hangs, on a network that is gone, keeps nobody from stopping.
    runtime.shutdown_timeout(STOP_TIME);
    code
}
