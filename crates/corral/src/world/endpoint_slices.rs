//! EndpointSlices: where the pods behind a Service can be reached.
//!
//! Models `pkg/controller/endpointslice` of Kubernetes 1.34 for Services with a selector and IPv4 addresses. Left out:
//! topology hints, and the thrift with which the original fills slices that have room.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::agenda::Key;
use super::kubelet::{digest, hex};
use super::notes::PodNote;
use super::outcome::{Action, Outcome};
use super::pods;
use super::workloads::template::controlled_by;

const MOST_ENDPOINTS: usize = 100;
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpointslice-controller.k8s.io";

/// Makes the slices of a Service say where its pods are, given one of them to look up named ports in.
pub fn reconcile(
    service: &Service,
    selected: &[(&Key, &PodNote)],
    example: Option<&Pod>,
    known: Vec<EndpointSlice>,
    _now: Timestamp,
) -> Outcome {
    if service.metadata.deletion_timestamp.is_some() {
        return Outcome::nothing();
    }
    let spec = service.spec.clone().unwrap_or_default();
    let publishes_all = spec.publish_not_ready_addresses == Some(true);
    let endpoints: Vec<Endpoint> = selected.iter().filter_map(|(key, pod)| endpoint(key, pod, publishes_all)).collect();
    let ports = ports(service, example);
    let mut actions = Vec::new();
    let mut wanted: Vec<EndpointSlice> = endpoints
        .chunks(MOST_ENDPOINTS)
        .enumerate()
        .map(|(number, endpoints)| slice(service, number, endpoints.to_vec(), ports.clone()))
        .collect();
    if wanted.is_empty() {
        wanted.push(slice(service, 0, Vec::new(), ports));
    }
    for slice in &wanted {
        let before = known.iter().find(|known| known.metadata.name == slice.metadata.name);
        match before {
            None => actions.push(Action::CreateSlice(Box::new(slice.clone()))),
            Some(before) if before.endpoints != slice.endpoints || before.ports != slice.ports => {
                let metadata = before.metadata.clone();
                actions.push(Action::UpdateSlice(Box::new(EndpointSlice { metadata, ..slice.clone() })));
            }
            Some(_) => {}
        }
    }
    let needless = known.iter().filter(|known| !wanted.iter().any(|slice| slice.metadata.name == known.metadata.name));
    actions.extend(needless.map(|slice| Action::DeleteSlice {
        namespace: pods::namespace(&slice.metadata).into(),
        name: pods::name(&slice.metadata).into(),
        uid: pods::uid(&slice.metadata).into(),
    }));
    Outcome::act(actions)
}

/// A pod that has an address and has not ended. One that is leaving serves on as long as it is ready.
fn endpoint(key: &Key, pod: &PodNote, publishes_all: bool) -> Option<Endpoint> {
    let address = pod.ip.clone().filter(|_| !pod.has_ended())?;
    Some(Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(publishes_all || (pod.ready && !pod.leaving)),
            serving: Some(publishes_all || pod.ready),
            terminating: Some(pod.leaving),
        }),
        node_name: pod.node.clone(),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".into()),
            namespace: Some(key.0.clone()),
            name: Some(key.1.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    })
}

fn ports(service: &Service, example: Option<&Pod>) -> Option<Vec<EndpointPort>> {
    let ports = service.spec.as_ref()?.ports.as_ref()?;
    let named = |name: &str| {
        let containers = example.and_then(|pod| pod.spec.as_ref()).map(|spec| spec.containers.as_slice());
        let mut all = containers.unwrap_or_default().iter().flat_map(|container| container.ports.iter().flatten());
        all.find(|port| port.name.as_deref() == Some(name)).map(|port| port.container_port)
    };
    let found = ports.iter().filter_map(|port| {
        let number = match &port.target_port {
            Some(IntOrString::Int(number)) if *number != 0 => *number,
            Some(IntOrString::String(name)) => named(name)?,
            _ => port.port,
        };
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(number),
            protocol: port.protocol.clone().or(Some("TCP".into())),
            app_protocol: port.app_protocol.clone(),
        })
    });
    Some(found.collect())
}

fn slice(
    service: &Service,
    number: usize,
    endpoints: Vec<Endpoint>,
    ports: Option<Vec<EndpointPort>>,
) -> EndpointSlice {
    let name = pods::name(&service.metadata);
    let suffix = hex(&digest(&[pods::uid(&service.metadata), &number.to_string()])[..3]);
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.into(), name.into());
    labels.insert(MANAGED_BY.into(), CONTROLLER.into());
    EndpointSlice {
        metadata: ObjectMeta {
            name: Some(format!("{name}-{suffix}")),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controlled_by(service)]),
            ..ObjectMeta::default()
        },
        address_type: "IPv4".into(),
        endpoints,
        ports,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(ports: Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "ns", "uid": "s"},
            "spec": {"selector": {"app": "web"}, "ports": ports},
        }))
        .unwrap()
    }

    fn pod(name: &str, extra: Value) -> (Key, PodNote, Pod) {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        json_patch::merge(&mut pod, &extra);
        let pod: Pod = serde_json::from_value(pod).unwrap();
        (("ns".into(), name.into()), PodNote::of(&pod), pod)
    }

    fn looked(service: &Service, pods: &[(Key, PodNote, Pod)], known: Vec<EndpointSlice>) -> Vec<Action> {
        let notes: Vec<(&Key, &PodNote)> = pods.iter().map(|(key, note, _)| (key, note)).collect();
        let example = pods.first().map(|(_, _, pod)| pod);
        reconcile(service, &notes, example, known, Timestamp::UNIX_EPOCH).actions
    }

    #[test]
    fn a_service_says_where_its_pods_are_and_which_of_them_are_ready() {
        let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}});
        let pods = [pod("a", json!({})), pod("b", leaving), pod("c", json!({"status": {"podIP": null}}))];

        let actions = looked(&service(json!([{"port": 80, "targetPort": "http"}])), &pods, Vec::new());

        let [Action::CreateSlice(slice)] = &actions[..] else { panic!("one slice, not {actions:?}") };
        assert_eq!(slice.ports.as_ref().unwrap()[0].port, Some(8080));
        let said: Vec<(Option<bool>, Option<bool>)> = slice
            .endpoints
            .iter()
            .map(|endpoint| endpoint.conditions.as_ref().unwrap())
            .map(|conditions| (conditions.ready, conditions.terminating))
            .collect();
        assert_eq!(said, [(Some(true), Some(false)), (Some(false), Some(true))]);
        assert_eq!(looked(&service(json!([{"port": 80, "targetPort": "http"}])), &pods, vec![(**slice).clone()]), []);
    }

    #[test]
    fn many_pods_need_several_slices() {
        let pods: Vec<_> = (0..150).map(|number| pod(&format!("p{number:03}"), json!({}))).collect();
        assert_eq!(looked(&service(json!([{"port": 80}])), &pods, Vec::new()).len(), 2);
    }
}
