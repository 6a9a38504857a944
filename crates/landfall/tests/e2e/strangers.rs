//! Somebody else uses a key that Landfall manages: everything of ours lands once, and the lane goes on by itself, or says what it waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::events::{Ear, Heard};
use crate::rpc::{Rpc, number};
use crate::support::{
    Api, Chain, RECEIVER, Server, Settings, marker, number_of, program, run, signer, submission, text, until,
    until_within,
};

/// A payment of ours, which can be told on the chain.
fn ours(n: u64) -> Value {
    let mut body = submission(json!({ "to": RECEIVER, "value": "0", "data": marker(n), "gas": 30_000 }));
    body["requestId"] = json!(format!("ours-{n}"));
    body
}

/// The node signs for its own accounts: what a stranger with the key would do, with the nonce that the node thinks is next.
async fn use_the_key(chain: &Chain) {
    let foreign = json!([{ "from": signer(0), "to": signer(1), "value": "0x1", "gas": "0x5208" }]);
    chain.call("eth_sendTransaction", foreign).await;
}

async fn confirmed(api: &Api, n: u64) -> Value {
    let id = api.submit(&ours(n)).await;
    api.until_state(&id, "confirmed").await
}

async fn landed(chain: &Chain) -> BTreeMap<u64, usize> {
    let mut times = BTreeMap::new();
    for number in chain.landed().await.iter().filter_map(number_of) {
        *times.entry(number).or_default() += 1;
    }
    times
}

#[tokio::test]
async fn a_lane_whose_key_another_program_used_goes_on_when_that_is_final_and_says_so() {
    let chain = Chain::that_settles_at_once().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    let ear = Ear::at(format!("{}/api/v1/events", api.url()));
    let first = api.submit(&ours(0)).await;
    chain.until_pooled(1).await;
    chain.mine(3).await;
    api.until_state(&first, "confirmed").await;

    use_the_key(&chain).await;
    chain.mine(1).await;
    let head = chain.head().await;
    let sees = async || Rpc(api).get("eth_blockNumber", json!([])).await;
    until("the server sees the block", async || (number(&sees().await) == head).then_some(())).await;
    let second = api.submit(&ours(1)).await;
    let says = |tx: &Value| text(tx, "stuckReason").contains("nonce 1 was used by another program");
    api.until_tx(&second, "it says what it waits for", says).await;
    let lane = api.lane(&signer(0)).await;
    assert_eq!((&lane["healthy"], &lane["unknownNonces"][0]["nonce"]), (&json!(false), &json!(1)), "{lane}");
    chain.mine(4).await;
    chain.until_pooled(1).await;
    chain.mine(4).await;
    assert_eq!(api.until_state(&second, "confirmed").await["nonce"], 2);
    assert_eq!(api.lane(&signer(0)).await["healthy"], true);
    until("the adoption is told", async || {
        let adopted = ear.heard().into_iter().find(|heard| heard.name == "lane.adopted");
        adopted.filter(|heard| heard.data["nonces"] == json!([1])).map(drop)
    })
    .await;
    assert!(server.log().contains("another program used the key"), "{}", server.log());
}

#[tokio::test]
async fn after_a_restart_a_lane_holds_for_nonces_that_it_does_not_know_names_them_and_a_person_frees_it() {
    let chain = Chain::that_settles_every(Duration::from_millis(100)).await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    let api = server.api.clone();
    confirmed(&api, 0).await;
    server.kill().await;
    use_the_key(&chain).await;
    use_the_key(&chain).await;
    until("the stranger's are in blocks", async || (chain.count(&signer(0)).await == 3).then_some(())).await;
    server.spawn();
    server.until_ready().await;
    let waits = api.submit(&ours(1)).await;
    let held = |tx: &Value| text(tx, "stuckReason").contains("nonces 1 to 2");
    let tx = api.until_tx(&waits, "it names the nonces", held).await;
    assert!(text(&tx, "stuckReason").contains("resume"), "{tx}");
    // However long it takes.
    chain.mine(20).await;
    let lane = api.lane(&signer(0)).await;
    assert_eq!((&lane["healthy"], lane["unknownNonces"].as_array().map(Vec::len)), (&json!(false), Some(2)));
    let mut resume = program(server.folder());
    resume.args(["lane", "resume", "31337", &signer(0), "--yes"]).env("LANDFALL_URL", api.url());
    let resumed = run(resume).await;
    let shows = resumed.stdout.lines().any(|line| line.starts_with("1 "));
    assert!(resumed.ok() && shows, "{}", resumed.said);
    assert_eq!(api.until_state(&waits, "confirmed").await["nonce"], 3);
    assert_eq!(landed(&chain).await, BTreeMap::from([(0, 1), (1, 1)]));
}

