//! What is done on the guest next: apply what differs, then delete what is no longer contained, once no old Node is left.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::marks::ADDON;
use drover_api::tanzu::tanzu_kubernetes_cluster::addons as places;
use drover_api::vm_operator::virtual_machine_image::addons as names;
use serde_json::{Value, json};

use super::super::text;
use super::inventory::{self, Entry, Inventory};
use super::source::NEEDED;
use super::{Addon, Order, Source, Standing, State, Told, Unread, corefile, guard, manifest, storage, taken_over};
use crate::guest::wait::{Object, Side};

/// They hold what belongs to others: never deleted.
const KEPT: [&str; 4] = ["Namespace", "CustomResourceDefinition", "PersistentVolume", "PersistentVolumeClaim"];
/// Others are made of them.
const FIRST: [&str; 2] = ["Namespace", "CustomResourceDefinition"];

/// What was read of the guest, and what became of the steps since.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// By `apiVersion`, the kinds that it serves; none if it does not know that version, nor another of the group.
    pub served: BTreeMap<String, Option<BTreeMap<String, Served>>>,
    /// What was asked for; none if it is not there.
    pub objects: BTreeMap<Object, Option<Value>>,
    /// Nodes, and the distribution that their labels name.
    pub nodes: BTreeMap<String, Option<String>>,
    /// Applied since all of this was read: what a server writes in another way is not applied again and again.
    pub applied: BTreeSet<Object>,
    /// What the guest has answered with a code in place of: whether it is there is not known.
    pub unread: BTreeSet<Unread>,
    /// Add-ons that something went wrong with, by id.
    pub failed: BTreeMap<String, String>,
    /// The guest knows no server-side apply: Kubernetes before 1.16.
    pub cannot_apply: bool,
}

/// A kind, as the guest serves it.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// The version that was asked for, or another of its group.
    pub api_version: String,
    pub plural: String,
    pub namespaced: bool,
}

impl Served {
    pub fn path(&self, object: &Object) -> String {
        format!("{}/{}", self.collection(object), object.name)
    }

    /// Where all of its kind are.
    pub fn collection(&self, object: &Object) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let place = match self.namespaced {
            true => format!("/namespaces/{}", object.namespace),
            false => String::new(),
        };
        format!("/{root}/{}{place}/{}", self.api_version, self.plural)
    }
}

impl Observed {
    pub fn served(&self, object: &Object) -> Option<&Served> {
        self.served.get(&object.api_version)?.as_ref()?.get(&object.kind)
    }

    fn is_unread(&self, object: &Object) -> bool {
        self.unread.contains(&Unread::Object(object.clone())) || self.is_undiscovered(&object.api_version)
    }

    fn is_undiscovered(&self, version: &str) -> bool {
        self.unread.contains(&Unread::Version(version.to_owned()))
    }

    fn live(&self, object: &Object) -> Option<&Value> {
        self.objects.get(object)?.as_ref()
    }
}

/// One step, for the sake of one add-on; of all where none is named.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub addon: Option<String>,
    pub object: Object,
    pub deed: Deed,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// The first writing of an object: refused if it is there.
    Create(Value),
    /// A JSON patch: what was created counts as applied.
    Adopt(Value),
    /// Server-side apply; `metadata.uid` and `metadata.resourceVersion` say to what.
    Apply(Value),
    /// The whole object, where a guest cannot apply, guarded in the same way.
    Update(Value),
    Delete {
        uid: String,
    },
}

impl Step {
    /// What it is for, in a few words, for the log.
    pub fn purpose(&self) -> &'static str {
        match (&self.deed, &self.addon) {
            (Deed::Delete { .. }, _) => "delete what an add-on no longer contains",
            (Deed::Adopt(_), _) => "manage what was created for an add-on",
            (Deed::Create(_) | Deed::Apply(_) | Deed::Update(_), None) => "remember what add-ons consist of",
            (Deed::Create(_) | Deed::Apply(_) | Deed::Update(_), Some(_)) => "apply an add-on",
        }
    }
}

/// What to do, one add-on beside the other; without a step it is done, and `told` is what became of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Course {
    pub steps: Vec<Step>,
    pub told: Told,
}

