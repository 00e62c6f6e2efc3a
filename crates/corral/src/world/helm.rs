//! The Helm controller of an RKE2 server, and Rancher as a chart that it can raise.
//!
//! Models `pkg/controllers/chart` of k3s-io/helm-controller v0.17.7 and the script of klipper-helm v0.13.3: a HelmChart has a Job
//! `helm-install-<name>`, whose end leaves a new release; a HelmChart that is unmanaged is nobody's business, and one that is deleted
//! while it is managed takes its release along. Of what a chart installs only the image of a Deployment with the release's name is
//! changed. Left out: repositories, Jobs that begin suspended, Secrets with values, HelmChartConfigs, failures in the middle of
//! a change, which leave a release that is `failed`, and the Job that uninstalls.

use std::io::Write;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::foreign::LooseCondition;
use drover_api::harvester::CATTLE_NAMESPACE;
use drover_api::helm::helm_chart::{
    self, CONTAINER, FINALIZER, HelmChart, JOB_PREFIX, conditions, labels as chart_labels,
};
use drover_api::helm::release::{KEY, NAME_PREFIX, TYPE, labels, statuses};
use drover_api::rancher::embedded;
use drover_api::rancher::setting::{Setting, names::SERVER_VERSION};
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Secret};
use serde_json::{Value, json};

use super::agenda::{Key, Look};
use super::annotations::{DURATION, EXIT_CODE, HELM_FAILS, LAST_WORDS};
use super::kubelet::{digest, hex};
use super::look::Wake;
use super::outcome::{Action, Outcome};
use super::{Part, World, pods};
use crate::apiserver::Answer;

const PART: Part = Part::Charts;
/// How long Helm takes.
const RAISING: Duration = Duration::from_secs(10);
const CONTROLLER: &str = "rke2-controller";
/// How often the Job of a chart is tried if nothing else is said.
const BACK_OFF_LIMIT: i32 = 1000;

/// Rancher as a Helm release of a version, and the Deployment that it has made: where a made-up cluster begins.
pub fn rancher(version: &str, replicas: usize, values: &Value) -> [Value; 2] {
    let mut values = values.clone();
    values[embedded::values::IMAGE_TAG] = json!(version);
    let tags = json!({ "app": embedded::NAME });
    [
        json!(release_of(embedded::NAME, CATTLE_NAMESPACE, 1, &values, "")),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": embedded::NAME, "namespace": CATTLE_NAMESPACE, "labels": tags },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": tags },
                "template": {
                    "metadata": { "labels": tags },
                    "spec": { "containers": [{ "name": embedded::NAME, "image": image(version) }] },
                },
            },
        }),
    ]
}

fn image(version: &str) -> String {
    format!("{}:{version}", embedded::IMAGE)
}

