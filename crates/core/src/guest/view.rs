//! Everything one decision rests on, and a Machine, whichever version of Cluster API it is described in.

use std::collections::BTreeSet;

use drover_api::cluster_api::labels;
use drover_api::cluster_api::machine::annotations::{NAME_BASE, UPGRADE_ID};
use drover_api::marks::{CONTROL_PLANE_DIGEST, MACHINE_FAILED};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::copy;
use super::dialect::{Dialect, is_of_group};
use super::etcd::Member;
use super::generated::Generated;
use super::kubeadm;
use super::order::{Order, Version};
use super::seen::{Collection, Seen};
use super::wait::{Failure, Next, Object, Reason, Side, Wait};

/// How long etcd may take to be well.
pub const ETCD_PATIENCE: SignedDuration = SignedDuration::from_mins(5);

#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub order: &'a Order,
    pub dialect: Dialect,
    pub seen: &'a Seen,
    /// Why the guest cluster cannot be seen, if so.
    pub away: Option<&'a str>,
    /// As they are at this moment; none if nobody has asked.
    pub etcd: Option<&'a Result<Vec<Member>, String>>,
    /// Nodes that this try has emptied.
    pub drained: &'a BTreeSet<String>,
    /// When this try began.
    pub started: Timestamp,
    /// What was waited for so far.
    pub told: &'a [Wait],
    pub now: Timestamp,
}

/// Either goes on, or this comes next.
pub type Flow<T> = Result<T, Next>;

impl<'a> View<'a> {
    pub fn fail<T>(&self, reason: Reason, sentence: String, remedy: impl Into<String>) -> Flow<T> {
        Err(Next::Fail(Failure { reason, sentence, remedy: remedy.into(), note: None }))
    }

    /// Waits until the deadline, `limit` after what began at `from`, and fails then.
    pub fn wait<T>(
        &self,
        object: Object,
        reason: Reason,
        sentence: String,
        from: Timestamp,
        limit: SignedDuration,
    ) -> Flow<T> {
        self.wait_and(object, reason, sentence, from, limit, None)
    }

    /// The same, looking again before anything changes: for what cannot be watched.
    pub fn wait_and<T>(
        &self,
        object: Object,
        reason: Reason,
        sentence: String,
        from: Timestamp,
        limit: SignedDuration,
        look_again: Option<SignedDuration>,
    ) -> Flow<T> {
        let deadline = from.checked_add(limit).unwrap_or(Timestamp::MAX);
        if self.now >= deadline {
            return self.fail(reason, format!("time is up: {sentence}"), reason.remedy(&object));
        }
        let since = self.since(&object, reason);
        let again = look_again.and_then(|time| self.now.checked_add(time).ok()).unwrap_or(deadline).min(deadline);
        let remedy = reason.remedy(&object);
        let wait = Wait { object, reason, sentence, since, deadline, remedy };
        Err(Next::Wait { waits: vec![wait], look_again: Some(again) })
    }

    /// When the wait for this began, or now.
    pub fn since(&self, object: &Object, reason: Reason) -> Timestamp {
        let known = self.told.iter().find(|told| told.object == *object && told.reason == reason);
        known.map_or(self.now, |known| known.since)
    }