/// What has to be read of the guest first: versions of APIs, then objects.
pub fn needs(order: &Order, observed: &Observed) -> (Vec<String>, Vec<Object>) {
    let inventory = inventory::object();
    let remembered = remembered(observed);
    let entries = || remembered.values().flatten().map(Entry::object);
    let of_others = || taken_over::unknown(order, &remembered).map(|before| &before.manifest);
    let manifests =
        || order.addons.iter().flat_map(Addon::manifests).chain(of_others()).map(|one| Object::of(Side::Guest, one));
    let versions: BTreeSet<String> =
        [inventory.clone()].into_iter().chain(manifests()).chain(entries()).map(|object| object.api_version).collect();
    let is_asked = |version: &String| observed.served.contains_key(version) || observed.is_undiscovered(version);
    let versions = versions.into_iter().filter(|version| !is_asked(version)).collect();
    let placed = manifests().filter_map(|object| placed(observed, object).ok());
    let left = leftovers(order, observed, &remembered).into_iter().map(|(_, entry)| entry.object());
    let objects: BTreeSet<Object> = [inventory, corefile::object()].into_iter().chain(placed).chain(left).collect();
    let is_to_read = |object: &Object| {
        !observed.objects.contains_key(object) && !observed.is_unread(object) && observed.served(object).is_some()
    };
    (versions, objects.into_iter().filter(is_to_read).collect())
}

pub fn course(order: &Order, observed: &Observed) -> Course {
    let remembered = remembered(observed);
    let mut told = Told { key: order.key.clone(), answered: true, ..Told::default() };
    let mut steps = Vec::new();
    for addon in &order.addons {
        let (own, state, passing) = apply(order, addon, observed, &remembered);
        steps.extend(own);
        told.again |= passing;
        let standing = Standing { name: addon.name.clone(), version: addon.version.clone(), state };
        told.standing.insert(addon.place.clone(), standing);
    }
    let goes = prune(order, observed, &remembered, &mut told);
    let wanted = wanted(order, observed, &remembered, &goes.gone);
    // It is remembered before it is there: what nobody remembers would stay for ever.
    if let Some(step) = remember(order, observed, &wanted) {
        return Course { steps: vec![step], told };
    }
    steps.extend(goes.steps);
    Course { steps, told }
}

/// The guest cannot be asked.
pub fn unreachable(order: &Order, why: &str) -> Told {
    let why = format!(
        "the API of the guest cluster does not answer: {why}; look at field value of {} and at the machines of the control \
         plane; it is tried again",
        order.kubeconfig
    );
    // One that is made is waited for, until its machines have taken too long.
    let state = if order.creates { State::Unreached } else { State::Error };
    not_had(order, &|| state(why.clone()))
}

/// What all add-ons need cannot be had of the guest, for this reason.
pub fn unreadable(order: &Order, why: &str) -> Told {
    not_had(order, &|| State::Error(why.to_owned()))
}

/// How all add-ons stand that have something to apply.
fn not_had(order: &Order, state: &dyn Fn() -> State) -> Told {
    let mut told = Told { key: order.key.clone(), again: true, ..Told::default() };
    for addon in &order.addons {
        let state = match &addon.source {
            Source::Broken(why) => State::Error(why.clone()),
            Source::None(why) => State::Unmanaged(why.clone()),
            Source::Objects(_) | Source::Default(_) | Source::Change(_) => state(),
        };
        let standing = Standing { name: addon.name.clone(), version: addon.version.clone(), state };
        told.standing.insert(addon.place.clone(), standing);
    }
    told
}

/// What a server refused, in words for `lastErrorMessage`.
pub fn refused(order: &Order, step: &Step, code: Option<u16>, why: &str) -> String {
    let verb = if matches!(step.deed, Deed::Delete { .. }) { "delete" } else { "apply" };
    format!("cannot {verb} {}: {why}; {}", step.object, remedy(order, code))
}

/// What helps where a server has answered with this code.
pub(super) fn remedy(order: &Order, code: Option<u16>) -> String {
    match code {
        Some(401 | 403) => format!("let the user of {} do so; it is tried again", order.kubeconfig),
        Some(400 | 404 | 422) => {
            "mend that in the image of the distribution, or on the guest; it is tried again".to_owned()
        }
        _ => "it is tried again".to_owned(),
    }
}

