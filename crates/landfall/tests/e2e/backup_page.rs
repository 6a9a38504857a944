//! docs/backup.md, block by block: what it tells people to type works, and nothing is paid twice.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::backup::{land, landed, once, request};
use crate::support::{Chain, LIMIT, Output, Restored, Server, Settings, program, run, text};

const PAGE: &str = include_str!("../../../../docs/backup.md");

/// The page's blocks, by what they are for.
struct Blocks(Vec<String>);

impl Blocks {
    /// All of them; there must be no other.
    fn read() -> Self {
        let mut blocks: Vec<String> = Vec::new();
        let mut open: Option<(usize, String)> = None;
        for line in PAGE.lines() {
            let indent = line.len() - line.trim_start().len();
            match (&mut open, line.trim_start()) {
                (None, "```sh") => open = Some((indent, String::new())),
                (None, other) => assert!(!other.starts_with("```"), "a block that no shell runs: {other}"),
                (Some(_), "```") => blocks.extend(open.take().map(|(_, block)| block)),
                (Some((indent, block)), _) => {
                    block.push_str(line.get(*indent..).unwrap_or_default());
                    block.push('\n');
                }
            }
        }
        Self(blocks)
    }

    fn take(&mut self, words: &str) -> String {
        let at = self.0.iter().position(|block| block.contains(words));
        self.0.remove(at.unwrap_or_else(|| panic!("the page has no block with {words:?}: {:?}", self.0)))
    }
}

/// Everything that the page tells to run; each test runs its half, and what both share.
struct Page {
    backup: String,
    dump: String,
    put_back: String,
    restore: String,
    show: String,
    ask: String,
    accept: String,
    older: String,
    upgrade: String,
}

impl Page {
    fn read() -> Self {
        let mut blocks = Blocks::read();
        let page = Self {
            upgrade: blocks.take("landfall backup --config landfall.toml before-upgrade.db"),
            backup: blocks.take("landfall backup"),
            dump: blocks.take("pg_dump"),
            put_back: blocks.take("cp landfall-backup.db"),
            restore: blocks.take("pg_restore"),
            show: blocks.take("landfall store show"),
            accept: blocks.take("landfall store accept --yes"),
            ask: blocks.take("landfall store accept"),
            older: blocks.take("landfall store older"),
        };
        assert!(blocks.0.is_empty(), "blocks that this test does not know: {:?}", blocks.0);
        page
    }
}

/// Runs a block beside the server's files, as a person would who pastes it there.
async fn paste(server: &Server, block: &str, store: &str) -> Output {
    let folder = server.folder();
    let bin = folder.join("bin");
    if !bin.exists() {
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(program(folder).get_program(), bin.join("landfall")).unwrap();
    }
    let mut bash = Command::new("bash");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LANDFALL_") {
            bash.env_remove(name);
        }
    }
    let programs = landfall_pgtest::programs().unwrap();
    let path = [&*bin, &*programs, Path::new(&std::env::var("PATH").unwrap())]
        .map(|path| path.display().to_string());
    bash.arg("-euc").arg(block).current_dir(folder).env("PATH", path.join(":")).stdin(Stdio::null());
    bash.env("LANDFALL_URL", server.api.url()).env("LANDFALL_STORE__URL", store);
    run(bash).await
}

async fn good(server: &Server, block: &str, store: &str) -> String {
    let done = paste(server, block, store).await;
    assert!(done.ok(), "{block}: {}", done.said);
    done.said
}

/// From the server's start on the page is the same for both kinds of store.
async fn after_a_restore(page: &Page, server: &mut Server, chain: &Chain, store: &str) {
    server.spawn();
    server.until_ready().await;
    let api = server.api.clone();
    let shown = good(server, &page.show, store).await;
    assert!(shown.contains("older copy") && !shown.contains("is not an older copy"), "{shown}");
    let mut forgotten = Vec::new();
    for n in 0..3 {
        let answer = api.send(api.request(reqwest::Method::POST, "/api/v1/tx").json(&request(n))).await;
        assert_eq!(answer.status, if n < 1 { 200 } else { 202 }, "{answer:?}");
        forgotten.push(text(&answer.body, "txId"));
    }
    let asked = paste(server, &page.ask, store).await;
    assert!(asked.code == Some(1) && asked.said.contains("Say --yes"), "{}", asked.said);
    good(server, &page.accept, store).await;
    chain.mine(70).await;
    for id in &forgotten {
        api.until_state(id, "confirmed").await;
    }
    land(server, 3..4).await;
    assert_eq!((landed(chain).await, chain.pooled().await), (once(0..4), 0));

    // What nothing can notice.
    server.terminate();
    server.ended().await;
    assert!(good(server, &page.older, store).await.contains("Start the server"));
    server.spawn();
    server.until_ready().await;
    assert!(good(server, &page.show, store).await.contains("an operator said so"));
    good(server, &page.accept, store).await;
    land(server, 4..5).await;
    api.until_all_done(LIMIT).await;
    assert_eq!((landed(chain).await, chain.pooled().await), (once(0..5), 0));
}

#[tokio::test]
async fn the_page_on_backups_does_what_it_says_on_sqlite() {
    let page = Page::read();
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let settings = Settings::default();
    let url = settings.store_url.clone();
    let mut server = Server::start(&chain.url(), settings).await;
    land(&server, 0..1).await;
    assert!(good(&server, &page.backup, &url).await.contains("1 transactions"));
    land(&server, 1..3).await;
    good(&server, &page.upgrade, &url).await;
    server.terminate();
    server.ended().await;
    good(&server, &page.put_back, &url).await;
    after_a_restore(&page, &mut server, &chain, &url).await;
}

#[tokio::test]
async fn the_page_on_backups_does_what_it_says_on_postgres() {
    let page = Page::read();
    let database = Restored::new().await;
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let on = |name: &str| Settings {
        store_url: database.url_of(name),
        lease: (2.0, 0.5, 0.2),
        ..Settings::default()
    };
    let mut server = Server::start(&chain.url(), on("landfall")).await;
    land(&server, 0..1).await;
    good(&server, &page.dump, &database.url()).await;
    land(&server, 1..3).await;
    server.terminate();
    server.ended().await;
    // An empty database, and the URL names that one from now on.
    database.make("restored").await;
    let url = database.url_of("restored");
    good(&server, &page.restore, &url).await;
    server.set("LANDFALL_STORE__URL", &url);
    after_a_restore(&page, &mut server, &chain, &url).await;
}