/// As after a restart, but the process remembers that nobody else had the lane: nothing of ours can be among the nonces.
#[tokio::test]
async fn a_lane_whose_key_another_program_used_while_it_was_at_rest_goes_on_by_itself() {
    let chain = Chain::that_settles_every(Duration::from_millis(100)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = server.api.clone();
    confirmed(&api, 0).await;
    until_given_back(&api).await;
    use_the_key(&chain).await;
    until("the stranger's is in a block", async || (chain.count(&signer(0)).await == 2).then_some(())).await;
    assert_eq!(confirmed(&api, 1).await["nonce"], 2);
    assert!(server.log().contains("another program used the key"), "{}", server.log());
    assert_eq!(landed(&chain).await, BTreeMap::from([(0, 1), (1, 1)]));
}

#[tokio::test]
async fn a_resume_fails_as_long_as_the_lane_is_on_hold_and_says_what_for() {
    let chain = Chain::that_settles_at_once().await;
    let mut server = Server::start(&chain.url(), Settings::default()).await;
    let api = server.api.clone();
    let first = api.submit(&ours(0)).await;
    chain.until_pooled(1).await;
    chain.mine(3).await;
    api.until_state(&first, "confirmed").await;
    server.kill().await;
    let alike = json!([{ "from": signer(0), "to": RECEIVER, "data": marker(1), "gas": "0x7530" }]);
    chain.call("eth_sendTransaction", alike).await;
    chain.mine(1).await;
    server.spawn();
    server.until_ready().await;
    let waits = api.submit(&ours(1)).await;
    let same = |tx: &Value| text(tx, "stuckReason").contains("did the same as transaction");
    let tx = api.until_tx(&waits, "it names the nonce", same).await;
    assert!(text(&tx, "stuckReason").contains("another program, or a newer copy of this store"), "{tx}");
    let lane = async |verb: &str, rest: &[&str]| {
        let mut command = program(server.folder());
        command.args(["lane", verb, "31337", &signer(0)]).args(rest).env("LANDFALL_URL", api.url());
        run(command).await
    };
    let shown = lane("show", &[]).await;
    assert!(shown.ok() && shown.stdout.contains(&waits) && shown.stdout.contains("0 wei"), "{}", shown.said);
    let asked = lane("resume", &[]).await;
    assert_eq!(asked.code, Some(1), "{}", asked.said);
    assert!(
        asked.said.contains("does not know who used nonce 1") && asked.said.contains("--yes"),
        "{}",
        asked.said
    );
    // No block comes, so what used the nonce is not final.
    let resumed = lane("resume", &["--yes"]).await;
    assert_eq!(resumed.code, Some(1), "{}", resumed.said);
    assert!(resumed.said.contains("still on hold: nonce 1 was used by something"), "{}", resumed.said);
    chain.mine(4).await;
    api.until_state(&waits, "confirmed").await;
    let resumed = lane("resume", &[]).await;
    assert!(resumed.ok() && resumed.stdout.contains("healthy"), "{}", resumed.said);
    assert_eq!(landed(&chain).await, BTreeMap::from([(0, 1), (1, 1)]));
}

#[tokio::test]
async fn after_a_restart_a_lane_whose_signer_says_so_goes_on_over_nonces_that_it_does_not_know() {
    let chain = Chain::that_settles_every(Duration::from_millis(100)).await;
    let settings = Settings { signer: "on_unknown_slots = \"adopt\"", ..Settings::default() };
    let mut server = Server::start(&chain.url(), settings).await;
    let api = server.api.clone();
    confirmed(&api, 0).await;
    server.kill().await;
    use_the_key(&chain).await;
    until("the stranger's is in a block", async || (chain.count(&signer(0)).await == 2).then_some(())).await;
    server.spawn();
    server.until_ready().await;
    assert_eq!(confirmed(&api, 1).await["nonce"], 2);
}

/// How many of ours, and how often a stranger comes in between.
fn size() -> (u64, usize) {
    if std::env::var_os("LANDFALL_THOROUGH").is_some() { (500, 100) } else { (100, 20) }
}

async fn until_given_back(api: &Api) {
    until("the lane was given back", async || {
        (api.get("/health/ready").await.expect(200)["lanesRunning"] == 0).then_some(())
    })
    .await;
}

/// Nonces of the first signer that somebody else's transactions have.
async fn foreign(chain: &Chain) -> BTreeSet<u64> {
    let all = chain.landed().await.into_iter();
    let foreign =
        all.filter(|landed| landed.from.eq_ignore_ascii_case(&signer(0)) && number_of(landed).is_none());
    foreign.map(|landed| landed.nonce).collect()
}

/// Nonces of which it was told that somebody else has used them.
fn told(ear: &Ear) -> BTreeSet<u64> {
    let of_event = |heard: &Heard| match heard.name.as_str() {
        "lane.adopted" => heard.data["nonces"].as_array().cloned().unwrap_or_default(),
        "tx.displaced" => vec![heard.data["slot"].clone()],
        _ => Vec::new(),
    };
    ear.heard().iter().flat_map(of_event).filter_map(|nonce| nonce.as_u64()).collect()
}

#[tokio::test]
async fn a_stranger_at_any_moment_costs_nothing_but_time() {
    let chain = Chain::that_settles_every(Duration::from_millis(100)).await;
    let (count, strangers) = size();
    let server = Server::start(&chain.url(), Settings { max_in_flight: 4, ..Settings::default() }).await;
    let api = server.api.clone();
    let ear = Ear::at(format!("{}/api/v1/events", api.url()));
    // Ours come one by one or in bursts, so that the lane waits, signs, settles and rests in turn.
    let ours_come = async {
        let mut random = Random(7);
        let mut next = 0;
        let mut last = None;
        while next < count {
            for _ in 0..random.below(7).min(count - next) + 1 {
                if next < count {
                    last = Some(api.submit(&ours(next)).await);
                    next += 1;
                }
            }
            if let Some(last) = last.as_ref().filter(|_| random.below(4) == 0) {
                api.until_state(last, "confirmed").await;
            }
        }
        until_given_back(&api).await;
        use_the_key(&chain).await;
        api.submit(&ours(count)).await;
    };
    let strangers_come = async {
        let mut random = Random(11);
        for _ in 0..strangers {
            crate::support::pass(Duration::from_millis(random.below(500))).await;
            use_the_key(&chain).await;
        }
    };
    tokio::join!(ours_come, strangers_come);
    let limit = Duration::from_secs(240);
    let all = until_within(limit, "all of ours have ended", async || {
        let all = api.list("").await;
        all.iter().all(|tx| tx["state"] == "confirmed").then_some(all)
    })
    .await;
    assert_eq!(all.len() as u64, count + 1);
    assert_eq!(landed(&chain).await, (0..=count).map(|n| (n, 1)).collect::<BTreeMap<_, _>>());
    assert_eq!(api.lane(&signer(0)).await["healthy"], true);
    let foreign = foreign(&chain).await;
    assert!(2 * foreign.len() > strangers, "{} of the stranger's were taken", foreign.len());
    until("each of the stranger's was told of", async || foreign.is_subset(&told(&ear)).then_some(())).await;
    // What a stranger took the nonce of says so itself.
    for event in ear.heard().iter().filter(|heard| heard.name == "tx.displaced") {
        let journal = api.get(&format!("/api/v1/tx/{}/journal", text(&event.data, "txId"))).await.expect(200);
        assert!(journal.to_string().contains("displaced"), "{journal:#}");
    }
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
