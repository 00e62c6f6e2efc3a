//! What must hold of a guest cluster while its control plane is updated: its certificates stay, its etcd has its quorum, its API
//! answers, there is never more than one machine too many, or one too few, and no worker is ahead of it, or too far behind; and no pod is
//! taken away past its budget. Of its add-ons: none takes a pod
//! away from a Node that has not what the new one needs, what they leave behind goes after the last old Node, and the control plane
//! waits for them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::drains::is_covered;
use super::{Change, Checker, is_cordoned};
use crate::known::Known;

/// On Nodes, and where pods of Deployments may run.
const DISTRIBUTION: &str = "run.tanzu.vmware.com/kubernetesDistributionVersion";
/// Who acts as people do.
const PERSON: &str = "user";
/// Who acts in the Job of a control plane's update.
const UPDATE: &str = "control-plane-upgrade";
/// Where API servers are, as kubeadm has called it.
const SERVES: [&str; 2] = ["node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"];
const CERTIFICATES: [&str; 4] = ["-ca", "-etcd", "-proxy", "-sa"];

/// The Machines of a guest cluster.
#[derive(Default)]
struct Machines<'a> {
    masters: Vec<&'a Value>,
    workers: Vec<(&'a str, &'a Value)>,
}

/// What was seen of a guest cluster so far.
#[derive(Debug, Default)]
pub struct GuestSeen {
    /// It was whole once: before that nothing is held against it.
    began: bool,
    has_quorum: bool,
    answers: bool,
    /// How many machines its control plane had in the beginning.
    machines: usize,
    /// The distributions that its Nodes were of in the beginning.
    distributions: BTreeSet<String>,
    /// Its owner has deleted it: nothing of it need stay.
    leaves: bool,
    /// What was last said of its add-ons: somebody may have wiped that since.
    addons: Value,
    /// Flags of its API servers that a person has set in `kubeadm-config`.
    flags: BTreeMap<String, Value>,
    /// Nodes whose cordon is an operator's.
    cordons: BTreeSet<String>,
    /// The names of all members of etcd.
    members: BTreeSet<String>,
    /// The Nodes of machines of the control plane that are to stay as far as anybody has said.
    masters: BTreeSet<String>,
    /// The Nodes of workers.
    workers: BTreeSet<String>,
}

impl Change<'_> {
    fn is_by_an_update(&self) -> bool {
        self.is_by_an_operator() || self.actor == UPDATE
    }
}

impl Checker {
    /// After a change in the guest cluster.
    pub fn see_guest(&mut self, cluster: &(String, String), guest: &Known, change: &Change<'_>) {
        let mut seen = self.guests.remove(cluster).unwrap_or_default();
        self.check_add_on(&seen, guest, change);
        if (change.kind, change.name) == ("ConfigMap", "kubeadm-config") {
            self.check_flags(&mut seen, change);
        }
        if change.kind == "Node" {
            self.check_cordon(&mut seen, change);
            self.check_skew(&seen, guest, change);
        }
        if change.kind == "Pod" {
            self.check_evicted(&seen, guest, change);
        }
        if (change.kind, change.namespace, change.name) == ("ConfigMap", "corral", "etcd") {
            self.check_removed(&mut seen, guest, change);
        }
        self.check_etcd(&mut seen, guest);
        self.guests.insert(cluster.clone(), seen);
    }

    /// A TanzuKubernetesCluster that goes takes all of its machines along.
    pub(super) fn note_cluster(&mut self, change: &Change<'_>) {
        let leaves = change.after.is_none_or(|tkc| !tkc["metadata"]["deletionTimestamp"].is_null());
        let key = (change.namespace.to_owned(), change.name.to_owned());
        let seen = self.guests.entry(key).or_default();
        seen.leaves |= leaves;
        if let Some(said) = change.after.map(|tkc| &tkc["status"]["addons"]).filter(|said| said.is_object()) {
            seen.addons = said.clone();
        }
    }

