//! Images that Harvester imports, the ISO of a release among them: they come in after a while, fail and are tried again, or stall.
//!
//! Models the image controllers of Harvester 1.7 with their CDI backend, as far as `Imported`, `RetryLimitExceeded` and the
//! progress show it, and the claim that an image is imported into, which has a volume at once. Left out: the DataVolume and the
//! importer pod behind an image, uploads, and checksums.

use std::time::Duration;

use std::collections::BTreeMap;

use drover_api::harvester::virtual_machine_image::{STATIC_STORAGE_CLASS, VirtualMachineImage, conditions};
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::agenda::{Key, Look};
use super::annotations::{self, IMPORT_DURATION, IMPORT_FAILS, Lasts};
use super::look::Wake;
use super::outcome::{Action, Outcome};
use super::workloads::template::controlled_by;
use super::{Part, World, loose, pods};
use crate::apiserver::Answer;

/// How long an import takes if nothing else is said.
const IMPORTING: Duration = Duration::from_secs(30);
const RETRIES: i32 = 3;
/// How far one has come that does not get on.
const HALF: i32 = 50;

pub fn reconcile(image: &VirtualMachineImage, now: Timestamp) -> Outcome {
    let status = image.status.clone().unwrap_or_default();
    let known = loose::find(status.conditions.as_ref(), conditions::IMPORTED);
    let mut after = image.clone();
    let own = after.status.get_or_insert_default();
    let Some(known) = known else {
        own.progress = Some(0);
        loose::set_as_wrangler(
            &mut own.conditions,
            conditions::IMPORTED,
            "Unknown",
            "Importing",
            "importing image",
            now,
        );
        return put(&after);
    };
    if known.status != "Unknown" {
        return Outcome::nothing();
    }
    let since = loose::moment(known.last_update_time.as_ref()).unwrap_or(now);
    let told = image.metadata.annotations.as_ref();
    let takes = match annotations::lasts_for_all(told, IMPORT_DURATION) {
        Some(Lasts::Forever) if own.progress == Some(HALF) => return Outcome::nothing(),
        Some(Lasts::Forever) => {
            own.progress = Some(HALF);
            return put(&after);
        }
        Some(Lasts::For(time)) => time,
        None => IMPORTING,
    };
    let (half, end) = (later(since, takes / 2), later(since, takes));
    if now < half {
        return Outcome::wait_until(half);
    }
    if now < end && own.progress != Some(HALF) {
        own.progress = Some(HALF);
        return put(&after);
    }
    if now < end {
        return Outcome::wait_until(end);
    }
    if let Some(why) = told.and_then(|told| told.get(IMPORT_FAILS)).filter(|value| *value != "false") {
        return fail(after, why, now);
    }
    own.progress = Some(100);
    loose::set_as_wrangler(
        &mut own.conditions,
        conditions::IMPORTED,
        "True",
        "Imported",
        "completed image import",
        now,
    );
    put(&after)
}

/// It is tried again, until it has failed too often.
fn fail(mut image: VirtualMachineImage, why: &str, now: Timestamp) -> Outcome {
    let most = image.spec.as_ref().and_then(|spec| spec.retry).unwrap_or(RETRIES);
    let own = image.status.get_or_insert_default();
    let failed = own.failed.unwrap_or(0) + 1;
    own.failed = Some(failed);
    own.progress = Some(0);
    let why = if why == "true" { "failed to download the image" } else { why };
    let why = format!("{why}, attempt {failed}");
    if failed > most {
        let often = "the retry limit is exceeded";
        loose::set_as_wrangler(
            &mut own.conditions,
            conditions::RETRY_LIMIT_EXCEEDED,
            "True",
            "ImportFailed",
            often,
            now,
        );
        loose::set_as_wrangler(&mut own.conditions, conditions::IMPORTED, "False", "ImportFailed", &why, now);
    } else {
        loose::set_as_wrangler(&mut own.conditions, conditions::IMPORTED, "Unknown", "ImportFailed", &why, now);
    }
    put(&image)
}

