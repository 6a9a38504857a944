//! Requests of one connection, each with where it comes from, and counted until the last of its answer is sent. A large answer is
//! handed on in pieces, and one that its caller does not read is given up with all that it holds. What was handed on and not written
//! holds its room still.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Version};
use axum::response::Response;
use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;
use tower_service::Service;

use crate::access::{Caller, Keyring};
use crate::doors::{Line, Peer, Running};
use crate::grpc;
use crate::problem::Problem;
use crate::rpc::MessageRoom;

/// Bytes that are handed on at once: what is left stays here, where it is counted, until the caller takes it.
const PIECE: usize = 16 << 10;
/// How often an answer on its way is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// An answer whose caller was waited for nearly all of this time took at least so many bytes of it meanwhile, or is given up.
const PACE_TIME: Duration = Duration::from_secs(10);
const PACE_BYTES: usize = 128 << 10;

/// The router of one connection.
#[derive(Clone)]
pub(crate) struct Watched {
    router: Router,
    line: Arc<Line>,
    small: Arc<Small>,
}

impl Watched {
    pub(crate) fn new(router: Router, line: Arc<Line>) -> Self {
        Self { router, line, small: Arc::default() }
    }
}

/// Whom an answer goes to, as an extension of it: once the key is revoked, nothing more of it is sent.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) caller: Caller,
    /// How long the answer goes on nevertheless: one that ends itself finishes what it was asked for before.
    pub(crate) grace: Duration,
    /// Its end in words, where it can have some; without them it is broken off.
    pub(crate) words: Option<fn() -> Problem>,
}

impl<B> Service<axum::http::Request<B>> for Watched
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        <Router as Service<Request>>::poll_ready(&mut self.router, cx)
    }

    fn call(&mut self, mut request: axum::http::Request<B>) -> Self::Future {
        let mut running = self.line.begins();
        let (line, small, version) = (self.line.clone(), self.small.clone(), request.version());
        request.extensions_mut().insert(Peer(self.line.peer()));
        request.extensions_mut().insert(self.line.clone());
        let answered = self.router.call(request.map(Body::new));
        Box::pin(async move {
            let mut answer = answered.await?;
            running.is_answered();
            let receiver = answer.extensions_mut().remove::<Receiver>();
            let room = answer.extensions_mut().remove::<Arc<MessageRoom>>();
            Ok(answer.map(|body| {
                let is_small =
                    http_body::Body::size_hint(&body).exact().is_some_and(|length| length <= PIECE as u64);
                let can_go_on = version >= Version::HTTP_2;
                // Over HTTP/1 it is taken at once, and the next request waits until it is sent.
                if is_small && !can_go_on {
                    return Body::new(Sent { body, _running: running });
                }
                let flow = Flow::new(Going { body, _running: running, room });
                if is_small {
                    small.look_after(&flow, line);
                } else {
                    tokio::spawn(watch(Arc::downgrade(&flow), line, can_go_on, receiver));
                }
                Body::new(InPieces(flow))
            }))
        })
    }
}

/// A small answer's body, which counts as long as it is sent.
struct Sent {
    body: Body,
    _running: Running,
}

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer that is being sent, and what it holds.
struct Going {
    body: Body,
    _running: Running,
    room: Option<Arc<MessageRoom>>,
}

/// A piece that was handed on. What is below keeps it until it is written, which a caller that does not read can put off, and so long it
/// takes the room of its answer.
struct Piece {
    bytes: Bytes,
    _room: Arc<MessageRoom>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// How an answer gets on.
struct Flow {
    /// None: it is at its end, or was given up.
    going: Option<Going>,
    /// The rest of what was made and not handed on.
    rest: Bytes,
    given_up: Option<End>,
    /// Since when the caller is waited for: it has not asked for more.
    since: Option<Instant>,
    /// When the pace was last looked at, and how long the caller was waited for and how much it took since.
    looked: Instant,
    waited: Duration,
    taken: usize,
    waker: Option<Waker>,
}

/// The end of an answer that is given up.
enum End {
    Broken,
    /// With trailers, which are sent next.
    Trailers(HeaderMap),
    /// They were sent.
    Said,
}

impl Flow {
    fn new(going: Going) -> Arc<Mutex<Self>> {
        let now = Instant::now();
        Arc::new(Mutex::new(Self {
            going: Some(going),
            rest: Bytes::new(),
            given_up: None,
            since: Some(now),
            looked: now,
            waited: Duration::ZERO,
            taken: 0,
            waker: None,
        }))
    }

    fn is_over(&self) -> bool {
        self.given_up.is_some() || (self.going.is_none() && self.rest.is_empty())
    }

