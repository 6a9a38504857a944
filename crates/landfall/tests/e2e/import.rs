//! Moving in: another relayer's files become a configuration that a server starts on.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::support::{CHAIN_ID, Chain, Output, RECEIVER, Server, Settings, program, run, text};

const PASSWORD: &str = "correct horse battery staple";

async fn landfall(folder: &Path, args: &[&str]) -> Output {
    let mut command = program(folder);
    command.args(args).env("KEYSTORE_PASSPHRASE", PASSWORD);
    run(command).await
}

/// A key in a file, and its address.
async fn new_key(folder: &Path, file: &str) -> String {
    let args = ["key", "new", file, "--password-env", "KEYSTORE_PASSPHRASE", "--json"];
    let made = landfall(folder, &args).await;
    assert!(made.ok(), "{made:?}");
    text(&serde_json::from_str(&made.stdout).unwrap(), "address")
}

#[tokio::test]
async fn an_openzeppelin_relayer_moves_in_and_its_key_sends() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let settings =
        Settings { env: vec![("KEYSTORE_PASSPHRASE", PASSWORD.to_owned())], ..Settings::default() };
    let mut server = Server::prepare(&chain.url(), &settings);
    let folder = server.folder().to_path_buf();
    std::fs::create_dir_all(folder.join("config/keys")).unwrap();
    std::fs::create_dir_all(folder.join("config/networks")).unwrap();
    let address = new_key(&folder, "config/keys/local-signer.json").await;
    let config = json!({
        "relayers": [{
            "id": "anvil", "name": "Anvil", "network": "localhost-anvil", "paused": false, "network_type": "evm",
            "signer_id": "local-signer", "policies": { "min_balance": 0 },
        }],
        "notifications": [],
        "signers": [{
            "id": "local-signer", "type": "local",
            "config": {
                "path": "config/keys/local-signer.json",
                "passphrase": { "type": "env", "value": "KEYSTORE_PASSPHRASE" },
            },
        }],
    });
    let networks = json!({ "networks": [{
        "type": "evm", "network": "localhost-anvil", "chain_id": CHAIN_ID, "required_confirmations": 1,
        "rpc_urls": [chain.url()],
    }] });
    std::fs::write(folder.join("config/config.json"), config.to_string()).unwrap();
    std::fs::write(folder.join("config/networks/local.json"), networks.to_string()).unwrap();

    let own = std::fs::read_to_string(folder.join("landfall.toml")).unwrap();
    std::fs::remove_file(folder.join("landfall.toml")).unwrap();
    let import = ["import", "openzeppelin", "--out", "landfall.toml"];
    let made = landfall(&folder, &import).await;
    assert!(made.ok() && made.said.contains("1 signers on 1 chains"), "{made:?}");
    let again = landfall(&folder, &import).await;
    assert!(!again.ok() && again.said.contains("landfall.toml exists"), "{again:?}");
    // The test has a port of its own.
    let listen = own.lines().find(|line| line.starts_with("listen")).unwrap();
    let text_made = std::fs::read_to_string(folder.join("landfall.toml")).unwrap();
    assert!(!text_made.contains(PASSWORD) && text_made.contains(&address), "{text_made}");
    let text_made = text_made.replace("listen = \"127.0.0.1:8645\"", listen);
    std::fs::write(folder.join("landfall.toml"), text_made).unwrap();

    chain.call("anvil_setBalance", json!([address, "0xde0b6b3a7640000"])).await;
    server.spawn();
    server.until_ready().await;
    let body = json!({ "chainId": CHAIN_ID, "signer": address, "requestId": "moved-in",
                       "payload": { "to": RECEIVER, "value": "1" } });
    let id = server.api.submit(&body).await;
    server.api.until_state(&id, "confirmed").await;
}

#[tokio::test]
async fn a_folder_of_keystores_moves_in() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::create_dir(&keys).unwrap();
    let first = new_key(folder.path(), "keys/one").await;
    let second = new_key(folder.path(), "keys/two").await;
    std::fs::write(keys.join("readme.txt"), "not a key").unwrap();
    let args =
        ["import", "keystores", "keys", "--chain", "1=https://a.example", "--chain", "10=https://b.example"];
    let missing = landfall(folder.path(), &args).await;
    assert!(!missing.ok() && missing.said.contains("--password-env"), "{missing:?}");
    let made =
        landfall(folder.path(), &[&args[..], &["--password-env", "KEYSTORE_PASSPHRASE"]].concat()).await;
    assert!(made.ok() && made.said.contains("readme.txt is not a keystore"), "{made:?}");
    for wanted in [&first, &second, "id = 1\n", "id = 10\n", "chains = [1, 10]"] {
        assert!(made.stdout.contains(wanted), "{wanted}: {}", made.stdout);
    }
}
