//! The release: its image is imported, a Deployment serves what is in it, and what it says of itself is read.

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::jobs::{self, components, repository, stock};
use drover_api::harvester::node::WITNESS;
use drover_api::harvester::setting::names as settings;
use drover_api::harvester::virtual_machine_image::{
    BACKEND_CDI, OS_UPGRADE_IMAGE, SOURCE_DOWNLOAD, STATIC_STORAGE_CLASS, conditions,
};
use drover_api::marks;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::decide::{Phase, Turn};
use super::progress::{Ending, Source};
use super::release::{Fetched, RANCHER_CHART, Release, Served, Steps};
use super::{names, options, repo_vm};
use crate::cluster::condition;
use crate::decision::{Act, Kind, Purpose, Question, Reason, Subject, Wait, Write};
use crate::preflight::version_refused;

/// A repository that does not answer is asked again after this time, in seconds.
const ASK_AGAIN: i64 = 10;
/// And one whose release is refused after this: what it serves seldom changes, but it may have been asked while it was being put there.
const ASK_REFUSED_AGAIN: i64 = 60;
/// Lists that are only wanted for tidiness nobody waits for longer than this, in seconds.
const LISTS_WITHIN: i64 = 60;

/// Namespace and name of the image that holds the release.
pub(super) fn image_of<'a>(turn: &Turn<'a>) -> (&'a str, &'a str) {
    match turn.view.upgrade.spec.image.split_once('/') {
        Some((namespace, name)) => (namespace, name),
        None => (NAMESPACE, turn.name()),
    }
}

pub(super) fn import(turn: &mut Turn<'_>) -> bool {
    turn.phase = Phase::ImportingImage;
    if turn.next.release.is_some() {
        // The repository serves from it: one that is lost, or was cleared away before another try, is made again.
        if turn.view.upgrade.spec.image.is_empty()
            && turn.cluster().harvester.images.get(NAMESPACE, turn.name()).is_none()
        {
            provide_image(turn);
        }
        return true;
    }
    log(turn);
    let (namespace, name) = image_of(turn);
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    let subject = Subject::new(Kind::VirtualMachineImage, &namespace, &name);
    let Some(image) = turn.cluster().harvester.images.get(&namespace, &name) else {
        if turn.view.upgrade.spec.image.is_empty() {
            if provide_image(turn) {
                let sentence = format!("VirtualMachineImage {namespace}/{name} is being made");
                turn.wait(subject, Reason::ImageNotReady, sentence);
            }
        } else {
            let sentence = format!("VirtualMachineImage {namespace}/{name} is not there");
            turn.wait_with_remedy(
                subject,
                Reason::UpgradeInvalid,
                sentence,
                "create it, or name another in the Upgrade",
            );
        }
        return false;
    };
    if !turn.view.upgrade.spec.image.is_empty()
        && image.metadata.labels.get(jobs::UPGRADE).map(String::as_str) != Some(turn.name())
    {
        let version = image.metadata.resource_version.to_string();
        let patch = json!({ "metadata": { "resourceVersion": version, "labels": { jobs::UPGRADE: turn.name() } } });
        turn.write(Purpose::Provide, subject.clone(), Act::Patch(patch));
    }
    let imported = condition(&image.status.conditions, conditions::IMPORTED);
    let exceeded = condition(&image.status.conditions, conditions::RETRY_LIMIT_EXCEEDED).filter(|one| one.is_true());
    // That it was tried too often says less than why it failed.
    if let Some(said) = imported.filter(|one| one.status == "False").or(exceeded) {
        turn.fail(said.reason.clone(), said.message.clone());
        turn.next.image.clone_from(&turn.next.ended);
        return false;
    }
    if imported.is_some_and(|one| one.is_true()) {
        turn.next.image = Some(Ending::Succeeded);
        return true;
    }
    let said = imported.map(|one| one.said().to_owned()).unwrap_or_default();
    let sentence = match said.is_empty() {
        true => format!("VirtualMachineImage {namespace}/{name} is not imported yet"),
        false => format!("VirtualMachineImage {namespace}/{name} is not imported yet: {said}"),
    };
    let remedy =
        format!("if it does not get on: kubectl -n {namespace} describe virtualmachineimages.harvesterhci.io {name}");
    turn.wait_with_remedy(subject, Reason::ImageNotReady, sentence, remedy);
    false
}