    /// The caller hardly takes anything. A look after the pace's time begins anew.
    fn is_unread(&mut self, now: Instant) -> bool {
        if now.duration_since(self.looked) < PACE_TIME {
            return false;
        }
        let waits = self.since.map_or(Duration::ZERO, |since| now.duration_since(since.max(self.looked)));
        let unread = self.waited + waits + LOOK_EVERY >= PACE_TIME && self.taken < PACE_BYTES;
        (self.looked, self.waited, self.taken) = (now, Duration::ZERO, 0);
        unread
    }

    fn give_up(&mut self, end: End) {
        self.going = None;
        self.rest = Bytes::new();
        self.given_up = Some(end);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let now = Instant::now();
        if let Some(since) = self.since.take() {
            self.waited += now.duration_since(since.max(self.looked));
        }
        if let Some(end) = &mut self.given_up {
            return Poll::Ready(match std::mem::replace(end, End::Said) {
                End::Trailers(words) => Some(Ok(Frame::trailers(words))),
                End::Said => None,
                End::Broken => {
                    *end = End::Broken;
                    let why = "the answer was not read, or its key was revoked";
                    Some(Err(axum::Error::new(why)))
                }
            });
        }
        if self.rest.is_empty() {
            let Some(going) = &mut self.going else { return Poll::Ready(None) };
            match http_body::Body::poll_frame(Pin::new(&mut going.body), cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => {
                        self.since = Some(now);
                        return Poll::Ready(Some(Ok(trailers)));
                    }
                },
                Poll::Ready(None) => {
                    self.going = None;
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Pending => {
                    self.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
        }
        let bytes = self.rest.split_to(self.rest.len().min(PIECE));
        self.taken += bytes.len();
        self.since = Some(now);
        let room = self.going.as_ref().and_then(|going| going.room.clone());
        let piece = match room {
            Some(room) => Bytes::from_owner(Piece { bytes, _room: room }),
            None => bytes,
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

/// A body that is handed on in pieces, and can be taken back between them.
struct InPieces(Arc<Mutex<Flow>>);

fn locked(flow: &Mutex<Flow>) -> MutexGuard<'_, Flow> {
    flow.lock().unwrap_or_else(PoisonError::into_inner)
}

impl http_body::Body for InPieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        locked(&self.0).next(cx)
    }

    fn is_end_stream(&self) -> bool {
        let flow = locked(&self.0);
        flow.given_up.is_none()
            && flow.rest.is_empty()
            && flow.going.as_ref().is_none_or(|going| going.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let flow = locked(&self.0);
        let hint = flow.going.as_ref().map_or_else(SizeHint::default, |going| going.body.size_hint());
        hint.exact().map_or(hint, |left| SizeHint::with_exact(left + flow.rest.len() as u64))
    }
}

/// Small answers of one HTTP/2 connection on their way, which a caller can leave unread for ever. There are very many, so one task
/// looks after all of them. None: there is no task.
#[derive(Default)]
struct Small(Mutex<Option<Vec<Weak<Mutex<Flow>>>>>);

impl Small {
    fn look_after(self: &Arc<Self>, flow: &Arc<Mutex<Flow>>, line: Arc<Line>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_none() {
            let small = self.clone();
            tokio::spawn(async move {
                while small.look(&line) {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            });
        }
        all.get_or_insert_default().push(Arc::downgrade(flow));
    }

    /// Gives up those that are not read; false if there are none left.
    fn look(&self, line: &Line) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let goes_on = |flow: &Weak<Mutex<Flow>>| {
            let Some(flow) = flow.upgrade() else { return false };
            let mut flow = locked(&flow);
            if flow.is_over() {
                return false;
            }
            let is_unread = flow.is_unread(now);
            if is_unread {
                flow.give_up(End::Broken);
                line.left_unread(true);
            }
            !is_unread
        };
        let flows = all.get_or_insert_default();
        flows.retain(goes_on);
        let some = !flows.is_empty();
        if !some {
            *all = None;
        }
        some
    }
}

/// Looks after an answer until it is sent.
async fn watch(flow: Weak<Mutex<Flow>>, line: Arc<Line>, can_go_on: bool, receiver: Option<Receiver>) {
    let mut revoked: Option<Instant> = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if flow.strong_count() == 0 {
            return;
        }
        if let Some(Receiver { keyring, caller, .. }) = &receiver
            && keyring.has_revoked(caller).await
        {
            revoked.get_or_insert_with(Instant::now);
        }
        let Some(flow) = flow.upgrade() else { return };
        let mut flow = locked(&flow);
        if flow.is_over() {
            return;
        }
        let ends = |receiver: &&Receiver| revoked.is_some_and(|since| since.elapsed() >= receiver.grace);
        let ended = receiver.as_ref().filter(ends);
        if let Some(words) = ended.and_then(|receiver| receiver.words) {
            flow.give_up(End::Trailers(grpc::trailers(&words())));
            return;
        }
        if ended.is_some() || flow.is_unread(Instant::now()) {
            flow.give_up(End::Broken);
            line.left_unread(can_go_on);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;
    use crate::doors::test_line;
    use crate::rpc::{Answers, Budget};

    /// An answer of so many bytes, the room it takes, and its connection.
    fn answer(body: Body, version: Version) -> (InPieces, Arc<Answers>, Arc<Line>) {
        let (line, answers) = (test_line(), Arc::new(Answers::new(Budget::default())));
        let room = Some(answers.hold(None, 1 << 20).ok().unwrap());
        let flow = Flow::new(Going { body, _running: line.begins(), room });
        tokio::spawn(watch(Arc::downgrade(&flow), line.clone(), version >= Version::HTTP_2, None));
        (InPieces(flow), answers, line)
    }

    fn large() -> Body {
        Body::from(vec![7; 1 << 20])
    }

    async fn next(body: &mut InPieces) -> Option<Result<Frame<Bytes>, axum::Error>> {
        std::future::poll_fn(|cx| http_body::Body::poll_frame(Pin::new(&mut *body), cx)).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_or_only_drop_by_drop_gives_its_room_back() {
        for pause in [Duration::from_secs(100), Duration::from_secs(3)] {
            let (mut body, answers, line) = answer(large(), Version::HTTP_2);
            let began = Instant::now();
            let mut read = 0;
            while let Some(Ok(piece)) = next(&mut body).await {
                read += piece.into_data().unwrap().len();
                tokio::time::sleep(pause).await;
            }
            assert!(read < 512 << 10 && answers.is_empty(), "{read} bytes in {:?}", began.elapsed());
            assert!(line.is_idle(), "nothing goes on any more");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_read_comes_whole_and_one_that_has_nothing_to_say_yet_is_waited_for() {
        let (mut body, answers, _) = answer(large(), Version::HTTP_11);
        assert_eq!(http_body::Body::size_hint(&body).exact(), Some(1 << 20));
        let mut read = 0;
        while let Some(piece) = next(&mut body).await {
            read += piece.unwrap().into_data().unwrap().len();
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert_eq!(read, 1 << 20);
        drop(body);
        assert!(answers.is_empty());
        let said = futures::stream::iter([0]).then(|_| async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok::<_, Infallible>(Bytes::from_static(b"an event"))
        });
        let (mut body, _, _) = answer(Body::from_stream(said), Version::HTTP_2);
        assert_eq!(next(&mut body).await.unwrap().unwrap().into_data().unwrap(), "an event");
    }

    #[tokio::test]
    async fn what_was_handed_on_takes_its_room_until_it_is_written() {
        let (mut body, answers, _) = answer(large(), Version::HTTP_2);
        let mut unwritten = Vec::new();
        while let Some(piece) = next(&mut body).await {
            unwritten.push(piece.unwrap().into_data().unwrap());
        }
        drop(body);
        assert!(!answers.is_empty(), "HTTP/2 keeps what its caller does not read");
        unwritten.truncate(1);
        assert!(!answers.is_empty() && unwritten[0].iter().all(|byte| *byte == 7));
        drop(unwritten);
        assert!(answers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn small_answers_that_nobody_reads_are_given_up_and_the_ninth_ends_the_connection() {
        let small = |line: &Arc<Line>| {
            let router = Router::new().fallback(async || "a few bytes");
            let mut watched = Watched::new(router, line.clone());
            async move {
                let mut request = axum::http::Request::new(Body::empty());
                *request.version_mut() = Version::HTTP_2;
                watched.call(request).await.unwrap().into_body()
            }
        };
        let line = test_line();
        let mut read = small(&line).await;
        let next = std::future::poll_fn(|cx| http_body::Body::poll_frame(Pin::new(&mut read), cx));
        assert_eq!(next.await.unwrap().unwrap().into_data().unwrap(), "a few bytes");
        assert!(http_body::Body::is_end_stream(&read));
        drop(read);
        let mut held = vec![small(&line).await];
        assert!(!line.is_idle());
        tokio::time::sleep(PACE_TIME + 2 * LOOK_EVERY).await;
        assert!(line.is_idle(), "one whose answers nobody reads makes room for others");
        let over = tokio::time::timeout(Duration::from_secs(60), line.is_over(Duration::from_secs(600)));
        over.await.unwrap_err();
        for _ in 0..8 {
            held.push(small(&line).await);
        }
        let over = tokio::time::timeout(Duration::from_secs(60), line.is_over(Duration::from_secs(600)));
        assert!(over.await.unwrap().contains("did not read"));
    }

    #[tokio::test(start_paused = true)]
    async fn over_http_1_the_connection_ends_with_an_answer_that_nobody_reads() {
        let (_body, answers, line) = answer(large(), Version::HTTP_11);
        let over = tokio::time::timeout(Duration::from_secs(30), line.is_over(Duration::from_secs(600)));
        assert!(over.await.unwrap().contains("did not read"));
        assert!(answers.is_empty());
    }
}
