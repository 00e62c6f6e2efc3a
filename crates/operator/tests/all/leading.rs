//! Who leads, on the embedded API server in virtual time.

use drover_operator::{Operator, OperatorOptions};
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{Cluster, NAMESPACE};

/// What these tests do with a cluster.
trait Leading {
    /// Starts an operator; it stops in order when the sender is used, and crashes when the task is aborted.
    fn operator(&self, name: &str) -> (JoinHandle<()>, oneshot::Sender<()>);
    /// The holder of the Lease, and how often it has changed.
    fn lease(&self) -> (String, i32);
}

impl Leading for Cluster {
    fn operator(&self, name: &str) -> (JoinHandle<()>, oneshot::Sender<()>) {
        let (stop, stopped) = oneshot::channel();
        let operator = Operator::new(self.server.client(name), OperatorOptions::new(NAMESPACE, name, self.clock));
        let stopped = async move { drop(stopped.await) };
        (tokio::spawn(operator.run(stopped)), stop)
    }

    fn lease(&self) -> (String, i32) {
        let lease = self.user.get::<Lease>(Some(NAMESPACE), "system-upgrade-controller").unwrap();
        let spec = lease.and_then(|lease| lease.spec).unwrap_or_default();
        (spec.holder_identity.unwrap_or_default(), spec.lease_transitions.unwrap_or_default())
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_operator_waits_for_as_long_as_the_first_renews() {
    let cluster = Cluster::new();
    let (_first, _stop) = cluster.operator("first");
    cluster.pass(1).await;
    let (_second, _stop_second) = cluster.operator("second");
    cluster.pass(600).await;
    assert_eq!(cluster.lease(), ("first".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_crashed_leader_is_followed_when_its_lease_has_lapsed_and_not_before() {
    let cluster = Cluster::new();
    let (first, _stop) = cluster.operator("first");
    cluster.pass(5).await;
    let (_second, _stop_second) = cluster.operator("second");
    cluster.pass(5).await;
    first.abort();
    cluster.pass(12).await;
    assert_eq!(cluster.lease().0, "first");
    cluster.pass(8).await;
    assert_eq!(cluster.lease(), ("second".to_owned(), 1));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_in_order_gives_the_lease_back_at_once() {
    let cluster = Cluster::new();
    let (first, stop) = cluster.operator("first");
    cluster.pass(5).await;
    let (_second, _stop_second) = cluster.operator("second");
    cluster.pass(5).await;
    stop.send(()).unwrap();
    first.await.unwrap();
    assert_eq!(cluster.lease().0, "");
    cluster.pass(3).await;
    assert_eq!(cluster.lease().0, "second");
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_another_machine_is_not_believed() {
    let cluster = Cluster::new();
    // A holder whose clock is a day late, and who renews all the same.
    let lease = json!({
        "metadata": { "name": "system-upgrade-controller", "namespace": NAMESPACE },
        "spec": { "holderIdentity": "late", "leaseDurationSeconds": 15, "renewTime": "2025-12-31T12:00:00.000000Z", "leaseTransitions": 3 },
    });
    let mut lease = cluster.user.create(&serde_json::from_value::<Lease>(lease).unwrap()).unwrap();
    let (_operator, _stop) = cluster.operator("first");
    for renewal in 1..=30 {
        cluster.pass(2).await;
        let time = format!("2025-12-31T12:{renewal:02}:00.000000Z");
        lease.spec.as_mut().unwrap().renew_time = serde_json::from_value(json!(time)).unwrap();
        lease = cluster.user.update(&lease).unwrap();
        assert_eq!(cluster.lease().0, "late");
    }
    cluster.pass(20).await;
    assert_eq!(cluster.lease(), ("first".to_owned(), 4));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_polled_but_the_lease() {
    let cluster = Cluster::new();
    let (_first, _stop) = cluster.operator("first");
    cluster.pass(3600).await;
    // A renewal is a read and a write every two seconds; nothing else is polled.
    let version = cluster.user.get::<Lease>(Some(NAMESPACE), "system-upgrade-controller").unwrap().unwrap();
    let version: u64 = version.metadata.resource_version.unwrap().parse().unwrap();
    assert!(version < 1900, "{version} writes in an hour");
}