/// The Secret in which Helm keeps a release.
fn release_of(name: &str, namespace: &str, revision: u64, values: &Value, hash: &str) -> Secret {
    let release = json!({
        "name": name, "namespace": namespace, "version": revision, "info": { "status": statuses::DEPLOYED }, "config": values,
    });
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let written = packed.write_all(release.to_string().as_bytes()).and_then(|()| packed.finish());
    let mut secret = Secret { type_: Some(TYPE.into()), ..Secret::default() };
    secret.metadata.name = Some(format!("{NAME_PREFIX}{name}.v{revision}"));
    secret.metadata.namespace = Some(namespace.into());
    let mut tags = vec![
        (labels::OWNER, labels::OWNER_HELM.to_owned()),
        (labels::NAME, name.to_owned()),
        (labels::STATUS, statuses::DEPLOYED.to_owned()),
        (labels::VERSION, revision.to_string()),
    ];
    if !hash.is_empty() {
        tags.push((chart_labels::CONFIG_HASH, hash.to_owned()));
    }
    secret.metadata.labels = Some(tags.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
    let packed = ByteString(STANDARD.encode(written.unwrap_or_default()).into_bytes());
    secret.data = Some([(KEY.to_owned(), packed)].into());
    secret
}

/// What the controller looks at beside the HelmChart.
#[derive(Debug, Default)]
pub struct Around {
    pub job: Option<Job>,
    /// Of the Job.
    pub pods: Vec<Pod>,
    /// Those of the release, the newest last.
    pub releases: Vec<Secret>,
    pub deployment: Option<Deployment>,
}

pub fn reconcile(chart: &HelmChart, around: &Around) -> Outcome {
    let told = chart.metadata.annotations.as_ref();
    let says = |key: &str| told.is_some_and(|told| told.contains_key(key));
    if says(helm_chart::annotations::UNMANAGED) {
        return Outcome::nothing();
    }
    if chart.metadata.deletion_timestamp.is_some() {
        return uninstall(chart, around);
    }
    if !says(helm_chart::annotations::MANAGED_BY) {
        let mut taken = chart.clone();
        let annotations = taken.metadata.annotations.get_or_insert_default();
        annotations.insert(helm_chart::annotations::MANAGED_BY.into(), CONTROLLER.into());
        taken.metadata.finalizers.get_or_insert_default().push(FINALIZER.into());
        return Outcome::act(vec![Action::update(&taken)]);
    }
    let hash = hash_of(chart);
    let Some(job) = &around.job else {
        return Outcome::act(vec![Action::create(&job_of(chart, &hash)), said(chart, false)]);
    };
    let status = job.status.clone().unwrap_or_default();
    if !is_of(job, &hash) {
        // It is replaced when nothing of it is at work any more.
        let is_idle = status.active.unwrap_or(0) == 0 && status.terminating.unwrap_or(0) == 0;
        let goes = is_idle && job.metadata.deletion_timestamp.is_none();
        return Outcome::act(goes.then(|| Action::delete(job)).into_iter().collect());
    }
    let has = |kind: &str| status.conditions.iter().flatten().any(|one| one.type_ == kind && one.status == "True");
    if has("Failed") {
        let failed = said(chart, true);
        return Outcome::act(if is_said(chart) { Vec::new() } else { vec![failed] });
    }
    if has("Complete") { install(chart, around, &hash) } else { instruct(around) }
}

fn hash_of(chart: &HelmChart) -> String {
    let spec = serde_json::to_string(&chart.spec).unwrap_or_default();
    hex(&digest(&[&spec]))[..32].to_uppercase()
}

fn is_of(job: &Job, hash: &str) -> bool {
    let template = job.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
    let told = template.and_then(|metadata| metadata.annotations.as_ref());
    told.and_then(|told| told.get(chart_labels::CONFIG_HASH)).is_some_and(|known| known == hash)
}

fn job_of(chart: &HelmChart, hash: &str) -> Job {
    let (namespace, name) = (pods::namespace(&chart.metadata), pods::name(&chart.metadata));
    let spec = chart.spec.clone().unwrap_or_default();
    let tags = json!({ chart_labels::CHART: name });
    let told = json!({ chart_labels::CONFIG_HASH: hash, DURATION: format!("{}s", RAISING.as_secs()) });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": format!("{JOB_PREFIX}{name}"), "namespace": namespace, "labels": tags },
        "spec": {
            "backoffLimit": spec.back_off_limit.unwrap_or(BACK_OFF_LIMIT),
            "template": {
                "metadata": { "labels": tags, "annotations": told },
                "spec": {
                    "restartPolicy": "OnFailure", "serviceAccountName": format!("helm-{name}"),
                    "containers": [{ "name": CONTAINER, "image": "rancher/klipper-helm:v0.13.3-build20260727", "args": ["install"] }],
                },
            },
        },
    });
    serde_json::from_value(job).unwrap_or_default()
}

fn is_said(chart: &HelmChart) -> bool {
    let conditions = chart.status.as_ref().and_then(|status| status.conditions.as_ref());
    super::loose::find(conditions, conditions::FAILED).is_some_and(LooseCondition::is_true)
}

