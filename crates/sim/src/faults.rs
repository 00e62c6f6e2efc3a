//! Faults between an operator and the API server, each at the n-th write of the run.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use drover_clock::Clock;
use drover_corral::apiserver::{ApiBody, ApiServer, ApiService};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use jiff::Timestamp;
use kube::client::Body;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;
use tower::Service;

/// What happens to one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// The operator dies; the write is never sent.
    CrashBefore,
    /// The write is done; the operator dies before it hears of it.
    CrashAfter,
    /// The operator dies; the write lands when its successors have made this many writes.
    LandsAfter(usize),
    /// The operator dies; the write lands when the upgrade is over.
    LandsAtTheEnd,
    /// The server answers with this code and does nothing.
    Refused(u16),
    /// No answer comes; the write did not happen.
    LostBefore,
    /// No answer comes; the write happened.
    LostAfter,
    /// The operator is frozen for a minute, its write under way; then it goes on, and so does the write.
    Suspended,
    /// Every watch is cut after this write.
    WatchesCut,
    /// The server goes away for a minute instead of taking this write: watches are cut, and every request is refused.
    ServerAway,
    /// Every watch is cut after this write, and where they stood is forgotten: they are answered 410.
    WatchesExpired,
}

impl Fault {
    /// Those that are tried at every write. Where a late write lands is a dimension of its own.
    pub const AT_EVERY_WRITE: [Fault; 12] = [
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::LandsAtTheEnd,
        Fault::Refused(409),
        Fault::Refused(429),
        Fault::Refused(500),
        Fault::LostBefore,
        Fault::LostAfter,
        Fault::Suspended,
        Fault::ServerAway,
        Fault::WatchesCut,
        Fault::WatchesExpired,
    ];
}

/// What is done to the write, which is 'it'.
impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::CrashBefore => f.write_str("the operator dies before it is sent"),
            Fault::CrashAfter => f.write_str("the operator dies after it, and before it hears of it"),
            Fault::LandsAfter(1) => f.write_str("the operator dies, and it lands 1 write later"),
            Fault::LandsAfter(count) => write!(f, "the operator dies, and it lands {count} writes later"),
            Fault::LandsAtTheEnd => f.write_str("the operator dies, and it lands when all is over"),
            Fault::Refused(code) => write!(f, "it is refused with {code}"),
            Fault::LostBefore => f.write_str("it does not happen and is never answered"),
            Fault::LostAfter => f.write_str("it happens and is never answered"),
            Fault::Suspended => f.write_str("the operator is frozen for a minute in the middle of it"),
            Fault::ServerAway => f.write_str("the server goes away for a minute instead of taking it"),
            Fault::WatchesCut => f.write_str("all watches are cut after it"),
            Fault::WatchesExpired => f.write_str("all watches are cut after it and answered 410"),
        }
    }
}

/// Which faults happen at which write, counted over the whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Schedule {
    pub faults: BTreeMap<usize, Fault>,
    /// A second operator that leads at the same time, because it looks at another Lease; it starts after so many ms.
    pub second_leader_after: Option<u64>,
}

impl Schedule {
    pub fn one(write: usize, fault: Fault) -> Self {
        Schedule { faults: [(write, fault)].into(), second_leader_after: None }
    }
}

/// The server's own answer, or one that the gate gives in its place.
type GatedBody = Either<ApiBody, Full<Bytes>>;

/// How long an operator is suspended, or the server away.
const A_MINUTE: Duration = Duration::from_secs(60);

/// What the operators' writes meet, shared by all of them.
#[derive(Clone)]
pub struct Gate {
    server: ApiServer,
    clock: Clock,
    shared: Arc<Mutex<Shared>>,
    /// Where the death of an operator is told.
    deaths: UnboundedSender<String>,
}

struct Shared {
    schedule: Schedule,
    writes: usize,
    held: Vec<Held>,
    /// Operators that are suspended until then.
    frozen: BTreeMap<String, Timestamp>,
    /// The server is away until then.
    away: Option<Timestamp>,
}

