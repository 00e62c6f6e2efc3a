//! The creation of a cluster: of a TanzuKubernetesCluster that never had one.
//!
//! A mark on the TanzuKubernetesCluster comes before anything is made, and says afterwards that it was: so a cluster that was there once and
//! is lost is never made anew in silence, without its certificates and its etcd. What is made has names that follow from their cause, and
//! belongs to the TanzuKubernetesCluster: whoever begins anew makes what is missing, and nothing twice. The first machine begins the control
//! plane; the others join it one by one, workers beside them. Until all is there nothing of it is updated: it is made in the distribution that
//! it was begun in, and what is asked for meanwhile follows as an update.

mod manifests;

use drover_api::cluster_api::labels::CLUSTER_NAME;
use drover_api::marks::{CREATION, CREATION_DONE};
use drover_api::tanzu::tanzu_kubernetes_cluster::phases;
use serde_json::{Value, json};

use super::decide::even;
use super::defaults::{self, Defaults};
use super::distribution::{self, Asked, Distribution, written_down};
use super::places::{self, Gate};
use super::publish::Findings;
use super::rollout::{self, limited};
use super::wanted::Wanted;
use super::workers::{self, Workers};
use super::{Held, Reason, View, Wait, addons, classes, owners, text};
use crate::decision::Act;
use crate::guest::dialect::Dialect;
use crate::guest::seen::Collection;
use crate::guest::wait::{Object, Side, Write};

/// What a cluster consists of, beside its Cluster and its Machines.
const PARTS: [Collection; 6] = [
    Collection::Deployments,
    Collection::Sets,
    Collection::Configs,
    Collection::Infrastructure,
    Collection::MachineTemplates,
    Collection::ConfigTemplates,
];

/// It is to be made, or to be made to its end.
pub fn is_due(view: &View<'_>) -> bool {
    match begun_in(view) {
        Some(_) => true,
        None if view.annotation(CREATION).is_some() => false,
        None => view.cluster().is_none_or(|cluster| is_anothers(view, cluster)) && !has_lived(view),
    }
}

/// The distribution in which it is made now.
fn begun_in<'a>(view: &View<'a>) -> Option<&'a str> {
    view.annotation(CREATION).filter(|said| *said != CREATION_DONE)
}

/// Parts of it may be there already.
pub fn has_begun(view: &View<'_>) -> bool {
    begun_in(view).is_some()
}

/// Whether it was there once, whoever made it: its status tells, or something of it is still there.
fn has_lived(view: &View<'_>) -> bool {
    let status = &view.tkc["status"];
    let phase = text(&status["phase"]);
    status["version"].is_string()
        || status["clusterApiStatus"].is_object()
        || [phases::RUNNING, phases::UPDATING, phases::UPDATE_FAILED].contains(&phase)
        || parts(view).any(|part| !is_of_an_earlier(view, part))
}

/// All that carries the name of the cluster.
fn parts<'a>(view: &View<'a>) -> impl Iterator<Item = &'a Value> {
    let (own, name) = (view.own, view.name());
    let others = PARTS.into_iter().flat_map(move |collection| own.all(collection));
    let named = others.filter(move |part| part["metadata"]["labels"][CLUSTER_NAME] == name);
    view.machines(true).chain(view.machines(false)).chain(named)
}

/// It belongs to another TanzuKubernetesCluster, which had the same name.
pub fn is_anothers(view: &View<'_>, object: &Value) -> bool {
    owners(object).any(|owner| owner["kind"] == view.tkc["kind"] && owner["uid"] != view.uid())
}

fn is_of_an_earlier(view: &View<'_>, object: &Value) -> bool {
    is_anothers(view, object) || !object["metadata"]["deletionTimestamp"].is_null()
}

/// A Cluster that was there and is not any more is not made anew: its certificates and its etcd would be others.
pub fn missing(view: &View<'_>) -> Box<Wait> {
    let sentence = format!("there is no Cluster {}/{}, and this one is not new", view.namespace(), view.name());
    let wait = view.wait(view.object(), Reason::ClusterMissing, sentence);
    Box::new(wait.with_remedy(
        "bring back what it consists of from a backup; to have another one instead, delete the TanzuKubernetesCluster and apply it again",
    ))
}

/// Notes that a cluster was there once, unless that is noted: its phase says so no longer when it is lost.
pub fn remembered(view: &View<'_>) -> Option<Write> {
    view.annotation(CREATION).is_none().then(|| marked(view, CREATION_DONE, "note that a cluster was there once"))
}

/// The distribution that is meant: as soon as machines are made, the one that they are made in.
pub fn asked(view: &View<'_>) -> Held<Asked> {
    let is_control_plane = |part: &Value| part["kind"] == "KubeadmConfig" || part["kind"] == "WCPMachine";
    match begun_in(view) {
        Some(version) if view.machines(true).next().is_some() || parts(view).any(is_control_plane) => {
            distribution::in_full(view, version, &format!("the cluster is made in {version}"))
        }
        _ => distribution::asked(view),
    }
}

