//! What users, machines and other controllers do in the middle of an upgrade.

use std::time::Duration;

use drover_api::harvester::virtual_machine_image::VirtualMachineImage;
use drover_api::longhorn::volume::Volume;
use drover_api::plan::Plan;
use drover_clock::{Clock, later};
use drover_corral::apiserver::{ApiServer, Direct, Kind};
use drover_corral::world::annotations::{
    DOWN_UNTIL, IMPORT_DURATION, JOB_DURATION, JOB_EXIT_CODE, NEVER, REBUILD_DURATION,
};
use http::{Method, Request};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::client::Body;
use serde_json::{Value, json};
use tower::Service;

use crate::faults::{Fault, ObjectPatch};
use crate::guests::Servers;
use crate::original;
use crate::scenario::pattern::ObjectName;

mod guests;
mod products;

/// How long something stays away that comes back.
const AWHILE: Duration = Duration::from_secs(20);
/// From deleting a Plan to making it again.
const REPLACING: Duration = Duration::from_secs(2);
/// The same, if all that was begun can be undone meanwhile.
const UNDOING: Duration = Duration::from_secs(60);
/// How often whoever waits until something is gone looks.
const LOOK: Duration = Duration::from_secs(2);
/// From one reboot to the next.
const BETWEEN_REBOOTS: Duration = Duration::from_secs(40);

const HOSTNAME: &str = "kubernetes.io/hostname";
const CLAIM: &str = "drover.dev/claim";

/// How long it takes until all that an act does is done.
pub fn lasts(fault: &Fault) -> Duration {
    match fault {
        Fault::Paused
        | Fault::NodesDisabled
        | Fault::SecretsGone
        | Fault::HostnamesGone
        | Fault::JobsFail
        | Fault::JobsHang
        | Fault::NodesGone
        | Fault::MigrationsFail
        | Fault::NodePromoted
        | Fault::TunnelsRefused
        | Fault::VirtualMachineOff
        | Fault::Reboot => AWHILE,
        Fault::PlanReplaced => REPLACING,
        // It takes as long as what was begun: then the upgrade has not ended, since what asks for it is gone.
        Fault::PlanGone | Fault::UpgradeReplaced => UNDOING,
        Fault::MachinesGone => AWHILE,
        Fault::RebootTwice => BETWEEN_REBOOTS + AWHILE,
        Fault::OriginalActs => original::AT_WORK,
        _ => Duration::ZERO,
    }
}

/// Does it, as far as it is done at once; the rest follows on a task of its own. `guests` are the servers of guest clusters.
pub async fn perform(fault: &Fault, server: &ApiServer, guests: &Servers) {
    let user = User { direct: server.direct("user"), clock: server.clock() };
    match fault {
        Fault::StatusWiped => wipe_status(server).await,
        Fault::ClaimsLost => user.change::<Plan>(|plan| drop(plan.annotations_mut().remove("drover.dev/claims"))),
        Fault::MarksLost => user.change::<Node>(|node| drop(node.labels_mut().remove(CLAIM))),
        Fault::PlanTouched => annotate(server, &ASKING, "example.com/touched", json!("yes")).await,
        Fault::VersionRaised => user.change::<Plan>(|plan| {
            if !plan.spec.version.is_empty() {
                plan.spec.version = "v1.35.0".to_owned();
            }
        }),
        Fault::NodesCordoned => user.cordon(true),
        Fault::NodesUncordoned => user.cordon(false),
        Fault::JobsDeleted => user.delete_all::<Job>(|job| is_of_upgrades(&job.metadata)),
        Fault::PodsDeleted => user.delete_all::<Pod>(|pod| is_of_upgrades(&pod.metadata)),
        Fault::PlanReplaced => user.replace_plans(REPLACING),
        Fault::PlanGone => user.replace_plans(UNDOING),
        Fault::UpgradeReplaced => products::replace_upgrades(&user),
        Fault::Retried => annotate(server, &RETRIABLE, "drover.dev/retry", json!("true")).await,
        Fault::MachinesGone => guests::lose_machines(&user),
        Fault::Paused => pause(server).await,
        Fault::NodesDisabled => user.disable_nodes(),
        Fault::SecretsGone => user.lose_secrets(),
        Fault::HostnamesGone => user.lose_hostnames(),
        Fault::JobsFail => user.tell_machines(JOB_EXIT_CODE, "1"),
        Fault::JobsHang => user.tell_machines(JOB_DURATION, NEVER),
        Fault::NodesGone => user.lose_nodes(),
        Fault::Reboot => user.switch_off(),
        Fault::RebootTwice => {
            user.switch_off();
            tokio::spawn(async move {
                user.clock.sleep(BETWEEN_REBOOTS).await;
                user.switch_off();
            });
        }
        Fault::MigrationsFail => products::fail_migrations(&user),
        Fault::VolumesNeverHeal => {
            user.change::<Volume>(|volume| told(&mut volume.metadata, REBUILD_DURATION, NEVER));
        }
        Fault::DownloadsStall => {
            user.change::<VirtualMachineImage>(|image| told(&mut image.metadata, IMPORT_DURATION, NEVER));
        }
        Fault::NodePromoted => products::promote(&user),
        Fault::EtcdMemberLost => products::lose_member(&user),
        Fault::TunnelsRefused => products::refuse_tunnels(&user),
        Fault::VirtualMachineOff => guests::switch_off(&user),
        Fault::KubeadmConfigEdited => {
            for (cluster, guest) in guests {
                guests::edit_kubeadm(&user, cluster, &guest.direct("user"));
            }
        }
        Fault::OriginalActs => drop(tokio::spawn(original::act(server.clone()))),
        Fault::Apply(objects) => apply(server, objects).await,
        Fault::Patch(patch) => change(server, patch).await,
        Fault::Delete(name) => {
            for path in paths(server, name) {
                send(server, Method::DELETE, &path, &Value::Null).await;
            }
        }
        // Done to a write, or to the operators.
        _ => {}
    }
}

