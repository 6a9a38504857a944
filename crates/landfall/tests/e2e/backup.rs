//! Copies of the store: whole ones, and what happens when an old one is put in the place of a newer one.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Chain, LIMIT, RECEIVER, Server, Settings, marker, number_of, program, run, signer, submission, text,
    until,
};

/// Nonces that an accepted copy uses up before it sends anything: as many as may be in flight in these tests.
pub(crate) const USED_UP: u64 = 64;

/// Request `n`, which can be told on the chain.
pub(crate) fn request(n: u64) -> Value {
    let mut body = submission(json!({ "to": RECEIVER, "value": "0", "data": marker(n), "gas": 30_000 }));
    body["requestId"] = json!(format!("request-{n}"));
    body
}

pub(crate) async fn land(server: &Server, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let id = server.api.submit(&request(n)).await;
        server.api.until_state(&id, "confirmed").await;
    }
}

fn file(server: &Server, name: &str) -> PathBuf {
    server.folder().join(name)
}

/// Waits until everything is in the file itself, and copies that alone.
async fn plain_copy(server: &Server, to: &str) {
    until("the log is in the file", async || {
        fs::metadata(file(server, "landfall.db-wal")).is_ok_and(|data| data.len() == 0).then_some(())
    })
    .await;
    fs::copy(file(server, "landfall.db"), file(server, to)).unwrap();
}

/// Waits until the mark tells of more than the copy has: it is written up to a second late, and a copy that is put back before that
/// is not noticed.
pub(crate) async fn until_marked_beyond(server: &Server, copy: &str) {
    let alone = format!("file:{}?immutable=1", file(server, copy).display());
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_URI;
    let copied = rusqlite::Connection::open_with_flags(alone, flags).unwrap();
    let journal: i64 =
        copied.query_row("SELECT COALESCE(max(seq), 0) FROM journal", [], |row| row.get(0)).unwrap();
    until("the mark tells of more than the copy has", async || {
        let mark: Value = serde_json::from_slice(&fs::read(file(server, "landfall.db.mark")).ok()?).ok()?;
        (mark["journal"].as_i64()? > journal).then_some(())
    })
    .await;
}

/// Puts a copy where the store was, as the page says.
fn put_back(server: &Server, copy: &str) {
    for gone in ["landfall.db-wal", "landfall.db-shm"] {
        drop(fs::remove_file(file(server, gone)));
    }
    fs::copy(file(server, copy), file(server, "landfall.db")).unwrap();
}

/// How often each request has landed.
pub(crate) async fn landed(chain: &Chain) -> BTreeMap<u64, usize> {
    let mut times = BTreeMap::new();
    for number in chain.landed().await.iter().filter_map(number_of) {
        *times.entry(number).or_default() += 1;
    }
    times
}

pub(crate) fn once(numbers: std::ops::Range<u64>) -> BTreeMap<u64, usize> {
    numbers.map(|n| (n, 1)).collect()
}

pub(crate) async fn command(server: &Server, args: &[&str]) -> crate::support::Output {
    let mut command = program(server.folder());
    command.args(args).env("LANDFALL_URL", server.api.url());
    run(command).await
}

