//! Why a guest cluster is not as it is asked for, as the management cluster knows it. What is in the guest ([`inside`]) is known only where
//! its kubeconfig was allowed to be read.
//!
//! A Cluster of Cluster API is led by KubeadmControlPlane and MachineDeployments; they, their Machines and what stands behind these
//! say what they wait for, each version of the API in its own place. A TanzuKubernetesCluster ([`tanzu`]) has the same below it.

mod control_plane;
mod ending;
mod inside;
mod machine;
mod progress;
mod quota;
mod tanzu;
mod workers;

use drover_api::cluster_api::cluster::conditions;
use drover_api::cluster_api::conditions::PAUSED as PAUSED_CONDITION;
use drover_api::cluster_api::{CONTROLLERS, PAUSED};

use super::link::{Cause, Chain, Link, Outlook, sort};
use super::plan::once_a_root;
use super::{Explanation, driver};
use crate::cluster::cluster_api::{Cluster as Guest, Machine, MachineDeployment, Reference, is_paused};
use crate::cluster::{Cluster, INSIDE, ObjectRef, Projection};
use crate::guest::levers::{self, Halted, Stand, named};
use crate::guest::{Version, may_lag};
pub use machine::explain as explain_machine;
pub use progress::{Pool, Progress, is_of};
pub use tanzu::explain as explain_tanzu;

pub fn explain(cluster: &Cluster, own: &Guest) -> Explanation {
    let progress = Progress::of_cluster(cluster, own);
    let found = Found { cluster, object: ObjectRef::of(own), progress: &progress };
    let mut causes = found.parts(own);
    let is_left = is_left(cluster, own);
    if is_left || progress.differs || !is_of(&progress.to, levers::asked(own)) {
        causes.extend(left_to_an_operator(own).and_then(Cause::of));
    }
    if progress.differs {
        causes.extend(controllers(cluster, &found.object).and_then(Cause::of));
    }
    found.tell(causes, pause(own, progress.differs || is_left))
}

/// What the parts of a cluster say that holds it up, the most decisive first.
pub fn parts(cluster: &Cluster, own: &Guest) -> Vec<Cause> {
    let progress = Progress::of_cluster(cluster, own);
    let found = Found { cluster, object: ObjectRef::of(own), progress: &progress };
    let mut causes = once_a_root(found.parts(own));
    sort(&mut causes);
    causes
}
/// What was found of one cluster.
struct Found<'a> {
    cluster: &'a Cluster,
    object: ObjectRef,
    progress: &'a Progress,
}