fn said(chart: &HelmChart, failed: bool) -> Action {
    let condition = |type_: &str, holds: bool, reason: &str, message: &str| LooseCondition {
        type_: type_.into(),
        status: if holds { "True" } else { "False" }.into(),
        reason: Some(reason.into()).filter(|_| holds),
        message: Some(message.into()).filter(|_| holds),
        ..LooseCondition::default()
    };
    let job = format!("{JOB_PREFIX}{}", pods::name(&chart.metadata));
    let applying = format!("Applying HelmChart using Job {}/{job}", pods::namespace(&chart.metadata));
    let mut after = chart.clone();
    let status = after.status.get_or_insert_default();
    status.job_name = Some(job);
    status.conditions = Some(vec![
        condition(conditions::JOB_CREATED, true, "Job created", &applying),
        condition(
            conditions::FAILED,
            failed,
            "Job failed",
            "Job has reached configured number of retries without succeeding",
        ),
    ]);
    Action::status(&after)
}

/// The pods of the Job learn whether Helm can do it now: what is to fail stands on the release.
fn instruct(around: &Around) -> Outcome {
    let told = around.releases.last().and_then(|release| release.metadata.annotations.as_ref());
    let words = told.and_then(|told| told.get(HELM_FAILS));
    let instructed = |pod: &Pod| {
        let mut after = pod.clone();
        let annotations = after.metadata.annotations.get_or_insert_default();
        match words {
            Some(words) => {
                annotations.insert(EXIT_CODE.into(), "1".into());
                annotations.insert(LAST_WORDS.into(), words.clone());
            }
            None => [EXIT_CODE, LAST_WORDS].iter().for_each(|key| drop(annotations.remove(*key))),
        }
        Action::change(pod, &after)
    };
    Outcome::act(around.pods.iter().filter(|pod| !pods::has_ended(pod)).filter_map(instructed).collect())
}

/// What `helm upgrade` leaves behind, once.
fn install(chart: &HelmChart, around: &Around, hash: &str) -> Outcome {
    let label = |secret: &Secret, key: &str| secret.metadata.labels.as_ref().and_then(|all| all.get(key)).cloned();
    let newest = around.releases.last();
    if newest.and_then(|newest| label(newest, chart_labels::CONFIG_HASH)).as_deref() == Some(hash) {
        return Outcome::nothing();
    }
    let spec = chart.spec.clone().unwrap_or_default();
    let values: Value = serde_json::from_str(spec.values_content.as_deref().unwrap_or("{}")).unwrap_or_default();
    let revision = newest.and_then(|newest| label(newest, labels::VERSION)?.parse().ok()).unwrap_or(0);
    let (name, namespace) = (pods::name(&chart.metadata), spec.target_namespace.unwrap_or_default());
    let mut actions = Vec::new();
    if let Some(deployment) = &around.deployment {
        let version = values[embedded::values::IMAGE_TAG].as_str().unwrap_or_default();
        let mut after = deployment.clone();
        let template = after.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
        for container in template.into_iter().flat_map(|template| template.containers.iter_mut()) {
            container.image = Some(image(version));
        }
        actions.extend(Action::change(deployment, &after));
    }
    actions.extend(newest.and_then(|newest| {
        let mut old = newest.clone();
        old.metadata.labels.get_or_insert_default().insert(labels::STATUS.into(), statuses::SUPERSEDED.into());
        Action::change(newest, &old)
    }));
    // The release tells that all of it is done, and comes last.
    actions.push(Action::create(&release_of(name, &namespace, revision + 1, &values, hash)));
    Outcome::act(actions)
}

/// What the chart has installed goes, and then the HelmChart.
fn uninstall(chart: &HelmChart, around: &Around) -> Outcome {
    let mut actions: Vec<Action> = around.releases.iter().map(Action::delete).collect();
    actions.extend(around.deployment.as_ref().map(Action::delete));
    let mut after = chart.clone();
    after.metadata.finalizers.get_or_insert_default().retain(|finalizer| finalizer != FINALIZER);
    actions.extend(Action::change(chart, &after));
    Outcome::act(actions)
}

