//! Where no webhook is asked when an Upgrade is created, the controller asks itself before it begins.

use std::collections::BTreeSet;
use std::time::Duration;

use drover_clock::Clock;
use drover_core::cluster::LOOKS;
use drover_core::cluster::harvester::Upgrade;
use drover_core::harvester::admission::registration::{NAME, plural, was_asked};
use drover_core::harvester::admission::{Question, Verdict, begin, reads_of_create};

use crate::api::Api;
use crate::survey;

/// Kubelets and API servers are waited for no longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// All that speaks against an Upgrade; nothing if a webhook of ours was there to say it when it was created.
pub async fn judge(api: &Api, clock: Clock, upgrade: &Upgrade, asks_machines: bool) -> Verdict {
    let webhook = format!("/apis/admissionregistration.k8s.io/v1/{}/{NAME}", plural(Question::Validation));
    let created = upgrade.metadata.creation_timestamp;
    if api.get(&webhook).await.is_ok_and(|configuration| was_asked(&configuration, created)) {
        return Verdict::default();
    }
    let kinds = reads_of_create().into_iter().filter(|kind| asks_machines || !LOOKS.contains(kind));
    let kinds: BTreeSet<&str> = kinds.collect();
    let cluster = survey::of_kinds(api.client(), &clock, &kinds, PATIENCE).await;
    begin(upgrade, &cluster)
}
