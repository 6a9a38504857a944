//! TLS: what a server agrees on is what the page says, and what `testssl` asks for; certificates change without a restart.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::time::Instant;

use crate::support::{Chain, Server, Settings, is_here, run, run_within, until, until_within};

fn certificate(server: &Server, name: &str) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "180", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.crt")])
        .current_dir(server.folder())
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{made:?}");
}

/// A server with a certificate, not started.
fn prepared(chain: &Chain) -> Server {
    let files = "tls_certificate = \"server.crt\"\ntls_key = \"server.key\"";
    let server = Server::prepare(&chain.url(), &Settings { server: files, ..Settings::default() });
    certificate(&server, "server");
    server
}

/// A caller that trusts one certificate.
fn trusting(certificate: &Path) -> reqwest::Client {
    let pem = std::fs::read(certificate).unwrap();
    let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5));
    client.tls_certs_only([reqwest::Certificate::from_pem(&pem).unwrap()]).build().unwrap()
}

/// A server that answers over TLS, and its address.
async fn served(chain: &Chain) -> (Server, String) {
    let mut server = prepared(chain);
    server.spawn();
    let address = server.api.url().trim_start_matches("http://").to_owned();
    let client = trusting(&server.folder().join("server.crt"));
    until("TLS is answered", async || {
        client
            .get(format!("https://{address}/health/ready"))
            .send()
            .await
            .ok()
            .filter(|at| at.status() == 200)
    })
    .await;
    (server, address)
}

/// Protocol and suite that the server agrees on with a caller that offers this; or the server's words against it.
async fn agreed(address: &str, offers: &[&str]) -> Result<(String, String), String> {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", address]).args(offers);
    let said = run(client).await.said;
    // Such as `New, TLSv1.3, Cipher is TLS_AES_256_GCM_SHA384`.
    let line = said.lines().find(|line| line.starts_with("New, ")).unwrap_or_default();
    let mut parts = line.split(", ").skip(1);
    match (parts.next(), parts.next().and_then(|part| part.strip_prefix("Cipher is "))) {
        (Some(protocol), Some(suite)) if suite != "(NONE)" => Ok((protocol.to_owned(), suite.to_owned())),
        _ => Err(said),
    }
}