impl Found<'_> {
    fn parts(&self, own: &Guest) -> Vec<Cause> {
        let (cluster, api) = (self.cluster, &self.cluster.cluster_api);
        let (namespace, name) = (&own.metadata.namespace, &own.metadata.name);
        let said = [topology(own), failure(own), unreachable(own)];
        let mut causes: Vec<Cause> = said.into_iter().flatten().filter_map(Cause::of).collect();
        let below = |said: &'static str| move |below: Chain| (said, below);
        if let Some(plane) = api.control_plane_of(own) {
            let machines: Vec<&Machine> =
                api.machines_of(namespace, name).filter(|machine| machine.is_of_control_plane()).collect();
            let chains = control_plane::holds(cluster, plane, name, &machines).into_iter();
            let chains = chains.map(below("its control plane is not done"));
            causes.extend(chains.filter_map(|one| self.cause(one, true)));
        }
        for deployment in api.deployments_of(namespace, name) {
            let behind = behind(own, self.progress, deployment);
            let chains = workers::holds(cluster, deployment, is_awaited(own, deployment)).into_iter().chain(behind);
            causes.extend(chains.map(below("its workers are not done")).filter_map(|one| self.cause(one, false)));
        }
        causes
    }

    /// The chain of one cause, with the cluster on top and what it costs.
    fn cause(&self, (said, below): (&str, Chain), of_control_plane: bool) -> Option<Cause> {
        let own = Link::proven(self.object.clone(), said).as_usual();
        let chain = [vec![own], below].concat();
        let leaving: Vec<String> = chain.iter().filter_map(|link| self.leaving(&link.object)).collect();
        let mut cause = Cause::of(chain)?;
        cause.costs = self.progress.costs(of_control_plane);
        cause.costs.out = leaving;
        Some(cause)
    }

    /// The Node of a Machine that goes: nothing new comes to it.
    fn leaving(&self, object: &ObjectRef) -> Option<String> {
        let machines = &self.cluster.cluster_api.machines;
        let machine = machines.get(&object.namespace, &object.name).filter(|_| object.kind == Machine::KIND)?;
        let node = &machine.status.node_ref.name;
        (machine.is_being_deleted() && !node.is_empty()).then(|| node.clone())
    }

    /// Nothing goes on in a cluster that is paused, whatever else is wrong with it: that comes first.
    fn tell(self, causes: Vec<Cause>, pause: Option<Link>) -> Explanation {
        let mut causes = once_a_root(causes);
        sort(&mut causes);
        let pause = pause.and_then(|link| Cause::of(vec![link]));
        match pause {
            Some(pause) if pause.alarm => causes.insert(0, pause),
            pause => causes.extend(pause),
        }
        let complete = !self.progress.differs && causes.is_empty();
        let mut summary = self.progress.summary();
        if complete {
            summary.push_str("; it waits for nothing");
        }
        let unseen = self.cluster.unseen.iter().filter(|unseen| unseen.may_hide_something() && matters(&unseen.kind));
        let unseen = unseen.map(ToString::to_string).collect();
        Explanation { object: self.object, summary, complete, driver: None, causes, unseen }
    }
}

fn matters(kind: &str) -> bool {
    const READ: [&str; 12] = [
        INSIDE,
        "Cluster",
        "KubeadmControlPlane",
        "MachineDeployment",
        "MachineSet",
        "Machine",
        "MachineTemplate",
        "Secret",
        "Job",
        "ResourceQuota",
        "TanzuKubernetesCluster",
        "VirtualMachineImage.vmoperator.vmware.com",
    ];
    READ.contains(&kind)
}

/// Several lines of Cluster API's as one.
fn in_a_line(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim().trim_start_matches("* ")).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ").replace(":; ", ": ")
}

/// An object that somebody has paused by its annotation, or a MachineDeployment by its spec.
pub fn paused<T: Projection>(object: &T, kind: &str) -> Link {
    let metadata = object.metadata();
    let (namespace, name) = (&metadata.namespace, &metadata.name);
    let (how, remedy) = match is_paused(metadata) {
        true => (PAUSED, format!("kubectl -n {namespace} annotate {kind} {name} {PAUSED}-")),
        false => {
            let patch = "'{\"spec\":{\"paused\":false}}'";
            ("spec.paused", format!("kubectl -n {namespace} patch {kind} {name} --type merge -p {patch}"))
        }
    };
    let statement = format!("{} is paused ({how}): Cluster API leaves it alone", ObjectRef::of(object).in_words());
    Link::proven(ObjectRef::of(object), statement).remedy(remedy)
}

/// A pause is as usual where nothing is left to be done.
fn pause(own: &Guest, differs: bool) -> Option<Link> {
    if !own.is_paused() {
        return None;
    }
    let since = own.condition(PAUSED_CONDITION).filter(|paused| paused.is_true());
    let (namespace, name) = (&own.metadata.namespace, &own.metadata.name);
    let link = paused(own, "cluster").since(since.and_then(|since| since.last_transition_time));
    let link = match (own.spec.paused, Halted::of(own)) {
        (true, Some(halted)) => {
            let statement = format!("{} was paused: {}", ObjectRef::of(own).in_words(), halted.why);
            Link::proven(ObjectRef::of(own), statement).since(link.since)
        }
        _ => link,
    };
    let link = match own.spec.paused {
        true => link.remedy(format!("drover upgrade resume cluster/{namespace}/{name}")),
        false => link,
    };
    Some(if differs { link } else { link.as_usual() })
}