#[tokio::test]
async fn a_plain_copy_that_is_put_back_pays_nothing_twice_without_a_persons_word() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    land(&server, 0..2).await;
    plain_copy(&server, "copy.db").await;
    land(&server, 2..5).await;
    until_marked_beyond(&server, "copy.db").await;
    server.kill().await;
    put_back(&server, "copy.db");
    server.spawn();
    server.until_ready().await;
    let api = server.api.clone();

    let ready = api.get("/health/ready").await.expect(200);
    assert!(text(&ready["store"], "older").contains("older copy"), "{ready}");
    assert_eq!(api.get("/api/v1/store").await.expect(200)["older"], true);
    assert!(server.log().contains("every lane is on hold"));
    // Every request again: what the copy knows is a replay, the rest waits.
    for n in 0..2 {
        assert_eq!(text(&api.post("/api/v1/tx", &request(n)).await.expect(200), "state"), "confirmed");
    }
    let mut forgotten = Vec::new();
    for n in 2..5 {
        forgotten.push(api.submit(&request(n)).await);
    }
    let lane = until("the lane says why it is on hold", async || {
        let lane = api.lane(&signer(0)).await;
        text(&lane, "holdReason").contains("landfall store accept").then_some(lane)
    })
    .await;
    assert_eq!(lane["healthy"], false);
    chain.mine(5).await;
    assert_eq!((landed(&chain).await, chain.pooled().await), (once(0..5), 0));

    until("it is known what used the nonces", async || {
        let unknown = api.lane(&signer(0)).await["unknownNonces"].as_array().cloned().unwrap_or_default();
        (unknown.len() == 3 && unknown.iter().all(|one| one["sameAs"].is_string())).then_some(())
    })
    .await;
    // Without --yes it only shows: which nonces, and what they did the same as.
    let asked = command(&server, &["store", "accept"]).await;
    assert_eq!(asked.code, Some(1), "{}", asked.said);
    assert!(asked.stdout.contains("Say --yes") && !asked.said.contains("error"), "{}", asked.said);
    for (nonce, id) in (2..).zip(&forgotten) {
        let shows = |line: &&str| line.starts_with(&format!("{nonce} ")) && line.ends_with(id);
        let line = asked.stdout.lines().find(shows).unwrap_or_else(|| panic!("{nonce}: {}", asked.said));
        assert!(line.contains(RECEIVER) && line.contains("0x"), "{line}");
    }
    let asked = command(&server, &["store", "accept", "--json"]).await;
    let shown: Value = serde_json::from_str(&asked.stdout).unwrap();
    assert_eq!((asked.code, &shown["accepted"]), (Some(1), &json!(false)), "{shown}");
    assert_eq!(shown["lanes"][0]["unknownNonces"][0]["sameAs"], json!(forgotten[0]), "{shown}");
    // A lane by itself cannot be resumed: nobody has handed everything in again.
    let resumed = command(&server, &["lane", "resume", "31337", &signer(0), "--yes"]).await;
    assert_eq!(resumed.code, Some(1), "{}", resumed.said);
    assert!(resumed.said.contains("landfall store accept"), "{}", resumed.said);
    assert_eq!(api.get("/api/v1/store").await.expect(200)["older"], true);
    let accepted = command(&server, &["store", "accept", "--yes"]).await;
    assert!(accepted.ok(), "{}", accepted.said);
    assert_eq!(api.get("/api/v1/store").await.expect(200)["older"], false);
    api.post("/api/v1/store/accept", &json!({})).await.expect_problem(409, "not_older");
    // Killed before its lane has heard of it: it goes on comparing.
    server.restart_after_kill().await;
    // What took the nonces that the copy has forgotten is settled, and what waits was carried out by it.
    chain.mine(70).await;
    for id in &forgotten {
        let tx = api.until_state(id, "confirmed").await;
        assert!(tx.get("nonce").is_none() || tx["nonce"].is_null(), "it was not signed again: {tx}");
        assert!(api.time_line(id).await.contains(&"carried_out".to_owned()));
    }
    let seen = command(&server, &["tx", "get", &forgotten[0]]).await;
    assert!(seen.stdout.contains("2, which this store did not assign"), "{}", seen.said);
    // New ones go on after the forgotten ones, and nothing was sent twice.
    let next = api.submit(&request(5)).await;
    assert_eq!(api.until_state(&next, "confirmed").await["nonce"], 5 + USED_UP);
    assert_eq!((landed(&chain).await, chain.pooled().await), (once(0..6), 0));
}