pub fn look(view: &View<'_>, found: &mut Findings) -> Held<Vec<Write>> {
    found.creates = true;
    even(view)?;
    let distribution = match asked(view)? {
        Asked::Resolved(version) => return Ok(vec![written_down(view, &version)]),
        Asked::Found(distribution) => distribution,
    };
    let defaults = defaults::read(view)?;
    found.moves = true;
    if begun_in(view) != Some(distribution.version.as_str()) {
        // What cannot be generated, or made, is refused before anything is there.
        addons::refuse_incomplete(view, &distribution)?;
        classes::refuse(view)?;
        machine(view, &distribution, &defaults, &manifests::machine_name(view, 0), None)?;
        manifests::workers(view, &distribution, &Wanted::of_workers(view, &distribution, &defaults))
            .map_err(|why| ungenerated(view, &why))?;
        return Ok(begin(view, found, &distribution.version));
    }
    // Nothing is begun of a cluster that is paused; what is there already comes to its end.
    let paused = places::paused(view);
    let is_paused = paused.is_some();
    found.waits.extend(paused);
    let Some(cluster) = view.cluster() else {
        return match view.machines(true).chain(view.machines(false)).next() {
            Some(_) => Err(missing(view)),
            None if is_paused => Ok(Vec::new()),
            None => Ok(manifests::cluster(view, &defaults)),
        };
    };
    if !cluster["metadata"]["deletionTimestamp"].is_null() {
        return Err(missing(view));
    }
    found.addons = Some(addons::published(view, &distribution));
    found.asks_guest = addons::is_news(view, &distribution);
    let pools = Pools { view, cluster, distribution: &distribution, defaults: &defaults };
    let mut acts = pools.control_plane(found)?;
    acts.extend(pools.workers(found)?);
    found.waits.extend(addons::gate(view, &distribution));
    if is_paused {
        acts.retain(|write| !matches!(write.act, Act::Create(_)));
    }
    if acts.is_empty() && found.waits.is_empty() {
        acts.push(marked(view, CREATION_DONE, "note that a cluster is made"));
    }
    Ok(acts)
}

/// What remains of an earlier cluster of the same name goes first, and so do the clusters that this one comes after.
fn begin(view: &View<'_>, found: &mut Findings, version: &str) -> Vec<Write> {
    let cluster = view.cluster().filter(|cluster| is_of_an_earlier(view, cluster));
    let remains = cluster.into_iter().chain(parts(view)).find(|part| is_of_an_earlier(view, part));
    if let Some(remains) = remains {
        let object = Object::of(Side::Management, remains);
        let sentence = format!("{object} of an earlier cluster of this name has to go first");
        let remedy = format!("kubectl describe {}: whose finalizers it has is said there", object.arguments());
        let wait = limited(view, object.clone(), Reason::ClusterLeaves, sentence).with_remedy(remedy.clone());
        let is_over = wait.is_over();
        found.waits.push(wait);
        if is_over {
            let sentence = format!("{object} of an earlier cluster of this name does not go");
            found.waits.push(view.wait(object, Reason::CreationFailed, sentence).with_remedy(remedy));
        }
        return Vec::new();
    }
    match places::gate(&View { places: None, ..*view }) {
        Gate::Open | Gate::Takes(_) => vec![marked(view, version, "begin to make a cluster")],
        Gate::Shut(wait) | Gate::Paused(wait) => {
            found.waits.push(*wait);
            Vec::new()
        }
    }
}

fn marked(view: &View<'_>, value: &str, purpose: &'static str) -> Write {
    let revision = &view.tkc["metadata"]["resourceVersion"];
    let patch = json!({ "metadata": { "resourceVersion": revision, "annotations": { CREATION: value } } });
    Write { object: view.object(), act: Act::Patch(patch), purpose }
}

/// What is missing of a machine of the control plane: of one that joins `model`, or of the one that begins it.
fn machine(
    view: &View<'_>,
    distribution: &Distribution,
    defaults: &Defaults,
    name: &str,
    model: Option<&Value>,
) -> Held<Vec<Write>> {
    let wanted = Wanted::of_control_plane(view, distribution, defaults);
    let machine = manifests::Machine { view, name, distribution, wanted: &wanted };
    let made = match model {
        None => machine.first(defaults),
        Some(model) => machine.joining(model),
    };
    made.map_err(|why| ungenerated(view, &why))
}

/// Fields of the spec and of a distribution always fit: what does not is in the defaults.
fn ungenerated(view: &View<'_>, why: &str) -> Box<Wait> {
    let object = defaults::object();
    let sentence = format!("no machine can be made of what {object} asks for: {why}");
    let wait = view.wait(object, Reason::DefaultsInvalid, sentence);
    Box::new(wait.with_remedy("take that field out of it"))
}

/// What the machines of a cluster are made by.
struct Pools<'a, 'b> {
    view: &'b View<'a>,
    cluster: &'a Value,
    distribution: &'b Distribution,
    defaults: &'b Defaults,
}

impl Pools<'_, '_> {
    fn is_up(&self) -> bool {
        self.cluster["status"]["controlPlaneInitialized"] == true
    }

