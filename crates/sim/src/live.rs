//! What happens to a cluster that is served, at its moments: everything but what is done to an operator's requests,
//! which go elsewhere, or in guest clusters, which are not served.

use std::sync::Mutex;

use drover_corral::apiserver::ApiServer;
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

use crate::acts;
use crate::faults::{Fault, Moment};
use crate::guests::Servers;
use crate::scenario::Scenario;
use crate::scenario::pattern::Pattern;

/// Lets what the scenario says happen, until all of it has.
pub async fn play(server: ApiServer, scenario: Scenario) {
    let mut awaited = Vec::new();
    let mut tasks = JoinSet::new();
    for incident in scenario.faults.into_iter().filter(|incident| !incident.what.is_done_to_a_write()) {
        match incident.at {
            Moment::Once(pattern) => awaited.push((pattern, incident.what)),
            Moment::Time(span) => {
                let server = server.clone();
                tasks.spawn(async move {
                    server.clock().sleep(span.0).await;
                    acts::perform(&incident.what, &server, &Servers::new()).await;
                });
            }
            // The writes of an operator that runs elsewhere are not counted.
            Moment::Write(_) | Moment::Purpose(_) => {}
        }
    }
    let (met, mut once) = unbounded_channel();
    let mut left = awaited.len();
    let awaited: Mutex<Vec<(Pattern, Fault)>> = Mutex::new(awaited);
    server.observe(Box::new(move |commit| {
        let Ok(mut awaited) = awaited.lock() else { return };
        let Some(after) = commit.after.filter(|_| !awaited.is_empty()) else { return };
        let Ok(object) = serde_json::from_slice::<Value>(after) else { return };
        let kind = commit.resource.kind.as_str();
        let is_so = |(pattern, _): &(Pattern, Fault)| pattern.fits(kind, commit.namespace, commit.name, &object);
        while let Some(index) = awaited.iter().position(is_so) {
            // Nobody may wait for it any more.
            let _ = met.send(awaited.remove(index).1);
        }
    }));
    while left > 0 {
        let Some(fault) = once.recv().await else { break };
        acts::perform(&fault, &server, &Servers::new()).await;
        left -= 1;
    }
    while tasks.join_next().await.is_some() {}
}
