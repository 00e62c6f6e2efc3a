//! The steps of an update, in their order: what is asked for, add-ons, control plane, workers.

use std::collections::BTreeSet;

use drover_api::marks::GUEST;
use serde_json::Value;

use super::between::Standing;
use super::defaults::{self, Defaults};
use super::difference::shown;
use super::distribution::{Asked, Distribution, asked, written_down};
use super::publish::{Findings, awaits_a_node, status};
use super::wanted::{self, Wanted};
use super::watched::counted;
use super::{
    Decision, Held, Reason, View, Wait, addons, classes, control_plane, creation, job, leaving, places, rollout, text,
    workers,
};
use crate::decision::Act;
use crate::guest::order::{Order, Version};
use crate::guest::seen::{Collection, Seen};
use crate::guest::wait::Write;
use crate::plan::version::is_lower;

pub fn decide(view: &View<'_>) -> Decision {
    if !view.tkc["metadata"]["deletionTimestamp"].is_null() {
        return leaving::leave(view);
    }
    let mut found = Findings::default();
    let (mut acts, is_refused) = match look(view, &mut found) {
        Ok(acts) => (acts, false),
        Err(wait) => {
            // What tells now that it was there once may be gone when somebody looks again.
            let is_lost = wait.reason == Reason::ClusterMissing;
            let noted = creation::remembered(view).filter(|_| is_lost);
            found.waits.push(*wait);
            (noted.into_iter().collect(), true)
        }
    };
    // Whoever is made endangers nothing that runs, and needs no place.
    if !found.creates {
        acts.extend(places::settle(view, found.wants, is_refused));
    }
    // Before anything else: whatever is made of it has to go with it.
    let acts = leaving::hold(view).map_or(acts, |write| vec![write]);
    // What changes the TanzuKubernetesCluster itself is done alone: all else rests on its version.
    let is_own = |write: &Write| write.object == view.object();
    let writes = match acts.iter().any(is_own) {
        true => acts.into_iter().filter(|write| is_own(write)).collect(),
        // What differs is said before it is acted on.
        false => status(view, &found).into_iter().chain(acts).collect(),
    };
    let (watched, look_again) = counted(view, &found.waits);
    let Findings { waits, asks_guest, asks_again, .. } = found;
    let asks_again = asks_again || awaits_a_node(view);
    Decision { writes, waits, look_again, watched, asks_guest, asks_again }
}

/// What the guest is to be asked for; none if there is nothing to ask, or what is asked for is refused.
pub fn order_of_addons(view: &View<'_>) -> Option<addons::Order> {
    view.cluster().filter(|_| view.tkc["metadata"]["deletionTimestamp"].is_null())?;
    match creation::asked(view) {
        Ok(Asked::Found(distribution)) if even(view).is_ok() && refuse(view, &distribution).is_ok() => {
            addons::order(view, &distribution)
        }
        _ => None,
    }
}

