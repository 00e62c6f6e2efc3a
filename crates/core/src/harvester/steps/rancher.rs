//! The embedded Rancher, a Helm release: raised by the Helm controller of RKE2, which a HelmChart asks for it.
//!
//! The HelmChart is there only for as long as that takes. It is marked as nobody's before it is deleted, because the controller
//! uninstalls what a HelmChart that goes has installed.

use drover_api::harvester::CATTLE_NAMESPACE;
use drover_api::harvester::jobs::UPGRADE;
use drover_api::helm::helm_chart::{FINALIZER, JOB_PREFIX, NAMESPACE, annotations, conditions};
use drover_api::helm::helm_chart_config::FAILURE_POLICY_ABORT;
use drover_api::helm::release::statuses;
use drover_api::rancher::embedded::{NAME, values};
use drover_api::rancher::setting::names::SERVER_VERSION;
use serde_json::{Value, json};

use super::super::names;
use super::{Next, Scene};
use crate::cluster::harvester::{HelmChart, HelmRelease};
use crate::cluster::{Deployment, Job, condition, last_words};
use crate::decision::{Act, Kind, Purpose, Reason, Subject, Wait, Write};

pub fn subject() -> Subject {
    Subject::new(Kind::HelmChart, NAMESPACE, NAME)
}

/// Nothing if Rancher is as the release asks, and the HelmChart has gone that has brought it there.
pub(super) fn raise(scene: &Scene<'_>) -> Option<Next> {
    let chart = scene.cluster.harvester.helm_charts.get(NAMESPACE, NAME);
    let setting = scene.cluster.harvester.rancher_settings.named(SERVER_VERSION)?;
    let is_there = scene.release.rancher.is_empty() || setting.effective() == scene.release.rancher;
    match chart {
        // A release without a chart of it was let in because there was nothing to raise.
        None if is_there || scene.release.rancher_chart.is_empty() => None,
        None => Some(begin(scene)),
        Some(chart) if chart.metadata.deletion_timestamp.is_some() => {
            Some(wait(scene, subject(), format!("HelmChart {NAMESPACE}/{NAME} is being deleted"), None))
        }
        // Somebody else's is left alone as long as nothing is wanted of Rancher.
        Some(chart) if !is_ours(chart) => (!is_there).then(|| keep_off(scene)),
        Some(chart) if is_unmanaged(chart) => Some(forget(scene, chart)),
        Some(chart) if chart.spec.chart != url(scene) => Some(ask(scene, Some(chart))),
        Some(chart) => Some(match unfinished(scene, chart, is_there) {
            Some((subject, sentence, remedy)) => wait(scene, subject, sentence, remedy),
            None => step(hand_back(chart)),
        }),
    }
}

/// What is done about a HelmChart whose work is over: it is marked as nobody's first, then it is deleted.
pub fn hand_back(chart: &HelmChart) -> Option<Act> {
    if chart.metadata.deletion_timestamp.is_some() {
        return None;
    }
    if is_unmanaged(chart) {
        return Some(Act::Delete { uid: chart.metadata.uid.clone() });
    }
    // The controller no longer looks at it from here on, and would hold it for ever.
    let kept: Vec<&String> = chart.metadata.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
    Some(Act::Patch(json!({ "metadata": {
        "resourceVersion": chart.metadata.resource_version.to_string(),
        "annotations": { annotations::UNMANAGED: "true" },
        "finalizers": kept,
    }})))
}

fn is_ours(chart: &HelmChart) -> bool {
    chart.metadata.labels.contains_key(UPGRADE)
}

fn is_unmanaged(chart: &HelmChart) -> bool {
    chart.metadata.annotations.contains_key(annotations::UNMANAGED)
}

fn step(act: Option<Act>) -> Next {
    let write = |act: Act| Write { purpose: Purpose::Step, subject: subject(), act };
    Next::Wait { writes: act.into_iter().map(write).collect(), waits: Vec::new() }
}