impl Addon {
    pub(super) fn manifests(&self) -> &[Value] {
        match &self.source {
            Source::Objects(objects) | Source::Default(objects) => objects,
            Source::Change(object) => std::slice::from_ref(object),
            Source::Broken(_) | Source::None(_) => &[],
        }
    }
}

fn remembered(observed: &Observed) -> Inventory {
    inventory::read(observed.live(&inventory::object()))
}

/// Where an object is: those that need a namespace and name none are in `default`.
pub fn placed(observed: &Observed, mut object: Object) -> Result<Object, String> {
    let version = object.api_version.clone();
    match observed.served(&object) {
        Some(served) if served.api_version == version => {
            if !served.namespaced {
                object.namespace.clear();
            } else if object.namespace.is_empty() {
                object.namespace = "default".to_owned();
            }
            Ok(object)
        }
        Some(other) => Err(format!("{object} is of {version}, and the guest cluster serves {}", other.api_version)),
        None => Err(format!("{object} is of {version}, and the guest cluster serves no {} of it", object.kind)),
    }
}

/// The steps of one add-on, how it stands, and whether that may pass by itself.
fn apply(order: &Order, addon: &Addon, observed: &Observed, remembered: &Inventory) -> (Vec<Step>, State, bool) {
    if let Some(why) = another_network(addon, remembered) {
        return (Vec::new(), State::Error(why), false);
    }
    let manifests = match &addon.source {
        Source::Broken(why) => return (Vec::new(), State::Error(why.clone()), false),
        // An image that stops bringing one of these is not rolled out.
        Source::None(why) if NEEDED.contains(&addon.place.as_str()) && order.had.contains(&addon.id) => {
            let why = format!("{why}, and those of the machines that run have it; ask for a version that brings it");
            return (Vec::new(), State::Error(why), false);
        }
        Source::None(why) if NEEDED.contains(&addon.place.as_str()) && remembered.contains_key(&addon.id) => {
            let why = format!(
                "{why}, and it is applied in an earlier version; ask for a version that brings it, or take {} out of {}",
                addon.id,
                inventory::object()
            );
            return (Vec::new(), State::Error(why), false);
        }
        Source::None(why) => return (Vec::new(), State::Unmanaged(why.clone()), false),
        Source::Change(change) => {
            let object = Object::of(Side::Guest, change);
            if matches!(observed.objects.get(&object), Some(None)) {
                let why = format!("{object} is not there, which kubeadm makes");
                if order.creates {
                    return (Vec::new(), State::Pending, true);
                }
                return (Vec::new(), State::Unmanaged(why), false);
            }
            std::slice::from_ref(change)
        }
        Source::Default(objects) => {
            let unknown = objects.iter().find_map(|one| placed(observed, Object::of(Side::Guest, one)).err());
            match unknown.filter(|_| objects.iter().all(|one| !observed.is_undiscovered(text(&one["apiVersion"])))) {
                Some(why) => return (Vec::new(), State::Unmanaged(why), false),
                None => objects.as_slice(),
            }
        }
        Source::Objects(objects) => objects.as_slice(),
    };
    if let Some(why) = observed.failed.get(&addon.id) {
        return (Vec::new(), State::Error(why.clone()), true);
    }
    // What it is to read comes before what reads it.
    match configured(addon, observed) {
        Ok(None) => {}
        Ok(Some(step)) => return (vec![step], State::Pending, true),
        Err(why) => return (Vec::new(), State::Error(format!("{why}; it is tried again")), true),
    }
    let mut ordered: Vec<&Value> = manifests.iter().collect();
    ordered.sort_by_key(|one| !FIRST.contains(&text(&one["kind"])));
    let (mut steps, mut lost) = (Vec::new(), None);
    for one in ordered {
        match placed(observed, Object::of(Side::Guest, one)) {
            Ok(object) => steps.extend(step(order, addon, observed, object, one)),
            Err(why) => lost = lost.or(Some(why)),
        }
    }
    match lost {
        // What it lacks may come with a definition that is applied in these very steps.
        Some(why) => {
            (steps, State::Error(format!("{why}; choose a distribution that fits it; it is tried again")), true)
        }
        None if steps.is_empty() => (steps, State::Applied, false),
        None => (steps, State::Pending, true),
    }
}