/// What is to be done about it. A wait in place of that speaks against everything.
fn look(view: &View<'_>, found: &mut Findings) -> Held<Vec<Write>> {
    if creation::is_due(view) {
        return creation::look(view, found);
    }
    if view.cluster().is_none() {
        return Err(creation::missing(view));
    }
    even(view)?;
    let distribution = match asked(view)? {
        Asked::Resolved(version) => return Ok(vec![written_down(view, &version)]),
        Asked::Found(distribution) => distribution,
    };
    refuse(view, &distribution)?;
    found.version = Some(distribution.version.clone());
    found.addons = Some(addons::published(view, &distribution));
    found.asks_guest = addons::is_news(view, &distribution);

    let defaults = defaults::read(view)?;
    let wanted = Wanted::of_control_plane(view, &distribution, &defaults);
    let order = control_plane::patched(view, wanted::order(view, &distribution, &wanted), &wanted)?;
    let differing = control_plane::differences(view, &order, &wanted)?;
    let mut differences: Vec<String> = Vec::new();
    for (machine, what) in &differing {
        differences.extend(what.iter().map(|what| format!("Machine {machine}: {what}")));
    }
    let unfinished = control_plane::unfinished(view, &order).filter(|_| differing.is_empty());
    let said = |(machine, id): &(String, String)| format!("Machine {machine}: update {id} was begun, and is not done");
    differences.extend(unfinished.as_ref().map(said));
    // While machines are replaced there is one more for a while.
    let is_replaced = !differing.is_empty() && job::at_work(view).is_some_and(|job| job::is_for(job, &order));
    let scales = control_plane::scales(view).filter(|_| !is_replaced);
    differences.extend(scales.map(|(there, wanted)| format!("control plane: {there} machines → {wanted}")));
    let pool = workers::compare(view, &distribution, &Wanted::of_workers(view, &distribution, &defaults));
    if let Ok(Some(pool)) = &pool {
        let name = text(&pool.deployment["metadata"]["name"]);
        differences.extend(pool.differences.iter().map(|what| format!("MachineDeployment {name}: {what}")));
        let scales = rollout::scales(view, pool.deployment);
        let said = |(there, wanted)| format!("MachineDeployment {name}: {} machines → {wanted}", shown(there));
        differences.extend(scales.map(said));
    }
    differences.extend(addons::differences(view, &distribution));
    found.differences = differences;
    // Whoever runs as it is asked for needs no class any more.
    if !differing.is_empty() || scales.is_some() || matches!(&pool, Ok(Some(pool)) if !pool.differences.is_empty()) {
        classes::refuse(view)?;
    }

    let (mut acts, mut notes) = (Vec::new(), Vec::new());
    let names = differing.iter().map(|(name, _)| name.clone()).collect();
    let mut before = rollout::ControlPlane { halted: false, differing: names };
    let differs = !differing.is_empty() || unfinished.is_some() || scales.is_some();
    match control_plane::course(view, &order, differs, addons::gate(view, &distribution)) {
        control_plane::Course::Settled(last) => notes = last,
        control_plane::Course::Waits(wait) => {
            found.moves = true;
            // A Job that has ended a moment ago is still the cluster's turn.
            found.wants = wait.reason == Reason::ControlPlaneUpdating;
            found.waits.push(wait);
            found.waits.extend(scales.and_then(|scales| follows(view, &order, scales)));
        }
        control_plane::Course::Stopped(wait) => {
            before.halted = true;
            found.waits.push(wait);
        }
        control_plane::Course::Halts(wait, write) => {
            before.halted = true;
            found.waits.push(wait);
            acts.push(write);
        }
        control_plane::Course::Acts(writes) => {
            found.wants = true;
            acts.extend(writes);
        }
        control_plane::Course::Queues(wait) => {
            found.wants = true;
            found.waits.push(wait);
        }
    }
    if let Some(pool) = pool? {
        let course = rollout::course(view, &pool, &before);
        found.moves |= rollout::moves(view, pool.deployment);
        let follows = differing.is_empty() && course.waits.iter().any(|wait| wait.reason == Reason::ControlPlaneFirst);
        found.wants |= course.wants || follows && !before.halted;
        // Control plane and workers may wait for the same turn, or take the same place.
        found.waits.extend(course.waits.into_iter().filter(|wait| !found.waits.contains(wait)).collect::<Vec<_>>());
        acts.extend(course.writes.into_iter().filter(|write| !acts.contains(write)).collect::<Vec<_>>());
    }
    if found.waits.iter().all(|wait| wait.reason != Reason::AddonsNotApplied) {
        found.waits.extend(addons::trouble(view, &distribution));
    }
    found.waits.extend(unchangeable(view, &defaults));
    if found.waits.is_empty() {
        found.waits.extend(addons::leftover(view, &distribution));
    }
    acts.extend(notes);
    Ok(acts)
}

pub(super) fn even(view: &View<'_>) -> Held<()> {
    let count = view.tkc["spec"]["topology"]["controlPlane"]["count"].as_i64().unwrap_or(0);
    if count % 2 == 1 {
        return Ok(());
    }
    let sentence = format!("spec.topology.controlPlane.count is {count}, which is not odd");
    let wait = view.wait(view.object(), Reason::CountRefused, sentence);
    Err(Box::new(wait.with_remedy("set spec.topology.controlPlane.count to 1, 3 or 5")))
}

