//! A live cluster: the lists of every kind that is served, and the looks beyond objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use drover_api::cluster_api::secrets;
use drover_clock::Clock;
use drover_core::cluster::{Cause, Cluster, FOLLOWED, INSIDE, ObjectRef, RESOURCES, Resource, Unseen};
use futures::StreamExt;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{kubelets, metrics, pages, servers};
use crate::api::{Api, ApiError};
use crate::connect::connect_with;
use crate::guest::kubeconfig_of;

/// Requests that are under way at the same time.
const AT_ONCE: usize = 8;

/// Kubelets are asked for so long in all: where none can be reached, a thousand of them would take half an hour.
const LIMIT: Duration = Duration::from_secs(60);

/// What comes in: decoded where it arrives, so that the text of a large list is gone before the next page.
pub enum Arrival {
    Object(String),
    /// One of a list, which says of what it is.
    Item {
        api_version: Arc<str>,
        kind: &'static str,
        text: String,
    },
    SecretMetadata(String),
    Unseen(Unseen),
}

pub type Desk = UnboundedSender<Arrival>;

pub async fn look(client: Client, clock: &Clock) -> Cluster {
    let api = Api::new(client, *clock);
    let mut cluster = Cluster::new(clock.now());
    let served = match groups(&api).await {
        Ok(served) => served,
        Err(error) => {
            // Without discovery the kinds of Kubernetes itself are still where they always are.
            cluster.unseen.push(Unseen { kind: "APIGroup".to_owned(), object: None, cause: cause(&error) });
            BTreeMap::new()
        }
    };
    let (asked, known) = (&api, &served);
    fill(&mut cluster, |desk| async move {
        let lists = RESOURCES.iter().map(|resource| list(asked, resource, known, desk.clone()));
        futures::stream::iter(lists).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    })
    .await;
    let further = follow_up(&cluster);
    let further = &further;
    fill(&mut cluster, |desk| async move {
        tokio::join!(
            within(clock.on_the_wall(LIMIT), "Kubelet", &desk, kubelets::look(asked, &further.nodes, desk.clone())),
            servers::look(&further.servers, "ServerCertificate", desk.clone()),
            servers::look(&further.kubelets, "KubeletCertificate", desk.clone()),
            metrics::look(asked, desk.clone()),
            contents(asked, &further.plan_namespaces, desk.clone()),
            leases(asked, &further.plan_namespaces, desk.clone()),
            behind_machines(asked, known, &further.behind_machines, desk.clone()),
        );
    })
    .await;
    cluster
}

/// Looks at some kinds only. What lies beyond objects is left out where it does not answer within `limit`.
pub async fn look_at(client: Client, clock: &Clock, kinds: &BTreeSet<&str>, limit: Duration) -> Cluster {
    let api = Api::new(client, *clock);
    let mut cluster = Cluster::new(clock.now());
    // The addresses of API servers stand in their EndpointSlice, the names of kubelets are those of nodes.
    let is_asked = |resource: &&Resource| {
        kinds.contains(resource.kind)
            || resource.kind == "EndpointSlice" && kinds.contains("ServerCertificate")
            || resource.kind == "Node" && kinds.contains("Kubelet")
    };
    let asked: Vec<&Resource> = RESOURCES.iter().filter(is_asked).collect();
    let served = match asked.iter().all(|resource| resource.is_built_in()) {
        true => BTreeMap::new(),
        false => groups(&api).await.unwrap_or_else(|error| {
            let miss = |kind: &&str| Unseen { kind: (*kind).to_owned(), object: None, cause: cause(&error) };
            cluster.unseen.extend(kinds.iter().map(miss));
            BTreeMap::new()
        }),
    };
    let (api, served) = (&api, &served);
    fill(&mut cluster, |desk| async move {
        let mut lists = Vec::new();
        for resource in asked {
            lists.push(list(api, resource, served, desk.clone()));
        }
        futures::stream::iter(lists).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    })
    .await;
    let further = &follow_up(&cluster);
    let nodes: &[String] = if kinds.contains("Kubelet") { &further.nodes } else { &[] };
    let dials = kinds.contains("ServerCertificate");
    let limit = clock.on_the_wall(limit);
    fill(&mut cluster, |desk| async move {
        let kubelets = within(limit, "Kubelet", &desk, kubelets::look(api, nodes, desk.clone()));
        let certificates = async {
            if dials {
                let dialled = servers::look(&further.servers, "ServerCertificate", desk.clone());
                within(limit, "ServerCertificate", &desk, dialled).await;
            }
        };
        tokio::join!(kubelets, certificates);
    })
    .await;
    cluster
}

