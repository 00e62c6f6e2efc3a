//! How many clusters are updated at once.
//!
//! A place is the right to move the machines of one cluster. All of them stand in one annotation of one ConfigMap, which changes only
//! with its resourceVersion: of two operators that want the last one, one gets a conflict. A cluster takes its place when nothing
//! else holds it up, and gives it back when it is as it is asked for, or has halted and nothing of it moves any more.
//!
//! A request of an operator that has died may still land when the place has gone to another cluster. So a Job is made without pods, and is
//! let begin by a second write, guarded by the Job's version; and whoever gives back the place that another process took changes the
//! MachineDeployment first, so that a late change of it meets a conflict.

use std::collections::BTreeMap;

use drover_api::cluster_api::labels::CLUSTER_NAME;
use drover_api::marks::{CLAIMS, FENCED, PAUSED, PLACES};
use drover_api::tanzu::{NAMESPACE, PLACES_MAP};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Reason, View, Wait, control_plane, job, pods, publish, rollout, text};
use crate::decision::Act;
use crate::guest::seen::Collection;
use crate::guest::wait::{Object, Side, Write};

/// What is known of all places.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The ConfigMap that holds them; none if it is not there yet.
    pub map: Option<&'a Value>,
    /// There are so many.
    pub limit: usize,
    /// The process that decides.
    pub me: &'a str,
    /// The uids of all clusters that there are, by `NAMESPACE/NAME`.
    pub clusters: &'a BTreeMap<String, String>,
}

/// As kept in [`CLAIMS`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Taken {
    /// By `NAMESPACE/NAME`.
    #[serde(default)]
    clusters: BTreeMap<String, Place>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Place {
    /// Of the cluster.
    uid: String,
    /// The process that took it.
    by: String,
    since: Timestamp,
    /// It was at work beyond the limit, by somebody else's doing: others wait for it, and it begins nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    beyond: bool,
}

impl Place {
    fn id(&self) -> String {
        format!("{} {}", self.by, self.since)
    }
}

/// Whether a cluster may begin.
#[derive(Debug, Clone, PartialEq)]
pub enum Gate {
    Open,
    /// There is a place, and this takes it.
    Takes(Box<Write>),
    Shut(Box<Wait>),
    /// Its owner has paused it: it needs no place.
    Paused(Box<Wait>),
}

/// Asked before anything is done that moves machines.
pub fn gate(view: &View<'_>) -> Gate {
    if let Some(wait) = paused(view) {
        return Gate::Paused(Box::new(wait));
    }
    let taken = view.places.map(|places| places.taken());
    if taken.as_ref().is_some_and(|taken| taken.of(view).is_some_and(|place| !place.beyond)) {
        return Gate::Open;
    }
    if let Some(wait) = super::between::wait(view) {
        return Gate::Shut(Box::new(wait));
    }
    let Some((places, taken)) = view.places.zip(taken) else { return Gate::Open };
    let taken = taken.without(view);
    if taken.clusters.len() < places.limit {
        let write = places.write(taken.with(view, &places), "take a place among the clusters");
        return Gate::Takes(Box::new(write));
    }
    let names: Vec<&str> = taken.clusters.keys().map(String::as_str).collect();
    let sentence = format!("as many clusters are updated as may be at once: {}", names.join(", "));
    let wait = view.wait(view.object(), Reason::AnotherClusterFirst, sentence);
    Gate::Shut(Box::new(wait.with_remedy(
        "it begins when one of them is done or has halted; --guest-limit of the operator says how many may be",
    )))
}

/// What a cluster waits for that its owner has paused.
pub fn paused(view: &View<'_>) -> Option<Wait> {
    view.annotation(PAUSED).filter(|said| *said != "false")?;
    let sentence = "it is paused: nothing is begun, and workers stay as they are";
    let remedy = format!("drover upgrade resume tkc/{}", view.key());
    Some(view.wait(view.object(), Reason::ClusterPaused, sentence).with_remedy(remedy))
}

/// Keeps the places true: one that is not needed is given back, and a cluster that moves without one, by whoever's doing, is
/// counted. `wants` says that it has something to begin.
pub fn settle(view: &View<'_>, wants: bool, is_refused: bool) -> Option<Write> {
    let places = view.places?;
    let taken = places.taken();
    let holds = taken.of(view).is_some();
    match (holds, moves(view, holds && !is_refused)) {
        (true, false) if !wants => give_back(view, &places, &taken),
        (false, true) => Some(places.write(taken.with(view, &places), "count a cluster that is at work")),
        _ => None,
    }
}