/// What is asked for and no new machine can change: it is said, and nothing is done about it.
fn unchangeable(view: &View<'_>, defaults: &Defaults) -> Vec<Wait> {
    let mut waits = Vec::new();
    if let [first, rest @ ..] = defaults.unchangeable.as_slice() {
        let object = defaults::object();
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        let sentence =
            format!("{object} asks for clusterConfiguration.{first}{more}, which new machines cannot change");
        let wait = view.wait(object, Reason::CannotChange, sentence);
        waits.push(wait.with_remedy("take it out; clusters that are to have it are made anew"));
    }
    let (asked, runs) = (&view.tkc["spec"]["settings"]["network"], view.cluster());
    let runs = runs.map_or(&Value::Null, |cluster| &cluster["spec"]["clusterNetwork"]);
    for field in ["pods.cidrBlocks", "services.cidrBlocks", "serviceDomain"] {
        let path = format!("/{}", field.replace('.', "/"));
        let (Some(asked), Some(runs)) = (asked.pointer(&path), runs.pointer(&path)) else { continue };
        if asked != runs && !asked.is_null() && !runs.is_null() {
            let sentence = format!(
                "spec.settings.network.{field} is {}, and the cluster was made with {}, which new machines cannot change",
                shown(asked),
                shown(runs)
            );
            let wait = view.wait(view.object(), Reason::CannotChange, sentence);
            waits.push(wait.with_remedy(format!("set spec.settings.network.{field} to {}", shown(runs))));
        }
    }
    waits
}

/// Another number of machines that was asked for while a Job is at work comes after it.
fn follows(view: &View<'_>, order: &Order, (there, wanted): (usize, usize)) -> Option<Wait> {
    let job = job::at_work(view).filter(|job| !job::is_for(job, order))?;
    let sentence = format!(
        "spec.topology.controlPlane.count is {wanted}, and there are {there} machines: that follows once {} has ended",
        control_plane::job_object(job)
    );
    Some(view.wait(view.object(), Reason::CountDiffers, sentence))
}

/// Versions never fall, and never skip a minor.
pub(super) fn refuse(view: &View<'_>, distribution: &Distribution) -> Held<()> {
    let refused = |sentence: String, remedy: &str| {
        Err(Box::new(view.wait(view.object(), Reason::VersionRefused, sentence).with_remedy(remedy)))
    };
    let wanted = &distribution.version;
    let runs = text(&view.tkc["status"]["version"]);
    if is_lower(wanted, runs) {
        let sentence = format!("spec.distribution.fullVersion is {wanted}, which is lower than {runs}, which runs");
        return refused(sentence, "ask for that version again, or a higher one");
    }
    let version = |machine: &Value| Version::parse(text(&machine["spec"]["version"]));
    let machines = || view.machines(true).filter_map(version);
    if let Some(newest) = machines().max().filter(|newest| *newest > distribution.kubernetes) {
        let sentence = format!(
            "spec.distribution.fullVersion is {wanted}, of Kubernetes {}, and the control plane is of {newest} already",
            distribution.kubernetes
        );
        return refused(sentence, "a control plane is never made older: ask for a higher version");
    }
    if let Some(oldest) = machines().min()
        && (oldest.major() != distribution.kubernetes.major() || oldest.minor() + 1 < distribution.kubernetes.minor())
    {
        let sentence = format!(
            "spec.distribution.fullVersion is {wanted}, more than one minor version further than {oldest}, which runs"
        );
        return refused(sentence, "raise it one minor version at a time");
    }
    Ok(())
}

/// How a cluster stands that others come after, by what there is of it.
pub fn standing(view: &View<'_>) -> Standing {
    let mut found = Findings::default();
    let acts = look(view, &mut found);
    match acts {
        _ if !view.tkc["metadata"]["deletionTimestamp"].is_null() => Standing::OnItsWay,
        Err(_) => Standing::Halted,
        Ok(_) if found.waits.iter().any(|wait| wait.reason.stops()) => Standing::Halted,
        Ok(acts) if acts.is_empty() && found.differences.is_empty() && !found.moves => Standing::Done,
        Ok(_) => Standing::OnItsWay,
    }
}

/// Jobs of ours whose cluster is gone. `clusters` are the uids of those that there are.
pub fn forsaken(system: &Seen, clusters: &BTreeSet<String>) -> Vec<Write> {
    let is_forsaken = |job: &&Value| {
        let owner = job["metadata"]["annotations"][GUEST].as_str().and_then(|owner| owner.rsplit('/').next());
        owner.is_some_and(|uid| !clusters.contains(uid)) && job["metadata"]["deletionTimestamp"].is_null()
    };
    let deletion = |job: &Value| Write {
        object: control_plane::job_object(job),
        act: Act::Delete { uid: text(&job["metadata"]["uid"]).to_owned() },
        purpose: "clear away the Job of a cluster that is gone",
    };
    system.all(Collection::Jobs).filter(is_forsaken).map(deletion).collect()
}
