//! One request of an operator, or of a program in a pod, and what happens to it and to its answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use drover_clock::later;
use drover_corral::apiserver::{ApiServer, ApiService};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use jiff::SignedDuration;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tower::Service;

use super::asked::Asked;
use super::body::{GatedBody, GatedWatch};
use super::{A_MINUTE, AN_HOUR, Gate, Held, IN_A_MOMENT, LAG, Order, Passenger, STALE, webhook};
use crate::faults::{Fault, Mishap};
use crate::programs;
use crate::sabotage::Verdict;

/// One request on its way.
pub(super) struct Exchange<'a> {
    pub gate: &'a Gate,
    pub server: ApiServer,
    pub inner: ApiService,
    pub operator: String,
    pub head: Parts,
    pub body: Bytes,
    pub asked: Asked,
}

impl Exchange<'_> {
    pub async fn read(self) -> Response<GatedBody> {
        if matches!(self.gate.passenger, Passenger::Operator)
            && self.asked.is_list()
            && self.server.is_same_as(&self.gate.server)
            && let Some(list) = self.gate.stale_list(&self.head.uri.to_string())
        {
            return whole(StatusCode::OK, list);
        }
        self.answer().await
    }

    pub async fn write(mut self) -> Response<GatedBody> {
        let gate = self.gate;
        if let Passenger::Program(deaths) = &gate.passenger {
            return self.write_of_program(deaths).await;
        }
        let (purpose, mut faults, due) = gate.shared().next_write(&self.asked);
        let state = gate.record().note_write(&purpose);
        gate.shared().dies_again(&mut faults, (state, purpose.clone()));
        for held in due {
            gate.land(held).await;
        }
        if let Some(answer) = self.spoil(&purpose).await {
            return answer;
        }
        let (done_to_it, acts): (Vec<Fault>, Vec<Fault>) = faults.into_iter().partition(Fault::is_done_to_a_write);
        for act in &acts {
            gate.happen(act).await;
        }
        match done_to_it.into_iter().next() {
            None => self.answer().await,
            Some(fault) => {
                gate.tell(&fault);
                self.suffer(fault).await
            }
        }
    }

    /// A write of a program in a pod, which may die here.
    async fn write_of_program(mut self, deaths: &UnboundedSender<()>) -> Response<GatedBody> {
        let gate = self.gate;
        let purpose = self.asked.by_itself();
        if let Some(answer) = self.spoil(&purpose).await {
            return answer;
        }
        let state = gate.record().state();
        let Some(mishap) = gate.shared().to_programs.as_mut().and_then(|again| again.strikes((state, purpose))) else {
            return self.answer().await;
        };
        let (now, what) = (gate.clock.now(), format!("{} {}", self.head.method, self.head.uri.path()));
        gate.record().story.fault(now, format!("{what} of {}: {mishap}", self.operator));
        gate.trouble(programs::RESTART);
        match mishap {
            Mishap::Refused(code) => return refusal(code),
            Mishap::DiesBefore | Mishap::LostBefore => {}
            Mishap::DiesAfter | Mishap::LostAfter => drop(self.answer().await),
        }
        if matches!(mishap, Mishap::DiesBefore | Mishap::DiesAfter) {
            // Its kubelet may have ended it meanwhile.
            let _ = deaths.send(());
        }
        std::future::pending().await
    }

    /// Does what a planted bug does to a write; none if it goes on.
    async fn spoil(&mut self, purpose: &str) -> Option<Response<GatedBody>> {
        let sabotage = self.gate.sabotage?;
        match sabotage.rewrite(purpose, &mut self.asked, &self.server, &self.gate.server) {
            Verdict::Pass => {}
            Verdict::Changed => self.body = Bytes::from(self.asked.body.to_string()),
            Verdict::Pretend(body) => return Some(whole(StatusCode::OK, Bytes::from(body.to_string()))),
            Verdict::Also(copy) => {
                let body = Bytes::from(copy.to_string());
                let Ok(_) = self.inner.clone().call(request(self.head.clone(), body)).await;
            }
        }
        None
    }

    async fn suffer(self, fault: Fault) -> Response<GatedBody> {
        let gate = self.gate;
        gate.trouble(match fault {
            Fault::Suspended | Fault::Overtaken | Fault::ServerAway | Fault::Forbidden => A_MINUTE,
            Fault::WatchesLag | Fault::KindLags(_) => LAG,
            Fault::StaleLists => STALE,
            Fault::ClockSetAhead | Fault::ClockSetBack => IN_A_MOMENT,
            _ => Duration::ZERO,
        });
        let operator = self.operator.clone();
        let clock = |clock_off, after| gate.order(Order::Died { operator: operator.clone(), clock_off, after });
        let died = || clock(SignedDuration::ZERO, Duration::ZERO);
        match fault {
            Fault::CrashBefore => died(),
            Fault::CrashAfter => {
                self.answer().await;
                died();
            }
            Fault::LandsAfter(count) => {
                gate.hold(Some(count), self.server, self.head, self.body, &operator);
                died();
            }
            Fault::LandsAtTheEnd => {
                gate.hold(None, self.server, self.head, self.body, &operator);
                died();
            }
            Fault::ClockAhead => clock(AN_HOUR, Duration::ZERO),
            Fault::ClockBehind => clock(-AN_HOUR, Duration::ZERO),
            Fault::ClockSetAhead => clock(AN_HOUR, IN_A_MOMENT),
            Fault::ClockSetBack => clock(-AN_HOUR, IN_A_MOMENT),
            Fault::StaleLists => {
                gate.freeze_lists(&operator).await;
                self.answer().await;
                died();
            }
            Fault::Suspended => self.freeze(),
            Fault::Overtaken => {
                gate.order(Order::StandIn { operator });
                self.freeze();
            }
            Fault::LostBefore => {}
            Fault::LostAfter => drop(self.answer().await),
            Fault::Refused(code) => return refusal(code),
            fault => return self.bear(fault).await,
        }
        // Nobody is left to hear it, or nothing comes.
        std::future::pending().await
    }

    /// The operator does nothing for a minute. What it was about to send leaves when it goes on: nobody waits for the answer any more, and
    /// another may lead by then.
    fn freeze(self) {
        let gate = self.gate.clone();
        let thawed = later(gate.clock.now(), A_MINUTE);
        gate.shared().frozen.insert(self.operator.clone(), thawed);
        let held =
            Held { server: self.server, lands_at: None, head: self.head, body: self.body, operator: self.operator };
        tokio::spawn(async move {
            gate.clock.sleep_until(thawed).await;
            gate.land(held).await;
        });
    }

    /// Those that are answered in the end.
    async fn bear(self, fault: Fault) -> Response<GatedBody> {
        let gate = self.gate;
        match fault {
            Fault::Replaced => {
                let operator = self.operator.clone();
                let response = self.answer().await;
                gate.order(Order::Replace { operator });
                response
            }
            Fault::ServerAway => {
                gate.shared().away = Some(later(gate.clock.now(), A_MINUTE));
                gate.server.cut_watches(None);
                refusal(503)
            }
            Fault::Forbidden => {
                gate.forbid(&self.asked);
                refusal(403)
            }
            Fault::WatchesCut => {
                let response = self.answer().await;
                gate.server.cut_watches(None);
                response
            }
            Fault::WatchesExpired => {
                let response = self.answer().await;
                gate.server.compact();
                gate.server.cut_watches(None);
                response
            }
            Fault::WatchesLag | Fault::KindLags(_) => {
                let until = later(gate.clock.now(), LAG);
                let kind = match fault {
                    Fault::KindLags(kind) => Some(kind.plural()),
                    _ => None,
                };
                gate.shared().lagging.insert(kind, until);
                self.answer().await
            }
            _ => self.answer().await,
        }
    }

    /// The server's answer, as the operator is to see it.
    async fn answer(mut self) -> Response<GatedBody> {
        if matches!(self.gate.passenger, Passenger::Operator)
            && let Some((code, why)) = webhook::refusal(&self.server, &self.asked)
        {
            let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return whole(code, Bytes::from(webhook::status(code.as_u16(), &why).to_string()));
        }
        let Ok(response) = self.inner.call(request(self.head, self.body)).await;
        let sabotage = self.gate.sabotage.filter(|sabotage| sabotage.changes_answers(&self.asked));
        let (head, body) = response.into_parts();
        let body = if self.asked.is_watch && head.status.is_success() {
            let rewrite = sabotage.map(|sabotage| sabotage.rewriting_lines(&self.asked));
            GatedBody::Watch(Box::new(GatedWatch {
                inner: body,
                gate: self.gate.clone(),
                operator: self.operator,
                plural: self.asked.plural,
                rewrite,
                pause: None,
                begun: BytesMut::new(),
                ready: Default::default(),
            }))
        } else {
            let Ok(collected) = body.collect().await;
            let bytes = collected.to_bytes();
            let bytes = match sabotage {
                Some(sabotage) => sabotage.rewrite_answer(&self.asked, &bytes),
                None => bytes,
            };
            GatedBody::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
        };
        Response::from_parts(head, body)
    }
}

pub(super) fn request(head: Parts, body: Bytes) -> Request<Body> {
    Request::from_parts(head, Body::from(body))
}

fn whole(code: StatusCode, body: Bytes) -> Response<GatedBody> {
    let mut response = Response::new(GatedBody::Whole(Some(body)));
    *response.status_mut() = code;
    response
}

pub(super) fn refusal(code: u16) -> Response<GatedBody> {
    let reason = match code {
        403 => "Forbidden",
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let mut status: Value = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("injected {reason}"), "reason": reason, "code": code,
    });
    let again = matches!(code, 429 | 503);
    if again {
        status["details"] = json!({ "retryAfterSeconds": 1 });
    }
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = whole(code, Bytes::from(status.to_string()));
    if again {
        response.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    response
}