/// What asks for an upgrade.
const ASKING: [&str; 3] = ["Plan", "Upgrade", "TanzuKubernetesCluster"];
/// Those that `drover.dev/retry` is heard on.
const RETRIABLE: [&str; 2] = ["Upgrade", "Node"];
/// Those that `drover.dev/paused` pauses.
const PAUSABLE: [&str; 2] = ["Plan", "TanzuKubernetesCluster"];

/// Whether a Job, or a pod of one, was made for an upgrade: of a Plan, of Harvester, of a guest cluster's control plane.
fn is_of_upgrades(metadata: &ObjectMeta) -> bool {
    const MARKS: [&str; 3] = ["upgrade.cattle.io/plan", "harvesterhci.io/upgrade", "upgrade-id"];
    let maps = [metadata.labels.as_ref(), metadata.annotations.as_ref()];
    maps.into_iter().flatten().any(|map| MARKS.iter().any(|mark| map.contains_key(*mark)))
}

fn told(metadata: &mut ObjectMeta, key: &str, value: &str) {
    metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

/// Somebody with kubectl.
#[derive(Clone)]
struct User {
    direct: Direct,
    clock: Clock,
}

impl User {
    fn all<K: Kind>(&self) -> Vec<K> {
        self.direct.list::<K>().unwrap_or_default()
    }

    fn each<K: Kind + Clone + PartialEq>(
        &self,
        change: impl Fn(&mut K),
        write: impl Fn(&Direct, &K) -> drover_corral::apiserver::Answer<K>,
    ) {
        for object in self.all::<K>() {
            let mut changed = object.clone();
            change(&mut changed);
            if changed != object
                && let Err(status) = write(&self.direct, &changed)
            {
                tracing::warn!(
                    "the user cannot change {}: {}",
                    changed.meta().name.as_deref().unwrap_or(""),
                    status.message
                );
            }
        }
    }

    fn change<K: Kind + Clone + PartialEq>(&self, change: impl Fn(&mut K)) {
        self.each(change, Direct::update);
    }

    fn delete_all<K: Kind>(&self, which: impl Fn(&K) -> bool) {
        for object in self.all::<K>().iter().filter(|object| which(object)) {
            // Gone meanwhile is as good.
            let _ = self.direct.delete::<K>(object.meta().namespace.as_deref(), &object.name_any(), None);
        }
    }

    fn cordon(&self, cordoned: bool) {
        self.change::<Node>(|node| {
            node.spec.get_or_insert_default().unschedulable = cordoned.then_some(true);
        });
    }

    fn replace_plans(&self, after: Duration) {
        let plans = self.all::<Plan>();
        self.delete_all::<Plan>(|_| true);
        let user = self.clone();
        tokio::spawn(async move {
            user.clock.sleep(after).await;
            for plan in plans {
                let mut again = Plan::new(&plan.name_any(), plan.spec.clone());
                again.metadata.namespace = plan.namespace();
                again.metadata.annotations = plan.metadata.annotations.clone();
                again.metadata.labels = plan.metadata.labels.clone();
                again.metadata.owner_references = plan.metadata.owner_references.clone();
                again.annotations_mut().remove("drover.dev/claims");
                if let Err(status) = user.direct.create(&again) {
                    tracing::warn!("the user cannot make {} again: {}", plan.name_any(), status.message);
                }
            }
        });
    }

    fn disable_nodes(&self) {
        let labels: Vec<String> =
            self.all::<Plan>().iter().map(|plan| format!("plan.upgrade.cattle.io/{}", plan.name_any())).collect();
        let out: Vec<String> = self.out().iter().map(ResourceExt::name_any).collect();
        self.change::<Node>(|node| {
            if out.contains(&node.name_any()) {
                node.labels_mut().extend(labels.iter().map(|label| (label.clone(), "disabled".to_owned())));
            }
        });
        let user = self.clone();
        tokio::spawn(async move {
            user.clock.sleep(AWHILE).await;
            user.change::<Node>(|node| node.labels_mut().retain(|_, value| value != "disabled"));
        });
    }

    fn lose_secrets(&self) {
        let plans = self.all::<Plan>();
        let named = |secret: &Secret| {
            plans.iter().any(|plan| plan.spec.secrets.iter().any(|named| named.name == secret.name_any()))
        };
        let secrets: Vec<Secret> = self.all::<Secret>().into_iter().filter(|secret| named(secret)).collect();
        self.delete_all::<Secret>(named);
        let user = self.clone();
        tokio::spawn(async move {
            user.clock.sleep(AWHILE).await;
            for mut secret in secrets {
                (secret.metadata.uid, secret.metadata.resource_version) = (None, None);
                // Somebody may have made it meanwhile.
                let _ = user.direct.create(&secret);
            }
        });
    }

    fn lose_hostnames(&self) {
        let names: Vec<(String, Option<String>)> =
            self.all::<Node>().iter().map(|node| (node.name_any(), node.labels().get(HOSTNAME).cloned())).collect();
        self.change::<Node>(|node| drop(node.labels_mut().remove(HOSTNAME)));
        let user = self.clone();
        tokio::spawn(async move {
            user.clock.sleep(AWHILE).await;
            user.change::<Node>(|node| {
                let found = names.iter().find(|(name, _)| *name == node.name_any());
                if let Some((_, Some(hostname))) = found {
                    node.labels_mut().insert(HOSTNAME.to_owned(), hostname.clone());
                }
            });
        });
    }

    /// All machines that are not told something else.
    fn tell_machines(&self, key: &'static str, value: &'static str) {
        let untold = |node: &Node| !node.annotations().contains_key(key);
        let told: Vec<String> = self.all::<Node>().iter().filter(|node| untold(node)).map(Node::name_any).collect();
        self.change::<Node>(|node| {
            node.annotations_mut().entry(key.to_owned()).or_insert_with(|| value.to_owned());
        });
        let user = self.clone();
        tokio::spawn(async move {
            user.clock.sleep(AWHILE).await;
            user.change::<Node>(|node| {
                if told.contains(&node.name_any()) {
                    node.annotations_mut().remove(key);
                }
            });
        });
    }

    /// A machine that registers again brings its own labels along, and nothing that was put on its Node later.
    fn lose_nodes(&self) {
        let lost = self.out();
        for node in &lost {
            // Gone meanwhile is as good.
            let _ = self.direct.delete::<Node>(None, &node.name_any(), None);
        }
        let user = self.clone();
        tokio::spawn(async move {
            user.clock.sleep(AWHILE).await;
            for mut node in lost {
                (node.metadata.uid, node.metadata.resource_version, node.spec) = (None, None, None);
                let is_of = |key: &str, groups: &[&str]| groups.iter().any(|group| key.starts_with(group));
                let of_plans = ["plan.upgrade.cattle.io/", "drover.dev/"];
                node.labels_mut().retain(|key, _| !is_of(key, &of_plans));
                node.annotations_mut().retain(|key, _| !is_of(key, &of_plans) && !is_of(key, &["harvesterhci.io/"]));
                // Somebody may have made it meanwhile.
                let _ = user.direct.create(&node);
            }
        });
    }

    /// The nodes that are out of service, or the first one.
    fn out(&self) -> Vec<Node> {
        let nodes = self.all::<Node>();
        let is_claimed = |node: &Node| node.labels().contains_key(CLAIM);
        // Rancher's planner takes those of Harvester out.
        let is_drained = |node: &Node| {
            let is_cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
            is_cordoned && node.labels().contains_key("harvesterhci.io/managed")
        };
        let out: Vec<Node> = nodes.iter().filter(|node| is_claimed(node) || is_drained(node)).cloned().collect();
        if out.is_empty() { nodes.into_iter().take(1).collect() } else { out }
    }

    fn switch_off(&self) {
        let until = later(self.clock.now(), AWHILE).to_string();
        let out: Vec<String> = self.out().iter().map(ResourceExt::name_any).collect();
        self.change::<Node>(|node| {
            // A machine that never comes back does not come back by being switched off.
            let is_dead = node.annotations().get(DOWN_UNTIL).is_some_and(|until| until == NEVER);
            if out.contains(&node.name_any()) && !is_dead {
                node.annotations_mut().insert(DOWN_UNTIL.to_owned(), until.clone());
            }
        });
    }
}

/// Where guest clusters have what another product calls the same.
fn other_place(kind: &str) -> Option<(&'static str, &'static str)> {
    const VM_OPERATOR: &str = "/apis/vmoperator.vmware.com/v1alpha1";
    match kind {
        "VirtualMachine" => Some((VM_OPERATOR, "virtualmachines")),
        "VirtualMachineImage" => Some((VM_OPERATOR, "virtualmachineimages")),
        "VolumeAttachment" => Some(("/apis/longhorn.io/v1beta2", "volumeattachments")),
        _ => None,
    }
}

/// Where objects of a kind are: prefix and plural.
fn place(kind: &str) -> Option<(&'static str, &'static str)> {
    Some(match kind {
        "Node" => ("/api/v1", "nodes"),
        "Namespace" => ("/api/v1", "namespaces"),
        "Pod" => ("/api/v1", "pods"),
        "Secret" => ("/api/v1", "secrets"),
        "ConfigMap" => ("/api/v1", "configmaps"),
        "Job" => ("/apis/batch/v1", "jobs"),
        "Plan" => ("/apis/upgrade.cattle.io/v1", "plans"),
        "PodDisruptionBudget" => ("/apis/policy/v1", "poddisruptionbudgets"),
        "KubeVirt" => ("/apis/kubevirt.io/v1", "kubevirts"),
        "VirtualMachine" => ("/apis/kubevirt.io/v1", "virtualmachines"),
        "VirtualMachineInstance" => ("/apis/kubevirt.io/v1", "virtualmachineinstances"),
        "Volume" => ("/apis/longhorn.io/v1beta2", "volumes"),
        "Engine" => ("/apis/longhorn.io/v1beta2", "engines"),
        "Machine" => ("/apis/cluster.x-k8s.io/v1beta1", "machines"),
        "Cluster" => ("/apis/cluster.x-k8s.io/v1alpha2", "clusters"),
        "MachineDeployment" => ("/apis/cluster.x-k8s.io/v1alpha2", "machinedeployments"),
        "TanzuKubernetesCluster" => ("/apis/run.tanzu.vmware.com/v1alpha1", "tanzukubernetesclusters"),
        "WCPMachine" => ("/apis/infrastructure.cluster.vmware.com/v1alpha2", "wcpmachines"),
        "RKEControlPlane" => ("/apis/rke.cattle.io/v1", "rkecontrolplanes"),
        "ManagedChart" => ("/apis/management.cattle.io/v3", "managedcharts"),
        "ClusterRepo" => ("/apis/catalog.cattle.io/v1", "clusterrepos"),
        "Bundle" => ("/apis/fleet.cattle.io/v1alpha1", "bundles"),
        "Cluster.fleet.cattle.io" => ("/apis/fleet.cattle.io/v1alpha1", "clusters"),
        "Cluster.provisioning.cattle.io" => ("/apis/provisioning.cattle.io/v1", "clusters"),
        "Setting" => ("/apis/harvesterhci.io/v1beta1", "settings"),
        "Addon" => ("/apis/harvesterhci.io/v1beta1", "addons"),
        "Upgrade" => ("/apis/harvesterhci.io/v1beta1", "upgrades"),
        "VirtualMachineImage" => ("/apis/harvesterhci.io/v1beta1", "virtualmachineimages"),
        "VirtualMachineClass" => ("/apis/vmoperator.vmware.com/v1alpha1", "virtualmachineclasses"),
        "KubeadmConfig" => ("/apis/bootstrap.cluster.x-k8s.io/v1alpha2", "kubeadmconfigs"),
        "Deployment" => ("/apis/apps/v1", "deployments"),
        "DaemonSet" => ("/apis/apps/v1", "daemonsets"),
        "StatefulSet" => ("/apis/apps/v1", "statefulsets"),
        "VolumeAttachment" => ("/apis/storage.k8s.io/v1", "volumeattachments"),
        "ValidatingAdmissionPolicy" => ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
        "ValidatingAdmissionPolicyBinding" => {
            ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings")
        }
        _ => return None,
    })
}

fn path_at(prefix: &str, plural: &str, namespace: &str, name: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    let name = if name.is_empty() { String::new() } else { format!("/{name}") };
    format!("{prefix}{namespace}/{plural}{name}")
}

async fn annotate(server: &ApiServer, kinds: &[&str], key: &str, value: Value) {
    let patch = json!({ "metadata": { "annotations": { key: value } } });
    for path in kinds.iter().flat_map(|kind| all_paths(server, kind)) {
        send(server, Method::PATCH, &path, &patch).await;
    }
}

async fn pause(server: &ApiServer) {
    const PAUSED: &str = "drover.dev/paused";
    annotate(server, &PAUSABLE, PAUSED, json!("true")).await;
    let server = server.clone();
    tokio::spawn(async move {
        server.clock().sleep(AWHILE).await;
        annotate(&server, &PAUSABLE, PAUSED, Value::Null).await;
    });
}

/// Where a kind has no status of its own, it goes with the rest.
async fn wipe_status(server: &ApiServer) {
    let nothing = json!({ "status": null });
    for path in ASKING.iter().flat_map(|kind| all_paths(server, kind)) {
        if !send(server, Method::PATCH, &format!("{path}/status"), &nothing).await {
            send(server, Method::PATCH, &path, &nothing).await;
        }
    }
}

fn all_paths(server: &ApiServer, kind: &str) -> Vec<String> {
    paths(server, &ObjectName { kind: kind.to_owned(), namespace: String::new(), name: "*".to_owned() })
}

async fn change(server: &ApiServer, patch: &ObjectPatch) {
    if change_now(server, patch).await {
        return;
    }
    // It may be gone only for now, as the Node is of a machine that is being mended.
    let (server, patch) = (server.clone(), patch.clone());
    tokio::spawn(async move {
        server.clock().sleep(AWHILE + Duration::from_secs(1)).await;
        change_now(&server, &patch).await
    });
}

/// Whether there was anything to change.
async fn change_now(server: &ApiServer, patch: &ObjectPatch) -> bool {
    let by = patch.by.as_ref().map(|by| format!("?fieldManager={by}")).unwrap_or_default();
    let paths = paths(server, &patch.object);
    for path in &paths {
        send(server, Method::PATCH, &format!("{path}{by}"), &patch.with).await;
        // Where it is a part of its own, it is not changed with the rest.
        if patch.with["status"].is_object() {
            send(server, Method::PATCH, &format!("{path}/status{by}"), &patch.with).await;
        }
    }
    !paths.is_empty()
}

/// The paths of all objects that are called so.
fn paths(server: &ApiServer, name: &ObjectName) -> Vec<String> {
    let Some(first) = place(&name.kind) else {
        tracing::warn!("nobody knows where a {} is", name.kind);
        return Vec::new();
    };
    [first].into_iter().chain(other_place(&name.kind)).flat_map(|place| paths_at(server, name, place)).collect()
}

fn paths_at(server: &ApiServer, name: &ObjectName, (prefix, plural): (&str, &str)) -> Vec<String> {
    let group = prefix.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let objects = server.direct("user").list_json(group, plural).unwrap_or_default();
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    objects
        .iter()
        .map(|object| {
            // Products serve a kind in versions of their own.
            let root = match object["apiVersion"].as_str().filter(|version| version.starts_with(group)) {
                Some(version) if !group.is_empty() => format!("/apis/{version}"),
                _ => prefix.to_owned(),
            };
            (root, text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
        })
        .filter(|(_, namespace, own)| name.covers(&name.kind, namespace, own))
        .map(|(root, namespace, own)| path_at(&root, plural, &namespace, &own))
        .collect()
}

async fn apply(server: &ApiServer, objects: &[Value]) {
    for object in objects {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let (kind, namespace) = (text(&object["kind"]), text(&object["metadata"]["namespace"]));
        let (name, version) = (text(&object["metadata"]["name"]), text(&object["apiVersion"]));
        let Some((_, plural)) = place(&kind) else {
            tracing::warn!("nobody knows where a {kind} is");
            continue;
        };
        // Several products have a kind of one name: the object says whose it is.
        let prefix = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let (collection, path) =
            (path_at(&prefix, plural, &namespace, ""), path_at(&prefix, plural, &namespace, &name));
        if !send(server, Method::POST, &collection, object).await {
            send(server, Method::PATCH, &path, object).await;
        }
    }
}

async fn send(server: &ApiServer, method: Method, path: &str, body: &Value) -> bool {
    let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string().into_bytes()) };
    let request = Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, content).body(body);
    let Ok(request) = request else { return false };
    let Ok(answer) = server.service("user").call(request).await;
    answer.status().is_success()
}
