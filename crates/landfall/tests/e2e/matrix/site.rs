//! A world in which two accounts have things, and keys of every kind that may know of one, of both or of none.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;

use reqwest::Method;
use serde_json::{Value, json};

use super::{ADMIN_KEY, ROLES};
use crate::support::{
    Api, CHAIN_ID, Chain, Parrot, Server, Settings, program, run, signer, text, transfer, transfer_as, until,
};

/// Methods that each role may have passed on, beside those that every viewer may.
pub(super) const LISTED: [(&str, &str); 4] = [
    ("approver", "ots_getBlockDetails"),
    ("submitter", "trace_block"),
    ("operator", "debug_traceCall"),
    ("admin", "txpool_content"),
];
const ALLOW: &str = "[rpc]\nrequests_per_s = 0\nallow = { approver = [\"ots_getBlockDetails\"], submitter = [\"trace_block\"], \
                     operator = [\"debug_trace*\"], admin = [\"txpool_*\"] }\n";
/// Tables of a store that callers can add rows to. The audit log is not among them: it has a row of each refusal.
const TABLES: [&str; 7] = ["account", "lane", "tx", "attempt", "journal", "command", "kept"];
/// The kinds of records that callers can make: keys, webhooks, raw transactions and calls.
const RECORDS: &str = "record WHERE kind IN (1, 3, 5, 6)";

/// The target of a request: something of an account's, or something that is not there.
#[derive(Clone)]
pub(super) struct Named {
    pub(super) tx: String,
    pub(super) signer: String,
    pub(super) request: &'static str,
    pub(super) webhook: String,
    pub(super) hash: String,
    /// The id of calls that were handed over together.
    pub(super) bundle: String,
    pub(super) key: String,
    /// The number of an event.
    pub(super) seq: u64,
}

impl Named {
    pub(super) fn nothing() -> Self {
        Self {
            tx: "01999999-9999-7999-8999-999999999999".to_owned(),
            signer: format!("0x{}", "7".repeat(40)),
            request: "not-there",
            webhook: "888888888888".to_owned(),
            hash: format!("0x{}", "9".repeat(64)),
            bundle: format!("0x{}", "6".repeat(64)),
            key: "0000000000000000".to_owned(),
            seq: 1,
        }
    }

    /// Everything that an account has.
    async fn of(admin: &Api, n: usize, request: &'static str) -> Self {
        let mut body = transfer_as(request);
        body["signer"] = json!(signer(n));
        let tx = admin.submit(&body).await;
        let sent = admin.until_state(&tx, "broadcast").await;
        let hook = json!({ "url": "https://localhost:1/", "signers": [signer(n)] });
        let webhook = admin.post("/api/v1/webhooks", &hook).await.expect(201);
        let calls = json!([{
            "version": "2.0.0", "from": signer(n), "chainId": format!("{CHAIN_ID:#x}"), "atomicRequired": false,
            "calls": [{ "to": signer(n), "value": "0x1" }],
        }]);
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "wallet_sendCalls", "params": calls });
        let bundle = admin.post(&format!("/rpc/{CHAIN_ID}"), &call).await.expect(200);
        let journal = admin.get(&format!("/api/v1/tx/{tx}/journal")).await.expect(200);
        let seq = journal["items"][0]["seq"].as_u64().expect("an event has a number");
        Self {
            tx,
            signer: signer(n),
            request,
            webhook: text(&webhook, "id"),
            hash: text(&sent, "hash"),
            bundle: text(&bundle["result"], "id"),
            key: Self::nothing().key,
            seq,
        }
    }

    /// An answer without what the caller itself has said.
    pub(super) fn masked(&self, text: &str) -> String {
        let mut text = text.to_lowercase();
        for own in [&self.bundle, &self.hash, &self.tx, &self.signer, &self.webhook, self.request] {
            text = text.replace(&own.to_lowercase(), "…");
        }
        text
    }

    pub(super) fn transfer(&self) -> Value {
        let mut body = transfer();
        body["signer"] = json!(self.signer);
        body["requestId"] = json!(self.request);
        body
    }
}

