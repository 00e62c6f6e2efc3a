//! What machines should be, made from the spec, the distribution and the defaults of the installation, field by field; and the patches that
//! make what is there so.

use drover_api::tanzu::DISTRIBUTION_LABEL;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::defaults::{self, Defaults};
use super::distribution::Distribution;
use super::{View, text};
use crate::guest::generated::{Fields, Generated};
use crate::guest::order::{Order, Patches};
use crate::guest::patch;

/// Where kubeadm is told how to label a Node.
const NODE_LABELS: &str = "/spec/joinConfiguration/nodeRegistration/kubeletExtraArgs/node-labels";

/// Fields in the order in which patches set them.
pub type Leaves = Vec<(String, Value)>;

/// What the machines of a pool should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Of the ClusterConfiguration.
    pub cluster: Leaves,
    /// Of the KubeadmConfig.
    pub bootstrap: Leaves,
    /// Of what stands for a virtual machine.
    pub infrastructure: Leaves,
}

impl Wanted {
    pub fn of_control_plane(view: &View<'_>, distribution: &Distribution, defaults: &Defaults) -> Self {
        let parts = &distribution.parts;
        let leaf = |path: &str, value: &str| (path.to_owned(), json!(value));
        let own = vec![
            leaf("/dns/imageRepository", &parts.coredns.image_repository),
            leaf("/dns/imageTag", &parts.coredns.version),
            leaf("/etcd/local/imageRepository", &parts.etcd.image_repository),
            leaf("/etcd/local/imageTag", &parts.etcd.version),
            leaf("/imageRepository", &parts.kubernetes.image_repository),
            leaf("/kubernetesVersion", &parts.kubernetes.version),
        ];
        let cluster = with_defaults(own, "", &defaults.cluster);
        Wanted { cluster, ..Wanted::of_pool(view, distribution, defaults, "controlPlane") }
    }

    pub fn of_workers(view: &View<'_>, distribution: &Distribution, defaults: &Defaults) -> Self {
        Wanted::of_pool(view, distribution, defaults, "workers")
    }

    fn of_pool(view: &View<'_>, distribution: &Distribution, defaults: &Defaults, pool: &str) -> Self {
        let pool = &view.tkc["spec"]["topology"][pool];
        let machine = vec![
            ("/spec/imageName".to_owned(), json!(distribution.image)),
            ("/spec/className".to_owned(), pool["class"].clone()),
            ("/spec/storageClass".to_owned(), pool["storageClass"].clone()),
        ];
        // Nodes carry the label of their distribution and those of the installation.
        let label = format!("{DISTRIBUTION_LABEL}={}", distribution.label());
        let more = NODE_LABELS.strip_prefix("/spec/joinConfiguration").and_then(|path| defaults.join.get(path));
        let labels = [label.as_str(), more.map(text).unwrap_or_default()];
        let labels: Vec<&str> = labels.into_iter().filter(|one| !one.is_empty()).collect();
        let join = vec![(NODE_LABELS.to_owned(), json!(labels.join(",")))];
        Wanted {
            cluster: Vec::new(),
            bootstrap: with_defaults(join, "/spec/joinConfiguration", &defaults.join),
            infrastructure: with_defaults(machine, "/spec", &defaults.machine),
        }
    }

    /// What is asked for, whatever there is.
    fn patches(&self) -> Patches {
        Patches {
            infrastructure: patches(&self.infrastructure, &Fields::new(), &[]),
            bootstrap: patches(&self.bootstrap, &Fields::new(), &[]),
            kubeadm: patches(&self.cluster, &Fields::new(), &[]),
        }
    }

    pub fn generated(&self) -> Generated {
        Generated::by(&self.patches())
    }
}

/// What an owner asks for and what belongs to the distribution goes before defaults.
fn with_defaults(mut own: Leaves, root: &str, defaults: &Fields) -> Leaves {
    for (path, value) in defaults {
        let path = format!("{root}{path}");
        if own.iter().all(|(known, _)| *known != path) {
            own.push((path, value.clone()));
        }
    }
    own
}

/// What the control plane is asked to be, without the patches that follow from what there is.
pub fn order(view: &View<'_>, distribution: &Distribution, wanted: &Wanted) -> Order {
    let mut order = Order {
        namespace: view.namespace().to_owned(),
        cluster: view.name().to_owned(),
        version: distribution.kubernetes.clone(),
        id: String::new(),
        patches: wanted.patches(),
        replicas: view.tkc["spec"]["topology"]["controlPlane"]["count"]
            .as_u64()
            .and_then(|count| count.try_into().ok()),
        machine_timeout: view.settings.machine_timeout,
    };
    // Jobs of all clusters are in one namespace; the same cause has the same id, whoever decides, and however far machines are.
    order.id = short(&format!("{} {} {}", view.uid(), order.digest(), order.replicas.unwrap_or(0)), 5);
    order
}

/// An object with these fields beside what `base` has, or why there can be none.
pub fn made_of(mut base: Value, leaves: &[(String, Value)]) -> Result<Value, String> {
    let is_within = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    let holder = |inner: &str| leaves.iter().find(|(outer, _)| is_within(inner, outer));
    if let Some((inner, outer)) = leaves.iter().find_map(|(inner, _)| Some((inner, &holder(inner)?.0))) {
        return Err(format!("{} lies in {}, which is no mapping", defaults::shown(inner), defaults::shown(outer)));
    }
    let patches = patches(leaves, &Fields::new(), &[&base]);
    patch::apply(&mut base, &patches)?;
    Ok(base)
}

/// Patches that set fields in all of `objects`, with the parents that none of them has, and take away what was generated before and is no
/// longer.
pub fn patches(leaves: &[(String, Value)], before: &Fields, objects: &[&Value]) -> Vec<Value> {
    let mut patches: Vec<Value> = Vec::new();
    let mut made: Vec<&str> = Vec::new();
    for (path, value) in leaves {
        let parents = path.match_indices('/').map(|(at, _)| &path[..at]).filter(|parent| !parent.is_empty());
        for parent in parents {
            let lacks = |object: &&Value| object.pointer(parent).is_none_or(Value::is_null);
            if !objects.is_empty() && objects.iter().all(lacks) && !made.contains(&parent) {
                made.push(parent);
                patches.push(json!({ "op": "add", "path": parent, "value": {} }));
            }
        }
        patches.push(json!({ "op": "replace", "path": path, "value": value }));
    }
    let is_gone = |path: &&String| leaves.iter().all(|(wanted, _)| wanted != *path);
    patches.extend(before.keys().filter(is_gone).map(|path| json!({ "op": "remove", "path": path })));
    patches
}

/// A few letters that stand for a text.
pub fn short(text: &str, bytes: usize) -> String {
    Sha256::digest(text.as_bytes()).iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}
