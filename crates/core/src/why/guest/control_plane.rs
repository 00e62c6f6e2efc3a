//! Why a KubeadmControlPlane is not as it is asked for.

use drover_api::cluster_api::kubeadm_control_plane::conditions;
use drover_api::cluster_api::machine_set::conditions::DOES_NOT_EXIST;
use drover_api::cluster_api::secrets;

use super::super::link::{Certainty, Chain, Link, Outlook};
use super::{in_a_line, machine, quota, template_missing};
use crate::cluster::cluster_api::{KubeadmControlPlane, Machine, is_paused};
use crate::cluster::{Cluster, ObjectRef};

/// From the control plane down, each of what holds it up. `machines` are those of the control plane.
pub fn holds(cluster: &Cluster, plane: &KubeadmControlPlane, name: &str, machines: &[&Machine]) -> Vec<Chain> {
    let mut found = Vec::new();
    if is_paused(&plane.metadata) {
        found.push(vec![super::paused(plane, "kubeadmcontrolplane")]);
    }
    found.extend(certificates(cluster, plane, name, machines));
    let template = plane.spec.machine_template.infrastructure();
    let missing = template_missing(cluster, &plane.metadata.namespace, template);
    found.extend(missing.map(|link| vec![own(plane, "no machine can be made for the control plane"), link]));
    let held: Vec<Chain> = machines.iter().filter_map(|one| machine::holds(cluster, one)).collect();
    let is_explained = held.iter().flatten().any(|link| link.alarm);
    let rolls = own(plane, "the control plane is not done");
    found.extend(held.into_iter().map(|below| [vec![rolls.clone()], below].concat()));
    if !is_explained {
        found.extend(sick(cluster, plane));
        found.extend(not_made(cluster, plane));
    }
    found
}

fn own(plane: &KubeadmControlPlane, statement: &str) -> Link {
    let name = ObjectRef::of(plane).in_words();
    Link::proven(ObjectRef::of(plane), format!("{name}: {statement}")).as_usual()
}

/// Authorities of a cluster that has come up, and that are gone: they are never made anew.
pub fn authorities_missing(cluster: &Cluster, namespace: &str, name: &str) -> Vec<Link> {
    if cluster.blind_to("Secret").is_some() {
        return Vec::new();
    }
    let ends = [secrets::CA, secrets::ETCD, secrets::PROXY, secrets::SERVICE_ACCOUNT];
    let gone = ends.into_iter().map(|end| format!("{name}{end}"));
    let gone = gone.filter(|secret| cluster.secrets.get(namespace, secret).is_none());
    let link = |secret: String| {
        let object = ObjectRef::new("Secret", namespace, &secret);
        let statement = format!("{} is not there: no machine can join the control plane without it", object.in_words());
        let remedy = format!(
            "bring it back from a backup, or from what machines were booted with: drover control-plane-recover-certs \
             --cluster-namespace {namespace} --cluster-name {name} --dry-run"
        );
        Link::proven(object, statement).remedy(remedy)
    };
    gone.map(link).collect()
}

fn certificates(cluster: &Cluster, plane: &KubeadmControlPlane, name: &str, machines: &[&Machine]) -> Vec<Chain> {
    let is_up = machines.iter().any(|machine| !machine.status.node_ref.name.is_empty());
    let told = plane.condition(conditions::CERTIFICATES_AVAILABLE).filter(|one| one.status == "False");
    let first = own(plane, "no machine can join");
    let missing = match is_up {
        true => authorities_missing(cluster, &plane.metadata.namespace, name),
        false => Vec::new(),
    };
    if !missing.is_empty() {
        let since = told.and_then(|told| told.last_transition_time);
        return missing.into_iter().map(|link| vec![first.clone(), link.since(since)]).collect();
    }
    let said = told.map(|told| {
        let statement = format!("the certificates are not available: {}", in_a_line(told.said()));
        vec![wrong(plane, &statement).since(told.last_transition_time)]
    });
    said.into_iter().collect()
}

fn wrong(plane: &KubeadmControlPlane, statement: &str) -> Link {
    let (namespace, name) = (&plane.metadata.namespace, &plane.metadata.name);
    let link = Link { alarm: true, ..own(plane, statement) }.owned_by(cluster_of(plane));
    link.remedy(format!("kubectl -n {namespace} describe kubeadmcontrolplane {name}"))
}

fn cluster_of(plane: &KubeadmControlPlane) -> Option<ObjectRef> {
    let owner = plane.metadata.owner_references.iter().find(|owner| owner.kind == "Cluster")?;
    Some(ObjectRef::new(&owner.kind, &plane.metadata.namespace, &owner.name))
}

/// etcd or a component is not well, as the control plane says of all its machines.
pub fn sick(cluster: &Cluster, plane: &KubeadmControlPlane) -> Option<Chain> {
    const KINDS: [(&str, &str); 3] = [
        (conditions::ETCD_HEALTHY, "etcd is not healthy"),
        (conditions::COMPONENTS_HEALTHY, "its components are not healthy"),
        (conditions::AVAILABLE, "it is not available"),
    ];
    let found = KINDS.iter().find_map(|(kind, words)| {
        plane.condition(kind).filter(|condition| condition.status == "False").map(|condition| (condition, words))
    });
    let (condition, words) = found?;
    let said = in_a_line(condition.said());
    let link = wrong(plane, &format!("{words}: {said}")).since(condition.last_transition_time).outlook(Outlook::Maybe);
    let remedy = link.remedy.clone().unwrap_or_default();
    let link = link.remedy(format!("Cluster API replaces no machine before it is; {remedy}"));
    // The machine that it names, if there is only one.
    let (namespace, name) = (&plane.metadata.namespace, &plane.metadata.name);
    let words: Vec<&str> = said.split([' ', ',', ':', ';']).collect();
    let named = |machine: &&Machine| words.contains(&machine.metadata.name.as_str()) && machine.metadata.name != *name;
    let named: Vec<&Machine> = cluster.cluster_api.machines.in_namespace(namespace).filter(named).collect();
    Some(match named.as_slice() {
        [machine] => {
            let statement = format!("{} is the one that is not well: {said}", ObjectRef::of(*machine).in_words());
            let own = machine::link(cluster, machine, statement).since(condition.last_transition_time);
            let remedy = format!("kubectl -n {namespace} describe machine {}", machine.metadata.name);
            let likely = Link { certainty: Certainty::Likely, ..own.outlook(Outlook::Maybe) }.remedy(remedy);
            vec![link, machine::unwell(cluster, machine).unwrap_or(likely)]
        }
        _ => vec![link],
    })
}

/// The next machine could not be made.
fn not_made(cluster: &Cluster, plane: &KubeadmControlPlane) -> Option<Chain> {
    let created = plane.condition(conditions::MACHINES_CREATED).filter(|condition| condition.status == "False");
    let scaling = plane.condition(conditions::SCALING_UP).filter(|condition| condition.is_true());
    let condition = created.or(scaling.filter(|condition| condition.message.contains(DOES_NOT_EXIST)))?;
    let said = in_a_line(condition.said());
    let link = wrong(plane, &format!("the next machine cannot be made: {said}")).since(condition.last_transition_time);
    let below = quota::named(cluster, &plane.metadata.namespace, &said);
    Some([link.outlook(Outlook::Maybe)].into_iter().chain(below).collect())
}