/// The reach of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    All,
    /// The second account only.
    OwnSigner,
    OtherChain,
    /// It has asked for as much as it may.
    Spent,
    /// It opens nothing.
    Nothing,
}

/// A key, and who it is.
pub(super) struct Holder {
    pub(super) who: String,
    pub(super) key: String,
    pub(super) role: &'static str,
    pub(super) reach: Reach,
}

impl Holder {
    /// Its key opens something now.
    pub(super) fn is_good(&self) -> bool {
        match self.reach {
            Reach::All | Reach::OwnSigner | Reach::OtherChain => true,
            Reach::Spent | Reach::Nothing => false,
        }
    }
}

pub(super) struct Site {
    pub(super) chain: Chain,
    pub(super) node: Parrot,
    pub(super) server: Server,
    pub(super) admin: Api,
    /// Of the second account, which limited keys are for.
    pub(super) own: Named,
    /// Of the first.
    pub(super) other: Named,
    pub(super) holders: Vec<Holder>,
    /// How often somebody was sent away, by status.
    pub(super) sent_away: Mutex<BTreeMap<u64, u64>>,
}

impl Site {
    pub(super) async fn new() -> Self {
        let chain = Chain::without_mining().await;
        // What waits for its block is left alone meanwhile, or its lane would change by itself.
        let mut settings =
            Settings { signers: 2, resubmit_after_s: 600, sections: ALLOW, ..Settings::default() };
        settings.env.push(("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned()));
        let node = Parrot::before(&chain.url()).await;
        let server = Server::start(&node.url(), settings).await;
        let admin = server.api.with_key(ADMIN_KEY);
        let other = Named::of(&admin, 0, "of-first").await;
        let own = Named::of(&admin, 1, "of-second").await;
        until("all are sent", async || {
            admin.list("").await.iter().all(|tx| tx["state"] == "broadcast").then_some(())
        })
        .await;
        let (holders, sent_away) = (holders(&admin).await, Mutex::default());
        let site = Self { chain, node, server, admin, own, other, holders, sent_away };
        let expired = site.holders.iter().find(|holder| holder.who == "an expired key").unwrap();
        let late = site.admin.with_key(&expired.key);
        until("it has expired", async || {
            let refused = late.get("/api/v1/lanes").await.status == 401;
            if refused {
                site.was_sent_away(401, 1);
            }
            refused.then_some(())
        })
        .await;
        site
    }

    pub(super) fn was_sent_away(&self, status: u64, times: u64) {
        *self.sent_away.lock().unwrap().entry(status).or_default() += times;
    }

    /// All that callers could have changed.
    pub(super) async fn state(&self) -> String {
        let mut all = String::new();
        for path in ["/api/v1/tx?limit=500", "/api/v1/lanes", "/api/v1/api-keys", "/api/v1/webhooks"] {
            let mut shown = self.admin.get(path).await.expect(200);
            for item in shown["items"].as_array_mut().unwrap() {
                // How far the deliveries of a webhook are: that moves by itself.
                for name in
                    ["behind", "cursor", "waiting", "failingSince", "healthy", "lastFailure", "trouble"]
                {
                    item.as_object_mut().unwrap().remove(name);
                }
            }
            all.push_str(&shown.to_string());
            all.push('\n');
        }
        all + &self.rows()
    }

    /// How many rows the store has, also of what nobody is shown.
    fn rows(&self) -> String {
        let file = self.server.folder().join("landfall.db");
        let read_only = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let store = rusqlite::Connection::open_with_flags(file, read_only).unwrap();
        let mut all = String::new();
        for table in TABLES.into_iter().chain([RECORDS]) {
            let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
            let rows = store.query_row(&format!("SELECT count(*) FROM {table}"), [], count).unwrap();
            writeln!(all, "{table}: {rows}").unwrap();
        }
        all
    }

    /// An answer that has nothing of the first account.
    #[track_caller]
    pub(super) fn free(&self, what: &str, said: &str) {
        let said = said.to_lowercase();
        for secret in [&self.other.tx, &self.other.signer, &self.other.hash, &self.other.bundle] {
            assert!(!said.contains(&secret.to_lowercase()), "{what} tells of another's: {said}");
        }
    }

    /// An answer that is the node's own, which whoever asks the node gets as well.
    pub(super) async fn is_the_nodes_own(&self, what: &str, method: &str, params: Value, said: &str) {
        let said: Value = serde_json::from_str(said).unwrap();
        let of_node = self.chain.call(method, params).await;
        assert_eq!(said["result"], of_node, "{what}: it is told more than a node tells everybody");
    }

    /// Stops the server, and compares the refusals that it wrote down with those that callers heard.
    pub(super) async fn each_refusal_is_on_record(mut self) {
        self.server.terminate();
        assert_eq!(self.server.ended().await.code(), Some(0));
        let mut export = program(self.server.folder());
        export.args(["audit", "export", "--config", "landfall.toml"]);
        let exported = run(export).await.stdout;
        // The first line says what the others are.
        let rows = exported.lines().skip(1).map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            serde_json::from_str::<Value>(line["entry"].as_str().unwrap()).unwrap()
        });
        let mut told: BTreeMap<u64, u64> = BTreeMap::new();
        for row in rows.filter(|row| row["what"] == "refused") {
            match row["statuses"].as_object().filter(|sums| !sums.is_empty()) {
                Some(sums) => {
                    for (status, count) in sums {
                        *told.entry(status.parse().unwrap()).or_default() += count.as_u64().unwrap();
                    }
                }
                None => *told.entry(row["status"].as_u64().unwrap()).or_default() += 1,
            }
        }
        assert_eq!(told, *self.sent_away.lock().unwrap());
    }
}