    /// One machine after the other: each has to be a Node that is ready before the next one joins.
    fn control_plane(&self, found: &mut Findings) -> Held<Vec<Write>> {
        let view = self.view;
        let machines: Vec<&Value> = view.machines(true).collect();
        let before = found.waits.len();
        for machine in &machines {
            self.watch(machine, found);
        }
        let wanted = view.tkc["spec"]["topology"]["controlPlane"]["count"].as_u64().unwrap_or(0);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        if found.waits.len() > before || machines.len() >= wanted {
            return Ok(Vec::new());
        }
        let model = machines.first().copied();
        if model.is_none() && self.is_up() {
            let sentence = "its control plane has begun, and has no Machine left that others could join";
            let wait = view.wait(view.object(), Reason::CreationFailed, sentence);
            return Err(Box::new(wait.with_remedy("delete the TanzuKubernetesCluster, and apply it again")));
        }
        let is_free = |name: &String| machines.iter().all(|machine| machine["metadata"]["name"] != **name);
        let mut names = (0..=machines.len()).map(|number| manifests::machine_name(view, number));
        let Some(name) = names.find(is_free) else { return Ok(Vec::new()) };
        let remains = [
            view.own.get(Collection::Infrastructure, &format!("WCPMachine/{name}")),
            view.own.get(Collection::Configs, &name),
        ];
        let leaving = |part: &&&Value| !part["metadata"]["deletionTimestamp"].is_null();
        if let Some(part) = remains.iter().flatten().find(leaving) {
            let object = Object::of(Side::Management, part);
            let sentence = format!("{object} is still on its way out, and a machine of its name follows");
            found.waits.push(limited(view, object, Reason::ControlPlaneComing, sentence));
            return Ok(Vec::new());
        }
        machine(view, self.distribution, self.defaults, &name, model)
    }

    /// How far a machine of the control plane is.
    fn watch(&self, machine: &Value, found: &mut Findings) {
        let view = self.view;
        let object = Object::of(Side::Management, machine);
        let name = text(&machine["metadata"]["name"]);
        let again = format!("kubectl -n {} delete machine {name}: another one is made in its place", view.namespace());
        let wait = |sentence: String| limited(view, object.clone(), Reason::ControlPlaneComing, sentence);
        let node = machine["status"]["nodeRef"]["name"].as_str();
        let is_ready = node.and_then(|node| view.nodes?.get(node)).copied();
        let held = match (node, is_ready) {
            _ if !machine["metadata"]["deletionTimestamp"].is_null() => {
                wait(format!("{object} is on its way out, and another one follows"))
            }
            _ if let Some(why) = Dialect::V1alpha2.failure(&machine["status"]) => {
                let sentence = format!("{object} has failed: {why}");
                let wait = view.wait(object, Reason::CreationFailed, sentence);
                found.waits.push(wait.with_remedy(format!("mend what it names; then, to try again: {again}")));
                return;
            }
            (None, _) if self.cluster["status"]["infrastructureReady"] != true => {
                let cluster = Object::of(Side::Management, self.cluster);
                wait(format!("{object} is not a Node yet: the infrastructure of {cluster} is not ready"))
            }
            (None, _) => wait(format!("{object} is not a Node yet")),
            (Some(_), Some(true)) if self.is_up() => return,
            (Some(node), _) => {
                // Nothing of the management cluster tells when it is.
                found.asks_again = true;
                wait(format!("Node {node} of {object} is not ready yet, or its cluster does not answer"))
            }
        };
        let is_over = held.is_over();
        found.waits.push(held);
        if is_over {
            let sentence = format!("{object} has taken too long");
            let remedy = format!(
                "drover why machine/{}/{name}; it goes on by itself if the machine comes; to try again: {again}",
                view.namespace()
            );
            found.waits.push(view.wait(object, Reason::CreationFailed, sentence).with_remedy(remedy));
        }
    }

    /// Made when the control plane has begun; from then on they are watched as in any rollout.
    fn workers(&self, found: &mut Findings) -> Held<Vec<Write>> {
        let view = self.view;
        let asked = Wanted::of_workers(view, self.distribution, self.defaults);
        let is_one = |one: &Value| one["metadata"]["labels"][CLUSTER_NAME] == view.name();
        if !view.own.all(Collection::Deployments).any(is_one) {
            if self.is_up() {
                return manifests::workers(view, self.distribution, &asked).map_err(|why| ungenerated(view, &why));
            }
            let sentence = "workers follow once the control plane has begun";
            found.waits.push(view.wait(view.object(), Reason::ControlPlaneFirst, sentence));
            return Ok(Vec::new());
        }
        let Some(pool) = workers::compare(view, self.distribution, &asked)? else { return Ok(Vec::new()) };
        // Other templates that are asked for meanwhile follow as an update.
        let pool = Workers { wanted: pool.current.clone(), templates: Vec::new(), differences: Vec::new(), ..pool };
        let course = rollout::course(&View { places: None, ..*view }, &pool, &rollout::ControlPlane::default());
        found.waits.extend(course.waits.into_iter().filter(|wait| !found.waits.contains(wait)).collect::<Vec<_>>());
        Ok(course.writes)
    }
}