/// A node that dropped one of ours keeps those above it: they are in no count, and land when the gap is filled.
#[tokio::test]
async fn a_store_is_not_accepted_while_a_pool_holds_a_nonce_behind_a_gap() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    land(&server, 0..1).await;
    plain_copy(&server, "copy.db").await;
    land(&server, 1..2).await;
    until_marked_beyond(&server, "copy.db").await;
    server.kill().await;
    put_back(&server, "copy.db");
    let forgotten =
        json!([{ "from": signer(0), "to": RECEIVER, "nonce": "0x4", "data": marker(4), "gas": "0x7530" }]);
    chain.call("eth_sendTransaction", forgotten).await;
    server.spawn();
    server.until_ready().await;
    let api = server.api.clone();
    let refused = api.post("/api/v1/store/accept", &json!({})).await.expect_problem(409, "in_pool");
    assert!(refused.contains("with the nonces 4:"), "{refused}");
    let refused = command(&server, &["store", "accept", "--yes"]).await;
    assert!(!refused.ok() && refused.said.contains("--despite-pool"), "{}", refused.said);
    assert_eq!(api.get("/api/v1/store").await.expect(200)["older"], true);
    let paused = command(&server, &["lane", "pause", "31337", &signer(0)]).await;
    assert!(paused.ok() && paused.stdout.contains("landfall store accept"), "{}", paused.said);
    let waits = api.submit(&request(5)).await;
    let cancelled = command(&server, &["tx", "cancel", &waits]).await;
    assert!(cancelled.ok() && cancelled.stdout.contains("landfall store accept"), "{}", cancelled.said);
    let shown = command(&server, &["store", "show"]).await;
    assert!(
        shown.stdout.contains("Hand all requests in again, then `landfall store accept`"),
        "{}",
        shown.said
    );
    // The copy may have keys that were revoked since: whoever may see them is told.
    let made = command(&server, &["api-key", "create", "--name", "operations", "--role", "admin"]).await;
    assert!(made.ok(), "{}", made.said);
    let api = api.with_key(made.stdout.trim());
    let mut asks = program(server.folder());
    asks.args(["store", "accept"]).env("LANDFALL_URL", api.url()).env("LANDFALL_API_KEY", made.stdout.trim());
    let asked = run(asks).await;
    assert!(asked.stdout.contains("operations") && asked.stdout.contains("Revoke again"), "{}", asked.said);
    // A key that is in the copy may be one of them: it does not accept.
    api.post("/api/v1/store/accept", &json!({ "despitePool": true }))
        .await
        .expect_problem(403, "store_older");
    assert_eq!(api.get("/api/v1/store").await.expect(200)["older"], true);
}

/// Callers that come back late: the store was accepted before they handed their requests in again.
#[tokio::test]
async fn requests_that_are_handed_in_after_an_older_store_was_accepted_wait_for_a_person() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    land(&server, 0..1).await;
    plain_copy(&server, "copy.db").await;
    land(&server, 1..3).await;
    until_marked_beyond(&server, "copy.db").await;
    server.kill().await;
    put_back(&server, "copy.db");
    server.spawn();
    server.until_ready().await;
    let api = server.api.clone();
    let accepted = command(&server, &["store", "accept", "--yes"]).await;
    assert!(accepted.ok() && accepted.stdout.contains("1 lane was told"), "{}", accepted.said);
    chain.mine(70).await;
    until("the lane goes on", async || (api.lane(&signer(0)).await["healthy"] == true).then_some(())).await;
    let (late, fresh) = (api.submit(&request(1)).await, api.submit(&request(7)).await);
    assert_eq!(api.until_state(&fresh, "confirmed").await["nonce"], 3 + USED_UP);
    let held = |tx: &Value| text(tx, "stuckReason").contains("it may be this transaction");
    let tx = api.until_tx(&late, "it waits for a person", held).await;
    assert_eq!(
        (text(&tx, "state"), text(&tx["held"], "code")),
        ("accepted".into(), "may_have_landed".into())
    );
    // A word is for the nonce that was looked at, and for no other.
    for word in ["approve", "reject"] {
        let path = format!("/api/v1/tx/{late}/{word}");
        api.command(&path).await.expect_problem(409, "held_for_needed");
        api.post(&path, &json!({ "heldFor": 2 })).await.expect_problem(409, "held_for_needed");
    }
    // What a person has called landed is not done again.
    let other = api.submit(&request(2)).await;
    api.until_tx(&other, "it waits for a person", held).await;
    api.post(&format!("/api/v1/tx/{other}/reject"), &json!({ "heldFor": 2 })).await.expect(202);
    let ended = api.until_state(&other, "failed").await;
    assert_eq!(text(&ended["reason"], "code"), "landed_before");
    api.command(&format!("/api/v1/tx/{other}/retry")).await.expect_problem(409, "already_confirmed");
    let listed = command(&server, &["tx", "list"]).await;
    let shows = |line: &&str| line.starts_with(&late) && line.contains("accepted, held");
    assert_eq!(listed.stdout.lines().filter(shows).count(), 1, "{}", listed.said);
    let settled = command(&server, &["tx", "settle", &late, "--ours"]).await;
    assert!(!settled.ok() && settled.said.contains("landfall tx approve"), "{}", settled.said);
    server.restart_after_kill().await;
    chain.mine(5).await;
    let cancelled = command(&server, &["tx", "cancel", &late]).await;
    assert!(cancelled.ok(), "{}", cancelled.said);
    let ended = api.until_state(&late, "cancelled").await;
    let why = "cancelled by the caller; nonce 1 did the same and stays remembered";
    assert_eq!(text(&ended["reason"], "text"), why, "{ended}");
    let listed = command(&server, &["tx", "list"]).await;
    assert!(!listed.stdout.contains("held"), "it waits for nobody any more: {}", listed.said);
    let landed_once = BTreeMap::from([(0, 1), (1, 1), (2, 1), (7, 1)]);
    assert_eq!((landed(&chain).await, chain.pooled().await), (landed_once, 0));
}