/// A cluster that goes needs no place.
pub fn leave(view: &View<'_>) -> Option<Write> {
    let places = view.places?;
    let taken = places.taken();
    taken.of(view).map(|_| places.write(taken.without(view), GIVES_BACK))
}

const GIVES_BACK: &str = "give a place back";

fn give_back(view: &View<'_>, places: &Places<'_>, taken: &Taken) -> Option<Write> {
    // A request to let it begin may be under way.
    if let Some(job) = job::of_cluster(view).into_iter().find(|job| job::is_unbegun(job)) {
        return Some(control_plane::cleared(job));
    }
    let place = taken.of(view)?;
    let is_late = |one: &&Value| place.by != places.me && one["metadata"]["annotations"][FENCED] != place.id();
    if let Some(deployment) = deployments(view).find(is_late) {
        let patch = json!({ "metadata": { "annotations": { FENCED: place.id() } } });
        return Some(rollout::guarded(deployment, patch, "fence workers against what is late"));
    }
    Some(places.write(taken.without(view), GIVES_BACK))
}

/// Whether machines of the cluster come or go, or will without anybody's doing. Workers that are not all well are on their way if the
/// cluster has a place, and ill otherwise.
fn moves(view: &View<'_>, on_its_way: bool) -> bool {
    let jobs = job::of_cluster(view);
    let is_at_work = |job: &&Value| match job::state(job) {
        job::State::Active => !job::is_unbegun(job),
        // One that was kept from starting may have started just before.
        job::State::Failed => job::halted(job).is_some() && pods::are_left(view, job),
        job::State::Complete => false,
    };
    let roll = |deployment: &Value| match deployment["spec"]["paused"] == true {
        true => on_its_way && rollout::someone_leaves(view),
        false => rollout::rolls(view, deployment) || on_its_way && !rollout::is_complete(view, deployment),
    };
    jobs.iter().any(is_at_work) || pods::left_behind(view, &jobs).is_some() || deployments(view).any(roll)
}

fn deployments<'a>(view: &View<'a>) -> impl Iterator<Item = &'a Value> {
    let name = view.name();
    view.own.all(Collection::Deployments).filter(move |one| one["metadata"]["labels"][CLUSTER_NAME] == name)
}

impl Places<'_> {
    /// Those of clusters that there are. What cannot be read counts as lost: whoever moves is counted again.
    fn taken(&self) -> Taken {
        let said = self.map.and_then(|map| map["metadata"]["annotations"][CLAIMS].as_str());
        let mut taken: Taken = said.and_then(|said| serde_json::from_str(said).ok()).unwrap_or_default();
        taken.clusters.retain(|name, place| self.clusters.get(name) == Some(&place.uid));
        taken
    }

    fn write(&self, taken: Taken, purpose: &'static str) -> Write {
        let annotations = json!({ CLAIMS: json!(taken).to_string() });
        let object = Object {
            side: Side::Management,
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: NAMESPACE.to_owned(),
            name: PLACES_MAP.to_owned(),
        };
        let act = match self.map {
            Some(map) => Act::Patch(json!({
                "metadata": { "resourceVersion": map["metadata"]["resourceVersion"], "annotations": annotations },
            })),
            None => Act::Create(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": PLACES_MAP, "namespace": NAMESPACE, "labels": { PLACES: "" }, "annotations": annotations,
                },
            })),
        };
        Write { object, act, purpose }
    }
}

impl Taken {
    fn of(&self, view: &View<'_>) -> Option<&Place> {
        self.clusters.get(&view.key())
    }

    fn with(mut self, view: &View<'_>, places: &Places<'_>) -> Self {
        let place = Place {
            uid: view.uid().to_owned(),
            by: places.me.to_owned(),
            since: publish::whole(view.now),
            beyond: self.clusters.len() >= places.limit,
        };
        self.clusters.insert(view.key(), place);
        self
    }

    fn without(&self, view: &View<'_>) -> Self {
        let mut taken = self.clone();
        taken.clusters.remove(&view.key());
        taken
    }
}

/// The uids of clusters by `NAMESPACE/NAME`.
pub fn by_name<'a>(clusters: impl Iterator<Item = &'a Value>) -> BTreeMap<String, String> {
    let entry = |tkc: &Value| {
        let metadata = &tkc["metadata"];
        let name = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
        (name, text(&metadata["uid"]).to_owned())
    };
    clusters.map(entry).collect()
}