/// Rancher writes its version when the first of its pods is up.
pub fn say_version(deployment: &Deployment, setting: &Setting) -> Outcome {
    let status = deployment.status.clone().unwrap_or_default();
    let seen = status.observed_generation >= deployment.metadata.generation;
    let is_up = status.updated_replicas.unwrap_or(0) > status.unavailable_replicas.unwrap_or(0);
    let template = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let image = template.and_then(|template| template.containers.first()?.image.as_deref());
    let Some((_, version)) = image.and_then(|image| image.rsplit_once(':')).filter(|_| seen && is_up) else {
        return Outcome::nothing();
    };
    let mut after = setting.clone();
    after.value = Some(version.into());
    Outcome::act(Action::change(setting, &after).into_iter().collect())
}

impl World {
    pub(super) fn notice_helm(&mut self, plural: &str, key: &Key) {
        if !self.has(PART) {
            return;
        }
        let chart = match plural {
            "helmcharts" => Some(key.1.as_str()),
            "jobs" => key.1.strip_prefix(JOB_PREFIX),
            "secrets" => key.1.strip_prefix(NAME_PREFIX).and_then(|rest| Some(rest.rsplit_once(".v")?.0)),
            _ => None,
        };
        if let Some(chart) = chart {
            self.soon(Look::HelmChart((helm_chart::NAMESPACE.into(), chart.into())));
        }
        if plural == "deployments" && key.0 == CATTLE_NAMESPACE && key.1 == embedded::NAME {
            self.soon(Look::Rancher(key.clone()));
        }
    }

