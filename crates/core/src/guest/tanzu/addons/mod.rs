//! Add-ons come first: new machines bring the containers of new add-ons only.
//!
//! What the image of a distribution brings is applied on the guest itself, each add-on for itself. [`asked`] says what that is;
//! whoever can reach the guest reads there what [`course`] asks for, and carries out what it decides, until there is nothing
//! left to do. What became of it is [`Told`], and that alone opens the way for the control plane: what stands in the status is not believed.

mod corefile;
mod course;
mod guard;
mod inventory;
mod manifest;
mod merged;
mod psp;
mod source;
mod storage;
mod taken_over;
mod unread;

pub use course::{Course, Deed, Observed, Served, Step, course, needs, refused, unreachable, unreadable};
pub(crate) use manifest::objects;
pub use unread::Unread;

use std::collections::{BTreeMap, BTreeSet};

use drover_api::cluster_api::labels::CLUSTER_NAME;
use drover_api::marks::RECONCILE;
use drover_api::tanzu::tanzu_kubernetes_cluster::addon_states::{APPLIED, ERROR, PENDING, UNMANAGED};
use drover_api::tanzu::tanzu_kubernetes_cluster::addons as places;
use serde_json::{Value, json};

use super::distribution::Distribution;
use super::{Held, Reason, View, Wait, belongs_to, creation, text};
use crate::guest::seen::Collection;
use crate::guest::wait::{Object, Side};

/// What is asked of the add-ons of one guest.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// Another one, if anything is another that they follow from.
    pub key: String,
    pub distribution: String,
    /// What Nodes of the distribution carry as its label.
    pub label: String,
    pub addons: Vec<Addon>,
    /// What is, or makes, a machine of another distribution: so long nothing is deleted.
    pub old: Option<Object>,
    /// What the images of other machines bring of these add-ons, and this one does not.
    pub before: Vec<Before>,
    /// What they bring of the objects that this one brings, too.
    pub earlier: Vec<Value>,
    /// The add-ons that the images of other machines bring.
    pub had: BTreeSet<String>,
    /// The cluster is being made: what kubeadm makes may not be there yet.
    pub creates: bool,
    /// What leads to the guest.
    pub kubeconfig: Object,
}

/// An object of an add-on in an earlier distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Before {
    pub addon: String,
    pub distribution: String,
    /// As the image brings it.
    pub manifest: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Addon {
    /// Where it stands in `status.addons`; one without a place there has its name.
    pub place: String,
    /// What the annotation of the image calls it.
    pub id: String,
    pub name: String,
    pub version: String,
    pub source: Source,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// These objects.
    Objects(Vec<Value>),
    /// These where they are missing; what is there stays as it is. Nothing where the guest knows no such kind.
    Default(Vec<Value>),
    /// A change of an object that is there already.
    Change(Value),
    /// What is wrong with it.
    Broken(String),
    /// Why there is none.
    None(String),
}

/// What became of the add-ons when the guest was last asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// Of the [`Order`].
    pub key: String,
    pub standing: BTreeMap<String, Standing>,
    /// What no add-on contains any more, and is still there.
    pub left: Vec<String>,
    /// The Node for whose sake that is.
    pub holder: Option<Object>,
    /// Something may pass by itself: it is tried again.
    pub again: bool,
    /// The guest could be asked.
    pub answered: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    pub name: String,
    pub version: String,
    pub state: State,
}

#[derive(Debug, Clone, PartialEq)]
pub enum State {
    Applied,
    Pending,
    /// Pending, since a guest that is made is not there yet as far as this tells.
    Unreached(String),
    Error(String),
    Unmanaged(String),
}

impl Standing {
    fn published(&self) -> Value {
        let (state, said) = match &self.state {
            State::Applied => (APPLIED, None),
            State::Pending | State::Unreached(_) => (PENDING, None),
            State::Error(why) => (ERROR, Some(why)),
            State::Unmanaged(why) => (UNMANAGED, Some(why)),
        };
        let mut shown = json!({ "name": self.name, "status": state });
        if !self.version.is_empty() {
            shown["version"] = json!(self.version);
        }
        if let Some(said) = said {
            shown["lastErrorMessage"] = json!(said);
        }
        shown
    }

    /// Why it holds up the control plane.
    fn holds(&self) -> Option<String> {
        match &self.state {
            State::Applied | State::Unmanaged(_) => None,
            State::Pending => Some(format!("add-on {} is not applied yet", self.name)),
            State::Unreached(why) => Some(format!("add-on {} is not applied yet: {why}", self.name)),
            State::Error(why) => Some(format!("add-on {} cannot be applied: {why}", self.name)),
        }
    }
}

/// What the guest is to be asked for; none before there is one.
pub fn order(view: &View<'_>, distribution: &Distribution) -> Option<Order> {
    let key = key(view, distribution)?;
    let image = view.global.get(Collection::Images, &distribution.image)?;
    let addons = source::all(view, distribution, image);
    let (before, earlier) = taken_over::before(view, distribution, &addons);
    let had = taken_over::brought_before(view, distribution);
    Some(Order {
        key,
        distribution: distribution.version.clone(),
        label: distribution.label(),
        before,
        earlier,
        had,
        creates: creation::is_due(view) || !is_up(view),
        addons,
        old: old(view, distribution),
        kubeconfig: view.kubeconfig(),
    })
}