/// The configuration of CoreDNS, where its next version would not understand it.
fn configured(addon: &Addon, observed: &Observed) -> Result<Option<Step>, String> {
    let object = corefile::object();
    let Some(live) = observed.live(&object).filter(|_| addon.place == places::DNS) else { return Ok(None) };
    let wanted = corefile::wanted(live, &addon.version)?;
    let deed = |map: Value| written(observed, Some(live), map, &[]);
    Ok(wanted.map(|map| Step { addon: Some(addon.id.clone()), object, deed: deed(map) }))
}

/// Two networks would take the pods of a Node from each other.
fn another_network(addon: &Addon, remembered: &Inventory) -> Option<String> {
    let is_another = |name: &&&str| **name != addon.id && remembered.contains_key(**name);
    let runs = names::NETWORKS.iter().filter(|_| addon.place == places::CNI).find(is_another)?;
    Some(format!(
        "spec.settings.network.cni.name asks for {}, and the pods of the cluster run on {runs}, which no new machine can change; \
         set spec.settings.network.cni.name to {runs}",
        addon.id
    ))
}

fn step(order: &Order, addon: &Addon, observed: &Observed, object: Object, wanted: &Value) -> Option<Step> {
    let live = observed.live(&object);
    let stays = matches!(addon.source, Source::Default(_));
    let is_kept = |live: &Value| stays || manifest::holds(live, wanted) || storage::is_anothers(addon, live);
    if observed.applied.contains(&object) || live.is_some_and(is_kept) {
        return None;
    }
    let mut body = wanted.clone();
    if !object.namespace.is_empty() {
        body["metadata"]["namespace"] = json!(object.namespace);
    } else if let Some(metadata) = body["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    let before: Vec<&Value> = order.earlier.iter().filter(|one| manifest::is_same(one, wanted)).collect();
    Some(Step { addon: Some(addon.id.clone()), object, deed: written(observed, live, body, &before) })
}

/// What comes next on the way to `wanted`, as the guest can do it. `before` is what was written there before.
fn written(observed: &Observed, live: Option<&Value>, wanted: Value, before: &[&Value]) -> Deed {
    match observed.cannot_apply || live.is_some_and(guard::is_untracked) {
        true => guard::written_whole(live, wanted, before),
        false => guard::written(live, wanted),
    }
}

/// What remembers all that is applied, if it says something else.
fn remember(order: &Order, observed: &Observed, wanted: &Inventory) -> Option<Step> {
    let object = inventory::object();
    let live = observed.live(&object);
    let is_there = live.is_some_and(|live| inventory::read(Some(live)) == *wanted);
    let applies =
        |addon: &Addon| matches!(addon.source, Source::Objects(_)) && !observed.failed.contains_key(&addon.id);
    if is_there || !order.addons.iter().any(applies) {
        return None;
    }
    let before = json!({ "data": live.map_or(&Value::Null, |live| &live["data"]) });
    let deed = written(observed, live, inventory::written(wanted), &[&before]);
    Some(Step { addon: None, object, deed })
}

/// What is to be remembered: all that is brought now, and what was brought before and is not known to be gone.
fn wanted(order: &Order, observed: &Observed, remembered: &Inventory, gone: &[Entry]) -> Inventory {
    let mut all = remembered.clone();
    // Of one that has failed nothing is applied. What it had before may not have been read, and is remembered with its first writing or never.
    let goes_on = |addon: &String| !observed.failed.contains_key(addon);
    // In the same write as what is new: afterwards nobody could tell whose it is.
    for (addon, entry) in taken_over::entries(order, observed, remembered).into_iter().filter(|one| goes_on(&one.0)) {
        all.entry(addon).or_default().push(entry);
    }
    for addon in order.addons.iter().filter(|addon| goes_on(&addon.id)) {
        let Source::Objects(manifests) = &addon.source else { continue };
        let placed = manifests.iter().filter_map(|one| placed(observed, Object::of(Side::Guest, one)).ok());
        let placed: Vec<Object> = placed.collect();
        let entries = all.entry(addon.id.clone()).or_default();
        entries.retain(|entry| !gone.contains(entry) && !placed.iter().any(|object| entry.is(object)));
        entries.extend(placed.iter().map(|object| Entry::of(object, &order.distribution)));
        entries.sort();
    }
    all.retain(|_, entries| !entries.is_empty());
    all
}

/// What an earlier distribution brought, and no add-on contains any more. What this one brought itself and brings no longer stays
/// until the next: its pods may still run.
fn leftovers(order: &Order, observed: &Observed, remembered: &Inventory) -> Vec<(String, Entry)> {
    let contained = |entry: &Entry| {
        order.addons.iter().flat_map(Addon::manifests).any(|one| {
            let object = Object::of(Side::Guest, one);
            entry.is(&object) || placed(observed, object).is_ok_and(|object| entry.is(&object))
        })
    };
    // Where what it contains now stands cannot be told without knowing its kinds.
    let is_known =
        |addon: &&Addon| addon.manifests().iter().all(|one| !observed.is_undiscovered(text(&one["apiVersion"])));
    let of_objects = order.addons.iter().filter(|addon| matches!(addon.source, Source::Objects(_)));
    let entries = of_objects.filter(is_known).filter_map(|addon| Some((&addon.id, remembered.get(&addon.id)?)));
    let entries = entries.flat_map(|(id, entries)| entries.iter().map(move |entry| (id.clone(), entry.clone())));
    entries.filter(|(_, entry)| entry.distribution != order.distribution && !contained(entry)).collect()
}

/// What others have applied is known by its uid, all else by its label.
fn is_ours(live: &Value, addon: &str, entry: &Entry) -> bool {
    match entry.uid.as_str() {
        "" => live["metadata"]["labels"][ADDON] == addon,
        uid => live["metadata"]["uid"] == uid,
    }
}

#[derive(Default)]
struct Goes {
    steps: Vec<Step>,
    /// Not there any more, or not ours.
    gone: Vec<Entry>,
}

/// Deletes what is left over, if it is certain that no pod needs it: every Node is of the distribution, no machine of another is there
/// or on its way, all manifests can be read, and the add-on itself is applied.
fn prune(order: &Order, observed: &Observed, remembered: &Inventory, told: &mut Told) -> Goes {
    let left = leftovers(order, observed, remembered);
    let mut goes = Goes::default();
    let old_node = observed.nodes.iter().find(|(_, label)| label.as_ref() != Some(&order.label));
    let is_unread = order.addons.iter().any(|addon| matches!(addon.source, Source::Broken(_)));
    // Without a Node nothing is known of the cluster.
    let is_held = order.old.is_some() || old_node.is_some() || is_unread || observed.nodes.is_empty();
    for (addon, entry) in left {
        let object = entry.object();
        let place = order.addons.iter().find(|one| one.id == addon).map(|one| &one.place);
        let standing = place.and_then(|place| told.standing.get(place));
        let is_applied = standing.is_some_and(|standing| standing.state == State::Applied);
        if !is_held && is_applied {
            let is_unknown = observed.served(&object).is_none() && !observed.is_undiscovered(&object.api_version);
            let is_forgotten = KEPT.contains(&entry.kind.as_str()) || is_unknown;
            match observed.objects.get(&object) {
                _ if is_forgotten => {
                    goes.gone.push(entry);
                    continue;
                }
                // What somebody else has made in its place is not ours.
                Some(live) if live.as_ref().is_none_or(|live| !is_ours(live, &addon, &entry)) => {
                    goes.gone.push(entry);
                    continue;
                }
                Some(Some(live)) if live["metadata"]["deletionTimestamp"].is_null() => {
                    let deed = Deed::Delete { uid: text(&live["metadata"]["uid"]).to_owned() };
                    goes.steps.push(Step { addon: Some(addon.clone()), object: object.clone(), deed });
                }
                // On its way out, or not read.
                _ => {}
            }
        }
        let distribution = &entry.distribution;
        let sentence = format!(
            "add-on {addon}: {object} of {distribution} is no longer contained, and goes when no Node of {distribution} is left"
        );
        told.left.push(sentence);
    }
    if !told.left.is_empty() && order.old.is_none() {
        // Nobody tells when a Node has gone whose machine went before.
        told.again = true;
        told.holder = old_node.map(|(name, _)| Object {
            side: Side::Guest,
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            namespace: String::new(),
            name: name.clone(),
        });
    }
    goes
}