/// The words in back quotes in a row of the page's table.
fn listed(row: &str) -> Vec<String> {
    let page = include_str!("../../../../docs/access.md");
    let line = page.lines().find(|line| line.starts_with(&format!("| {row}"))).expect(row);
    line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_servers_order_counts_and_nothing_is_agreed_on_that_the_page_does_not_list() {
    let chain = Chain::without_mining().await;
    let (_server, address) = served(&chain).await;
    let of_13 = listed("suites of TLS 1.3");
    let of_12: Vec<_> =
        listed("suites of TLS 1.2").into_iter().filter(|suite| suite.contains("ECDSA")).collect();
    assert_eq!((of_13.len(), of_12.len()), (3, 3));
    for (protocol, flag, with, suites) in
        [("TLSv1.3", "-tls1_3", "-ciphersuites", &of_13), ("TLSv1.2", "-tls1_2", "-cipher", &of_12)]
    {
        // Whoever prefers the last gets the first of those it has.
        for first in 0..suites.len() {
            let offers: Vec<&str> = suites[first..].iter().rev().map(String::as_str).collect();
            let took = agreed(&address, &[flag, with, &offers.join(":")]).await.unwrap();
            assert_eq!(took, (protocol.to_owned(), suites[first].clone()), "{offers:?}");
        }
    }
    for older in ["-tls1_1", "-tls1"] {
        let said = agreed(&address, &[older, "-cipher", "ALL:@SECLEVEL=0"]).await.unwrap_err();
        let is_refused =
            ["alert protocol version", "alert handshake failure"].iter().any(|no| said.contains(no));
        assert!(is_refused, "{older}: {said}");
    }
    for others in
        ["ECDHE-ECDSA-AES128-SHA256", "AES128-GCM-SHA256", "DHE-RSA-AES128-GCM-SHA256", "ECDHE+SHA1"]
    {
        let said = agreed(&address, &["-tls1_2", "-cipher", others]).await.unwrap_err();
        assert!(said.contains("alert handshake failure"), "{others}: {said}");
    }
    let groups = listed("groups");
    assert_eq!(groups, ["X25519", "P-256", "P-384"]);
    for protocol in ["-tls1_3", "-tls1_2"] {
        for group in &groups {
            // In TLS 1.2 the certificate's curve must be among the groups, too.
            let adds = protocol == "-tls1_2" && group != "P-256";
            let offers = if adds { format!("{group}:P-256") } else { group.clone() };
            agreed(&address, &[protocol, "-groups", &offers]).await.unwrap();
        }
        for other in ["P-521", "X448"] {
            let said = agreed(&address, &[protocol, "-groups", other]).await.unwrap_err();
            assert!(said.contains("alert handshake failure"), "{other}: {said}");
        }
    }
}

#[tokio::test]
async fn every_answer_over_tls_says_that_there_is_nothing_else_and_none_without_it_does() {
    const STRICT: &str = "strict-transport-security";
    let chain = Chain::without_mining().await;
    let (server, address) = served(&chain).await;
    let secure = trusting(&server.folder().join("server.crt"));
    let plain = Server::start(&chain.url(), Settings::default()).await;
    for path in ["/health/live", "/api/v1/lanes", "/docs", "/nothing", "/api/v1/tx/nothing"] {
        let answer = secure.get(format!("https://{address}{path}")).send().await.unwrap();
        let said = answer.headers().get(STRICT).unwrap_or_else(|| panic!("{path}")).to_str().unwrap();
        let age = said.strip_prefix("max-age=").and_then(|age| age.parse::<u64>().ok());
        assert!(age.is_some_and(|age| age >= 180 * 24 * 3_600), "{said}: at least 180 days");
        let answer = crate::support::http_client().get(format!("{}{path}", plain.api.url())).send().await;
        assert!(!answer.unwrap().headers().contains_key(STRICT), "{path}");
    }
}

#[tokio::test]
async fn testssl_finds_no_fault_but_with_the_certificate_that_the_test_made_itself() {
    if !is_here("testssl", "testssl.sh", "what `testssl` says of the server's TLS") {
        return;
    }
    let chain = Chain::without_mining().await;
    let (server, address) = served(&chain).await;
    let found = server.folder().join("found.json");
    let mut testssl = Command::new("testssl");
    // Protocols, categories of suites, forward secrecy, the server's order and defaults, headers, known attacks.
    testssl.args(["-p", "-s", "-f", "-P", "-S", "-h", "-U", "--quiet", "--color=0", "--warnings=off"]);
    testssl.arg("--jsonfile").arg(&found).arg(format!("https://{address}/docs"));
    let said = run_within(Duration::from_secs(240), testssl).await.said;
    let found: Vec<Value> = serde_json::from_slice(&std::fs::read(found).unwrap()).unwrap();
    let of = |id: &str| found.iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("{id}: {said}"));
    for good in ["TLS1_3", "TLS1_2", "cipher_order", "HSTS_time", "secure_renego", "heartbleed"] {
        assert_eq!(of(good)["severity"], "OK", "{}", of(good));
    }
    // Who signed it, how it could be revoked and the name it is for are not the server's; nor is what the tool itself could not do.
    let not_ours = ["cert_chain_of_trust", "cert_revocation", "DNS_CAArecord", "engine_problem"];
    let not_checked = |one: &Value| one["severity"] == "WARN" && one["id"] == "sessionresumption_ticket";
    let faults: Vec<&Value> = found
        .iter()
        .filter(|one| !["OK", "INFO"].contains(&one["severity"].as_str().unwrap()))
        .filter(|one| !not_ours.contains(&one["id"].as_str().unwrap()) && !not_checked(one))
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[tokio::test]
async fn a_new_certificate_is_shown_without_a_restart_and_a_broken_one_is_not() {
    let chain = Chain::without_mining().await;
    let mut server = prepared(&chain);
    certificate(&server, "new");
    let folder = server.folder().to_owned();
    let url = format!("{}/health/live", server.api.url().replace("http://", "https://"));
    let trusts = async |name: &str| {
        let client = trusting(&folder.join(format!("{name}.crt")));
        client.get(&url).send().await.is_ok_and(|answer| answer.status() == 200)
    };
    std::fs::copy(folder.join("server.crt"), folder.join("old.crt")).unwrap();
    server.spawn();
    until("TLS is answered", async || trusts("old").await.then_some(())).await;
    assert!(!trusts("new").await);
    // One file at a time, as programs that renew do.
    std::fs::copy(folder.join("new.key"), folder.join("server.key")).unwrap();
    std::fs::copy(folder.join("new.crt"), folder.join("server.crt")).unwrap();
    until_within(Duration::from_secs(30), "the new one is shown", async || trusts("new").await.then_some(()))
        .await;
    assert!(!trusts("old").await);
    // What does not belong together is said, and the good one stays.
    std::fs::copy(folder.join("old.crt"), folder.join("server.crt")).unwrap();
    until("it is said", async || server.log().contains("the new certificate is not used").then_some(()))
        .await;
    assert!(trusts("new").await && !trusts("old").await);
    std::fs::write(folder.join("server.crt"), "").unwrap();
    until("that too", async || server.log().contains("there is no certificate in").then_some(())).await;
    assert!(trusts("new").await);
}

/// The first words of a caller that speaks TLS 1.2.
fn hello() -> Vec<u8> {
    let mut said = vec![3, 3];
    said.extend([7; 32]);
    // No session, one suite, no compression.
    said.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    // Groups, points and signatures.
    let extensions = [0, 10, 0, 4, 0, 2, 0, 29, 0, 11, 0, 2, 1, 0, 0, 13, 0, 4, 0, 2, 4, 3];
    said.extend([0, 22]);
    said.extend(extensions);
    let length = u8::try_from(said.len()).unwrap();
    let mut record = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(said);
    record
}

/// Whether a server answers the first words of a caller at this address with its own.
async fn is_heard(address: &str, from: [u8; 4]) -> bool {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let Ok(mut stream) = socket.connect(address.parse().unwrap()).await else { return false };
    stream.write_all(&hello()).await.ok();
    stream.read_u8().await.is_ok_and(|kind| kind == 22)
}

#[tokio::test]
async fn an_address_agrees_on_tls_as_often_as_it_may_ask_without_a_key_and_others_go_on() {
    const OFTEN: usize = 4_000;
    let chain = Chain::without_mining().await;
    let (server, address) = served(&chain).await;
    let own = trusting(&server.folder().join("server.crt"));
    let (flooder, began) = ([127, 0, 0, 9], Instant::now());
    assert!(is_heard(&address, flooder).await);
    let flood = futures::stream::iter(0..OFTEN).map(|_| is_heard(&address, flooder)).buffer_unordered(16);
    let heard = flood.filter(|heard| futures::future::ready(*heard)).count().await;
    let most = 1_000 + 200 * (usize::try_from(began.elapsed().as_secs()).unwrap() + 2);
    assert!(heard < most, "{heard} of {OFTEN} in {:?}", began.elapsed());
    assert_eq!(own.get(format!("https://{address}/health/live")).send().await.unwrap().status(), 200);
}