/// The claim of the image's name, which pods mount.
fn claim(image: &VirtualMachineImage, known: Option<&PersistentVolumeClaim>) -> Option<Action> {
    if image.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let Some(known) = known else {
        let size = BTreeMap::from([("storage".to_string(), Quantity("10Gi".into()))]);
        return Some(Action::create(&PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: image.metadata.name.clone(),
                namespace: image.metadata.namespace.clone(),
                owner_references: Some(vec![controlled_by(image)]),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec!["ReadWriteMany".into()]),
                storage_class_name: Some(STATIC_STORAGE_CLASS.into()),
                volume_name: Some(format!("pvc-{}", pods::uid(&image.metadata))),
                resources: Some(VolumeResourceRequirements { requests: Some(size), ..Default::default() }),
                ..PersistentVolumeClaimSpec::default()
            }),
            status: None,
        }));
    };
    let mut after = known.clone();
    let status: &mut PersistentVolumeClaimStatus = after.status.get_or_insert_default();
    status.phase = Some("Bound".into());
    Action::change(known, &after)
}

fn put(image: &VirtualMachineImage) -> Outcome {
    Outcome::act(vec![Action::status(image)])
}

impl World {
    pub(super) fn notice_image(&mut self, key: &Key) {
        if self.has(Part::Images) {
            self.soon(Look::Image(key.clone()));
        }
    }

    pub(super) fn look_at_image(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(image) = self.read_for::<VirtualMachineImage>(Part::Images, &key.0, &key.1)? else { return Ok(None) };
        let known = self.read_for::<PersistentVolumeClaim>(Part::Images, &key.0, &key.1)?;
        let mut outcome = reconcile(&image, now);
        outcome.actions.extend(claim(&image, known.as_ref()));
        self.perform(Part::Images, &outcome, now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::Cluster;
    use super::super::{Part, WorldOptions};
    use super::*;

    fn with_image(annotations: Value) -> Cluster {
        let cluster = Cluster::new(WorldOptions::default().with([Part::Images]));
        cluster.define_harvester();
        cluster.create::<VirtualMachineImage>(json!({
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "VirtualMachineImage",
            "metadata": {"name": "iso", "namespace": "default", "annotations": annotations},
            "spec": {"sourceType": "download", "url": "http://example.com/harvester.iso", "retry": 2},
        }));
        cluster
    }

    /// `Imported`, and how far it has come.
    fn state(cluster: &Cluster) -> (String, i32, i32) {
        let status = cluster.get::<VirtualMachineImage>("default", "iso").unwrap().status.unwrap();
        let imported = loose::find(status.conditions.as_ref(), conditions::IMPORTED).unwrap().status.clone();
        (imported, status.progress.unwrap_or(0), status.failed.unwrap_or(0))
    }

    #[tokio::test(start_paused = true)]
    async fn an_image_is_imported_after_a_while() {
        let cluster = with_image(json!({}));
        cluster.passes(20).await;
        assert_eq!(state(&cluster), ("Unknown".into(), 50, 0));
        cluster.passes(20).await;
        assert_eq!(state(&cluster), ("True".into(), 100, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn an_image_has_a_claim_with_a_volume() {
        let cluster = with_image(json!({}));
        cluster.passes(1).await;
        let claim: PersistentVolumeClaim = cluster.get("default", "iso").unwrap();
        assert_eq!(claim.status.unwrap().phase.as_deref(), Some("Bound"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_import_that_stalls_stays_where_it_is_until_it_is_told_to_go_on() {
        let cluster = with_image(json!({"corral.drover.dev/import-duration": "never"}));
        cluster.passes(3600).await;
        assert_eq!(state(&cluster), ("Unknown".into(), 50, 0));
        let mut image: VirtualMachineImage = cluster.get("default", "iso").unwrap();
        image.metadata.annotations = None;
        cluster.direct.update(&image).unwrap();
        cluster.passes(5).await;
        assert_eq!(state(&cluster), ("True".into(), 100, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn an_import_that_fails_too_often_is_given_up() {
        let cluster = with_image(json!({"corral.drover.dev/import-fails": "true"}));
        cluster.passes(70).await;
        assert_eq!(state(&cluster).2, 2);
        cluster.passes(60).await;
        assert_eq!(state(&cluster), ("False".into(), 0, 3));
    }
}