/// The object that a collector of logs works on; nobody waits for it. It is admitted only while the Upgrade says that it has none yet.
fn log(turn: &mut Turn<'_>) {
    let name = names::log(turn.name());
    let wanted = turn.view.upgrade.spec.log_enabled.unwrap_or(true);
    if !wanted || turn.cluster().harvester.upgrade_logs.get(NAMESPACE, &name).is_some() {
        return;
    }
    let log = json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "UpgradeLog",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "labels": { jobs::UPGRADE: turn.name() },
            "ownerReferences": turn.owner(),
        },
        "spec": { "upgradeName": turn.name() },
    });
    let subject = Subject::new(Kind::UpgradeLog, NAMESPACE, &name);
    turn.last.push(Write { purpose: Purpose::Provide, subject, act: Act::Create(log) });
}

/// Makes the image anew, as the Version says, or has said; false if nobody knows where it comes from.
fn provide_image(turn: &mut Turn<'_>) -> bool {
    let version = &turn.view.upgrade.spec.version;
    if let Some(known) = turn.cluster().harvester.versions.get(NAMESPACE, version) {
        let (url, checksum) = (known.spec.iso_url.clone(), known.spec.iso_checksum.clone());
        turn.next.source = Some(Source { url, checksum });
    }
    // Whoever only looks on, and may not see Versions, does not know that it is gone.
    let unseen = turn.cluster().blind_to("Version").map(|_| Source::default());
    let Some(source) = turn.next.source.clone().or(unseen) else {
        let sentence =
            format!("version {version} is not found, and the image of the release is to be imported from it");
        let remedy = format!("create Version {NAMESPACE}/{version} again, with the isoURL that it had");
        turn.wait_with_remedy(turn.subject(), Reason::UpgradeInvalid, sentence, remedy);
        return false;
    };
    let (subject, image) = (Subject::new(Kind::VirtualMachineImage, NAMESPACE, turn.name()), image(turn, &source));
    turn.write(Purpose::Provide, subject, Act::Create(image));
    true
}

fn image(turn: &Turn<'_>, source: &Source) -> Value {
    let name = turn.name();
    let version = &turn.view.upgrade.spec.version;
    let mut spec = json!({
        "displayName": format!("{name}-{version}"), "sourceType": SOURCE_DOWNLOAD, "url": source.url, "retry": 3,
        "targetStorageClassName": STATIC_STORAGE_CLASS, "backend": BACKEND_CDI,
    });
    if !source.checksum.is_empty() {
        spec["checksum"] = json!(source.checksum);
    }
    json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "VirtualMachineImage",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "labels": { jobs::UPGRADE: name },
            "annotations": { OS_UPGRADE_IMAGE: "True" }, "ownerReferences": turn.owner(),
        },
        "spec": spec,
    })
}

pub(super) fn serve(turn: &mut Turn<'_>) -> bool {
    if turn.next.release.is_none() {
        turn.phase = Phase::ServingRelease;
    }
    let name = names::repository(turn.name());
    let subject = subject(turn);
    if turn.cluster().harvester.services.get(NAMESPACE, &name).is_none() {
        let service = service(turn, &name);
        turn.write(Purpose::Provide, Subject::new(Kind::Service, NAMESPACE, &name), Act::Create(service));
    }
    if repo_vm::is_wanted(turn) {
        // Steps that are under way fetch from it themselves, and wait themselves.
        return repo_vm::serve(turn, &name) || turn.next.release.is_some();
    }
    let Some(deployment) = turn.cluster().deployments.get(NAMESPACE, &name) else {
        let deployment = deployment(turn, &name);
        turn.write(Purpose::Provide, subject.clone(), Act::Create(deployment));
        turn.wait(subject, Reason::RepositoryNotReady, format!("Deployment {NAMESPACE}/{name} is being made"));
        return turn.next.release.is_some();
    };
    if deployment.status.available_replicas > 0 {
        return true;
    }
    let sentence = format!("Deployment {NAMESPACE}/{name}, which serves the release, has no pod that is available");
    let remedy = format!("kubectl -n {NAMESPACE} describe pods -l {}={}", jobs::UPGRADE, turn.name());
    turn.wait_with_remedy(subject, Reason::RepositoryNotReady, sentence, remedy);
    // Steps that are under way fetch from it themselves, and wait themselves.
    turn.next.release.is_some()
}

