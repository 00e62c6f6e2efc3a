//! Rancher at the repository of Harvester's charts: what it has not downloaded it cannot deploy.
//!
//! Models `pkg/controllers/dashboard/helm/repo.go` of Rancher as of 2.12, for repositories that are read over HTTP: the index is
//! downloaded when the ClusterRepo changes, once an hour, and five minutes after a download that has failed. What Harvester serves there
//! is in the image of a Deployment, which has its own two charts in one version only; of other charts it is not known here which it has,
//! and they are found in any. A cluster without the ClusterRepo has every chart. Left out: git and OCI, longer and longer pauses, and the
//! index itself.

use std::time::Duration;

use drover_api::harvester::CATTLE_NAMESPACE;
use drover_api::rancher::cluster_repo::{ClusterRepo, conditions::DOWNLOADED, names::HARVESTER_CHARTS, server};
use drover_api::rancher::managed_chart::{ManagedChart, names as charts};
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use super::agenda::{Key, Look};
use super::annotations::{DOWNLOAD_FAILS, INDEXED};
use super::look::Wake;
use super::outcome::{Action, Outcome};
use super::{Part, World, loose, pods};
use crate::apiserver::{Answer, Direct};

const PART: Part = Part::Charts;
/// When a made-up cluster begins.
const READ_AT: &str = "2026-01-01T12:00:00Z";
const INTERVAL: Duration = Duration::from_secs(3600);
const TRIED_AGAIN: Duration = Duration::from_secs(300);
/// The charts whose version is that of the image.
const OF_HARVESTER: [&str; 2] = [charts::HARVESTER, charts::HARVESTER_CRD];

/// The repository as the release of this version serves it: where a made-up cluster begins.
pub fn settled(version: &str) -> [Value; 2] {
    let tags = json!({ "app": server::NAME });
    let container = json!({ "name": server::CONTAINER, "image": format!("{}:{version}", server::IMAGE), "ports": [{ "containerPort": 80 }] });
    [
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": server::NAME, "namespace": CATTLE_NAMESPACE, "labels": tags },
            "spec": {
                "replicas": 1, "selector": { "matchLabels": tags },
                "template": { "metadata": { "labels": tags }, "spec": { "containers": [container] } },
            },
        }),
        json!({
            "apiVersion": "catalog.cattle.io/v1", "kind": "ClusterRepo",
            "metadata": { "name": HARVESTER_CHARTS, "annotations": { INDEXED: version } },
            "spec": { "url": format!("http://{}.{CATTLE_NAMESPACE}/charts", server::NAME) },
            "status": {
                "observedGeneration": 1, "downloadTime": READ_AT,
                "conditions": [{ "type": DOWNLOADED, "status": "True" }],
            },
        }),
    ]
}

/// Why Rancher cannot have a chart, if so, in its own words.
pub fn missing(chart: &ManagedChart, repo: Option<&ClusterRepo>) -> Option<String> {
    let spec = chart.spec.clone().unwrap_or_default();
    let (name, version) = (spec.chart.unwrap_or_default(), spec.version.unwrap_or_default());
    let told = repo?.metadata.annotations.as_ref();
    let indexed = told.and_then(|told| told.get(INDEXED)).map(String::as_str).unwrap_or_default();
    let is_there = !OF_HARVESTER.contains(&name.as_str()) || indexed.trim_start_matches('v') == version;
    (!is_there).then(|| format!("no chart version found for {name}-{version}"))
}