fn wait(scene: &Scene<'_>, subject: Subject, sentence: String, remedy: Option<String>) -> Next {
    let wait = Wait { remedy, ..Wait::new(subject, Reason::ServiceNotReady, sentence, scene.now) };
    Next::Wait { writes: Vec::new(), waits: vec![wait] }
}

/// Where the chart is served.
fn url(scene: &Scene<'_>) -> String {
    names::file_url(&scene.order.upgrade, &scene.release.rancher_chart)
}

fn begin(scene: &Scene<'_>) -> Next {
    // One of an earlier try, with which the controller would begin.
    match scene.cluster.jobs.get(NAMESPACE, &job_name()) {
        Some(job) if job.has_ended() => discard(scene, job),
        _ => ask(scene, None),
    }
}

fn job_name() -> String {
    format!("{JOB_PREFIX}{NAME}")
}

fn discard(scene: &Scene<'_>, job: &Job) -> Next {
    match job.metadata.deletion_timestamp {
        Some(_) => {
            wait(scene, Subject::job(NAMESPACE, &job_name()), format!("Job {NAMESPACE}/{} goes", job_name()), None)
        }
        None => scene.write(Subject::job(NAMESPACE, &job_name()), Act::Delete { uid: job.metadata.uid.clone() }),
    }
}

/// Makes the HelmChart, or brings one of an earlier Upgrade to what this one asks for.
fn ask(scene: &Scene<'_>, known: Option<&HelmChart>) -> Next {
    let release = match newest_deployed(scene) {
        Some(release) => release,
        None => {
            let sentence = format!("there is no Helm release {CATTLE_NAMESPACE}/{NAME} that is deployed");
            let remedy =
                format!("helm -n {CATTLE_NAMESPACE} history {NAME}; then helm -n {CATTLE_NAMESPACE} rollback {NAME}");
            return wait(scene, subject(), sentence, Some(remedy));
        }
    };
    let values = match release.values() {
        Ok(values) => values,
        Err(why) => {
            let secret = Subject::new(Kind::Secret, CATTLE_NAMESPACE, &release.metadata.name);
            let sentence =
                format!("the values of the Helm release {CATTLE_NAMESPACE}/{NAME} cannot be read from {secret}: {why}");
            let remedy = format!("helm -n {CATTLE_NAMESPACE} get values {NAME}");
            return wait(scene, secret, sentence, Some(remedy));
        }
    };
    let spec = json!({
        "targetNamespace": CATTLE_NAMESPACE,
        "chart": url(scene),
        "valuesContent": with_tag(values, &scene.release.rancher).to_string(),
        // By default the controller uninstalls a release whose change has failed, and Rancher with it.
        "failurePolicy": FAILURE_POLICY_ABORT,
    });
    let labels = json!({ UPGRADE: scene.order.upgrade });
    let act = match known {
        None => Act::Create(json!({
            "apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
            "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": labels },
            "spec": spec,
        })),
        Some(known) => Act::Patch(json!({
            "metadata": { "resourceVersion": known.metadata.resource_version.to_string(), "labels": labels },
            "spec": spec,
        })),
    };
    step(Some(act))
}

fn newest_deployed<'a>(scene: &Scene<'a>) -> Option<&'a HelmRelease> {
    let releases = scene.cluster.harvester.helm_releases.in_namespace(CATTLE_NAMESPACE);
    releases.filter(|release| release.status() == statuses::DEPLOYED).max_by_key(|release| release.revision())
}

/// The values of users, with the image of another version.
fn with_tag(mut values: Value, version: &str) -> Value {
    if !values.is_object() {
        values = json!({});
    }
    values[values::IMAGE_TAG] = json!(version);
    if let Some(image) = values.get_mut(values::IMAGE).and_then(Value::as_object_mut) {
        image.insert(values::TAG.to_owned(), json!(version));
    }
    values
}