/// Looks for so long; what has not come by then was not seen.
async fn within(limit: Duration, kind: &str, desk: &Desk, look: impl Future<Output = ()>) {
    if tokio::time::timeout(limit, look).await.is_err() {
        let cause = Cause::Unreachable("no answer in time".to_owned());
        let _ = desk.send(Arrival::Unseen(Unseen { kind: kind.to_owned(), object: None, cause }));
    }
}

/// Runs readers, and takes what they bring as it arrives.
async fn fill<F: Future<Output = ()>>(cluster: &mut Cluster, readers: impl FnOnce(Desk) -> F) {
    let (desk, mut arrivals) = unbounded_channel();
    let readers = readers(desk);
    let take = async {
        while let Some(arrival) = arrivals.recv().await {
            match arrival {
                Arrival::Object(text) => cluster.take(text.as_bytes()),
                Arrival::Item { api_version, kind, text } => cluster.take_item(&api_version, kind, text.as_bytes()),
                Arrival::SecretMetadata(text) => cluster.take_secret_metadata(text.as_bytes()),
                Arrival::Unseen(unseen) => cluster.unseen.push(unseen),
            }
        }
    };
    futures::future::join(readers, take).await;
}

/// The groups that are served, with their versions.
pub async fn groups(api: &Api) -> Result<BTreeMap<String, BTreeSet<String>>, ApiError> {
    #[derive(Deserialize)]
    struct Groups {
        groups: Vec<Group>,
    }
    #[derive(Deserialize)]
    struct Group {
        name: String,
        versions: Vec<Version>,
    }
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    let answer = api.get("/apis").await?;
    let groups: Groups = serde_json::from_slice(&answer).map_err(|error| ApiError::Unreadable(error.to_string()))?;
    let versions = |group: Group| (group.name, group.versions.into_iter().map(|version| version.version).collect());
    Ok(groups.groups.into_iter().map(versions).collect())
}

async fn list(api: &Api, resource: &Resource, served: &BTreeMap<String, BTreeSet<String>>, desk: Desk) {
    let miss = |cause: Cause| Unseen { kind: resource.kind.to_owned(), object: None, cause };
    let Some(version) = version_of(resource, served) else {
        let _ = desk.send(Arrival::Unseen(miss(Cause::NoSuchKind)));
        return;
    };
    let mut answer = list_of(api, resource, version, &desk).await;
    // Old servers have some of the kinds that all have in an earlier version only: nobody discovers those first.
    let earlier = resource.versions.iter().skip_while(|known| **known != version).skip(1);
    for version in earlier.filter(|_| resource.is_built_in()) {
        if !matches!(&answer, Err(error) if error.code() == Some(404)) {
            break;
        }
        answer = list_of(api, resource, version, &desk).await;
    }
    if let Err(error) = answer {
        let _ = desk.send(Arrival::Unseen(miss(cause(&error))));
    }
}

async fn list_of(api: &Api, resource: &Resource, version: &str, desk: &Desk) -> Result<(), ApiError> {
    let path = path_of(resource, version);
    let api_version: Arc<str> = match resource.group {
        "" => version.into(),
        group => format!("{group}/{version}").into(),
    };
    if resource.kind == "Secret" {
        // What is in Secrets is nobody's business here; most checks only ask whether they are there.
        return metadata_of_secrets(api, &path, desk).await;
    }
    let take = |item: &str| {
        let (api_version, kind, text) = (api_version.clone(), resource.bare_kind(), item.to_owned());
        let _ = desk.send(Arrival::Item { api_version, kind, text });
    };
    pages::read(api, &path, "", take).await
}

/// Where an API server has the objects of a kind.
pub fn path_of(resource: &Resource, version: &str) -> String {
    let place = match resource.namespace {
        "" => resource.plural.to_owned(),
        namespace => format!("namespaces/{namespace}/{}", resource.plural),
    };
    match resource.group {
        "" => format!("/api/{version}/{place}"),
        group => format!("/apis/{group}/{version}/{place}"),
    }
}

/// The best version that both sides know; of kinds that every cluster has, also without discovery.
pub fn version_of(resource: &Resource, served: &BTreeMap<String, BTreeSet<String>>) -> Option<&'static str> {
    if resource.is_built_in() {
        return resource.versions.first().copied();
    }
    let served = served.get(resource.group)?;
    resource.versions.iter().copied().find(|version| served.contains(*version))
}

async fn metadata_of_secrets(api: &Api, path: &str, desk: &Desk) -> Result<(), ApiError> {
    let take = |item: &str| {
        let _ = desk.send(Arrival::SecretMetadata(item.to_owned()));
    };
    pages::read_metadata(api, path, take).await
}

