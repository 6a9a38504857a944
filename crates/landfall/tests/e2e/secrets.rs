//! Secrets at rest: how they are encrypted, who can read their files, where else they can come from, and that nothing repeats them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{
    CHAIN_ID, Chain, Output, Server, Settings, account, program, run, secret_file, text, transfer,
};

async fn serve(folder: &Path, env: &[(&str, &str)]) -> Output {
    let mut command = program(folder);
    command.args(["serve", "--config", "landfall.toml"]).envs(env.iter().copied());
    run(command).await
}

fn loosen(file: &Path, mode: u32) {
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(file: &Path) -> u32 {
    std::fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_new_key_file_is_as_strong_as_geths_and_has_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let new = async |file: &str, password: &str| {
        let mut command = program(folder.path());
        command.args(["key", "new", file, "--password-env", "SECRET"]).env("SECRET", password);
        run(command).await
    };
    for empty in ["", "  "] {
        let refused = new("empty.json", empty).await;
        assert!(!refused.ok() && refused.said.contains("password is empty"), "{refused:?}");
    }
    assert!(!folder.path().join("empty.json").exists());
    assert!(new("a.json", "correct horse").await.ok());
    let file: Value = serde_json::from_slice(&std::fs::read(folder.path().join("a.json")).unwrap()).unwrap();
    let strength = &file["crypto"]["kdfparams"];
    assert_eq!((&strength["n"], &strength["r"], &strength["p"]), (&json!(262_144), &json!(8), &json!(1)));
    assert_eq!(mode(&folder.path().join("a.json")), 0o600);
}

#[tokio::test]
async fn files_with_secrets_that_others_can_read_are_refused_at_the_start() {
    let chain = Chain::without_mining().await;
    let server = Server::prepare(&chain.url(), &Settings { signers: 0, ..Settings::default() });
    let folder = server.folder().to_owned();
    let config = folder.join("landfall.toml");
    let plain = std::fs::read_to_string(&config).unwrap();
    let (key, admin) = (folder.join("a.key"), folder.join("admin.key"));
    secret_file(&key, &account(0).key.to_string());
    secret_file(&admin, "an-administrators-key-that-is-long-enough");
    let signer = "[[signer]]\nprivate_key_file = \"a.key\"\n";
    let access = "[access]\nadmin_key_file = \"admin.key\"\n";
    std::fs::write(&config, format!("{plain}{signer}{access}")).unwrap();
    for (file, named) in [(&key, "signer.private_key_file"), (&admin, "access.admin_key_file")] {
        for bits in [0o644, 0o640, 0o660] {
            loosen(file, bits);
            let refused = serve(&folder, &[]).await;
            assert!(!refused.ok(), "{refused:?}");
            for part in [named, "chmod 600", "access.loose_files"] {
                assert!(refused.said.contains(part), "{}", refused.said);
            }
        }
        loosen(file, 0o600);
    }
    // In the folder that systemd makes for the service, modes are systemd's own business.
    let credentials = folder.join("credentials");
    std::fs::create_dir(&credentials).unwrap();
    std::fs::rename(&key, credentials.join("first-key")).unwrap();
    loosen(&credentials.join("first-key"), 0o440);
    let by_name = plain.clone() + "[[signer]]\nprivate_key_file = \"credential:first-key\"\n" + access;
    std::fs::write(&config, by_name).unwrap();
    let refused = serve(&folder, &[]).await;
    assert!(!refused.ok() && refused.said.contains("CREDENTIALS_DIRECTORY"), "{refused:?}");
    let mut server = server;
    server.set("CREDENTIALS_DIRECTORY", credentials.to_str().unwrap());
    server.spawn();
    server.until_ready().await;
    let api = server.api.with_key("an-administrators-key-that-is-long-enough");
    let lanes = api.get("/api/v1/lanes").await.expect(200);
    assert_eq!(text(&lanes["items"][0], "signer"), crate::support::signer(0));
}

#[tokio::test]
async fn the_server_starts_with_no_secret_out_of_a_file_that_others_can_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut new = program(folder.path());
    new.args(["key", "new", "keystore", "--password-env", "SECRET"]).env("SECRET", "correct horse");
    let made = run(new).await;
    assert!(made.ok(), "{made:?}");
    let loose = folder.path().join("loose");
    let good = folder.path().join("good");
    secret_file(&good, "correct horse");
    let by_key = "[[signer]]\nprivate_key_env = \"KEY\"\n";
    let to_node = "rpc = \"http://127.0.0.1:1\"\n";
    // What names the file, a section of its own for it, and how chain and signer are configured beside.
    let cases = [
        ("signer.private_key_file", "", to_node, "[[signer]]\nprivate_key_file = \"loose\"\n"),
        ("signer.mnemonic_file", "", to_node, "[[signer]]\nmnemonic_file = \"loose\"\n"),
        ("signer.keystore", "", to_node, "[[signer]]\nkeystore = \"loose\"\npassword_file = \"good\"\n"),
        (
            "signer.password_file",
            "",
            to_node,
            "[[signer]]\nkeystore = \"keystore\"\npassword_file = \"loose\"\n",
        ),
        ("access.admin_key_file", "[access]\nadmin_key_file = \"loose\"\n", to_node, by_key),
        ("webhooks.secret_file", "[webhooks]\nsecret_file = \"loose\"\n", to_node, by_key),
        ("store.url_file", "[store]\nurl_file = \"loose\"\n", to_node, by_key),
        ("rpc_file", "", "rpc_file = \"loose\"\n", by_key),
        ("caller_rpc_file", "", "rpc = \"http://127.0.0.1:1\"\ncaller_rpc_file = \"loose\"\n", by_key),
    ];
    for (named, section, endpoint, signer) in cases {
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n{section}[[chain]]\nid = {CHAIN_ID}\n{endpoint}{signer}"
        );
        std::fs::write(folder.path().join("landfall.toml"), text).unwrap();
        // The file itself is as it should be.
        std::fs::copy(
            if named == "signer.keystore" { folder.path().join("keystore") } else { good.clone() },
            &loose,
        )
        .unwrap();
        for bits in [0o640, 0o604, 0o622] {
            loosen(&loose, bits);
            let refused = serve(folder.path(), &[("KEY", &account(0).key.to_string())]).await;
            assert!(!refused.ok(), "{named}: {refused:?}");
            for part in [named, "chmod 600", &format!("{bits:o}")] {
                assert!(refused.said.contains(part), "{named}, {part}: {}", refused.said);
            }
            assert!(!refused.said.contains("correct horse"), "{named}: {}", refused.said);
        }
    }
}

