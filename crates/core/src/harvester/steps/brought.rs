//! Further manifests that a release brings: files of YAML, each a component. They are applied object by object, as often as a step
//! begins anew, which changes nothing then; and whatever runs pods among them is waited for.

use std::collections::BTreeSet;

use drover_api::harvester::NAMESPACE;
use jiff::SignedDuration;
use serde_json::Value;

use super::super::names;
use super::manifests::{Component, Standing};
use super::rollouts::{self, Rollout};
use super::{Next, Scene, Tried};
use crate::decision::{Kind, Reason, Subject, Wait};
use crate::guest::tanzu::addons::objects;

/// What cannot be read or applied is tried again after this time.
pub const TRY_AGAIN: SignedDuration = SignedDuration::from_secs(10);
/// Others are made of them.
const FIRST: [&str; 2] = ["Namespace", "CustomResourceDefinition"];

pub(super) fn components<'a>(scene: &Scene<'_>) -> Vec<Component<'a>> {
    let of = |path: &String| -> Component<'a> {
        let (name, path) = (format!("manifest.{}", key_of(path)), path.clone());
        (name, Box::new(move |scene: &Scene<'_>| apply(scene, &path)))
    };
    scene.release.manifests.iter().map(of).collect()
}

/// As it may stand among the data of a ConfigMap.
fn key_of(path: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    path.trim_matches('/').chars().map(|letter| if is_plain(letter) { letter } else { '.' }).collect()
}

fn apply(scene: &Scene<'_>, path: &str) -> Standing {
    let url = names::file_url(&scene.order.upgrade, path);
    let read = scene.done.files.get(&url);
    let mut objects = match read.map(|read| (read.at, read.answer.clone().and_then(|text| understood(&text)))) {
        Some((_, Ok(objects))) => objects,
        Some((at, Err(why))) if !is_due(scene, at) => {
            let sentence = format!("the manifest {path} of the release {why}");
            let remedy = "look whether the repository serves it as it should, or call the Upgrade off";
            return Standing::Unfinished(wait(scene, sentence, remedy));
        }
        _ => return Standing::Unfinished(Next::Read(url)),
    };
    objects.sort_by_key(|object| !FIRST.contains(&word(&object["kind"])));
    for object in &objects {
        match scene.done.applied.get(&shown(object)) {
            Some(Tried { answer: Ok(_), .. }) => {}
            _ => {
                return Standing::Unfinished(apply_one(
                    scene,
                    object,
                    &format!("{} of the manifest {path}", shown(object)),
                ));
            }
        }
    }
    let mut all_without = BTreeSet::new();
    for object in &objects {
        match rollout(scene, object) {
            Rollout::OnItsWay { beside } => {
                let sentence = format!("{} of the manifest {path} is not rolled out", shown(object));
                let (kind, name) = (word(&object["kind"]).to_lowercase(), word(&object["metadata"]["name"]));
                let remedy = format!("kubectl -n {} rollout status {kind}/{name}", namespace_of(object));
                let (sentence, remedy) = rollouts::told(sentence, remedy, &beside);
                return Standing::Unfinished(wait(scene, sentence, &remedy));
            }
            Rollout::Done { without } => all_without.extend(without),
        }
    }
    Standing::Without(all_without)
}

/// Applies an object, or tells why the server has not let it be; after a while it is tried again.
pub(super) fn apply_one(scene: &Scene<'_>, object: &Value, named: &str) -> Next {
    match scene.done.applied.get(&shown(object)) {
        Some(Tried { at, answer: Err(why) }) if !is_due(scene, *at) => {
            let sentence = format!("{named} cannot be applied: {why}");
            wait(scene, sentence, "put that right; it is tried again and again")
        }
        _ => Next::Apply(object.clone()),
    }
}

fn understood(text: &str) -> Result<Vec<Value>, String> {
    objects(text).map_err(|flaw| format!("cannot be used: it{flaw}"))
}

fn is_due(scene: &Scene<'_>, tried: jiff::Timestamp) -> bool {
    let again = tried.checked_add(TRY_AGAIN).unwrap_or(tried);
    // A clock that was set back does not make it wait for longer.
    scene.now >= again || scene.now < tried
}

fn wait(scene: &Scene<'_>, sentence: String, remedy: &str) -> Next {
    let subject = Subject::new(Kind::Upgrade, NAMESPACE, &scene.order.upgrade);
    let wait = Wait::new(subject, Reason::ServiceNotReady, sentence, scene.now).with_remedy(remedy);
    Next::Wait { writes: Vec::new(), waits: vec![wait] }
}

/// As it is named to people, and as what became of it is kept.
pub fn shown(object: &Value) -> String {
    let metadata = &object["metadata"];
    match word(&metadata["namespace"]) {
        "" => format!("{} {}", word(&object["kind"]), word(&metadata["name"])),
        namespace => format!("{} {namespace}/{}", word(&object["kind"]), word(&metadata["name"])),
    }
}

/// Servers put what is not said where it belongs by default.
pub fn namespace_of(object: &Value) -> &str {
    match word(&object["metadata"]["namespace"]) {
        "" => "default",
        namespace => namespace,
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether its pods are those of what was applied.
fn rollout(scene: &Scene<'_>, object: &Value) -> Rollout {
    let applied = match scene.done.applied.get(&shown(object)) {
        Some(Tried { answer: Ok(generation), .. }) => *generation,
        _ => 0,
    };
    let (namespace, name) = (namespace_of(object), word(&object["metadata"]["name"]));
    let cluster = scene.cluster;
    let all_or_nothing = |is_rolled_out: bool| match is_rolled_out {
        true => Rollout::Done { without: BTreeSet::new() },
        false => Rollout::OnItsWay { beside: BTreeSet::new() },
    };
    let state = match word(&object["kind"]) {
        "Deployment" => {
            let known = cluster.deployments.get(namespace, name);
            known.map(|one| (one.metadata.generation, all_or_nothing(one.is_rolled_out())))
        }
        "StatefulSet" => {
            let known = cluster.stateful_sets.get(namespace, name);
            known.map(|one| (one.metadata.generation, all_or_nothing(one.is_rolled_out())))
        }
        "DaemonSet" => {
            let known = cluster.daemon_sets.get(namespace, name);
            known.map(|one| (one.metadata.generation, rollouts::of(cluster, one)))
        }
        _ => return all_or_nothing(true),
    };
    match state {
        Some((generation, rollout)) if generation >= applied => rollout,
        // What is seen may be from before it was applied.
        _ => Rollout::OnItsWay { beside: BTreeSet::new() },
    }
}