/// Keys of every role for everything, of the small roles for one account or for another chain, and keys that are no longer good.
async fn holders(admin: &Api) -> Vec<Holder> {
    let make = async |body: Value| {
        let made = admin.post("/api/v1/api-keys", &body).await.expect(201);
        (text(&made, "id"), text(&made, "key"))
    };
    let mut all = Vec::new();
    for role in ROLES {
        let (_, key) = make(json!({ "name": role, "role": role })).await;
        all.push(Holder { who: format!("a {role}"), key, role, reach: Reach::All });
    }
    for role in ["viewer", "approver", "submitter"] {
        for (limit, to, reach) in [
            ("signers", json!([signer(1)]), Reach::OwnSigner),
            ("chains", json!([CHAIN_ID + 1]), Reach::OtherChain),
        ] {
            let (_, key) = make(json!({ "name": role, "role": role, limit: to })).await;
            all.push(Holder { who: format!("a {role} limited in its {limit}"), key, role, reach });
        }
    }
    for role in ROLES {
        let (_, key) = make(json!({ "name": role, "role": role, "ratePerS": 10 })).await;
        all.push(Holder { who: format!("a {role} that asks too often"), key, role, reach: Reach::Spent });
    }
    let (id, revoked) = make(json!({ "name": "old", "role": "admin" })).await;
    admin.send(admin.request(Method::DELETE, &format!("/api/v1/api-keys/{id}"))).await.expect(200);
    let end = (jiff::Timestamp::now() + jiff::SignedDuration::from_secs(1)).to_string();
    let (_, expired) = make(json!({ "name": "late", "role": "admin", "expiresAt": end })).await;
    let wrong = format!("{}0", &revoked[..revoked.len() - 1]);
    for (who, key) in [
        ("a revoked key", revoked),
        ("an expired key", expired),
        ("a wrong secret", wrong),
        ("no key", "lf_".to_owned()),
    ] {
        all.push(Holder { who: who.to_owned(), key, role: "admin", reach: Reach::Nothing });
    }
    all
}
