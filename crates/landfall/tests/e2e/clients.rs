//! The programs of `examples/`: unchanged client libraries that know nothing but an RPC URL.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::support::{
    Api, CHAIN_ID, Chain, Output, Server, Settings, run_within, signer, text, until_within,
};

/// Payments of each program; it also deploys a contract and calls it.
const PAYMENTS: usize = 200;
const LIMIT: Duration = Duration::from_secs(240);

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The programs beside their libraries, in a folder of their own.
fn workshop() -> (tempfile::TempDir, PathBuf) {
    let libraries = std::env::var_os("LANDFALL_CLIENTS").map(PathBuf::from);
    let libraries = libraries
        .expect("LANDFALL_CLIENTS is not set: run the tests with `cargo xtask test`, which provides it");
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    std::os::unix::fs::symlink(libraries.join("node_modules"), folder.path().join("node_modules")).unwrap();
    (folder, libraries)
}

/// The program that cast's package brought for this platform.
fn cast(libraries: &Path) -> PathBuf {
    let scope = libraries.join("cast/node_modules/@foundry-rs");
    let found = std::fs::read_dir(scope).unwrap().map(|entry| entry.unwrap().path().join("bin/cast"));
    found.into_iter().find(|program| program.is_file()).expect("cast for this platform")
}

/// One program with this account of the server's.
fn program(folder: &Path, libraries: &Path, file: &str, url: &str, which: usize) -> Command {
    let mut command = match file.rsplit('.').next().unwrap() {
        "mjs" => Command::new("node"),
        "py" => Command::new("python3"),
        _ => Command::new("bash"),
    };
    command.current_dir(folder).arg(file).args([url, &which.to_string(), &PAYMENTS.to_string()]);
    command.env("PYTHONPATH", libraries.join("python")).env("CAST", cast(libraries));
    command
}

/// Re-prices every second payment while no block is made: the hashes that the programs hold are not the ones that land.
async fn reprice_half(api: &Api, signer: &str) {
    until_within(LIMIT, format!("{signer} has sent its payments"), async || {
        (api.lane(signer).await["inFlight"].as_u64()? >= PAYMENTS as u64).then_some(())
    })
    .await;
    let sent = api.list(&format!("&signer={signer}")).await;
    let half: Vec<String> = sent.iter().take(PAYMENTS).step_by(2).map(|tx| text(tx, "txId")).collect();
    for id in &half {
        api.command(&format!("/api/v1/tx/{id}/speed-up")).await.expect(202);
    }
    for id in &half {
        let more = |tx: &Value| tx["attempts"].as_array().is_some_and(|all| all.len() > 1);
        api.until_tx(id, "it has another attempt", more).await;
    }
}

fn told(file: &str, output: &Output) -> Value {
    assert_eq!(output.code, Some(0), "{file}: {}", output.said);
    let line = output.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|_| panic!("{file} said no JSON: {}", output.said))
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_programs_land_everything_while_half_of_it_is_re_priced_underneath() {
    let files = ["viem.mjs", "ethers.mjs", "web3_py.py", "cast.sh"];
    let (folder, libraries) = workshop();
    let chain = Chain::without_mining().await;
    let settings = Settings { signers: files.len(), resubmit_after_s: 30, ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let url = format!("{}/rpc/{CHAIN_ID}", server.api.url());
    let running: Vec<_> = files
        .iter()
        .enumerate()
        .map(|(which, file)| {
            tokio::spawn(run_within(LIMIT, program(folder.path(), &libraries, file, &url, which)))
        })
        .collect();
    for which in 0..files.len() {
        reprice_half(&server.api, &signer(which)).await;
    }
    chain.mine_every(1).await;
    let mut outputs = Vec::new();
    for program in running {
        outputs.push(program.await.unwrap());
    }
    for (file, output) in files.iter().zip(&outputs) {
        let told = told(file, output);
        assert_eq!(told["landed"], PAYMENTS as u64 + 2, "{file}: {}", output.said);
        assert_eq!(told["value"], 1, "{file} called its contract once");
        let hashes = told["hashes"].as_array().unwrap();
        let mut others = 0;
        for hash in hashes {
            // The chain knows only the attempts that landed.
            if chain.receipt(hash.as_str().unwrap()).await.is_null() {
                others += 1;
            }
        }
        assert_eq!(hashes.len(), PAYMENTS);
        assert!(others >= PAYMENTS / 2, "{file}: only {others} of its hashes were replaced");
        let account = text(&told, "account");
        assert_eq!(chain.count(&account).await, PAYMENTS as u64 + 2, "{file}: each landed once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_by_curl_lands() {
    let folder = tempfile::tempdir().unwrap();
    let chain = Chain::with_blocks_every(Duration::from_secs(1)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let mut command = Command::new("bash");
    command.current_dir(folder.path()).arg(examples().join("curl.sh"));
    command.arg(format!("{}/rpc/{CHAIN_ID}", server.api.url()));
    let output = run_within(LIMIT, command).await;
    assert_eq!(told("curl.sh", &output)["status"], "0x1", "{}", output.said);
}