/// Stands for all that add-ons follow from; reading their manifests is more work than most looks are worth.
fn key(view: &View<'_>, distribution: &Distribution) -> Option<String> {
    let is_there = is_up(view) || may_answer(view);
    let image = view.global.get(Collection::Images, &distribution.image).filter(|_| is_there)?;
    let revision = text(&image["metadata"]["resourceVersion"]);
    let (network, authsvc) = (source::network(view), source::began_with_authsvc(view));
    let storage = storage::asked(view);
    // Nobody watches a guest: whoever knows that something is broken there says so.
    let wish = view.annotation(RECONCILE).unwrap_or_default();
    Some(format!("{} {revision} {network} {authsvc} {storage} {wish}", distribution.image))
}

/// Cluster API has seen a Node of its control plane.
fn is_up(view: &View<'_>) -> bool {
    view.cluster().is_some_and(|cluster| cluster["status"]["controlPlaneInitialized"] == true)
}

/// A machine of its control plane runs, so its API may answer. Who waits for more waits for ever: without the cloud provider, which is an
/// add-on itself, no Node gets the `providerID` by which Cluster API knows it.
fn may_answer(view: &View<'_>) -> bool {
    view.machines(true).any(|machine| !text(&machine["spec"]["providerID"]).is_empty())
}

/// What is told of what is asked for now.
fn told<'a>(view: &View<'a>, distribution: &Distribution) -> Option<&'a Told> {
    let key = key(view, distribution)?;
    view.addons.filter(|told| told.key == key)
}

/// Refuses a new cluster whose machines would never become Nodes, for want of an add-on that each needs.
pub fn refuse_incomplete(view: &View<'_>, distribution: &Distribution) -> Held<()> {
    let Some(image) = view.global.get(Collection::Images, &distribution.image) else { return Ok(()) };
    let Some((object, why, remedy)) = source::lacking(view, image) else { return Ok(()) };
    Err(Box::new(view.wait(object, Reason::ImageInvalid, why).with_remedy(remedy)))
}

/// The guest has not been asked for what is wanted now.
pub fn is_news(view: &View<'_>, distribution: &Distribution) -> bool {
    key(view, distribution).is_some_and(|key| view.addons.is_none_or(|told| told.key != key))
}

/// What the control plane waits for; none if every add-on that is kept is applied in the version of the distribution.
pub fn gate(view: &View<'_>, distribution: &Distribution) -> Option<Wait> {
    match told(view, distribution) {
        Some(_) => trouble(view, distribution),
        None => {
            let sentence = format!("the add-ons of {} are not applied yet", distribution.version);
            Some(view.wait(view.object(), Reason::AddonsNotApplied, sentence))
        }
    }
}

/// What is wrong with add-ons, whether or not anything waits for them.
pub fn trouble(view: &View<'_>, distribution: &Distribution) -> Option<Wait> {
    let standing = &told(view, distribution)?.standing;
    let held: Vec<String> = standing.values().filter_map(Standing::holds).collect();
    if held.is_empty() {
        return None;
    }
    let wait = view.wait(view.object(), Reason::AddonsNotApplied, held.join("; "));
    Some(wait.with_remedy("mend what status.addons names; the control plane follows by itself"))
}

/// What is there and should not be, in sentences.
pub fn differences(view: &View<'_>, distribution: &Distribution) -> Vec<String> {
    told(view, distribution).map(|told| told.left.clone()).unwrap_or_default()
}

/// What stays because of an old Node, where nothing else explains it.
pub fn leftover(view: &View<'_>, distribution: &Distribution) -> Option<Wait> {
    let told = told(view, distribution).filter(|told| !told.left.is_empty())?;
    let node = told.holder.clone()?;
    let sentence = format!(
        "{node} is not of {}: what add-ons no longer contain stays as long as it is there",
        distribution.version
    );
    let wait = view.wait(node, Reason::OldNodesLeft, sentence);
    Some(wait.with_remedy("replace the machine of the Node, or delete the Node if it has none"))
}

/// `status.addons`: what is not known yet stays as it was said, or is pending.
pub fn published(view: &View<'_>, distribution: &Distribution) -> Value {
    let told = told(view, distribution);
    let before = &view.tkc["status"]["addons"];
    let mut all = json!({});
    for place in places::ALL {
        all[place] = match told.and_then(|told| told.standing.get(place)) {
            Some(standing) => standing.published(),
            None if before[place].is_object() => before[place].clone(),
            None => json!({ "name": source::named(view, place), "status": PENDING }),
        };
    }
    all
}

/// A machine of another distribution, or what would make one.
fn old(view: &View<'_>, distribution: &Distribution) -> Option<Object> {
    let is_old = |collection: Collection, name: &str, at: &str| {
        let object = view.own.get(collection, name);
        object.is_none_or(|object| object.pointer(at).is_none_or(|image| *image != json!(distribution.image)))
    };
    let machine = view.machines(true).chain(view.machines(false)).find(|machine| {
        let reference = &machine["spec"]["infrastructureRef"];
        let key = format!("{}/{}", text(&reference["kind"]), text(&reference["name"]));
        is_old(Collection::Infrastructure, &key, "/spec/imageName")
    });
    let template = |owner: &Value| {
        let name = text(&owner["spec"]["template"]["spec"]["infrastructureRef"]["name"]);
        is_old(Collection::MachineTemplates, name, "/spec/template/spec/imageName")
    };
    let is_one = |one: &&Value| one["metadata"]["labels"][CLUSTER_NAME] == view.name();
    let deployments: Vec<&Value> = view.own.all(Collection::Deployments).filter(is_one).collect();
    let is_owned = |set: &&Value| deployments.iter().any(|one| belongs_to(set, one));
    let makes = |set: &&Value| set["spec"]["replicas"].as_u64().unwrap_or(1) > 0 && template(set);
    let set = view.own.all(Collection::Sets).filter(is_owned).find(makes);
    let deployment = deployments.iter().copied().find(|one| template(one));
    machine.or(set).or(deployment).map(|found| Object::of(Side::Management, found))
}