/// What is asked for once the lists are there.
struct FollowUp {
    nodes: Vec<String>,
    servers: Vec<(String, String)>,
    kubelets: Vec<(String, String)>,
    plan_namespaces: BTreeSet<String>,
    behind_machines: BTreeSet<Named>,
}

/// An object that another one names. v1beta2 names no version, but the group.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    group: String,
    version: String,
    kind: String,
    namespace: String,
    name: String,
}

fn follow_up(cluster: &Cluster) -> FollowUp {
    let internal = |node: &drover_core::cluster::Node| {
        let address = node.status.addresses.iter().find(|address| address.kind == "InternalIP")?;
        Some((node.metadata.name.clone(), servers::with_port(&address.address, 10250)))
    };
    let slices = cluster.admission.endpoint_slices.in_namespace("default");
    let own = slices.filter(|slice| {
        slice.metadata.labels.get("kubernetes.io/service-name").is_some_and(|name| name == "kubernetes")
    });
    let servers = own.flat_map(|slice| {
        let port = slice.ports.first().map_or(6443, |port| port.port);
        let ready = slice.endpoints.iter().filter(|endpoint| endpoint.is_ready());
        ready.flat_map(|endpoint| &endpoint.addresses).map(move |address| servers::with_port(address, port))
    });
    FollowUp {
        nodes: cluster.nodes.iter().filter(|node| node.is_ready()).map(|node| node.metadata.name.clone()).collect(),
        servers: servers.map(|address| (address.clone(), address)).collect(),
        kubelets: cluster.nodes.iter().filter(|node| node.is_ready()).filter_map(internal).collect(),
        plan_namespaces: cluster.plans().map(|plan| plan.meta.namespace.clone()).collect(),
        behind_machines: named_by_machines(cluster),
    }
}

/// The templates that control planes and deployments of machines name, and what stands behind Machines that are on their way.
fn named_by_machines(cluster: &Cluster) -> BTreeSet<Named> {
    let mut named = BTreeSet::new();
    let mut add = |reference: &drover_core::cluster::cluster_api::Reference, namespace: &str| {
        if !reference.name.is_empty() && !reference.group().is_empty() {
            let version = reference.api_version.split_once('/').map_or("", |(_, version)| version);
            named.insert(Named {
                group: reference.group().to_owned(),
                version: version.to_owned(),
                kind: reference.kind.clone(),
                namespace: namespace.to_owned(),
                name: reference.name.clone(),
            });
        }
    };
    for plane in cluster.cluster_api.control_planes.iter() {
        add(plane.spec.machine_template.infrastructure(), &plane.metadata.namespace);
    }
    for deployment in cluster.cluster_api.deployments.iter() {
        let spec = &deployment.spec.template.spec;
        add(&spec.infrastructure_ref, &deployment.metadata.namespace);
        add(&spec.bootstrap.config_ref, &deployment.metadata.namespace);
    }
    for machine in cluster.cluster_api.machines.iter().filter(|machine| !machine.is_ready()) {
        add(&machine.spec.infrastructure_ref, &machine.metadata.namespace);
        add(&machine.spec.bootstrap.config_ref, &machine.metadata.namespace);
    }
    named
}

async fn behind_machines(api: &Api, served: &BTreeMap<String, BTreeSet<String>>, all: &BTreeSet<Named>, desk: Desk) {
    for Named { group, version, kind, namespace, name } in all {
        // Whichever version is asked for, the server converts.
        let known = served.get(group).and_then(|versions| versions.last()).map(String::as_str);
        let version = if version.is_empty() { known } else { Some(version.as_str()) };
        let object = || drover_core::cluster::ObjectRef::new(kind, namespace, name);
        let miss = |cause: Cause| {
            let unseen = Unseen { kind: "MachineTemplate".to_owned(), object: Some(object()), cause };
            let _ = desk.send(Arrival::Unseen(unseen));
        };
        let Some(version) = version else {
            miss(Cause::Unreachable(format!("the cluster has no group {group}")));
            continue;
        };
        let path = format!("/apis/{group}/{version}/namespaces/{namespace}/{}s/{name}", kind.to_lowercase());
        match api.get(&path).await {
            Ok(answer) => {
                let _ = desk.send(Arrival::Object(String::from_utf8_lossy(&answer).into_owned()));
            }
            // That it is not there is what the check wants to know.
            Err(error) if error.code() == Some(404) => (),
            Err(error) => miss(cause(&error)),
        }
    }
}