fn keep_off(scene: &Scene<'_>) -> Next {
    let sentence = format!("HelmChart {NAMESPACE}/{NAME} is somebody else's, and the Helm controller follows only one");
    let remedy = format!(
        "kubectl -n {NAMESPACE} patch helmcharts.helm.cattle.io {NAME} --type merge -p \
         '{{\"metadata\":{{\"annotations\":{{\"{}\":\"true\"}},\"finalizers\":[]}}}}' && \
         kubectl -n {NAMESPACE} delete helmcharts.helm.cattle.io {NAME}",
        annotations::UNMANAGED
    );
    wait(scene, subject(), sentence, Some(remedy))
}

/// The Job goes with the HelmChart: nobody else would take it away.
fn forget(scene: &Scene<'_>, chart: &HelmChart) -> Next {
    match scene.cluster.jobs.get(NAMESPACE, &job_name()) {
        Some(job) => discard(scene, job),
        None => step(hand_back(chart)),
    }
}

/// What is not done yet, and what helps: the Helm Job, the rollout, or the word of Rancher itself.
fn unfinished(scene: &Scene<'_>, chart: &HelmChart, is_there: bool) -> Option<(Subject, String, Option<String>)> {
    let wanted = &scene.release.rancher;
    let job = scene.cluster.jobs.get(NAMESPACE, &job_name());
    let Some(job) = job.filter(|job| job.is_complete()) else { return Some(at_work(scene, chart, job)) };
    let name = format!("Deployment {CATTLE_NAMESPACE}/{NAME}");
    let deployment = scene.cluster.deployments.get(CATTLE_NAMESPACE, NAME);
    if !deployment.is_some_and(Deployment::is_rolled_out) {
        let remedy = format!("kubectl -n {CATTLE_NAMESPACE} rollout status deployment {NAME}");
        let subject = Subject::new(Kind::Deployment, CATTLE_NAMESPACE, NAME);
        return Some((subject, format!("{name} is not rolled out at {wanted}"), Some(remedy)));
    }
    if !is_there {
        let remedy = format!("kubectl -n {CATTLE_NAMESPACE} logs deployment/{NAME}");
        let sentence = format!(
            "Rancher does not say that it is {wanted} (setting {SERVER_VERSION}), after Job {NAMESPACE}/{} has ended",
            job.metadata.name
        );
        return Some((subject(), sentence, Some(remedy)));
    }
    None
}

/// What the Helm Job does, with its own words where it fails.
fn at_work(scene: &Scene<'_>, chart: &HelmChart, job: Option<&Job>) -> (Subject, String, Option<String>) {
    let wanted = &scene.release.rancher;
    let refused = condition(&chart.status.conditions, conditions::FAILED).filter(|failed| failed.is_true());
    let (Some(job), None) = (job, refused.filter(|_| job.is_none())) else {
        let said = refused.map(|failed| format!(": {}", failed.said())).unwrap_or_default();
        let sentence = format!("the Helm controller has not begun to raise Rancher to {wanted}{said}");
        let remedy = format!("kubectl -n {NAMESPACE} describe helmcharts.helm.cattle.io {NAME}");
        return (subject(), sentence, Some(remedy));
    };
    let name = format!("Job {NAMESPACE}/{}", job.metadata.name);
    let subject = Subject::job(NAMESPACE, &job.metadata.name);
    let words = last_words(scene.cluster.pods.in_namespace(NAMESPACE), &job.metadata);
    if let Some(failed) = job.failure() {
        let why = words.unwrap_or_else(|| failed.said().to_owned());
        let remedy = format!("when that is put right: kubectl -n {NAMESPACE} delete job {}", job.metadata.name);
        return (subject, format!("{name} has failed to raise Rancher to {wanted}: {why}"), Some(remedy));
    }
    match words {
        Some(words) => {
            let remedy =
                format!("kubectl -n {NAMESPACE} logs job/{}; Helm is tried again and again", job.metadata.name);
            (subject, format!("{name} fails to raise Rancher to {wanted}: {words}"), Some(remedy))
        }
        None => (subject, format!("{name} raises Rancher to {wanted}"), None),
    }
}