    /// A member that goes leads no more, and nothing is left on its machine that could have gone elsewhere.
    fn check_removed(&mut self, seen: &mut GuestSeen, guest: &Known, change: &Change<'_>) {
        let (before, after) = (members(change.before), members(change.after));
        let name = |member: &Value| member["name"].as_str().unwrap_or_default().to_owned();
        seen.members = after.iter().map(name).collect();
        let is_to_be_held = change.is_by_an_update() && !seen.leaves && !self.leave.late && !self.leave.meddled;
        for gone in before.iter().filter(|member| is_to_be_held && !seen.members.contains(&name(member))) {
            let name = name(gone);
            let leads = gone["leader"] == true && is_ready(guest, &format!("etcd-{name}"));
            if leads && !after.is_empty() {
                self.violation(format!("the member {name} of etcd was removed while it led"));
            }
            let is_cared_for = seen.masters.contains(&name) && guest.node(&name).is_some();
            let mut here = guest.named("Pod").filter(|(_, _, pod)| super::node_of(pod) == Some(name.as_str()));
            if let Some((_, pod, _)) = here.find(|(_, _, pod)| is_cared_for && goes_elsewhere(pod)) {
                self.violation(format!(
                    "the member {name} of etcd was removed, and pod {pod} was still on its machine"
                ));
            }
        }
    }