#[tokio::test]
async fn a_backup_of_a_running_server_has_everything_and_is_held_when_it_is_put_back() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    land(&server, 0..2).await;
    let made = command(&server, &["backup", "--json", "copy.db"]).await;
    assert!(made.ok(), "{}", made.said);
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!((&made["transactions"], &made["unfinished"]), (&json!(2), &json!(0)), "{made}");
    let again = command(&server, &["backup", "copy.db"]).await;
    assert!(!again.ok() && again.said.contains("--force"), "{}", again.said);
    server.kill().await;
    // To another place, where no mark lies.
    fs::remove_file(file(&server, "landfall.db.mark")).unwrap();
    put_back(&server, "copy.db");
    server.spawn();
    server.until_ready().await;
    let api = server.api.clone();
    for n in 0..2 {
        assert_eq!(text(&api.post("/api/v1/tx", &request(n)).await.expect(200), "state"), "confirmed");
    }
    let next = api.submit(&request(2)).await;
    until("the transaction says why it waits", async || {
        text(&api.tx(&next).await, "stuckReason").contains("mark beside its file is missing").then_some(())
    })
    .await;
    // Nothing was sent since the backup, so nothing holds it once it is accepted.
    assert!(command(&server, &["store", "accept", "--yes"]).await.ok());
    api.until_state(&next, "confirmed").await;
    assert_eq!(landed(&chain).await, once(0..3));
}

#[tokio::test]
async fn a_copy_that_is_put_back_with_its_own_mark_is_held_by_the_nonces_that_it_does_not_know() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    land(&server, 0..1).await;
    plain_copy(&server, "copy.db").await;
    fs::copy(file(&server, "landfall.db.mark"), file(&server, "copy.mark")).unwrap();
    land(&server, 1..3).await;
    server.kill().await;
    put_back(&server, "copy.db");
    fs::copy(file(&server, "copy.mark"), file(&server, "landfall.db.mark")).unwrap();
    server.spawn();
    server.until_ready().await;
    let api = server.api.clone();
    assert_eq!(api.get("/api/v1/store").await.expect(200)["older"], false, "nothing can tell");
    for n in 1..3 {
        api.submit(&request(n)).await;
    }
    until("the lane holds", async || (api.lane(&signer(0)).await["healthy"] == false).then_some(())).await;
    chain.mine(5).await;
    assert_eq!((landed(&chain).await, chain.pooled().await), (once(0..3), 0));

    // A person can tell.
    let running = command(&server, &["store", "older", "--yes"]).await;
    assert!(!running.ok() && running.said.contains("a server runs on"), "{}", running.said);
    server.kill().await;
    let asked = command(&server, &["store", "older"]).await;
    assert!(asked.code == Some(1) && asked.said.contains("say --yes"), "{}", asked.said);
    let said = command(&server, &["store", "older", "--yes"]).await;
    assert!(said.ok() && said.said.contains("landfall store accept"), "{}", said.said);
    server.spawn();
    server.until_ready().await;
    let store = api.get("/api/v1/store").await.expect(200);
    assert!(text(&store, "why").contains("an operator said so"), "{store}");
    assert!(command(&server, &["store", "accept", "--yes"]).await.ok());
    chain.mine(70).await;
    until("the lane goes on", async || (api.lane(&signer(0)).await["healthy"] == true).then_some(())).await;
    api.until_all_done(LIMIT).await;
    assert_eq!((landed(&chain).await, chain.pooled().await), (once(0..3), 0));
}

