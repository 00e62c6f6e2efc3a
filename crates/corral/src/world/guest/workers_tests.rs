//! Workers of a guest cluster that are rolled, as a MachineDeployment of the original does it.

use std::collections::BTreeMap;
use std::time::Duration;

use drover_api::cluster_api::labels;
use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::cluster_api::machine_deployment::v1alpha2::MachineDeployment;
use drover_api::cluster_api::machine_set::v1alpha2::MachineSet;
use drover_api::vm_operator::virtual_machine_image::VirtualMachineImage;
use drover_api::wcp::wcp_machine::WCPMachine;
use drover_api::wcp::wcp_machine_template::WCPMachineTemplate;
use drover_clock::Clock;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::{Contract, Guest};
use crate::apiserver::{ApiServer, Direct, Options};
use crate::world::annotations::PROVISIONING_FAILS;
use crate::world::{Part, World, WorldOptions, definitions};

struct Both {
    clock: Clock,
    management: Direct,
    guest: Direct,
}

/// One machine of the control plane and two workers.
async fn two_workers() -> Both {
    let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().unwrap());
    let server = |seed| ApiServer::new(Options { clock, seed, latency: Duration::ZERO, watch_window: 1000 });
    let (management, guest) = (server(1), server(2));
    let lines = Guest {
        namespace: "default".into(),
        name: "my-tkc".into(),
        machines: 1,
        version: "1.15.5".into(),
        begun: None,
        told: BTreeMap::new(),
        workers: Some(2),
        contract: Contract::V1alpha2,
        distribution: Some("v1.15.5+vmware.1-guest.1".into()),
    };
    let settled = lines.settled(clock.now());
    let list = |items| json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items });
    management
        .load(&list(definitions::guest(Contract::V1alpha2).into_iter().chain(settled.management).collect::<Vec<_>>()))
        .unwrap();
    guest.load(&list(settled.guest)).unwrap();
    let mut options = WorldOptions::default().with(Part::GUESTS);
    options.guests.insert(("default".into(), "my-tkc".into()), guest.clone());
    tokio::spawn(World::run(management.clone(), options));
    tokio::spawn(World::run(guest.clone(), WorldOptions::default()));
    let both = Both { clock, management: management.direct("test"), guest: guest.direct("test") };
    both.passes(10).await;
    both
}

impl Both {
    async fn passes(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    fn deployment(&self) -> MachineDeployment {
        self.management.list::<MachineDeployment>().unwrap().remove(0)
    }

    fn workers(&self) -> Vec<Machine> {
        let mut all = self.management.list::<Machine>().unwrap();
        all.retain(|machine| !machine.metadata.labels.as_ref().unwrap().contains_key(labels::CONTROL_PLANE));
        all
    }

    /// Points the deployment at a copy of its template with another class and image.
    fn changes_class(&self, class: &str, image: &str) {
        let mut template = self.management.list::<WCPMachineTemplate>().unwrap().remove(0);
        template.metadata = super::ObjectMeta {
            name: Some(format!("my-tkc-workers-{class}")),
            namespace: Some("default".into()),
            ..super::ObjectMeta::default()
        };
        let spec = template.spec.as_mut().unwrap().template.as_mut().unwrap().spec.as_mut().unwrap();
        (spec.class_name, spec.image_name) = (Some(class.into()), Some(image.into()));
        self.management.create(&template).unwrap();
        let mut deployment = self.deployment();
        let spec = deployment.spec.as_mut().unwrap().template.as_mut().unwrap().spec.as_mut().unwrap();
        spec.infrastructure_ref.as_mut().unwrap().name = template.metadata.name.clone();
        self.management.update(&deployment).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn workers_that_are_as_they_should_be_stay() {
    let both = two_workers().await;
    let before: Vec<_> = both.workers().iter().map(|machine| machine.metadata.name.clone()).collect();
    both.passes(600).await;
    assert_eq!(both.workers().iter().map(|machine| machine.metadata.name.clone()).collect::<Vec<_>>(), before);
    let status = both.deployment().status.unwrap();
    assert_eq!((status.updated_replicas, status.available_replicas), (Some(2), Some(2)));
    assert_eq!(both.management.list::<MachineSet>().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_template_replaces_workers_one_by_one_and_never_fewer_are_available() {
    let both = two_workers().await;
    both.changes_class("large", "some-image");
    let mut most = 0;
    for _ in 0..400 {
        both.passes(1).await;
        let nodes = both.guest.list::<Node>().unwrap();
        assert!(
            nodes.iter().filter(|node| !node.metadata.name.as_ref().unwrap().contains("control-plane")).count() >= 2
        );
        most = most.max(both.workers().iter().filter(|one| one.metadata.deletion_timestamp.is_none()).count());
    }
    assert_eq!((most, both.workers().len()), (3, 2));
    let infrastructure = both.management.list::<WCPMachine>().unwrap();
    let large = |one: &&WCPMachine| one.spec.as_ref().unwrap().class_name.as_deref() == Some("large");
    assert_eq!(infrastructure.iter().filter(large).count(), 2);
    let status = both.deployment().status.unwrap();
    assert_eq!((status.replicas, status.updated_replicas, status.available_replicas), (Some(2), Some(2), Some(2)));
    let node = both.guest.get::<Node>(None, both.workers()[0].metadata.name.as_ref().unwrap()).unwrap().unwrap();
    let labels = node.metadata.labels.unwrap();
    assert_eq!(labels["run.tanzu.vmware.com/kubernetesDistributionVersion"], "v1.15.5_vmware.1-guest.1");
}

#[tokio::test(start_paused = true)]
async fn machines_that_cannot_be_made_say_why_and_the_old_ones_stay() {
    let both = two_workers().await;
    let mut image = VirtualMachineImage::named("broken");
    image.metadata.annotations = Some([(PROVISIONING_FAILS.to_owned(), "exceeded quota: vms".to_owned())].into());
    both.management.create(&image).unwrap();
    both.changes_class("large", "broken");
    both.passes(600).await;
    let failed: Vec<_> = both.workers().into_iter().filter_map(|one| one.status?.error_message).collect();
    assert_eq!(failed, ["exceeded quota: vms"]);
    assert_eq!(both.workers().len(), 3);
    assert_eq!(both.deployment().status.unwrap().available_replicas, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_paused_rolls_no_further_and_goes_back_to_a_template_that_it_had() {
    let both = two_workers().await;
    let first = both.deployment().spec.unwrap().template.unwrap();
    both.changes_class("large", "some-image");
    both.passes(30).await;
    let mut deployment = both.deployment();
    deployment.spec.as_mut().unwrap().paused = Some(true);
    both.management.update(&deployment).unwrap();
    both.passes(300).await;
    assert_eq!(both.workers().len(), 3);
    let mut deployment = both.deployment();
    let spec = deployment.spec.as_mut().unwrap();
    (spec.paused, spec.template) = (None, Some(first));
    both.management.update(&deployment).unwrap();
    both.passes(120).await;
    assert_eq!(both.workers().len(), 2);
    let small = both.management.list::<WCPMachine>().unwrap();
    assert!(small.iter().all(|one| one.spec.as_ref().unwrap().class_name.as_deref() == Some("best-effort-small")));
}