/// What serves the release.
fn subject(turn: &Turn<'_>) -> Subject {
    let kind = if repo_vm::is_wanted(turn) { Kind::VirtualMachine } else { Kind::Deployment };
    Subject::new(kind, NAMESPACE, &names::repository(turn.name()))
}

/// The labels by which the Service finds its pods.
pub(super) fn labels(turn: &Turn<'_>) -> Value {
    json!({ jobs::UPGRADE: turn.name(), jobs::COMPONENT: components::REPO })
}

fn service(turn: &Turn<'_>, name: &str) -> Value {
    let mut own = labels(turn);
    own[jobs::CREATOR] = json!(jobs::CREATOR_HARVESTER);
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": own, "ownerReferences": turn.owner() },
        "spec": {
            "selector": labels(turn),
            "ports": [{ "name": "http", "port": repository::PORT, "protocol": "TCP", "targetPort": repository::PORT }],
        },
    })
}

fn deployment(turn: &Turn<'_>, name: &str) -> Value {
    let labels = labels(turn);
    let (_, claim) = image_of(turn);
    let hosts = turn.cluster().nodes.iter().filter(|node| !node.metadata.labels.contains_key(WITNESS)).count();
    let image = format!("{}:{}", stock::IMAGE, turn.next.previous_version);
    let page =
        json!({ "path": format!("/{}/{}", repository::PATH, repository::RELEASE_FILE), "port": repository::PORT });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": turn.owner() },
        "spec": {
            "replicas": if hosts > 1 { 2 } else { 1 },
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
                        "weight": 100,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": labels },
                        },
                    }]}},
                    // Every node has this image, and that of the release can come only from what is served here.
                    "containers": [{
                        "name": repository::CONTAINER, "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["sh", "-c", repository::SERVE_ISO],
                        "ports": [{ "containerPort": repository::PORT, "protocol": "TCP" }],
                        "readinessProbe": { "httpGet": page, "periodSeconds": 5 },
                        "securityContext": { "privileged": true },
                        "volumeMounts": [{ "name": "iso", "mountPath": "/iso", "readOnly": true }],
                    }],
                    "volumes": [{ "name": "iso", "persistentVolumeClaim": { "claimName": claim } }],
                },
            },
        },
    })
}

/// Asks the repository what the release is, and decides whether it may be followed.
pub(super) fn read(turn: &mut Turn<'_>) -> bool {
    if turn.next.release.is_some() {
        return true;
    }
    turn.phase = Phase::ReadingRelease;
    let subject = subject(turn);
    let url = names::repository_url(turn.name());
    let ask = Question { url: url.clone(), latest_version: turn.next.previous_version.clone() };
    match turn.view.repository {
        None => {
            turn.ask = Some(ask);
            turn.wait(subject, Reason::RepositoryNotReady, format!("{url} is asked for the release"));
            false
        }
        Some(fetched) => match &fetched.answer {
            Ok(served) => {
                let is_accepted = accept(turn, served);
                if !is_accepted && turn.next.ended.is_none() {
                    ask_again(turn, fetched, ask, ASK_REFUSED_AGAIN);
                }
                is_accepted
            }
            Err(why) => {
                let sentence = format!("{url} does not tell the release: {why}");
                let remedy = format!(
                    "look whether it serves the release: kubectl -n {NAMESPACE} logs -l {}={},{}={}; if the release itself is damaged, call the \
                     Upgrade off and take another image: drover upgrade abort upgrade/{}",
                    jobs::UPGRADE,
                    turn.name(),
                    jobs::COMPONENT,
                    components::REPO,
                    turn.name()
                );
                turn.wait_with_remedy(subject, Reason::RepositoryNotReady, sentence, remedy);
                ask_again(turn, fetched, ask, ASK_AGAIN);
                false
            }
        },
    }
}

/// Asks once more when the last answer is so many seconds old.
fn ask_again(turn: &mut Turn<'_>, last: &Fetched, ask: Question, seconds: i64) {
    let again = last.at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(last.at);
    // A clock that was set back does not make it wait for longer.
    if !last.pending && (turn.now >= again || turn.now < last.at) {
        turn.ask = Some(ask);
    } else {
        turn.look_again_after(seconds);
    }
}

