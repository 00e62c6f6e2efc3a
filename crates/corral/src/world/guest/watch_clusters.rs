//! From changes to the whole clusters that they concern, and looking at these.

use drover_api::cluster_api::cluster::v1alpha2::Cluster;
use drover_api::cluster_api::kubeadm_config::v1alpha2::KubeadmConfig;
use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::cluster_api::machine_deployment::v1alpha2::MachineDeployment;
use drover_api::cluster_api::secrets;
use drover_api::wcp::wcp_cluster::WCPCluster;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use super::cluster;
use super::watch::cluster_of;
use crate::apiserver::Answer;
use crate::world::agenda::{Key, Look};
use crate::world::look::Wake;
use crate::world::{Part, World, pods};

const CLUSTERS: Part = Part::ClusterApi;
const INFRASTRUCTURE: Part = Part::GuestMachines;

impl World {
    /// A Cluster and its infrastructure have one name.
    pub(in crate::world) fn notice_clusters(&mut self, group: &str, plural: &str, key: &Key) {
        match (group, plural) {
            ("cluster.x-k8s.io", "clusters") => {
                self.soon(Look::GuestCluster(key.clone()));
                // Whoever has not booted yet may now.
                for config in self.direct(CLUSTERS).list::<KubeadmConfig>().unwrap_or_default() {
                    let is_ready = config.status.as_ref().is_some_and(|status| status.ready == Some(true));
                    if pods::namespace(&config.metadata) == key.0 && cluster_of(&config.metadata) == key.1 && !is_ready
                    {
                        self.soon(Look::Bootstrap((key.0.clone(), pods::name(&config.metadata).to_owned())));
                    }
                }
            }
            ("infrastructure.cluster.vmware.com", "wcpclusters") => {
                self.soon(Look::Balancer(key.clone()));
                self.soon(Look::GuestCluster(key.clone()));
            }
            ("cluster.x-k8s.io", "machines" | "machinedeployments") => {
                for cluster in self.direct(CLUSTERS).list::<Cluster>().unwrap_or_default() {
                    let is_tended = cluster.spec.as_ref().is_some_and(|spec| spec.infrastructure_ref.is_some())
                        || cluster.metadata.deletion_timestamp.is_some();
                    if pods::namespace(&cluster.metadata) == key.0 && is_tended {
                        self.soon(Look::GuestCluster((key.0.clone(), pods::name(&cluster.metadata).to_owned())));
                    }
                }
            }
            _ => {}
        }
    }

    pub(in crate::world) fn look_at_guest_cluster(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(own) = self.read_for::<Cluster>(CLUSTERS, &key.0, &key.1)? else { return Ok(None) };
        let infrastructure = self.read_for::<WCPCluster>(CLUSTERS, &key.0, &key.1)?;
        let mut machines = self.direct(CLUSTERS).list::<Machine>()?;
        machines.retain(|one| pods::namespace(&one.metadata) == key.0 && cluster_of(&one.metadata) == key.1);
        let mut deployments = self.direct(CLUSTERS).list::<MachineDeployment>()?;
        deployments.retain(|one| pods::namespace(&one.metadata) == key.0 && cluster_of(&one.metadata) == key.1);
        let has = |end: &str| {
            self.read_for::<Secret>(CLUSTERS, &key.0, &format!("{}{end}", key.1)).map(|found| found.is_some())
        };
        let scene = cluster::Scene {
            cluster: &own,
            infrastructure: infrastructure.as_ref(),
            machines: &machines,
            deployments: &deployments,
            has_authority: has(secrets::CA)?,
            has_kubeconfig: has(secrets::KUBECONFIG)?,
        };
        self.take_steps(CLUSTERS, None, cluster::reconcile(&scene, now), now)
    }

    pub(in crate::world) fn look_at_balancer(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(own) = self.read_for::<WCPCluster>(INFRASTRUCTURE, &key.0, &key.1)? else { return Ok(None) };
        self.take_steps(INFRASTRUCTURE, None, cluster::balance(&own, now), now)
    }
}