#[tokio::test]
async fn the_store_and_all_beside_it_are_its_owners_alone() {
    let chain = Chain::without_mining().await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    server.api.submit(&transfer()).await;
    let folder = server.folder().to_owned();
    let files = || {
        let all = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let ours = |file: &std::path::PathBuf| {
            file.file_name().unwrap().to_string_lossy().starts_with("landfall.db")
        };
        all.filter(ours).collect::<Vec<_>>()
    };
    assert!(files().len() >= 4, "{:?}", files());
    for file in files() {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    let mut backup = program(&folder);
    backup.args(["backup", "copy.db"]);
    assert!(run(backup).await.ok());
    assert_eq!(mode(&folder.join("copy.db")), 0o600);
    // One that an earlier version made is tightened, and that is said.
    server.kill().await;
    files().iter().for_each(|file| loosen(file, 0o644));
    server.spawn();
    server.until_ready().await;
    for file in files() {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    assert!(server.log().contains("others could read this file"), "{}", server.log());
}

#[tokio::test]
async fn a_configuration_that_cannot_be_read_repeats_none_of_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    for broken in [
        "[store]\nurl = \"postgres://landfall:hunter2@db/landfall\n",
        "[store]\nurl = postgres://landfall:hunter2@db/landfall\n",
        "[store]\nurl = \"postgress://landfall:hunter2@db/landfall\"\n[[chain]]\nid = 31337\nrpc = \"http://127.0.0.1:1\"\n\
         [[signer]]\nprivate_key_env = \"KEY\"\n",
        "[store]\nwait_s = \"hunter2\"\n",
        "[[chain]]\nid = 31337\nrpc = \"hunter2\"\n[[signer]]\nprivate_key_env = \"KEY\"\n",
    ] {
        std::fs::write(folder.path().join("landfall.toml"), broken).unwrap();
        let key = account(0).key.to_string();
        let said = serve(folder.path(), &[("KEY", &key), ("LANDFALL_STORE__WAIT_S", "0")]).await;
        assert!(!said.ok(), "{broken}: {said:?}");
        assert!(!said.said.contains("hunter2"), "{broken}: {}", said.said);
    }
}

#[tokio::test]
async fn a_key_that_everybody_knows_is_for_development_chains() {
    let folder = tempfile::tempdir().unwrap();
    let config = |id: u64, more: &str| {
        format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[[chain]]\nid = {id}\nrpc = \"http://127.0.0.1:1\"\n{more}\n\
             [[signer]]\nprivate_key_env = \"KEY\"\n"
        )
    };
    let one = format!("0x{:064x}", 1);
    for key in [account(0).key.to_string(), account(9).key.to_string(), one] {
        std::fs::write(folder.path().join("landfall.toml"), config(1, "")).unwrap();
        let refused = serve(folder.path(), &[("KEY", &key)]).await;
        assert!(!refused.ok() && refused.said.contains("public test key"), "{refused:?}");
        assert!(refused.said.contains("development = true"), "{}", refused.said);
        assert!(!refused.said.contains(&key[2..]), "{}", refused.said);
    }
    // Where nothing is worth anything it goes on, to what is wrong next: it is not open.
    for text in [config(CHAIN_ID, ""), config(1, "development = true")] {
        std::fs::write(folder.path().join("landfall.toml"), text).unwrap();
        let key = account(0).key.to_string();
        let refused = serve(folder.path(), &[("KEY", &key), ("LANDFALL_ACCESS__OPEN", "false")]).await;
        assert!(refused.said.contains("access.open = true"), "{refused:?}");
    }
}

