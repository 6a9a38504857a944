//! One try: a request, its limits, and what the answer means.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use landfall_core::Millis;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};

use super::Webhooks;
use super::reach::Reach;
use super::secret::EndpointSecret;

/// So much of an answer is kept for people.
const SHOWN_BYTES: usize = 200;
/// An answer's body is read only so that its connection can be used again.
const READ_BYTES: usize = 16 * 1024;
/// A receiver that said yes need not be waited for long.
const REST_LIMIT: Duration = Duration::from_secs(1);
/// The longest that a receiver may ask to be left alone.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(86_400);

/// How a failure begins that has an answer: a status, and behind it the receiver's words.
const ANSWERED: &str = "the receiver answered ";

pub(crate) struct Sender {
    http: reqwest::Client,
    pub(crate) reach: Reach,
}

/// What is sent.
pub(crate) struct Message {
    pub(crate) url: String,
    pub(crate) id: String,
    pub(crate) body: String,
    pub(crate) secrets: Vec<EndpointSecret>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// A sentence.
    pub(crate) why: String,
    pub(crate) status: Option<u16>,
    /// The receiver asked to be left alone for so long.
    pub(crate) retry_after: Option<Duration>,
    /// The receiver said that it does not exist any more.
    pub(crate) gone: bool,
}

impl Sender {
    pub(crate) fn new(settings: &Webhooks) -> Result<Self, reqwest::Error> {
        let reach = Reach {
            private: settings.allow_private,
            loopback: settings.allow_loopback,
            http: settings.allow_http,
        };
        let http = reqwest::Client::builder()
            // A redirect, like a proxy, could lead to an address that was not looked at.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .dns_resolver(reach.resolver())
            .timeout(settings.timeout)
            .connect_timeout(settings.timeout)
            .pool_idle_timeout(Duration::from_secs(30))
            .build()?;
        Ok(Self { http, reach })
    }

    /// The status of a receiver that took it, or why it did not.
    pub(crate) async fn send(&self, message: Message, now: Millis) -> Result<u16, Refusal> {
        let refused = |why: String| Refusal { why, status: None, retry_after: None, gone: false };
        // Settings may have changed since the endpoint was made.
        let url = self.reach.url(&message.url).map_err(|why| refused(format!("not sent: {why}")))?;
        let timestamp = now.0 / 1_000;
        let mut signatures = String::new();
        for secret in &message.secrets {
            let space = if signatures.is_empty() { "" } else { " " };
            let signature = secret.sign(&message.id, timestamp, &message.body);
            write!(signatures, "{space}{signature}").map_err(|error| refused(error.to_string()))?;
        }
        let request = self
            .http
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("landfall/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", timestamp.to_string())
            .header("webhook-signature", signatures)
            .body(message.body);
        let mut answer = request.send().await.map_err(|error| refused(sentence(&error)))?;
        let status = answer.status();
        if status.is_success() {
            tokio::time::timeout(REST_LIMIT, beginning(&mut answer, READ_BYTES)).await.ok();
            return Ok(status.as_u16());
        }
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after =
            retry_after.and_then(|text| wait(text, now)).map(|wait| wait.min(LONGEST_RETRY_AFTER));
        let said = beginning(&mut answer, SHOWN_BYTES).await;
        let mut why = format!("{ANSWERED}{status}");
        if status.is_redirection() {
            why.push_str(" (redirects are not followed: give the address itself)");
        }
        if !said.is_empty() {
            write!(why, ": {said}").ok();
        }
        Err(Refusal { why, status: Some(status.as_u16()), retry_after, gone: status == StatusCode::GONE })
    }
}

/// `Retry-After`: seconds, or a time.
fn wait(text: &str, now: Millis) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let time = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp().as_millisecond();
    Some(Millis(u64::try_from(time).ok()?).since(now))
}

/// The first bytes of an answer, as plain text.
async fn beginning(answer: &mut reqwest::Response, most: usize) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < most
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        bytes.extend_from_slice(&chunk);
    }
    bytes.truncate(most);
    let text = String::from_utf8_lossy(&bytes);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

/// A failure without the receiver's own words. Receivers like to repeat the path that they were asked for, and a path may hold
/// a token.
pub(crate) fn without_words(failure: &str) -> &str {
    let Some(at) = failure.find(ANSWERED) else { return failure };
    let status = at + ANSWERED.len();
    match failure[status..].find([':', '(']) {
        Some(end) => failure[..status + end].trim_end(),
        None => failure,
    }
}

/// What went wrong with a request, without its URL, which may carry what only the receiver should know.
fn sentence(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "the receiver did not answer in time".to_owned();
    }
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let what = if error.is_connect() { "the receiver cannot be reached" } else { "the exchange broke off" };
    format!("{what}: {cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_receiver_are_left_out_of_a_failure_and_nothing_else_is() {
        for (failure, left) in [
            (
                "the receiver answered 404 Not Found: Cannot POST /hooks/tok3n",
                "the receiver answered 404 Not Found",
            ),
            (
                "the receiver answered 302 Found (redirects are not followed: give the address itself): /tok3n",
                "the receiver answered 302 Found",
            ),
            (
                "nothing got through for 3 days; the last failure: the receiver answered 500 Internal Server Error: tok3n",
                "nothing got through for 3 days; the last failure: the receiver answered 500 Internal Server Error",
            ),
            (
                "the receiver answered 503 Service Unavailable",
                "the receiver answered 503 Service Unavailable",
            ),
            ("the receiver did not answer in time", "the receiver did not answer in time"),
            ("an operator switched it off: for today", "an operator switched it off: for today"),
        ] {
            assert_eq!(without_words(failure), left);
        }
    }

    #[test]
    fn a_receiver_says_when_to_come_back_in_seconds_or_by_a_time() {
        let now = Millis(1_445_412_480_000);
        assert_eq!(wait("120", now), Some(Duration::from_secs(120)));
        assert_eq!(wait("Wed, 21 Oct 2015 07:29:00 GMT", now), Some(Duration::from_secs(60)));
        assert_eq!(wait("Wed, 21 Oct 2015 07:00:00 GMT", now), Some(Duration::ZERO));
        assert_eq!(wait("soon", now), None);
    }
}