/// The contents of a few Secrets: those that Plans may name, and certificates.
async fn contents(api: &Api, namespaces: &BTreeSet<String>, desk: Desk) {
    let mut paths: Vec<(String, &str)> =
        namespaces.iter().map(|namespace| (format!("/api/v1/namespaces/{namespace}/secrets"), "")).collect();
    paths.push(("/api/v1/secrets".to_owned(), "&fieldSelector=type%3Dkubernetes.io%2Ftls"));
    let mut failed = None;
    for (path, query) in paths {
        let take = |item: &str| {
            let _ = desk.send(Arrival::Item { api_version: "v1".into(), kind: "Secret", text: item.to_owned() });
        };
        if let Err(error) = pages::read(api, &path, query, take).await {
            failed = Some(error);
        }
    }
    if let Some(error) = failed {
        let unseen = Unseen { kind: "SecretContents".to_owned(), object: None, cause: cause(&error) };
        let _ = desk.send(Arrival::Unseen(unseen));
    }
}

/// Reads until when the authorities of guest clusters are good: each by its name, since the other Secrets beside them are nobody's business.
pub async fn authorities(client: Client, clock: &Clock, guests: &[ObjectRef], cluster: &mut Cluster) {
    let api = &Api::new(client, *clock);
    fill(cluster, |desk| async move {
        for guest in guests {
            for end in [secrets::CA, secrets::ETCD, secrets::PROXY] {
                let path = format!("/api/v1/namespaces/{}/secrets/{}{end}", guest.namespace, guest.name);
                match api.get(&path).await {
                    Ok(answer) => {
                        let text = String::from_utf8_lossy(&answer).into_owned();
                        let _ = desk.send(Arrival::Item { api_version: "v1".into(), kind: "Secret", text });
                    }
                    // Another check tells of it.
                    Err(error) if error.code() == Some(404) => (),
                    Err(error) => {
                        let unseen = Unseen { kind: "SecretContents".to_owned(), object: None, cause: cause(&error) };
                        let _ = desk.send(Arrival::Unseen(unseen));
                        return;
                    }
                }
            }
        }
    })
    .await;
}

/// What of a guest cluster tells why a Node is not well, or cannot be emptied: kinds of Kubernetes itself, and no Secrets.
fn of_nodes() -> BTreeSet<&'static str> {
    let is_told = |resource: &&Resource| resource.is_built_in() && FOLLOWED.contains(&resource.kind);
    RESOURCES.iter().filter(is_told).map(|resource| resource.kind).filter(|kind| *kind != "Secret").collect()
}

/// Looks into a guest cluster, by the kubeconfig in its Secret.
pub async fn inside(client: Client, clock: &Clock, guest: &ObjectRef, cluster: &mut Cluster) {
    let (namespace, name) = (&guest.namespace, &guest.name);
    let api = Api::new(client, *clock);
    let look = async {
        let kubeconfig = kubeconfig_of(&api, namespace, name).await.map_err(|error| match error.code() {
            Some(404) => Cause::Unreachable("it is not there".to_owned()),
            _ => cause(&error),
        })?;
        let client = connect_with(&kubeconfig).await.map_err(|error| Cause::Unreadable(error.to_string()))?;
        let guest = look_at(client, clock, &of_nodes(), LIMIT).await;
        match guest.blind_to("Node") {
            Some(unseen) => Err(unseen.cause.clone()),
            None => Ok(guest),
        }
    };
    match look.await {
        Ok(guest) => drop(cluster.inside.insert((namespace.clone(), name.clone()), guest)),
        Err(cause) => {
            let secret = ObjectRef::new("Secret", namespace, &format!("{name}{}", secrets::KUBECONFIG));
            cluster.unseen.push(Unseen { kind: INSIDE.to_owned(), object: Some(secret), cause });
        }
    }
}

/// Who leads among the operators of Plans. Whoever may not read it is told less, and nothing wrong.
async fn leases(api: &Api, namespaces: &BTreeSet<String>, desk: Desk) {
    for namespace in namespaces {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let take = |item: &str| {
            let api_version = "coordination.k8s.io/v1".into();
            let _ = desk.send(Arrival::Item { api_version, kind: "Lease", text: item.to_owned() });
        };
        if let Err(error) = pages::read(api, &path, "", take).await {
            tracing::debug!("the Leases of namespace {namespace} are not seen: {error}");
        }
    }
}

pub fn cause(error: &ApiError) -> Cause {
    match error {
        error if error.is_forbidden() => Cause::Forbidden,
        error if error.code() == Some(404) => Cause::NoSuchKind,
        error => Cause::Unreachable(error.to_string()),
    }
}

/// A document of what was looked at beyond objects, as a folder may hold it.
pub fn document(kind: &str, name: &str, mut fields: Value) -> Arrival {
    fields["apiVersion"] = drover_core::cluster::looks::API_VERSION.into();
    fields["kind"] = kind.into();
    fields["metadata"] = serde_json::json!({ "name": name });
    Arrival::Object(fields.to_string())
}
