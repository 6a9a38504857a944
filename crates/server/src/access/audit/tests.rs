//! Rows that cannot be written, and rows that stand for several.

use std::sync::atomic::AtomicBool;

use landfall_core::audit::{Link, New};
use landfall_store::Memory;

use super::*;
use crate::access::Role;

const TX: &str = "01a1e0d3-0d68-723f-adfc-baff0193aae9";

struct Still;

impl Clock for Still {
    fn now(&self) -> Millis {
        Millis(2_000_000_000_000)
    }
}

/// A log whose disk may be full.
struct Full {
    log: Memory,
    is_full: AtomicBool,
}

#[tonic::async_trait]
impl AuditLog for Full {
    async fn append_audit(&self, entries: Vec<New>) -> Result<Link, Error> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(Error::Failed { doing: "write the audit log", text: "the disk is full".to_owned() });
        }
        self.log.append_audit(entries).await
    }

    async fn audit_ends(&self) -> Result<Ends, Error> {
        self.log.audit_ends().await
    }

    async fn audit_rows(&self, page: Page, limit: u32) -> Result<Vec<Row>, Error> {
        self.log.audit_rows(page, limit).await
    }

    async fn unnumbered_audit(&self) -> Result<u64, Error> {
        self.log.unnumbered_audit().await
    }

    async fn trim_audit(&self, before: Millis, limit: u32, now: Millis) -> Result<u64, Error> {
        self.log.trim_audit(before, limit, now).await
    }
}

async fn begun() -> (Audit, Arc<Full>) {
    let memory = Memory::new(Arc::new(Still));
    let log = Arc::new(Full { log: memory.clone(), is_full: AtomicBool::new(false) });
    let audit = Audit::start(log.clone(), Arc::new(memory), Arc::new(Still), "one").await.unwrap();
    (audit, log)
}

fn caller(key: &str) -> Caller {
    Caller::with(key.into(), key, Role::Submitter, None, None)
}

/// Says of so many things that they were changed.
fn change(audit: &Audit, count: usize) {
    for n in 0..count {
        audit.changed(&caller("shop"), "POST".to_owned(), format!("/{n}"), 202, b"");
    }
}

/// How many changes are in the log, and how many it says were lost.
async fn told(audit: &Audit) -> (u64, u64) {
    let rows = audit.rows(Page::After(0), u32::MAX).await.unwrap();
    let rows: Vec<Entry> = rows.iter().map(|row| serde_json::from_str(&row.text).unwrap()).collect();
    let of = |what: What| rows.iter().filter(move |row| row.what == what);
    (of(What::Wrote).count() as u64, of(What::Lost).filter_map(|row| row.count).sum())
}

#[tokio::test(start_paused = true)]
async fn rows_for_which_there_was_no_room_are_told_as_a_number() {
    let (audit, _) = begun().await;
    // Nobody writes meanwhile: the writer has no turn before the first wait.
    change(&audit, QUEUE + 500);
    audit.stop().await;
    assert_eq!(told(&audit).await, (QUEUE as u64, 500));
}

#[tokio::test(start_paused = true)]
async fn rows_that_a_full_disk_kept_away_are_written_later_or_told_as_a_number() {
    let (audit, log) = begun().await;
    log.is_full.store(true, Ordering::SeqCst);
    change(&audit, 3_000);
    // Time goes on only when everybody waits.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(told(&audit).await, (0, 0));
    log.is_full.store(false, Ordering::SeqCst);
    change(&audit, 10);
    audit.stop().await;
    let (written, lost) = told(&audit).await;
    assert_eq!(written + lost, 3_010, "{written} and {lost}");
    assert!(written >= 1_024 && lost > 0, "{written} and {lost}");
}

