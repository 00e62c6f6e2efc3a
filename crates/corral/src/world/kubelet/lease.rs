//! The Lease by which a kubelet shows that its machine is alive.

use std::time::Duration;

use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};

use super::Machine;
use crate::world::outcome::{Action, Outcome};

pub const NAMESPACE: &str = "kube-node-lease";
const DURATION_SECONDS: i32 = 40;

pub fn renew(machine: &Machine, lease: Option<&Lease>, period: Duration, now: Timestamp) -> Outcome {
    if let Some(back) = machine.away_until(now) {
        return Outcome::wait_until(back);
    }
    let wake = Some(later(now, period));
    let Some(lease) = lease else {
        return Outcome { actions: vec![Action::CreateLease(Box::new(first(machine, now)))], wake };
    };
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
    if let Some(due) = renewed.map(|renewed| later(renewed, period)).filter(|due| now < *due) {
        return Outcome::wait_until(due);
    }
    let mut lease = lease.clone();
    lease.spec.get_or_insert_default().renew_time = Some(MicroTime(now));
    Outcome { actions: vec![Action::RenewLease(Box::new(lease))], wake }
}

fn first(machine: &Machine, now: Timestamp) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(machine.name.clone()),
            namespace: Some(NAMESPACE.into()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".into(),
                kind: "Node".into(),
                name: machine.name.clone(),
                uid: machine.uid.clone(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(machine.name.clone()),
            lease_duration_seconds: Some(DURATION_SECONDS),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;
    use crate::world::annotations::{DOWN_UNTIL, KUBELET, SIMULATED};

    const PERIOD: Duration = Duration::from_secs(10);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + seconds).unwrap()
    }

    fn machine(down_until: Option<Timestamp>) -> Machine {
        let mut node: Node = serde_json::from_value(
            json!({"metadata": {"name": "n1", "uid": "u1", "annotations": {KUBELET: SIMULATED}}}),
        )
        .unwrap();
        if let Some(moment) = down_until {
            node.metadata.annotations.as_mut().unwrap().insert(DOWN_UNTIL.into(), moment.to_string());
        }
        Machine::of(&node).unwrap()
    }

    #[test]
    fn a_lease_is_made_once_and_renewed_every_period() {
        let made = renew(&machine(None), None, PERIOD, at(0));
        let [Action::CreateLease(lease)] = &made.actions[..] else { panic!("a lease") };
        assert_eq!(made.wake, Some(at(10)));

        assert_eq!(renew(&machine(None), Some(lease), PERIOD, at(4)), Outcome::wait_until(at(10)));
        let renewed = renew(&machine(None), Some(lease), PERIOD, at(10));
        assert!(matches!(&renewed.actions[..], [Action::RenewLease(_)]));
        assert_eq!(renewed.wake, Some(at(20)));
    }

    #[test]
    fn a_machine_that_is_away_renews_nothing() {
        assert_eq!(renew(&machine(Some(at(60))), None, PERIOD, at(0)), Outcome::wait_until(at(60)));
    }
}