/// A template that is named and is not there.
fn template_missing(cluster: &Cluster, namespace: &str, reference: &Reference) -> Option<Link> {
    let is_named = !reference.name.is_empty() && reference.kind.ends_with("Template");
    let object = ObjectRef::new(&reference.kind, namespace, &reference.name);
    let is_unseen = cluster.blind_to("MachineTemplate").is_some()
        || cluster.unseen.iter().any(|unseen| unseen.object.as_ref() == Some(&object));
    if !is_named || is_unseen || cluster.templates.contains(&object) {
        return None;
    }
    let statement = format!("{} is named, and is not there", object.in_words());
    Some(Link::proven(object, statement).remedy("create it, or name one that is there"))
}

/// A cluster of a class: what its topology waits for.
fn topology(own: &Guest) -> Option<Chain> {
    let condition = own.condition(conditions::TOPOLOGY_RECONCILED).filter(|condition| condition.status == "False")?;
    let said = in_a_line(condition.said());
    let name = ObjectRef::of(own).in_words();
    let link = |statement: String| Link::proven(ObjectRef::of(own), statement).since(condition.last_transition_time);
    let (namespace, own_name) = (&own.metadata.namespace, &own.metadata.name);
    Some(vec![match condition.reason.as_str() {
        conditions::HOOK_BLOCKING => {
            let link = link(format!("{name} waits for an extension to let its upgrade go on: {said}"));
            link.outlook(Outlook::Maybe).remedy("look at the extension that is named, and what that waits for")
        }
        reason if conditions::TOPOLOGY_FAILED.contains(&reason) => {
            let remedy =
                format!("correct the cluster, or its class: kubectl -n {namespace} describe cluster {own_name}");
            link(format!("{name} cannot be made of its class: {said}")).remedy(remedy)
        }
        conditions::UPGRADE_DEFERRED => {
            link(format!("{name} leaves workers behind, as somebody wants it: {said}")).as_usual()
        }
        _ => link(format!("{name} is being changed: {said}")).outlook(Outlook::Yes).as_usual(),
    }])
}

/// Some part is of a lower version than the one that was left to an operator, or that is none.
fn is_left(cluster: &Cluster, own: &Guest) -> bool {
    let to = levers::asked(own);
    let is_lower = |to: Version| levers::below(cluster, own, &to).next().is_some();
    !to.is_empty() && Version::parse(to).is_none_or(is_lower)
}

/// These workers are to be of a higher version, by the cluster's class or by what was left to an operator.
fn is_awaited(own: &Guest, deployment: &MachineDeployment) -> bool {
    let runs = Version::parse(&deployment.spec.template.spec.version);
    let class = own.spec.topology.iter().map(|class| class.version.as_str());
    let mut wanted = class.chain([levers::asked(own)]).filter_map(Version::parse);
    wanted.any(|wanted| runs.as_ref().is_some_and(|runs| *runs < wanted))
}

/// An upgrade that its owner has left to an operator, and that is not under way.
fn left_to_an_operator(own: &Guest) -> Option<Chain> {
    let to = levers::asked(own);
    if to.is_empty() {
        return None;
    }
    let name = ObjectRef::of(own).in_words();
    let Some(said) = levers::said(own).filter(|said| said.to == to) else {
        let statement =
            format!("{name} is left to an operator, which raises it to {to}, and none has said anything of it");
        let remedy = "run one: drover operator --controllers cluster";
        return Some(vec![Link::proven(ObjectRef::of(own), statement).remedy(remedy)]);
    };
    let link = Link::proven(ObjectRef::of(own), said.sentence).since(Some(said.since));
    let helps = said.remedy.unwrap_or_default();
    let asks_anew = format!("ask for another: drover upgrade start {} --to VERSION --by-operator", named(own));
    match said.stand {
        // Its parts tell, or that it is paused.
        Stand::UpToDate | Stand::Rolling | Stand::ClusterPaused | Stand::MachineFailed | Stand::PartPaused => None,
        Stand::Outlived => Some(vec![link.remedy(helps).as_usual()]),
        Stand::Stalled => Some(vec![link.outlook(Outlook::Maybe).remedy(helps)]),
        Stand::AnotherClusterFirst | Stand::PredecessorFirst => Some(vec![link.outlook(Outlook::Yes).as_usual()]),
        Stand::OrderRefused => Some(vec![link.remedy("mend the annotation drover.dev/after")]),
        Stand::VersionRefused => Some(vec![link.remedy(asks_anew)]),
        Stand::AnotherControllerActs => Some(vec![link.remedy("let that one raise it")]),
    }
}