    /// A TanzuKubernetesCluster is said to run when every machine is of the version that it names.
    pub(super) fn check_runs(&mut self, known: &Known, change: &Change<'_>) {
        let runs = |tkc: &Value| tkc["status"]["phase"] == "running";
        let Some(tkc) = change.after.filter(|tkc| runs(tkc) && change.is_by_an_operator()) else { return };
        if change.before.is_some_and(runs) || self.leave.late || self.leave.meddled {
            return;
        }
        let distribution = tkc["status"]["version"].as_str().unwrap_or_default();
        let other = known.named("Machine").find(|(namespace, _, machine)| {
            let version = machine["spec"]["version"].as_str().unwrap_or_default().trim_start_matches('v');
            let is_own = *namespace == change.namespace
                && machine["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == change.name;
            is_own && !distribution.trim_start_matches('v').starts_with(version)
        });
        if let Some((_, machine, _)) = other {
            self.violation(format!("{} is said to run {distribution}, and machine {machine} does not", change.name));
        }
    }

    /// A Job that has failed waits for a person: no operator begins it once more.
    pub(super) fn check_not_tried_again(&mut self, change: &Change<'_>) {
        if !change.is_by_an_operator() || !change.name.starts_with("update-") {
            return;
        }
        let place = (change.namespace.to_owned(), change.name.to_owned());
        let has_failed = change.before.is_some_and(|job| super::has_condition(job, "Failed"));
        let leaves = change.after.is_none_or(|job| job["metadata"]["deletionTimestamp"].is_string());
        if has_failed && leaves {
            self.given_up.insert(place);
        } else if change.before.is_none() && self.given_up.remove(&place) {
            self.violation(format!("{} has failed, and was begun again by {}", change.name, change.actor));
        }
    }

    fn check_etcd(&mut self, seen: &mut GuestSeen, guest: &Known) {
        if seen.leaves {
            return;
        }
        let (voters, well) = (voters(guest), |part: &str, name: &String| is_ready(guest, &format!("{part}-{name}")));
        let up = voters.iter().filter(|name| well("etcd", name)).count();
        let has_quorum = up > voters.len() / 2;
        let answers = has_quorum && voters.iter().any(|name| well("etcd", name) && well("kube-apiserver", name));
        if !seen.began {
            seen.began = has_quorum && answers && up == voters.len();
            (seen.has_quorum, seen.answers) = (seen.began, seen.began);
            seen.distributions = distributions(guest).map(|(_, distribution)| distribution.to_owned()).collect();
            return;
        }
        if std::mem::replace(&mut seen.has_quorum, has_quorum) && !has_quorum {
            self.violation(format!(
                "etcd of the guest cluster has lost its quorum: {up} of {} voters are well",
                voters.len()
            ));
        }
        if std::mem::replace(&mut seen.answers, answers) && !answers {
            self.violation("the API of the guest cluster does not answer any more".to_owned());
        }
    }

    /// An operator cordons no Node without the reason beside it, and lifts no cordon but its own.
    fn check_cordon(&mut self, seen: &mut GuestSeen, change: &Change<'_>) {
        let (was, is) = (change.before.is_some_and(is_cordoned), change.after.is_some_and(is_cordoned));
        let is_told = |node: &Value| node["metadata"]["annotations"]["drover.dev/leaves"].is_string();
        let name = change.name;
        match (was, is) {
            (false, true) if change.is_by_an_update() => {
                seen.cordons.insert(name.to_owned());
                if !change.after.is_some_and(is_told) {
                    self.violation(format!("Node {name} of the guest cluster is cordoned, and does not say why"));
                }
            }
            (true, false) if !seen.cordons.remove(name) && change.is_by_an_update() && change.after.is_some() => {
                self.violation(format!(
                    "Node {name} of the guest cluster takes pods again, and somebody else had cordoned it"
                ));
            }
            _ => {}
        }
    }

    /// No kubelet of a worker is newer than an API server, nor older than the newest of them supports; and API servers are one minor version
    /// apart at most.
    fn check_skew(&mut self, seen: &GuestSeen, guest: &Known, change: &Change<'_>) {
        let is_server = |node: &Value| {
            let labels = &node["metadata"]["labels"];
            SERVES.iter().any(|role| labels[*role].is_string())
        };
        let servers: BTreeSet<u64> = guest.all("Node").filter(|node| is_server(node)).filter_map(minor).collect();
        let (Some(&oldest), Some(&newest)) = (servers.first(), servers.last()) else { return };
        // It is told where it comes to be, and not at whatever is written afterwards.
        if change.before.and_then(minor) == change.after.and_then(minor)
            && change.before.is_some_and(is_server) == change.after.is_some_and(is_server)
        {
            return;
        }
        if newest > oldest + 1 {
            self.violation(format!("API servers of the minor versions {oldest} and {newest} are beside each other"));
        }
        let lag = if newest >= 28 { 3 } else { 2 };
        for name in &seen.workers {
            let Some(minor) = guest.node(name).and_then(minor) else { continue };
            if minor > oldest || minor + lag < newest {
                self.violation(format!(
                    "the kubelet of {name} is of the minor version {minor}, and API servers are of {oldest} to {newest}"
                ));
            }
        }
    }

    /// A pod that has a budget is evicted, never deleted.
    fn check_evicted(&mut self, seen: &GuestSeen, guest: &Known, change: &Change<'_>) {
        let Some(before) = change.before.filter(|pod| goes_elsewhere(pod)) else { return };
        let leaves = change.after.is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        let is_to_be_held = change.is_by_an_update() && !seen.leaves;
        if is_to_be_held && leaves && !change.evicted && is_covered(guest, change.namespace, before) {
            self.violation(format!("pod {} of the guest cluster was deleted past its budget", change.name));
        }
    }

    /// An object of an add-on, as an operator has just left it.
    fn check_add_on(&mut self, seen: &GuestSeen, guest: &Known, change: &Change<'_>) {
        let is_one = |object: &Value| object["metadata"]["labels"]["drover.dev/addon"].is_string();
        if !change.is_by_an_update() {
            return;
        }
        let shown = format!("{}/{}/{}", change.kind, change.namespace, change.name);
        let Some(after) = change.after else {
            let old = distributions(guest).find(|(_, distribution)| seen.distributions.contains(*distribution));
            // What others have applied carries no mark. Pods are drained.
            if let Some((node, _)) = old.filter(|_| change.kind != "Pod") {
                self.violation(format!("{shown} is deleted, and Node {node} of the old distribution is left"));
            }
            return;
        };
        let spec = &after["spec"];
        let is_right = match change.kind {
            _ if !is_one(after) => true,
            "DaemonSet" => spec["updateStrategy"]["type"] == "OnDelete",
            "Deployment" => {
                spec["strategy"]["rollingUpdate"] == json!({ "maxUnavailable": 0, "maxSurge": 1 })
                    && spec["template"]["spec"]["nodeSelector"][DISTRIBUTION].is_string()
            }
            _ => true,
        };
        if !is_right {
            self.violation(format!("{shown} of an add-on replaces pods where their image may be missing"));
        }
    }

    /// What a person has set for API servers that join is still there when an operator has written.
    fn check_flags(&mut self, seen: &mut GuestSeen, change: &Change<'_>) {
        let flags = |map: Option<&Value>| -> BTreeMap<String, Value> {
            let text = map.and_then(|map| map["data"]["ClusterConfiguration"].as_str()).unwrap_or_default();
            let document: Value = serde_saphyr::from_str(text).unwrap_or_default();
            let flags = document["apiServer"]["extraArgs"].as_object();
            flags.into_iter().flatten().map(|(flag, value)| (flag.clone(), value.clone())).collect()
        };
        let (before, after) = (flags(change.before), flags(change.after));
        if change.actor == PERSON {
            seen.flags.extend(after.into_iter().filter(|(flag, value)| before.get(flag) != Some(value)));
        } else if let Some((flag, _)) = seen.flags.iter().find(|(flag, value)| after.get(*flag) != Some(value)) {
            self.violation(format!("the flag {flag} that somebody has set in kubeadm-config is lost"));
        }
    }

    /// The Job that updates a control plane begins when all add-ons are applied.
    pub(super) fn check_add_ons_first(&mut self, known: &Known, change: &Change<'_>) {
        let begins = change.before.is_none() && change.name.starts_with("update-") && change.is_by_an_operator();
        if !begins {
            return;
        }
        let of = change.after.map(|job| &job["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"]);
        let updated = known.named("TanzuKubernetesCluster").filter(|(_, name, _)| of.is_some_and(|of| of == name));
        for (namespace, name, _) in updated {
            let seen = self.guests.get(&(namespace.to_owned(), name.to_owned()));
            let said = seen.map(|seen| &seen.addons).filter(|said| said.is_object());
            let addons = said.and_then(Value::as_object).into_iter().flatten();
            let late = addons.filter(|(_, addon)| addon["status"] != "applied" && addon["status"] != "unmanaged");
            let late: Vec<String> = late.map(|(place, _)| place.clone()).collect();
            if !late.is_empty() || said.is_none() {
                self.violation(format!("the control plane is updated before the add-ons {late:?} are applied"));
            }
        }
    }

    /// A cluster is made once: another one in its place would have other certificates, and an empty etcd.
    pub(super) fn check_made_once(&mut self, change: &Change<'_>) {
        let key = (change.namespace.to_owned(), change.name.to_owned());
        let has_begun = self.guests.get(&key).is_some_and(|seen| seen.began && !seen.leaves);
        if has_begun && change.before.is_none() && change.is_by_an_operator() {
            self.violation(format!("Cluster {} is made anew", change.name));
        }
    }

    pub(super) fn check_certificates(&mut self, known: &Known, change: &Change<'_>) {
        let stays = |namespace: &str, cluster: &str| {
            self.guests.get(&(namespace.to_owned(), cluster.to_owned())).is_none_or(|seen| !seen.leaves)
        };
        let is_one = known.named("Cluster").any(|(namespace, cluster, _)| {
            namespace == change.namespace
                && CERTIFICATES.iter().any(|end| change.name == format!("{cluster}{end}"))
                && stays(namespace, cluster)
        });
        if !is_one {
            return;
        }
        let place = (change.namespace.to_owned(), change.name.to_owned());
        // What a person has deleted may come again, and nothing else in its place.
        let lost = change.before.is_none().then(|| self.lost_certificates.remove(&place)).flatten();
        let Some(before) = change.before.or(lost.as_ref()) else { return };
        match change.after {
            None if change.actor == PERSON => drop(self.lost_certificates.insert(place, before.clone())),
            None => self.violation(format!("the certificates in Secret {} are gone", change.name)),
            Some(after) if after["data"] != before["data"] => {
                self.violation(format!("the certificates in Secret {} are others", change.name));
            }
            Some(_) => {}
        }
    }

    pub(super) fn check_machines(&mut self, known: &Known, change: &Change<'_>) {
        self.note_taken(change);
        self.check_no_member(change);
        let mut machines: BTreeMap<(String, String), Machines<'_>> = BTreeMap::new();
        for (namespace, name, machine) in known.named("Machine") {
            let labels = &machine["metadata"]["labels"];
            let cluster = labels["cluster.x-k8s.io/cluster-name"].as_str().unwrap_or_default();
            let of_it = machines.entry((namespace.to_owned(), cluster.to_owned())).or_default();
            match labels["cluster.x-k8s.io/control-plane"].is_string() {
                true => of_it.masters.push(machine),
                false => of_it.workers.push((name, machine)),
            }
        }
        for (cluster, Machines { masters, workers }) in machines {
            self.check_order(&masters, &workers);
            let asked = known.get("TanzuKubernetesCluster", &cluster.0, &cluster.1);
            let asked = asked.and_then(|tkc| tkc["spec"]["topology"]["controlPlane"]["count"].as_u64());
            let (count, seen) = (masters.len(), self.guests.entry(cluster).or_default());
            let stays = |machine: &&&Value| {
                let metadata = &machine["metadata"];
                metadata["deletionTimestamp"].is_null() && metadata["annotations"]["drover.dev/failed"].is_null()
            };
            let nodes = masters.iter().filter(stays).filter_map(|machine| node_of(machine));
            seen.masters = nodes.map(str::to_owned).collect();
            seen.workers = workers.iter().filter_map(|(_, machine)| node_of(machine).map(str::to_owned)).collect();
            if !seen.began || seen.leaves {
                seen.machines = count;
                continue;
            }
            // Between the number that it had and the one that is asked for; one that is replaced comes on top.
            let asked = asked.and_then(|count| count.try_into().ok()).unwrap_or(seen.machines);
            let (fewest, most) = (seen.machines.min(asked), seen.machines.max(asked) + 1);
            let is_whole = masters.iter().all(|machine| machine["metadata"]["deletionTimestamp"].is_null());
            if count == asked && is_whole {
                seen.machines = asked;
            }
            if count > most || count < fewest {
                self.violation(format!("the control plane of {fewest} to {most} machines has {count}"));
            }
        }
    }

    /// A machine goes after its member of etcd.
    fn check_no_member(&mut self, change: &Change<'_>) {
        let is_leaving = |machine: &Value| !machine["metadata"]["deletionTimestamp"].is_null();
        let Some(before) = change.before.filter(|before| !is_leaving(before) && change.is_by_an_update()) else {
            return;
        };
        let cluster = before["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"].as_str().unwrap_or_default();
        let seen = self.guests.get(&(change.namespace.to_owned(), cluster.to_owned()));
        let is_member = |node: &str| seen.is_some_and(|seen| seen.members.contains(node) && !seen.leaves);
        if change.after.is_none_or(is_leaving) && !self.leave.late && node_of(before).is_some_and(is_member) {
            self.violation(format!("machine {} was deleted while it was a member of etcd", change.name));
        }
    }

    /// A machine of the control plane that a person takes away is missing until another one comes.
    fn note_taken(&mut self, change: &Change<'_>) {
        let is_leaving = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let labels = change.before.map_or(&Value::Null, |before| &before["metadata"]["labels"]);
        let begins = change.before.is_some_and(|before| !is_leaving(before)) && change.after.is_none_or(is_leaving);
        if change.actor == PERSON && begins && labels["cluster.x-k8s.io/control-plane"].is_string() {
            let cluster = labels["cluster.x-k8s.io/cluster-name"].as_str().unwrap_or_default();
            let seen = self.guests.entry((change.namespace.to_owned(), cluster.to_owned())).or_default();
            seen.machines = seen.machines.saturating_sub(1);
        }
    }

    /// No worker is made of a version that a machine of the control plane has not.
    fn check_order(&mut self, masters: &[&Value], workers: &[(&str, &Value)]) {
        let version = |machine: &Value| {
            // With a letter before it since v1alpha3.
            let text = machine["spec"]["version"].as_str().unwrap_or_default().trim_start_matches('v');
            let numbers = text.split(['.', '+', '-']).map(|part| part.parse::<u64>().unwrap_or(0));
            numbers.collect::<Vec<u64>>()
        };
        let Some(oldest) = masters.iter().map(|machine| version(machine)).min() else { return };
        if let Some((name, _)) = workers.iter().find(|(_, machine)| version(machine) > oldest) {
            self.violation(format!("worker {name} is of a higher version than the control plane"));
        }
    }
}

/// Nodes and the distributions that they are of.
fn distributions(guest: &Known) -> impl Iterator<Item = (&str, &str)> {
    guest.named("Node").filter_map(|(_, name, node)| Some((name, node["metadata"]["labels"][DISTRIBUTION].as_str()?)))
}

/// The minor version of a Node's kubelet.
fn minor(node: &Value) -> Option<u64> {
    node["status"]["nodeInfo"]["kubeletVersion"].as_str()?.split('.').nth(1)?.parse().ok()
}

/// The names of the members that vote.
pub fn voters(guest: &Known) -> Vec<String> {
    let all = members(guest.get("ConfigMap", "corral", "etcd"));
    let voters = all.iter().filter(|member| member["learner"] != true);
    voters.filter_map(|member| member["name"].as_str().map(str::to_owned)).collect()
}

/// The members of etcd that a ConfigMap tells of.
fn members(map: Option<&Value>) -> Vec<Value> {
    let text = map.and_then(|map| map["data"]["members"].as_str()).unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

/// The name of a machine's Node.
fn node_of(machine: &Value) -> Option<&str> {
    machine["status"]["nodeRef"]["name"].as_str()
}

/// A pod that a drain takes: another one comes elsewhere.
fn goes_elsewhere(pod: &Value) -> bool {
    let metadata = &pod["metadata"];
    let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["kind"] == "ReplicaSet") && !has_ended && metadata["deletionTimestamp"].is_null()
}

fn is_ready(guest: &Known, pod: &str) -> bool {
    let pod = guest.get("Pod", "kube-system", pod).filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    pod.is_some_and(|pod| super::has_condition(pod, "Ready"))
}
