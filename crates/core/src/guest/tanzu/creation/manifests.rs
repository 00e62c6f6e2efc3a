//! What a new cluster is made of, generated from the spec, the distribution and the defaults of the installation.

use drover_api::cluster_api::labels::{CLUSTER_NAME, CONTROL_PLANE};
use drover_api::marks::GENERATED;
use drover_api::tanzu::CONTROL_PLANE_INIT;
use drover_api::tanzu::tanzu_kubernetes_cluster::network;
use drover_api::wcp;
use serde_json::{Value, json};

use super::super::View;
use super::super::defaults::Defaults;
use super::super::distribution::Distribution;
use super::super::wanted::{Leaves, Wanted, made_of, short};
use super::super::workers::template;
use crate::decision::Act;
use crate::guest::dialect::Dialect;
use crate::guest::generated::Generated;
use crate::guest::order::LONGEST_NAME;
use crate::guest::seen::Collection;
use crate::guest::wait::{Object, Side, Write};

/// On a Machine and what it is made of: to which MachineDeployment it belongs.
const DEPLOYMENT: &str = "machineDeployment";

/// What the machines of the pool of a cluster are called: a part of that follows from the TanzuKubernetesCluster.
fn named(view: &View<'_>, pool: &str, lot: &str) -> String {
    let room = LONGEST_NAME.saturating_sub(pool.len() + lot.len() + 2);
    let cluster: String = view.name().chars().take(room).collect();
    format!("{cluster}-{pool}-{lot}")
}

pub fn machine_name(view: &View<'_>, number: usize) -> String {
    named(view, "control-plane", &short(&format!("{} {number}", view.uid()), 3)[..5])
}