    pub(super) fn look_at_helm_chart(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(chart) = self.read_for::<HelmChart>(PART, &key.0, &key.1)? else { return Ok(None) };
        let target = chart.spec.as_ref().and_then(|spec| spec.target_namespace.clone()).unwrap_or_default();
        let job = self.read_for::<Job>(PART, &key.0, &format!("{JOB_PREFIX}{}", key.1))?;
        let own = job.iter().flat_map(|job| self.index.pods_of(pods::uid(&job.metadata)).map(|(key, _)| key));
        let pods = self.read_pods(PART, own)?;
        let prefix = format!("{NAME_PREFIX}{}.v", key.1);
        let revision = |secret: &Secret| -> u64 {
            pods::name(&secret.metadata).strip_prefix(&prefix).and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        let secrets = self.direct(PART).list::<Secret>()?.into_iter();
        let mut releases: Vec<Secret> =
            secrets.filter(|one| pods::namespace(&one.metadata) == target && revision(one) > 0).collect();
        releases.sort_by_key(revision);
        let deployment = self.read_for::<Deployment>(PART, &target, &key.1)?;
        self.perform(PART, &reconcile(&chart, &Around { job, pods, releases, deployment }), now)
    }

    pub(super) fn look_at_rancher(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(deployment) = self.read_for::<Deployment>(Part::Rancher, &key.0, &key.1)? else { return Ok(None) };
        let Some(setting) = self.read_for::<Setting>(Part::Rancher, "", SERVER_VERSION)? else { return Ok(None) };
        self.perform(Part::Rancher, &say_version(&deployment, &setting), now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::WorldOptions;
    use super::super::tests::{Cluster, node};
    use super::*;

    async fn with_rancher() -> Cluster {
        let cluster = Cluster::new(WorldOptions::default().with([Part::Charts, Part::Rancher]));
        cluster.define_harvester();
        cluster.ensure_namespace(CATTLE_NAMESPACE);
        cluster.create::<k8s_openapi::api::core::v1::Node>(node("n1"));
        cluster.load(rancher("v2.12.3", 1, &json!({ "hostname": "h" })).into());
        cluster.create::<Setting>(json!({
            "apiVersion": "management.cattle.io/v3", "kind": "Setting", "metadata": { "name": SERVER_VERSION }, "value": "v2.12.3",
        }));
        cluster.passes(5).await;
        cluster
    }

    fn ask(cluster: &Cluster) {
        let values = json!({ "hostname": "h", embedded::values::IMAGE_TAG: "v2.13.1" }).to_string();
        cluster.create::<HelmChart>(json!({
            "apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
            "metadata": { "name": embedded::NAME, "namespace": helm_chart::NAMESPACE },
            "spec": { "targetNamespace": CATTLE_NAMESPACE, "chart": "http://r/c.tgz", "valuesContent": values },
        }));
    }

    fn says(cluster: &Cluster) -> String {
        cluster.get::<Setting>("", SERVER_VERSION).unwrap().value.unwrap_or_default()
    }

    fn release(cluster: &Cluster, revision: u64) -> Option<Secret> {
        cluster.get(CATTLE_NAMESPACE, &format!("{NAME_PREFIX}{}.v{revision}", embedded::NAME))
    }

    #[tokio::test(start_paused = true)]
    async fn a_chart_is_raised_by_a_job_and_leaves_a_release() {
        let cluster = with_rancher().await;
        ask(&cluster);
        cluster.passes(5).await;
        assert!(cluster.get::<Job>(helm_chart::NAMESPACE, "helm-install-rancher").is_some());
        assert_eq!(says(&cluster), "v2.12.3");
        cluster.until("Rancher says its version", |cluster| says(cluster) == "v2.13.1").await;

        let status = |revision| release(&cluster, revision).unwrap().metadata.labels.unwrap()[labels::STATUS].clone();
        assert_eq!((status(1).as_str(), status(2).as_str()), (statuses::SUPERSEDED, statuses::DEPLOYED));
        cluster.passes(600).await;
        assert_eq!(release(&cluster, 3), None, "once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_fails_says_why_and_is_tried_again() {
        let cluster = with_rancher().await;
        let mut first = release(&cluster, 1).unwrap();
        first.metadata.annotations.get_or_insert_default().insert(HELM_FAILS.into(), "no room".into());
        let first = cluster.direct.update(&first).unwrap();
        ask(&cluster);
        let words = |cluster: &Cluster| -> Option<String> {
            let pods = cluster.pods();
            let pod = pods.iter().find(|pod| pods::name(&pod.metadata).starts_with("helm-install"))?;
            let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
            status.last_state.as_ref()?.terminated.as_ref()?.message.clone()
        };
        cluster.until("it fails", |cluster| words(cluster).as_deref() == Some("no room")).await;
        cluster.passes(60).await;
        assert_eq!(says(&cluster), "v2.12.3");

        let mut healed = first;
        healed.metadata.annotations.get_or_insert_default().remove(HELM_FAILS);
        cluster.direct.update(&healed).unwrap();
        cluster.until("Rancher says its version", |cluster| says(cluster) == "v2.13.1").await;
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_chart_that_is_unmanaged_leaves_its_release_when_it_goes() {
        for is_managed in [true, false] {
            let cluster = with_rancher().await;
            ask(&cluster);
            cluster.until("Rancher says its version", |cluster| says(cluster) == "v2.13.1").await;
            let mut chart: HelmChart = cluster.get(helm_chart::NAMESPACE, embedded::NAME).unwrap();
            if !is_managed {
                let told = chart.metadata.annotations.get_or_insert_default();
                told.insert(helm_chart::annotations::UNMANAGED.into(), "true".into());
                chart = cluster.direct.update(&chart).unwrap();
            }
            let uid = chart.metadata.uid.clone();
            cluster.direct.delete::<HelmChart>(Some(helm_chart::NAMESPACE), embedded::NAME, uid.as_deref()).unwrap();
            cluster.passes(30).await;

            assert_eq!(release(&cluster, 2).is_some(), !is_managed);
            let left: Option<HelmChart> = cluster.get(helm_chart::NAMESPACE, embedded::NAME);
            assert_eq!(left.is_some(), !is_managed, "nobody takes the finalizer off one that is unmanaged");
        }
    }
}