#[test]
fn one_row_stands_for_transactions_of_one_key_from_one_place_by_one_door_only() {
    let stored = |caller: &Caller, method: &'static str, path: &'static str, status: u16| {
        let entry = of(What::Wrote, caller, method, path);
        Entry { status: Some(status), tx_ids: vec![TX.parse().unwrap()], ..entry }
    };
    let shop = caller("shop");
    let first = stored(&shop, "POST", "/api/v1/tx", 202);
    assert!(first.clone().takes(&stored(&shop, "POST", "/api/v1/tx", 202)));
    let [mut elsewhere, mut namesake, mut renamed] = [(); 3].map(|()| shop.clone());
    elsewhere.address = Some([192, 0, 2, 7].into());
    namesake.key = Some("other".into());
    renamed.name = "other".into();
    for (what, other) in [
        ("another key of the same name", stored(&namesake, "POST", "/api/v1/tx", 202)),
        ("the key under another name", stored(&renamed, "POST", "/api/v1/tx", 202)),
        ("another address", stored(&elsewhere, "POST", "/api/v1/tx", 202)),
        ("another door", stored(&shop, "gRPC", "/api/v1/tx", 202)),
        ("another path", stored(&shop, "POST", "/api/v1/tx/batch", 202)),
        ("another answer", stored(&shop, "POST", "/api/v1/tx", 200)),
    ] {
        assert!(!first.clone().takes(&other), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_approver_that_names_what_is_not_there_fills_no_disk() {
    let (audit, _) = begun().await;
    let approver = Caller::with("clerk".into(), "clerk", Role::Approver, None, None);
    let (mut refused, path) = (0, "/api/v1/tx/none/approve");
    for n in 0..1_000 {
        let status = if n < 300 { 202 } else { 404 };
        match audit.asked(&approver, "POST", path, b"{}").await {
            Ok(row) => audit.ended(row, &approver, "POST", path, status).await,
            Err(problem) => {
                assert_eq!((problem.code, problem.retry_after), (Code::RateLimited, Some(60)));
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 600, "what was done does not count");
    let operator = Caller::with("op".into(), "op", Role::Operator, None, None);
    for _ in 0..200 {
        let row = audit.asked(&operator, "POST", path, b"{}").await.unwrap();
        audit.ended(row, &operator, "POST", path, 404).await;
    }
    audit.stop().await;
    let rows = audit.rows(Page::After(0), u32::MAX).await.unwrap().len();
    assert!((1_200..1_220).contains(&rows), "a few of the refused ones are told one by one: {rows}");
}

/// The rows of callers, oldest first.
async fn entries(audit: &Audit) -> Vec<Entry> {
    let rows = audit.rows(Page::After(0), u32::MAX).await.unwrap();
    let rows = rows.iter().map(|row| serde_json::from_str::<Entry>(&row.text).unwrap());
    rows.filter(|row| matches!(row.what, What::Wrote | What::Refused)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_stored_nothing_writes_no_row_and_what_is_repeated_is_one() {
    let (audit, _) = begun().await;
    let shop = caller("shop");
    for _ in 0..1_000 {
        let (method, path) = ("POST".into(), "/api/v1/tx/batch".into());
        audit.wrote(&shop, Wrote { method, path, status: 200, txs: Vec::new(), count: Some(50), body: None });
    }
    for _ in 0..1_000 {
        audit.changed(&shop, "POST".to_owned(), "/api/v1/tx/1/cancel".to_owned(), 202, b"{}");
    }
    audit.changed(&shop, "POST".to_owned(), "/api/v1/tx/1/cancel".to_owned(), 202, b"[]");
    audit.stop().await;
    let rows = entries(&audit).await;
    assert!(rows.iter().all(|row| row.path.as_deref() != Some("/api/v1/tx/batch")), "{rows:?}");
    let told: u64 = rows.iter().map(|row| row.count.unwrap_or(1)).sum();
    assert_eq!((rows.len(), told), (2, 1_001), "another body is another change");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_chooses_how_a_row_reads_but_not_how_long_it_is() {
    let (audit, _) = begun().await;
    let (method, path) = ("M".repeat(60_000), format!("/{}", "ä".repeat(60_000)));
    let problem = Problem::new(Code::WrongHost, "no");
    audit.refused(&Caller::nobody(), method, &path, &problem);
    audit.stop().await;
    let rows = entries(&audit).await;
    let row = serde_json::to_string(&rows[0]).unwrap();
    assert!(rows.len() == 1 && row.len() < 1_000, "{} bytes", row.len());
    assert!(row.contains("MMM") && row.contains("ää"), "{row}");
}