/// A reorganisation takes a forgotten nonce back, and nothing that used it ever returns: the lane says how to go on, and that works.
#[tokio::test]
async fn a_lane_of_an_older_copy_whose_nonces_were_taken_back_goes_on_as_it_says() {
    let chain = Chain::without_mining().await;
    let mut server = Server::start(&chain.url(), Settings { finality: 4, ..Settings::default() }).await;
    let api = server.api.clone();
    chain.mine(3).await;
    let first = api.submit(&request(0)).await;
    api.until_state(&first, "broadcast").await;
    chain.mine(6).await;
    api.until_state(&first, "confirmed").await;
    plain_copy(&server, "copy.db").await;
    let second = api.submit(&request(1)).await;
    api.until_state(&second, "broadcast").await;
    chain.mine(1).await;
    api.until_state(&second, "mined").await;
    until_marked_beyond(&server, "copy.db").await;
    server.kill().await;
    put_back(&server, "copy.db");
    server.spawn();
    server.until_ready().await;
    let says = async |what: &str| {
        until(what, async || text(&api.lane(&signer(0)).await, "holdReason").contains(what).then_some(()))
            .await;
    };
    until("the lane has seen the nonce", async || {
        let unknown = api.lane(&signer(0)).await["unknownNonces"].as_array().map(Vec::len);
        (unknown == Some(1)).then_some(())
    })
    .await;
    chain.call("anvil_reorg", json!([2, []])).await;
    chain.call("anvil_dropAllTransactions", json!([])).await;
    chain.mine(2).await;
    assert_eq!(chain.count(&signer(0)).await, 1);
    let again = api.submit(&request(1)).await;
    assert!(command(&server, &["store", "accept", "--yes"]).await.ok());
    chain.mine(6).await;
    says("landfall store older").await;

    server.kill().await;
    let said = command(&server, &["store", "older", "--yes"]).await;
    assert!(said.ok(), "{}", said.said);
    server.spawn();
    server.until_ready().await;
    says("landfall store accept").await;
    assert!(command(&server, &["store", "accept", "--yes"]).await.ok());
    let done = until("it lands", async || {
        chain.mine(6).await;
        Some(api.tx(&again).await).filter(|tx| tx["state"] == "confirmed")
    });
    assert_eq!(done.await["nonce"], 1 + USED_UP);
    assert_eq!((landed(&chain).await, chain.pooled().await), (once(0..2), 0));
}

/// Whoever is paid has kept the bytes of a payment that the copy has forgotten, and sends them after the acceptance. Its request is handed in
/// again without the one that came before it, so that it could go out with a lower nonce.
#[tokio::test]
async fn kept_bytes_that_are_sent_after_an_acceptance_pay_nothing_twice() {
    let chain = Chain::without_mining().await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    let api = server.api.clone();
    let first = api.submit(&request(0)).await;
    api.until_state(&first, "broadcast").await;
    chain.mine(3).await;
    api.until_state(&first, "confirmed").await;
    plain_copy(&server, "copy.db").await;
    for n in 1..3 {
        let id = api.submit(&request(n)).await;
        api.until_state(&id, "broadcast").await;
    }
    let pooled = chain.call("txpool_content", json!([])).await;
    let kept = pooled["pending"][signer(0).to_lowercase()]["2"]["hash"].clone();
    let kept = chain.call("eth_getRawTransactionByHash", json!([kept])).await;
    assert!(kept.is_string(), "{pooled}");
    until_marked_beyond(&server, "copy.db").await;
    server.kill().await;
    chain.call("anvil_dropAllTransactions", json!([])).await;
    put_back(&server, "copy.db");
    server.spawn();
    server.until_ready().await;
    let again = api.submit(&request(2)).await;
    let accepted = command(&server, &["store", "accept", "--yes"]).await;
    assert!(accepted.ok(), "{}", accepted.said);
    // An acceptance is followed by a block of after the word.
    chain.call("evm_increaseTime", json!([2])).await;
    chain.mine(1).await;
    until("empty transactions are sent", async || (chain.pooled().await > 0).then_some(())).await;
    // The block producer has these bytes, and not the ones that are sent now.
    chain.call("anvil_dropAllTransactions", json!([])).await;
    chain.call("eth_sendRawTransaction", json!([kept])).await;
    let tx = until("it waits for a person", async || {
        chain.mine(1).await;
        Some(api.tx(&again).await).filter(|tx| tx["held"]["code"] == "may_have_landed")
    });
    tx.await;
    chain.mine(70).await;
    assert_eq!(landed(&chain).await, BTreeMap::from([(0, 1), (2, 1)]), "it was paid once");
}