/// All of it goes with the TanzuKubernetesCluster.
fn metadata(view: &View<'_>, name: &str) -> Value {
    let (tkc, uid) = (view.tkc, view.uid());
    json!({
        "name": name, "namespace": view.namespace(), "labels": { CLUSTER_NAME: view.name() },
        "ownerReferences": [{
            "apiVersion": tkc["apiVersion"], "kind": tkc["kind"], "name": view.name(), "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }],
    })
}

fn made(object: Value, purpose: &'static str) -> Write {
    Write { object: Object::of(Side::Management, &object), act: Act::Create(object), purpose }
}

fn infrastructure_version() -> String {
    format!("{}/{}", wcp::GROUP, wcp::VERSION)
}

/// The Cluster, and before it what it refers to.
pub fn cluster(view: &View<'_>, defaults: &Defaults) -> Vec<Write> {
    let asked = &view.tkc["spec"]["settings"]["network"];
    let default = |field: &str| defaults.from_the_start.get(&format!("/networking/{field}")).and_then(Value::as_str);
    let ranges = |asked: &Value, default: &str| match asked["cidrBlocks"].as_array() {
        Some(ranges) if !ranges.is_empty() => asked.clone(),
        _ => json!({ "cidrBlocks": default.split(',').collect::<Vec<_>>() }),
    };
    let domain = asked["serviceDomain"].as_str().or(default("dnsDomain")).unwrap_or(network::SERVICE_DOMAIN);
    let infrastructure = json!({
        "apiVersion": infrastructure_version(), "kind": "WCPCluster", "metadata": metadata(view, view.name()), "spec": {},
    });
    let cluster = json!({
        "apiVersion": Dialect::V1alpha2.api_version(), "kind": "Cluster", "metadata": metadata(view, view.name()),
        "spec": {
            "clusterNetwork": {
                "pods": ranges(&asked["pods"], default("podSubnet").unwrap_or(network::PODS)),
                "services": ranges(&asked["services"], default("serviceSubnet").unwrap_or(network::SERVICES)),
                "serviceDomain": domain,
            },
            "infrastructureRef": reference(view, &infrastructure_version(), "WCPCluster", view.name()),
        },
    });
    vec![made(infrastructure, "make the infrastructure of a cluster"), made(cluster, "make a cluster")]
}

fn reference(view: &View<'_>, api_version: &str, kind: &str, name: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "namespace": view.namespace() })
}

/// What kubeadm is told of a Node, before anything that is asked for.
fn joins(wanted: &Wanted) -> Result<Value, String> {
    let registration = json!({
        "name": "{{ ds.meta_data.hostname }}", "kubeletExtraArgs": { "cloud-provider": "external" },
    });
    let base = json!({ "spec": { "joinConfiguration": { "nodeRegistration": registration } } });
    Ok(made_of(base, &wanted.bootstrap)?["spec"]["joinConfiguration"].take())
}

/// A machine of the control plane.
pub struct Machine<'a, 'b> {
    pub view: &'b View<'a>,
    pub name: &'b str,
    pub distribution: &'b Distribution,
    pub wanted: &'b Wanted,
}

impl Machine<'_, '_> {
    /// The one that begins the cluster.
    pub fn first(&self, defaults: &Defaults) -> Result<Vec<Write>, String> {
        // The network is that of the Cluster, which kubeadm is told of by whoever boots it.
        let is_other = |path: &&String| !path.starts_with("/networking/");
        let fixed: Leaves = defaults
            .from_the_start
            .iter()
            .filter(|(path, _)| is_other(path))
            .map(|(path, value)| (path.clone(), value.clone()))
            .collect();
        let configuration = made_of(json!({}), &[self.wanted.cluster.as_slice(), &fixed].concat())?;
        let mut join = joins(self.wanted)?;
        let registration = join["nodeRegistration"].take();
        let mut spec = json!({
            "clusterConfiguration": configuration, "initConfiguration": { "nodeRegistration": registration },
        });
        // What others of the control plane join with beside: whoever begins it is not asked for it.
        if let Some(join) = join.as_object_mut() {
            join.remove("nodeRegistration");
            if !join.is_empty() {
                spec["joinConfiguration"] = json!(join);
            }
        }
        self.parts(spec, &[(CONTROL_PLANE_INIT, "true")], self.wanted.generated())
    }

    /// One that joins a cluster which `model` is of already.
    pub fn joining(&self, model: &Value) -> Result<Vec<Write>, String> {
        let mut join = joins(self.wanted)?;
        if join["controlPlane"].is_null() {
            join["controlPlane"] = json!({});
        }
        let mut generated = self.wanted.generated();
        // Whoever joins takes the configuration that the cluster was begun with.
        if let Some(model) = Generated::of(model) {
            generated.cluster = model.cluster;
        }
        self.parts(json!({ "joinConfiguration": join }), &[], generated)
    }

    fn parts(&self, config: Value, labels: &[(&str, &str)], generated: Generated) -> Result<Vec<Write>, String> {
        let (view, name) = (self.view, self.name);
        let infrastructure = made_of(json!({ "spec": {} }), &self.wanted.infrastructure)?;
        let infrastructure = json!({
            "apiVersion": infrastructure_version(), "kind": "WCPMachine", "metadata": metadata(view, name),
            "spec": infrastructure["spec"],
        });
        let config = json!({
            "apiVersion": Dialect::V1alpha2.bootstrap_api_version(), "kind": "KubeadmConfig",
            "metadata": metadata(view, name), "spec": config,
        });
        let mut own = metadata(view, name);
        own["labels"][CONTROL_PLANE] = json!("true");
        for (label, value) in labels {
            own["labels"][label] = json!(value);
        }
        own["annotations"] = json!({ GENERATED: generated.to_string() });
        let machine = json!({
            "apiVersion": Dialect::V1alpha2.api_version(), "kind": "Machine", "metadata": own,
            "spec": {
                "version": Dialect::V1alpha2.machine_version(&self.distribution.kubernetes),
                "bootstrap": {
                    "configRef": reference(view, &Dialect::V1alpha2.bootstrap_api_version(), "KubeadmConfig", name),
                },
                "infrastructureRef": reference(view, &infrastructure_version(), "WCPMachine", name),
            },
        });
        let mut writes = Vec::new();
        if view.own.get(Collection::Infrastructure, &format!("WCPMachine/{name}")).is_none() {
            writes.push(made(infrastructure, "make the infrastructure of a machine"));
        }
        if view.own.get(Collection::Configs, name).is_none() {
            writes.push(made(config, "make the bootstrap config of a machine"));
        }
        writes.push(made(machine, "make a machine"));
        Ok(writes)
    }
}

/// The MachineDeployment of the workers, and before it the templates that it refers to.
pub fn workers(view: &View<'_>, distribution: &Distribution, asked: &Wanted) -> Result<Vec<Write>, String> {
    let generated = asked.generated().to_string();
    let machines = made_of(json!({ "spec": {} }), &asked.infrastructure)?["spec"].take();
    let joins = json!({ "joinConfiguration": joins(asked)? });
    let bootstrap_version = Dialect::V1alpha2.bootstrap_api_version();
    let kinds = [
        (infrastructure_version(), "WCPMachineTemplate", Collection::MachineTemplates, machines),
        (bootstrap_version, "KubeadmConfigTemplate", Collection::ConfigTemplates, joins),
    ];
    let mut writes = Vec::new();
    let mut refers = Vec::new();
    for (api_version, kind, collection, spec) in kinds {
        let name = named(view, "workers", &short(&spec.to_string(), 5));
        refers.push(reference(view, &api_version, kind, &name));
        if view.own.get(collection, &name).is_none() {
            let kind = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata(view, &name) });
            writes.push(template(&kind, &name, &spec, &generated));
        }
    }
    let name = named(view, "workers", &short(&format!("{} workers", view.uid()), 3)[..5]);
    let labels = json!({ CLUSTER_NAME: view.name(), DEPLOYMENT: name });
    let count = view.tkc["spec"]["topology"]["workers"]["count"].as_u64().unwrap_or(0);
    let [infrastructure, config] = [0, 1].map(|at| refers.get(at).cloned().unwrap_or_default());
    writes.push(made(
        json!({
            "apiVersion": Dialect::V1alpha2.api_version(), "kind": "MachineDeployment", "metadata": metadata(view, &name),
            "spec": {
                "replicas": count, "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": {
                    "version": Dialect::V1alpha2.machine_version(&distribution.kubernetes),
                    "bootstrap": { "configRef": config },
                    "infrastructureRef": infrastructure,
                }},
            },
        }),
        "make the workers of a cluster",
    ));
    Ok(writes)
}