struct Held {
    lands_at: Option<usize>,
    request: Request<Body>,
    operator: String,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Gate {
    pub fn new(server: ApiServer, clock: Clock, schedule: Schedule, deaths: UnboundedSender<String>) -> Self {
        let shared = Shared { schedule, writes: 0, held: Vec::new(), frozen: BTreeMap::new(), away: None };
        Gate { server, clock, shared: Arc::new(Mutex::new(shared)), deaths }
    }

    /// A client whose writes pass this gate.
    pub fn client(&self, operator: &str) -> kube::Client {
        let service =
            GatedService { gate: self.clone(), inner: self.server.service(operator), operator: operator.to_owned() };
        kube::Client::new(service, "default")
    }

    pub fn writes(&self) -> usize {
        self.shared().writes
    }

    /// Lets every write go that was held back, wherever it was to land.
    pub async fn land_all(&self) -> usize {
        let held = std::mem::take(&mut self.shared().held);
        let count = held.len();
        for held in held {
            self.land(held).await;
        }
        count
    }

    async fn land(&self, held: Held) {
        // Nobody is left to read the answer.
        let _ = self.server.service(&held.operator).call(held.request).await;
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one write; tells its fault and the held writes that land before it.
    fn next_write(&self) -> (Option<Fault>, Vec<Held>) {
        let mut shared = self.shared();
        let number = shared.writes;
        shared.writes += 1;
        let fault = shared.schedule.faults.get(&number).copied();
        let held = std::mem::take(&mut shared.held);
        let (due, rest) = held.into_iter().partition(|held| held.lands_at.is_some_and(|at| at <= number));
        shared.held = rest;
        (fault, due)
    }

    fn hold(&self, lands_after: Option<usize>, request: Request<Body>, operator: &str) {
        let mut shared = self.shared();
        let lands_at = lands_after.map(|count| shared.writes + count);
        shared.held.push(Held { lands_at, request, operator: operator.to_owned() });
    }

    fn kill(&self, operator: &str) {
        // The run may be over.
        let _ = self.deaths.send(operator.to_owned());
    }

    async fn pass(&self, mut inner: ApiService, operator: String, request: Request<Body>) -> Response<GatedBody> {
        let thawed = self.shared().frozen.get(&operator).copied();
        if let Some(thawed) = thawed {
            self.clock.sleep_until(thawed).await;
        }
        if self.shared().away.is_some_and(|until| self.clock.now() < until) {
            return refusal(503);
        }
        if request.method() == Method::GET {
            return answer(&mut inner, request).await;
        }
        let (fault, due) = self.next_write();
        for held in due {
            self.land(held).await;
        }
        match fault {
            None => answer(&mut inner, request).await,
            Some(Fault::CrashBefore) => {
                self.kill(&operator);
                std::future::pending().await
            }
            Some(Fault::CrashAfter) => {
                answer(&mut inner, request).await;
                self.kill(&operator);
                std::future::pending().await
            }
            Some(Fault::LandsAfter(count)) => {
                self.hold(Some(count), request, &operator);
                self.kill(&operator);
                std::future::pending().await
            }
            Some(Fault::LandsAtTheEnd) => {
                self.hold(None, request, &operator);
                self.kill(&operator);
                std::future::pending().await
            }
            Some(Fault::Refused(code)) => refusal(code),
            Some(Fault::LostBefore) => std::future::pending().await,
            Some(Fault::LostAfter) => {
                answer(&mut inner, request).await;
                std::future::pending().await
            }
            Some(Fault::Suspended) => {
                let thawed = drover_clock::later(self.clock.now(), A_MINUTE);
                self.shared().frozen.insert(operator, thawed);
                self.clock.sleep_until(thawed).await;
                answer(&mut inner, request).await
            }
            Some(Fault::ServerAway) => {
                self.shared().away = Some(drover_clock::later(self.clock.now(), A_MINUTE));
                self.server.cut_watches(None);
                refusal(503)
            }
            Some(Fault::WatchesCut) => {
                let response = answer(&mut inner, request).await;
                self.server.cut_watches(None);
                response
            }
            Some(Fault::WatchesExpired) => {
                let response = answer(&mut inner, request).await;
                self.server.compact();
                self.server.cut_watches(None);
                response
            }
        }
    }
}

async fn answer(inner: &mut ApiService, request: Request<Body>) -> Response<GatedBody> {
    match inner.call(request).await {
        Ok(response) => response.map(Either::Left),
        Err(error) => match error {},
    }
}

fn refusal(code: u16) -> Response<GatedBody> {
    let reason = match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("injected {reason}"), "reason": reason, "code": code,
    });
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(status.to_string()))));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

#[derive(Clone)]
struct GatedService {
    gate: Gate,
    inner: ApiService,
    operator: String,
}

impl Service<Request<Body>> for GatedService {
    type Response = Response<GatedBody>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (gate, inner, operator) = (self.gate.clone(), self.inner.clone(), self.operator.clone());
        Box::pin(async move { Ok(gate.pass(inner, operator, request).await) })
    }
}