    pub fn cluster(&self) -> Option<&'a Value> {
        self.seen.get(Collection::Clusters, &self.order.cluster)
    }

    pub fn cluster_object(&self) -> Object {
        Object {
            side: Side::Management,
            api_version: self.dialect.api_version(),
            kind: "Cluster".to_owned(),
            namespace: self.order.namespace.clone(),
            name: self.order.cluster.clone(),
        }
    }

    /// The Machines of the control plane, by name, those on their way out among them.
    pub fn machines(&self) -> Vec<Machine<'a>> {
        let label = |object: &Value, label: &str| object["metadata"]["labels"][label].as_str().map(str::to_owned);
        let is_one = |object: &&Value| {
            label(object, labels::CLUSTER_NAME).as_deref() == Some(&self.order.cluster)
                && label(object, labels::CONTROL_PLANE).is_some()
        };
        self.seen
            .all(Collection::Machines)
            .filter(is_one)
            .map(|object| Machine { object, dialect: self.dialect })
            .collect()
    }

    pub fn config_of(&self, machine: &Machine<'a>) -> Option<&'a Value> {
        self.seen.get(Collection::Configs, machine.config_name()?)
    }

    pub fn infrastructure_of(&self, machine: &Machine<'a>) -> Option<&'a Value> {
        let reference = machine.infrastructure_ref();
        let (kind, name) = (reference["kind"].as_str()?, reference["name"].as_str()?);
        self.seen.get(Collection::Infrastructure, &format!("{kind}/{name}"))
    }

    /// The Node of a machine: the one that it names, or the one with its id at the provider.
    pub fn node_of(&self, machine: &Machine<'a>) -> Option<&'a Value> {
        let named = machine.object["status"]["nodeRef"]["name"].as_str();
        if let Some(node) = named.and_then(|name| self.seen.get(Collection::Nodes, name)) {
            return Some(node);
        }
        let id = provider_key(machine.provider_id()?);
        self.seen.all(Collection::Nodes).find(|node| node["spec"]["providerID"].as_str().map(provider_key) == Some(id))
    }

    /// The name of the machine's member of etcd: kubeadm calls it after the Node.
    pub fn member_name(&self, machine: &Machine<'a>) -> String {
        let node = self.node_of(machine).and_then(|node| node["metadata"]["name"].as_str());
        let named = machine.object["status"]["nodeRef"]["name"].as_str();
        node.or(named).unwrap_or(machine.name()).to_owned()
    }

    /// Why a machine is not as it is asked for; none if it is.
    pub fn difference(&self, machine: &Machine<'a>) -> Flow<Option<String>> {
        let order = self.order;
        let runs = machine.version();
        if runs.as_ref() != Some(&order.version) {
            let runs = runs.map_or_else(|| "no version".to_owned(), |version| version.to_string());
            return Ok(Some(format!("it is of {runs}")));
        }
        if let Some(infrastructure) = self.infrastructure_of(machine)
            && copy::infrastructure_spec(self, infrastructure)? != infrastructure["spec"]
        {
            return Ok(Some("its infrastructure is another".to_owned()));
        }
        if let Some(config) = self.config_of(machine) {
            let (before, after) = copy::bootstrap_specs(self, config)?;
            if before != after {
                return Ok(Some("its bootstrap configuration is another".to_owned()));
            }
        }
        // What the ConfigMap of kubeadm says takes effect on machines that join later. A machine does not tell what it
        // joined with, unless it was made for an update, or one has remembered it; what the ConfigMap says now it has joined with,
        // unless one was begun.
        let asked = Generated::by(&order.patches).cluster;
        let made_for_it = machine.annotation(CONTROL_PLANE_DIGEST) == Some(&order.digest())
            || machine.name() == order.name_after(machine.base())
            || machine.generated().is_some_and(|made| made.of_what_is_there().cluster == asked);
        let unknown = !order.patches.kubeadm.is_empty()
            && !made_for_it
            && (machine.upgrade_id().is_some() || machine.generated().is_some() || kubeadm::is_to_change(self));
        Ok(unknown.then(|| "it may have joined with another configuration of the cluster".to_owned()))
    }
}

/// A Machine of Cluster API.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    pub object: &'a Value,
    dialect: Dialect,
}

impl<'a> Machine<'a> {
    pub fn name(&self) -> &'a str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn reference(&self) -> Object {
        Object::of(Side::Management, self.object)
    }

    pub fn uid(&self) -> String {
        self.object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
    }

    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.object["metadata"]["annotations"][key].as_str()
    }

    /// What its successors are called after.
    pub fn base(&self) -> &'a str {
        self.annotation(NAME_BASE).filter(|base| !base.is_empty()).unwrap_or_else(|| self.name())
    }

    /// What of it was generated; none if nobody has remembered.
    pub fn generated(&self) -> Option<Generated> {
        Generated::of(self.object)
    }

    pub fn upgrade_id(&self) -> Option<&'a str> {
        self.annotation(UPGRADE_ID)
    }

    pub fn has_failed_before(&self) -> bool {
        self.annotation(MACHINE_FAILED).is_some()
    }

    pub fn version(&self) -> Option<Version> {
        Version::parse(self.object["spec"]["version"].as_str()?)
    }

    pub fn provider_id(&self) -> Option<&'a str> {
        self.object["spec"]["providerID"].as_str().filter(|id| !id.is_empty())
    }

    pub fn config_name(&self) -> Option<&'a str> {
        let reference = &self.object["spec"]["bootstrap"]["configRef"];
        let is_kubeadm =
            reference["kind"] == "KubeadmConfig" && is_of_group(reference, drover_api::cluster_api::BOOTSTRAP_GROUP);
        reference["name"].as_str().filter(|_| is_kubeadm)
    }

    pub fn infrastructure_ref(&self) -> &'a Value {
        &self.object["spec"]["infrastructureRef"]
    }

    /// Since when it is on its way out.
    pub fn leaving_since(&self) -> Option<Timestamp> {
        time(&self.object["metadata"]["deletionTimestamp"])
    }

    pub fn created(&self) -> Option<Timestamp> {
        time(&self.object["metadata"]["creationTimestamp"])
    }

    pub fn failure(&self) -> Option<String> {
        self.dialect.failure(&self.object["status"])
    }

    /// Another object that acts on it when it sees fit. A TanzuKubernetesCluster leaves that to whoever updates its control plane.
    pub fn controller(&self) -> Option<String> {
        let owners = self.object["metadata"]["ownerReferences"].as_array()?;
        let is_another = |owner: &&Value| owner["controller"] == true && owner["kind"] != "TanzuKubernetesCluster";
        let owner = owners.iter().find(is_another)?;
        let [kind, name] = ["kind", "name"].map(|field| owner[field].as_str().unwrap_or_default());
        Some(format!("{kind} {name}"))
    }
}

pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The id at the provider: what stands behind the last slash.
fn provider_key(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}