fn failure(own: &Guest) -> Option<Chain> {
    let said = own.failure()?;
    let (namespace, name) = (&own.metadata.namespace, &own.metadata.name);
    let statement = format!("{} has failed: {said}", ObjectRef::of(own).in_words());
    Some(vec![
        Link::proven(ObjectRef::of(own), statement)
            .remedy(format!("do away with what it says: kubectl -n {namespace} describe cluster {name}")),
    ])
}

/// Cluster API cannot ask the guest, and then says nothing true of its nodes and etcd.
fn unreachable(own: &Guest) -> Option<Chain> {
    let probe = own.condition(conditions::REMOTE_CONNECTION).filter(|condition| condition.status == "False")?;
    let (namespace, name) = (&own.metadata.namespace, &own.metadata.name);
    let statement =
        format!("the API server of {} does not answer: {}", ObjectRef::of(own).in_words(), in_a_line(probe.said()));
    let remedy = format!(
        "look at its endpoint, and at the Secret {namespace}/{name}-kubeconfig: without an answer Cluster API replaces no machine"
    );
    let link = Link::proven(ObjectRef::of(own), statement).since(probe.last_transition_time);
    Some(vec![link.outlook(Outlook::Maybe).remedy(remedy)])
}

/// Workers whose version nobody has raised with that of the control plane.
fn behind(own: &Guest, progress: &Progress, deployment: &MachineDeployment) -> Option<Chain> {
    let version = &deployment.spec.template.spec.version;
    let (old, new) = (Version::parse(version)?, Version::parse(&progress.to)?);
    let is_raised = own.spec.topology.is_some() || old >= new;
    if is_raised || progress.control_plane.updated < progress.control_plane.wanted {
        return None;
    }
    let (is_awaited, is_paused) = (is_awaited(own, deployment), own.is_paused() || deployment.is_paused());
    let is_too_old = old.minor() + may_lag(new.minor()) < new.minor();
    // That tells.
    if is_awaited && !is_too_old && (is_paused || left_to_an_operator(own).is_some()) {
        return None;
    }
    let (namespace, name) = (&own.metadata.namespace, &own.metadata.name);
    let statement =
        format!("{} is of {version}, and the control plane of {}", ObjectRef::of(deployment).in_words(), progress.to);
    let link = Link::proven(ObjectRef::of(deployment), statement);
    let raise = format!("raise the workers, too: drover upgrade start cluster/{namespace}/{name} --to {}", progress.to);
    Some(vec![match () {
        () if is_too_old => link.remedy(raise),
        () if is_awaited => link.outlook(Outlook::Yes).as_usual(),
        () => link.remedy(raise).as_usual(),
    }])
}

/// A part of Cluster API itself does not work.
fn controllers(cluster: &Cluster, own: &ObjectRef) -> Option<Chain> {
    CONTROLLERS.iter().find_map(|(namespace, name, what)| {
        let deployment = cluster.deployments.get(namespace, name)?;
        let below = driver::without_pods(cluster, deployment);
        let first = Link::proven(own.clone(), format!("nobody acts on {what} of Cluster API")).as_usual();
        (!below.is_empty()).then(|| [vec![first], below].concat())
    })
}