pub fn reconcile(repo: &ClusterRepo, served: Option<&Deployment>, now: Timestamp) -> Outcome {
    let known = repo.status.clone().unwrap_or_default();
    let due = loose::moment(known.next_retry_at.as_ref())
        .or_else(|| loose::moment(known.download_time.as_ref()).map(|moment| later(moment, INTERVAL)));
    if let Some(due) = due.filter(|due| known.observed_generation == repo.metadata.generation && now < *due) {
        return Outcome::wait_until(due);
    }
    let mut after = repo.clone();
    let indexed = match download(repo, served) {
        Ok(version) => version,
        Err(why) => {
            let status = after.status.get_or_insert_default();
            status.observed_generation = repo.metadata.generation;
            status.next_retry_at = Some(loose::text(later(now, TRIED_AGAIN)));
            let words = format!("{why}. Will retry after {}m0s", TRIED_AGAIN.as_secs() / 60);
            loose::set_as_wrangler(&mut status.conditions, DOWNLOADED, "False", "Error", &words, now);
            return Outcome::act(vec![Action::status(&after)]);
        }
    };
    let told = after.metadata.annotations.get_or_insert_default();
    if let Some(version) = indexed.filter(|version| told.get(INDEXED) != Some(version)) {
        told.insert(INDEXED.into(), version);
        return Outcome::act(vec![Action::update(&after)]);
    }
    let status = after.status.get_or_insert_default();
    status.observed_generation = repo.metadata.generation;
    status.download_time = Some(loose::text(now));
    status.next_retry_at = None;
    loose::set_as_wrangler(&mut status.conditions, DOWNLOADED, "True", "", "", now);
    Outcome::act(vec![Action::status(&after)])
}

/// The version that is served; none while the pods of two are there, and the old one may answer.
fn download(repo: &ClusterRepo, served: Option<&Deployment>) -> Result<Option<String>, String> {
    let told = repo.metadata.annotations.as_ref();
    if let Some(words) = told.and_then(|told| told.get(DOWNLOAD_FAILS)) {
        return Err(words.clone());
    }
    let url = repo.spec.as_ref().and_then(|spec| spec.url.clone()).unwrap_or_default();
    let status = served.and_then(|served| served.status.clone()).unwrap_or_default();
    let Some(served) = served.filter(|_| status.available_replicas.unwrap_or(0) > 0) else {
        return Err(format!("failed to fetch {url}/index.yaml: connection refused"));
    };
    let is_whole =
        status.observed_generation >= served.metadata.generation && status.updated_replicas == status.replicas;
    let template = served.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let image = template.and_then(|template| template.containers.first()?.image.as_deref());
    let version = image.and_then(|image| Some(image.rsplit_once(':')?.1.to_owned()));
    Ok(version.filter(|_| is_whole))
}

impl World {
    pub(super) fn notice_cluster_repo(&mut self, direct: &Direct, name: &str) {
        if !self.has(PART) {
            return;
        }
        self.soon(Look::ClusterRepo(name.to_owned()));
        for chart in direct.list::<ManagedChart>().unwrap_or_default() {
            let key: Key = (pods::namespace(&chart.metadata).to_owned(), pods::name(&chart.metadata).to_owned());
            self.soon(Look::Chart(key));
        }
    }

    pub(super) fn look_at_cluster_repo(&self, name: &str, now: Timestamp) -> Answer<Wake> {
        let Some(repo) = self.read_for::<ClusterRepo>(PART, "", name)? else { return Ok(None) };
        let served = self.read_for::<Deployment>(PART, CATTLE_NAMESPACE, server::NAME)?;
        self.perform(PART, &reconcile(&repo, served.as_ref(), now), now)
    }
}

#[cfg(test)]
mod tests {
    use drover_api::fleet::bundle::Bundle;
    use drover_api::harvester::FLEET_NAMESPACE;
    use drover_api::rancher::managed_chart::DEFINED;
    use k8s_openapi::api::core::v1::Node;

    use super::super::WorldOptions;
    use super::super::tests::{Cluster, node};
    use super::*;

    fn with_repository() -> Cluster {
        let cluster = Cluster::new(WorldOptions::default().with([Part::Charts]));
        cluster.define_harvester();
        cluster.create::<Node>(node("n1"));
        cluster.load(settled("v1.7.0").into());
        cluster.load(super::super::charts::deployed("harvester", "harvester", "1.7.0").into());
        cluster
    }

    fn is_served(cluster: &Cluster) -> bool {
        let served: Deployment = cluster.get(CATTLE_NAMESPACE, server::NAME).unwrap();
        let status = served.status.unwrap_or_default();
        status.observed_generation == served.metadata.generation
            && status.updated_replicas == status.replicas
            && status.available_replicas == Some(1)
    }

