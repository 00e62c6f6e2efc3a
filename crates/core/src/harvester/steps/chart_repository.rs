//! The repository of charts that Harvester serves to Rancher: those of one release, from a Deployment.
//!
//! What no chart of the release that runs has cannot be raised: the Deployment gets the image of the new release first, and Rancher
//! is asked to read the charts anew, which it does by itself only once an hour.

use drover_api::harvester::CATTLE_NAMESPACE;
use drover_api::harvester::node::OS_PREFIX;
use drover_api::marks::READ_FOR;
use drover_api::rancher::cluster_repo::{conditions, names::HARVESTER_CHARTS, server};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::brought::{apply_one, shown};
use super::{Next, Scene, Tried};
use crate::cluster::harvester::ClusterRepo;
use crate::cluster::{Deployment, condition};
use crate::decision::{Act, Kind, Reason, Subject, Wait};

/// Times in a ClusterRepo are whole seconds.
const A_SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Nothing if Rancher knows the charts of the release, or nobody serves any.
pub(super) fn raise(scene: &Scene<'_>) -> Option<Next> {
    let served = scene.cluster.deployments.get(CATTLE_NAMESPACE, server::NAME)?;
    let runs = served.image_of(server::CONTAINER)?;
    let image = image_of_release(scene, runs)?;
    if runs != image && !is_applied(scene, served, &image) {
        return Some(apply_one(scene, &with_image(&image), &format!("Deployment {CATTLE_NAMESPACE}/{}", server::NAME)));
    }
    if runs != image || !served.is_rolled_out() {
        let sentence = format!(
            "Deployment {CATTLE_NAMESPACE}/{}, which serves charts, is not rolled out at {image}",
            server::NAME
        );
        let remedy = format!("kubectl -n {CATTLE_NAMESPACE} rollout status deployment {}", server::NAME);
        let subject = Subject::new(Kind::Deployment, CATTLE_NAMESPACE, server::NAME);
        let wait = Wait::new(subject, Reason::ServiceNotReady, sentence, scene.now).with_remedy(remedy);
        return Some(Next::Wait { writes: Vec::new(), waits: vec![wait] });
    }
    read_anew(scene, served)
}

/// From wherever it comes now, in the version of the release; none if the release has no such version.
fn image_of_release(scene: &Scene<'_>, runs: &str) -> Option<String> {
    let os = &scene.release.os;
    let tag = os.strip_prefix(OS_PREFIX).unwrap_or(os);
    let named = runs.split('@').next().unwrap_or_default();
    let repository = match named.rsplit_once(':') {
        // What follows the colon of a port is a path.
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => named,
    };
    is_tag(tag).then(|| format!("{repository}:{tag}"))
}

fn is_tag(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter))
}

fn with_image(image: &str) -> serde_json::Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": server::NAME, "namespace": CATTLE_NAMESPACE },
        "spec": { "template": { "spec": { "containers": [{ "name": server::CONTAINER, "image": image }] } } },
    })
}

/// It was, and what is seen is from before.
fn is_applied(scene: &Scene<'_>, served: &Deployment, image: &str) -> bool {
    let tried = scene.done.applied.get(&shown(&with_image(image)));
    matches!(tried, Some(Tried { answer: Ok(generation), .. }) if served.metadata.generation < *generation)
}

/// Rancher is asked once for each template of the Deployment, and has read the charts since.
fn read_anew(scene: &Scene<'_>, served: &Deployment) -> Option<Next> {
    let repo = scene.cluster.harvester.cluster_repos.named(HARVESTER_CHARTS)?;
    let mark = format!("{}/{}", scene.order.upgrade, served.metadata.generation);
    let read: Option<Timestamp> = repo.status.download_time.parse().ok();
    if repo.metadata.annotations.get(READ_FOR) == Some(&mark) {
        let asked: Option<Timestamp> = repo.spec.force_update.parse().ok();
        let is_read = read.is_some_and(|read| asked.is_none_or(|asked| read >= asked));
        return (!is_read).then(|| Next::Wait { writes: Vec::new(), waits: vec![unread(scene, repo)] });
    }
    // Rancher heeds a moment that is after its last download, and over.
    let now = Timestamp::from_second(scene.now.as_second()).unwrap_or(scene.now);
    let moment = match read {
        Some(read) => read.checked_add(A_SECOND).unwrap_or(read),
        None => now.checked_sub(A_SECOND).unwrap_or(now),
    };
    if moment >= scene.now {
        let deadline = moment.checked_add(A_SECOND).ok();
        return Some(Next::Wait { writes: Vec::new(), waits: vec![Wait { deadline, ..unread(scene, repo) }] });
    }
    let patch = json!({
        "metadata": {
            "resourceVersion": repo.metadata.resource_version.to_string(), "annotations": { READ_FOR: mark },
        },
        "spec": { "forceUpdate": moment.to_string() },
    });
    Some(scene.write(subject(), Act::Patch(patch)))
}

fn subject() -> Subject {
    Subject::new(Kind::ClusterRepo, "", HARVESTER_CHARTS)
}

fn unread(scene: &Scene<'_>, repo: &ClusterRepo) -> Wait {
    let failed = condition(&repo.status.conditions, conditions::DOWNLOADED).filter(|one| one.status == "False");
    let said = failed.map(|failed| format!(": {}", failed.said())).unwrap_or_default();
    let sentence = format!("Rancher has not read the charts of ClusterRepo {HARVESTER_CHARTS} anew{said}");
    let remedy = format!(
        "it tries again by and by; at once: kubectl patch clusterrepos.catalog.cattle.io {HARVESTER_CHARTS} --type merge -p \
         '{{\"spec\":{{\"forceUpdate\":\"'$(date -u +%FT%TZ)'\"}}}}'"
    );
    Wait::new(subject(), Reason::ServiceNotReady, sentence, scene.now).with_remedy(remedy)
}
