//! From changes to the sets and deployments of workers that they concern, and looking at these.

use drover_api::cluster_api::kubeadm_config::v1alpha2::KubeadmConfigTemplate;
use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::cluster_api::machine_deployment::v1alpha2::MachineDeployment;
use drover_api::cluster_api::machine_set::v1alpha2::MachineSet;
use drover_api::wcp::wcp_machine_template::WCPMachineTemplate;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::watch::cluster_of;
use super::{Steps, is_reachable, machine_deployment, machine_set};
use crate::apiserver::Answer;
use crate::world::agenda::{Key, Look};
use crate::world::look::Wake;
use crate::world::{Part, World, pods};

const MACHINES: Part = Part::ClusterApi;

impl World {
    /// Whatever happens to a Machine or a set, whoever keeps its number looks.
    pub(in crate::world) fn notice_workers(&mut self, plural: &str, key: &Key) {
        match plural {
            "machines" => {
                for set in self.sets_in(&key.0) {
                    self.soon(Look::MachineSet((key.0.clone(), pods::name(&set.metadata).to_owned())));
                }
            }
            "machinesets" => {
                self.soon(Look::MachineSet(key.clone()));
                let all = self.direct(MACHINES).list::<MachineDeployment>().unwrap_or_default();
                for deployment in all.iter().filter(|one| pods::namespace(&one.metadata) == key.0) {
                    self.soon(Look::MachineDeployment((key.0.clone(), pods::name(&deployment.metadata).to_owned())));
                }
            }
            "machinedeployments" => self.soon(Look::MachineDeployment(key.clone())),
            _ => {}
        }
    }

    fn sets_in(&self, namespace: &str) -> Vec<MachineSet> {
        let mut all = self.direct(MACHINES).list::<MachineSet>().unwrap_or_default();
        all.retain(|set| pods::namespace(&set.metadata) == namespace);
        all
    }

    pub(in crate::world) fn look_at_machine_deployment(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(deployment) = self.read_for::<MachineDeployment>(MACHINES, &key.0, &key.1)? else { return Ok(None) };
        let mut sets = self.sets_in(&key.0);
        let uid = pods::uid(&deployment.metadata);
        sets.retain(|set| pods::controller(&set.metadata).is_some_and(|owner| owner.uid == uid));
        let steps = Steps::own(machine_deployment::reconcile(&deployment, sets));
        self.take_steps(MACHINES, None, steps, now)
    }

    pub(in crate::world) fn look_at_machine_set(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(set) = self.read_for::<MachineSet>(MACHINES, &key.0, &key.1)? else { return Ok(None) };
        let mut machines = self.direct(MACHINES).list::<Machine>()?;
        let uid = pods::uid(&set.metadata);
        machines.retain(|machine| pods::controller(&machine.metadata).is_some_and(|owner| owner.uid == uid));
        let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref()?.spec.clone()).unwrap_or_default();
        let config = template.bootstrap.and_then(|bootstrap| bootstrap.config_ref?.name).unwrap_or_default();
        let infrastructure = template.infrastructure_ref.and_then(|reference| reference.name).unwrap_or_default();
        let config = self.read_for::<KubeadmConfigTemplate>(MACHINES, &key.0, &config)?;
        let infrastructure = self.read_for::<WCPMachineTemplate>(MACHINES, &key.0, &infrastructure)?;
        let guest = self.guest(MACHINES, &key.0, &cluster_of(&set.metadata))?;
        let nodes = guest.filter(is_reachable).map(|guest| guest.list::<Node>()).transpose()?;
        let scene = machine_set::Scene {
            set: &set,
            machines: &machines,
            config: config.as_ref(),
            infrastructure: infrastructure.as_ref(),
            nodes: nodes.as_deref(),
        };
        self.take_steps(MACHINES, None, machine_set::reconcile(&scene, now), now)
    }
}