/// Keys that were revoked after the copy was made are valid in it again.
#[tokio::test]
async fn a_revoked_key_that_a_copy_brings_back_can_neither_accept_the_store_nor_make_a_successor() {
    const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let env = vec![("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned())];
    let mut server = Server::start(&chain.url(), Settings { env, ..Settings::default() }).await;
    let owner = server.api.with_key(ADMIN_KEY);
    let mut keys = Vec::new();
    for (name, role) in [("gone admin", "admin"), ("gone operator", "operator"), ("thief", "submitter")] {
        let made = owner.post("/api/v1/api-keys", &json!({ "name": name, "role": role })).await.expect(201);
        keys.push((text(&made, "id"), owner.with_key(&text(&made, "key"))));
    }
    let first = owner.submit(&request(0)).await;
    owner.until_state(&first, "confirmed").await;
    plain_copy(&server, "copy.db").await;
    for (id, _) in &keys {
        let revoke = owner.request(reqwest::Method::DELETE, &format!("/api/v1/api-keys/{id}"));
        owner.send(revoke).await.expect(200);
    }
    let second = owner.submit(&request(1)).await;
    owner.until_state(&second, "confirmed").await;
    until_marked_beyond(&server, "copy.db").await;
    server.kill().await;
    put_back(&server, "copy.db");
    server.spawn();
    server.until_ready().await;

    let [(admin_id, admin), (_, operator), (thief_id, thief)] = &keys[..] else { panic!("three keys") };
    let pause = format!("/api/v1/lanes/31337/{}/pause", signer(0));
    let successor = json!({ "name": "me", "role": "admin" });
    let told = admin.post("/api/v1/store/accept", &json!({})).await.expect_problem(403, "store_older");
    assert!(told.contains("LANDFALL_ADMIN_KEY") && told.contains("revoke again"), "{told}");
    admin.post("/api/v1/api-keys", &successor).await.expect_problem(403, "store_older");
    operator.post(&pause, &json!({})).await.expect_problem(403, "store_older");
    let replace = format!("/api/v1/tx/{first}/replace");
    thief.post(&replace, &json!({})).await.expect_problem(403, "store_older");
    // Requests are handed in again, and whoever looks at the store sees who did.
    thief.submit(&request(7)).await;
    let mut shown = program(server.folder());
    shown.args(["store", "accept"]).env("LANDFALL_URL", server.api.url()).env("LANDFALL_API_KEY", ADMIN_KEY);
    let shown = run(shown).await;
    let waits = |line: &str| {
        line.starts_with(thief_id.as_str()) && line.contains("thief") && line.trim_end().ends_with('1')
    };
    assert!(shown.stdout.lines().any(waits), "{}", shown.said);
    // To take a key away is no harm, and the owner's key does the rest.
    let revoke = admin.request(reqwest::Method::DELETE, &format!("/api/v1/api-keys/{admin_id}"));
    admin.send(revoke).await.expect(200);
    owner.post("/api/v1/api-keys", &successor).await.expect(201);
    owner.post("/api/v1/store/accept", &json!({ "despitePool": true })).await.expect(202);
    operator.post(&pause, &json!({})).await.expect(202);
}