#[tokio::test]
async fn a_phrase_that_everybody_knows_is_refused_at_every_index() {
    let folder = tempfile::tempdir().unwrap();
    let config = |index: u32| {
        format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[[chain]]\nid = 1\nrpc = \"http://127.0.0.1:1\"\n\
             [[signer]]\nmnemonic_env = \"PHRASE\"\nindex = {index}\n"
        )
    };
    let junk = "test test test test test test test test test test test junk";
    let vector = "legal winner thank year wave sausage worth useful legal winner thank yellow";
    for (phrase, index) in [(junk, 40), (vector, 0), (vector, 9_000)] {
        std::fs::write(folder.path().join("landfall.toml"), config(index)).unwrap();
        let refused = serve(folder.path(), &[("PHRASE", phrase)]).await;
        assert!(!refused.ok() && refused.said.contains("public test key"), "{index}: {refused:?}");
    }
}

#[tokio::test]
async fn a_secret_in_the_place_of_a_variables_name_is_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let key = account(0).key.to_string();
    for (setting, secret) in [
        ("private_key_env", key.as_str()),
        ("private_key_env", &key[2..]),
        ("mnemonic_env", "test test test test test test test test test test test junk"),
        // It could be a name; as it is not set, it is not shown either.
        ("private_key_env", "hunter2"),
    ] {
        let text = format!(
            "[[chain]]\nid = 31337\nrpc = \"http://127.0.0.1:1\"\n[[signer]]\n{setting} = \"{secret}\"\n"
        );
        std::fs::write(folder.path().join("landfall.toml"), text).unwrap();
        let refused = serve(folder.path(), &[]).await;
        assert!(!refused.ok() && refused.said.contains("signer 0"), "{refused:?}");
        assert!(refused.said.contains(setting) && refused.said.contains("not shown"), "{}", refused.said);
        assert!(!refused.said.contains(secret), "{}", refused.said);
    }
    let mut address = program(folder.path());
    address.args(["key", "address", "--private-key-env", &key]);
    let refused = run(address).await;
    assert!(!refused.ok() && !refused.said.contains(&key[2..]), "{refused:?}");
}

#[tokio::test]
async fn commands_for_keys_judge_files_as_the_server_does() {
    let folder = tempfile::tempdir().unwrap();
    let of = async |args: &[&str]| {
        let mut command = program(folder.path());
        command.args(args);
        run(command).await
    };
    secret_file(&folder.path().join("password"), "correct horse\n");
    loosen(&folder.path().join("password"), 0o644);
    let new = ["key", "new", "a.json", "--password-file", "password"];
    let refused = of(&new).await;
    assert!(!refused.ok() && refused.said.contains("chmod 600"), "{refused:?}");
    assert!(!folder.path().join("a.json").exists());
    loosen(&folder.path().join("password"), 0o600);
    assert!(of(&new).await.ok());
    let show = ["key", "address", "--keystore", "a.json", "--password-file", "password"];
    assert!(of(&show).await.ok());
    loosen(&folder.path().join("a.json"), 0o640);
    let refused = of(&show).await;
    assert!(
        !refused.ok() && refused.said.contains("--keystore") && refused.said.contains("chmod 600"),
        "{refused:?}"
    );
    secret_file(&folder.path().join("hex"), &account(0).key.to_string());
    secret_file(&folder.path().join("words"), "test test test test test test test test test test test junk");
    for (option, file) in [("--private-key-file", "hex"), ("--mnemonic-file", "words")] {
        let shown = of(&["key", "address", option, file]).await;
        assert!(shown.ok() && shown.stdout.trim() == crate::support::signer(0), "{shown:?}");
    }
}