/// Asks for the lists of images at the end of an upgrade, of a repository that has not given them; true while it may still do so.
pub(super) fn ask_for_lists(turn: &mut Turn<'_>) -> bool {
    let url = names::repository_url(turn.name());
    let ask = Question { url: url.clone(), latest_version: turn.next.previous_version.clone() };
    let Some(fetched) = turn.view.repository else {
        turn.ask = Some(ask);
        return true;
    };
    let Err(why) = &fetched.answer else { return false };
    let subject = subject(turn);
    let is_it = |wait: &&Wait| wait.subject == subject && wait.reason == Reason::RepositoryNotReady;
    let since = turn.view.told.iter().find(is_it).map_or(turn.now, |told| told.since);
    let patience = since.checked_add(SignedDuration::from_secs(LISTS_WITHIN)).unwrap_or(since);
    if turn.now >= patience {
        return false;
    }
    turn.wait(
        subject,
        Reason::RepositoryNotReady,
        format!("{url} does not tell which images the old release has: {why}"),
    );
    ask_again(turn, fetched, ask, ASK_AGAIN);
    true
}

fn accept(turn: &mut Turn<'_>, served: &Served) -> bool {
    let release = &served.release;
    let refused = |turn: &mut Turn<'_>, sentence: String, remedy: String| {
        turn.wait_with_remedy(turn.subject(), Reason::ReleaseRefused, sentence, remedy);
        false
    };
    if let Some(field) = release.unusable() {
        let sentence = format!("the release does not say its {field} in {}", repository::RELEASE_FILE);
        return refused(turn, sentence, "take another image".to_owned());
    }
    let steps = match served.steps(&turn.view.upgrade.metadata.annotations) {
        Ok(steps) => steps,
        Err(finding) => {
            let sentence = format!("nobody knows the steps of the release {}: {finding}", release.harvester);
            let remedy = format!(
                "if the release brings its own, annotate the Upgrade with {0}: {1}; if Drover's suit it, with {0}: {2}",
                marks::STEPS,
                marks::STEPS_RELEASE,
                marks::STEPS_DROVER
            );
            return refused(turn, sentence, remedy);
        }
    };
    if let Some(flaw) = release.unclear().filter(|_| steps == Steps::Drover) {
        let sentence = format!("the key drover of {} cannot be followed: {flaw}", repository::RELEASE_FILE);
        return refused(turn, sentence, "take another image".to_owned());
    }
    if let Some((sentence, remedy)) = rancher_out_of_reach(turn, release).filter(|_| steps == Steps::Drover) {
        return refused(turn, sentence, remedy);
    }
    let skips = options::skips_version_check(&turn.view.upgrade.metadata.annotations);
    let problem = version_refused(&turn.next.previous_version, &release.harvester, &release.min_upgradable_version);
    if let Some(problem) = problem.filter(|_| !skips) {
        turn.fail(problem, "");
        return false;
    }
    turn.next.release = Some(release.noted());
    turn.next.steps = steps;
    true
}

/// Why Drover's steps cannot bring Rancher to the version of the release, and what helps; none if they can, or need not.
fn rancher_out_of_reach(turn: &Turn<'_>, release: &Release) -> Option<(String, String)> {
    let setting = turn.cluster().harvester.rancher_settings.named(settings::SERVER_VERSION)?;
    let (runs, wanted) = (setting.effective(), release.rancher.as_str());
    if wanted.is_empty() || runs == wanted {
        return None;
    }
    let version = |text: &str| semver::Version::parse(text.trim_start_matches('v')).ok();
    let asks = format!("the release asks for Rancher {wanted}, {runs} runs");
    if version(runs).zip(version(wanted)).is_some_and(|(runs, wanted)| wanted < runs) {
        return Some((format!("{asks}, and Rancher does not go back"), "take another image".to_owned()));
    }
    if release.rancher_chart().is_some() {
        return None;
    }
    let field = format!("drover.{RANCHER_CHART}");
    let sentence = format!("{asks}, and {} does not say where its chart is ({field})", repository::RELEASE_FILE);
    Some((sentence, "raise Rancher before".to_owned()))
}
