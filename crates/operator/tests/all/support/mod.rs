//! The ground that the tests of the operator stand on: an embedded API server in virtual time, without a world.

pub mod refusing;

use std::time::Duration;

use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Direct, Options};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::json;

pub const NAMESPACE: &str = "system-upgrade";

pub struct Cluster {
    pub server: ApiServer,
    pub user: Direct,
    pub clock: Clock,
}

impl Cluster {
    /// A server with the namespace and the definition of Plan.
    pub fn new() -> Self {
        let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::from_millis(1), watch_window: 1000 });
        let user = server.direct("user");
        let namespace = json!({ "metadata": { "name": NAMESPACE } });
        user.create(&serde_json::from_value::<Namespace>(namespace).unwrap()).unwrap();
        for definition in drover_api::crds::of(drover_api::crds::Controller::Plan) {
            user.create(&definition).unwrap();
        }
        Cluster { server, user, clock }
    }

    pub async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }
}
