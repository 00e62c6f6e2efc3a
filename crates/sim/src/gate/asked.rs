//! A request, understood: what it does to which object, and for which purpose.

use std::collections::{BTreeMap, VecDeque};

use drover_core::decision::{Act, Kind, Write};
use drover_core::planner;
use http::Method;
use http::request::Parts;
use serde_json::Value;

use crate::campaign::reach;

/// What of the past decisions is remembered: far more than can be under way at once.
const REMEMBERED: usize = 4096;

/// The ConfigMap of a guest cluster that its machines join by.
const KUBEADM_CONFIG: &str = "kubeadm-config";

/// One request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    /// Empty for those of the core.
    pub group: String,
    pub plural: String,
    pub namespace: String,
    /// Empty for a whole collection.
    pub name: String,
    pub subresource: String,
    pub is_watch: bool,
    /// None if there is none, or it is no JSON.
    pub body: Value,
}

impl Asked {
    pub fn of(head: &Parts, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let mut parts = head.uri.path().split('/').filter(|part| !part.is_empty());
        let group = match parts.next() {
            Some("api") => String::new(),
            _ => parts.next().unwrap_or_default().to_owned(),
        };
        // The version.
        let mut parts = parts.skip(1).peekable();
        let of_namespaces = parts.next_if_eq(&"namespaces");
        let mut next = || parts.next().unwrap_or_default().to_owned();
        let mut namespace = if of_namespaces.is_some() { next() } else { String::new() };
        let (mut plural, mut name, subresource) = (next(), next(), next());
        if let (Some(namespaces), true) = (of_namespaces, plural.is_empty()) {
            (plural, name) = (namespaces.to_owned(), std::mem::take(&mut namespace));
        }
        if head.method == Method::POST && name.is_empty() {
            name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        }
        let is_watch = head.uri.query().is_some_and(|query| query.contains("watch=true"));
        Asked { method: head.method.clone(), group, plural, namespace, name, subresource, is_watch, body }
    }

    pub fn is_read(&self) -> bool {
        self.method == Method::GET
    }

    pub fn is_list(&self) -> bool {
        self.is_read() && self.name.is_empty() && !self.is_watch
    }

    pub fn kind(&self) -> &'static str {
        kind_of(&self.plural)
    }

    /// What a write is for, as far as it tells by itself: those of a guest cluster's update, and of programs in Jobs. kubeadm has one
    /// object for all that it is told.
    pub fn by_itself(&self) -> String {
        match self.body["data"].as_object().filter(|_| self.name == KUBEADM_CONFIG) {
            Some(data) => format!("{} {} {}", self.method, self.plural, data.keys().next().unwrap_or(&String::new())),
            None => format!("{} {}", self.method, self.plural),
        }
    }
}

fn kind_of(plural: &str) -> &'static str {
    match plural {
        "plans" => "Plan",
        "nodes" => "Node",
        "jobs" => "Job",
        "secrets" => "Secret",
        "events" => "Event",
        "pods" => "Pod",
        "leases" => "Lease",
        "upgrades" => "Upgrade",
        "upgradelogs" => "UpgradeLog",
        "virtualmachineimages" => "VirtualMachineImage",
        "deployments" => "Deployment",
        "services" => "Service",
        "addons" => "Addon",
        "managedcharts" => "ManagedChart",
        "clusters" => "Cluster",
        "settings" => "Setting",
        _ => "Object",
    }
}

/// The writes that operators have decided on, by which the purpose of a request is known: it is not said on the wire.
#[derive(Debug, Default)]
pub struct Decided {
    writes: VecDeque<Write>,
    /// Those of planners.
    planned: VecDeque<planner::Write>,
}

impl Decided {
    pub fn remember(&mut self, write: &Write) {
        self.writes.push_back(write.clone());
        if self.writes.len() > REMEMBERED {
            self.writes.pop_front();
        }
    }

    pub fn remember_planned(&mut self, write: planner::Write) {
        self.planned.push_back(write);
        if self.planned.len() > REMEMBERED {
            self.planned.pop_front();
        }
    }

    /// Why a planner makes a request.
    fn planned(&self, asked: &Asked) -> Option<String> {
        use planner::Target::{CapiClusterStatus, ClusterStatus, ControlPlane, ControlPlaneStatus, Job, Node, Secret};
        let is_it = |write: &&planner::Write| {
            let same_object = match &write.target {
                Secret(name) => asked.plural == "secrets" && asked.name == *name,
                Node(name) => asked.plural == "nodes" && asked.name == *name,
                Job(name) => asked.plural == "jobs" && asked.name == *name,
                ControlPlane | ControlPlaneStatus => asked.plural == "rkecontrolplanes",
                ClusterStatus | CapiClusterStatus => asked.plural == "clusters",
            };
            let same_act = match &write.act {
                planner::Act::Patch(body) | planner::Act::Create(body) => *body == asked.body,
                planner::Act::Delete { .. } => asked.method == Method::DELETE,
            };
            same_object && same_act
        };
        self.planned.iter().rev().find(is_it).map(|write| reach::of_planner(write.purpose))
    }

    /// Why a request is made. What no decision about a Plan asked for is the election's, or undoes marks.
    pub fn purpose(&self, asked: &Asked) -> String {
        let same_object = |write: &&Write| kind(write.subject.kind) == asked.kind() && write.subject.name == asked.name;
        let same_act = |write: &&Write| match &write.act {
            Act::Create(body) => asked.method == Method::POST && *body == asked.body,
            Act::Patch(body) | Act::PatchStatus(body) => asked.method == Method::PUT || is_same(body, &asked.body),
            Act::Delete { .. } => asked.method == Method::DELETE,
            #[allow(unreachable_patterns, reason = "acts that come later are known by their object alone")]
            _ => true,
        };
        let found = self.writes.iter().rev().filter(same_object).find(same_act);
        let planned = found.is_none().then(|| self.planned(asked)).flatten();
        match (found, asked.kind()) {
            (None, _) if planned.is_some() => planned.unwrap_or_default(),
            (Some(write), _) => format!("{:?}", write.purpose),
            (None, "Lease") => "Election".to_owned(),
            (None, "Node") => "UndoMarks".to_owned(),
            (None, _) => asked.by_itself(),
        }
    }
}

/// A write that follows another of its batch to the same object is guarded by the version that the first one made.
fn is_same(decided: &Value, sent: &Value) -> bool {
    let unguarded = |patch: &Value| {
        let mut patch = patch.clone();
        if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        patch
    };
    decided == sent || unguarded(decided) == unguarded(sent)
}

fn kind(kind: Kind) -> String {
    format!("{kind:?}")
}

/// How often each thing was decided on.
pub type Tally = BTreeMap<String, usize>;