    fn raise(cluster: &Cluster) {
        let mut served: Deployment = cluster.get(CATTLE_NAMESPACE, server::NAME).unwrap();
        let template = served.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        template.containers[0].image = Some(format!("{}:v1.8.0", server::IMAGE));
        cluster.direct.update(&served).unwrap();
    }

    fn repo(cluster: &Cluster) -> ClusterRepo {
        cluster.direct.get(None, HARVESTER_CHARTS).unwrap().unwrap()
    }

    fn ask(cluster: &Cluster, moment: &str) {
        let mut repo = repo(cluster);
        repo.spec.get_or_insert_default().force_update = Some(moment.into());
        cluster.direct.update(&repo).unwrap();
    }

    fn ask_for(cluster: &Cluster, version: &str) {
        let mut chart: ManagedChart = cluster.get(FLEET_NAMESPACE, "harvester").unwrap();
        chart.spec.get_or_insert_default().version = Some(version.into());
        cluster.direct.update(&chart).unwrap();
    }

    fn version(cluster: &Cluster) -> Value {
        let bundle: Bundle = cluster.get(FLEET_NAMESPACE, "mcc-harvester").unwrap();
        bundle.rest["spec"]["helm"]["version"].clone()
    }

    fn defined(cluster: &Cluster) -> String {
        let chart: ManagedChart = cluster.get(FLEET_NAMESPACE, "harvester").unwrap();
        let status = chart.status.unwrap();
        let defined = loose::find(status.conditions.as_ref(), DEFINED);
        defined.and_then(|defined| defined.message.clone()).unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn a_chart_that_rancher_has_not_downloaded_is_not_found() {
        let cluster = with_repository();
        cluster.until("charts are served", is_served).await;
        ask_for(&cluster, "1.8.0");
        cluster.until("it is said", |cluster| !defined(cluster).is_empty()).await;
        assert_eq!(defined(&cluster), "no chart version found for harvester-1.8.0");
        raise(&cluster);
        cluster.passes(600).await;
        assert!(is_served(&cluster) && version(&cluster) == "1.7.0", "nobody has told Rancher");

        ask(&cluster, "2026-01-01T00:00:00Z");
        cluster.until("the chart is found", |cluster| version(cluster) == "1.8.0").await;
        cluster.until("and that is said", |cluster| defined(cluster).is_empty()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn rancher_downloads_by_itself_once_an_hour() {
        let cluster = with_repository();
        cluster.until("charts are served", is_served).await;
        raise(&cluster);
        ask_for(&cluster, "1.8.0");
        cluster.passes(3500).await;
        assert_eq!(version(&cluster), "1.7.0");
        cluster.passes(200).await;
        assert_eq!(version(&cluster), "1.8.0");
    }

    #[tokio::test(start_paused = true)]
    async fn a_download_that_fails_is_tried_again_after_five_minutes() {
        let cluster = with_repository();
        cluster.until("charts are served", is_served).await;
        let mut served: Deployment = cluster.get(CATTLE_NAMESPACE, server::NAME).unwrap();
        served.spec.as_mut().unwrap().replicas = Some(0);
        cluster.direct.update(&served).unwrap();
        cluster.passes(60).await;
        ask(&cluster, "2026-01-01T00:00:00Z");
        cluster.passes(5).await;
        let said = |cluster: &Cluster| {
            let status = repo(cluster).status.unwrap();
            loose::find(status.conditions.as_ref(), DOWNLOADED).unwrap().message.clone().unwrap_or_default()
        };
        let refused =
            "failed to fetch http://harvester-cluster-repo.cattle-system/charts/index.yaml: connection refused";
        assert_eq!(said(&cluster), format!("{refused}. Will retry after 5m0s"));

        let mut served: Deployment = cluster.get(CATTLE_NAMESPACE, server::NAME).unwrap();
        served.spec.as_mut().unwrap().replicas = Some(1);
        cluster.direct.update(&served).unwrap();
        cluster.passes(60).await;
        assert!(!said(&cluster).is_empty(), "it is not tried yet");
        cluster.passes(300).await;
        assert_eq!(said(&cluster), "");
    }
}
