//! A guest whose objects are on paper, and what images bring for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::super::addons::{Deed, Observed, Order, Served, State, Step, Told};
use super::super::addons::{Unread, course, needs, refused, unreadable};
use super::super::*;
use super::{Scene, image_name};

pub const PREFIX: &str = "vmware-system.guest.kubernetes.addons.";
pub const INVENTORY: &str = "ConfigMap/kube-system/drover-addons";

/// A guest cluster on paper.
#[derive(Default)]
pub struct Paper {
    pub objects: BTreeMap<Object, Value>,
    pub nodes: BTreeMap<String, Option<String>>,
    /// Kinds and names that it refuses.
    pub refuses: BTreeSet<String>,
    /// Versions and names that it cannot read.
    pub hides: BTreeSet<String>,
    /// It is of before Kubernetes 1.16.
    pub cannot_apply: bool,
    /// It knows PodSecurityPolicies.
    pub has_policies: bool,
    revision: u64,
}

impl Paper {
    pub fn of(distribution: &str) -> Self {
        let labels = |name: &str| (name.to_owned(), Some(distribution.replace('+', "_")));
        Paper { nodes: [labels("cp-1"), labels("worker-1")].into(), ..Paper::default() }
    }

    fn serves(&self, version: &str) -> Option<BTreeMap<String, Served>> {
        let kinds: &[(&str, &str, bool)] = match version {
            "v1" => &[("ConfigMap", "configmaps", true), ("Namespace", "namespaces", false)],
            "apps/v1" => &[("Deployment", "deployments", true), ("DaemonSet", "daemonsets", true)],
            "storage.k8s.io/v1" => &[("StorageClass", "storageclasses", false)],
            "policy/v1beta1" if self.has_policies => &[("PodSecurityPolicy", "podsecuritypolicies", false)],
            "rbac.authorization.k8s.io/v1" => {
                &[("ClusterRole", "clusterroles", false), ("RoleBinding", "rolebindings", true)]
            }
            "apiextensions.k8s.io/v1" => &[("CustomResourceDefinition", "customresourcedefinitions", false)],
            _ => &[],
        };
        let mut served: BTreeMap<String, Served> = kinds
            .iter()
            .map(|(kind, plural, namespaced)| {
                let (api_version, plural) = (version.to_owned(), (*plural).to_owned());
                ((*kind).to_owned(), Served { api_version, plural, namespaced: *namespaced })
            })
            .collect();
        for definition in self.objects.values().filter(|one| one["kind"] == "CustomResourceDefinition") {
            if version == format!("{}/v1", text(&definition["spec"]["group"])) {
                let plural = text(&definition["spec"]["names"]["plural"]).to_owned();
                let served_as = Served { api_version: version.to_owned(), plural, namespaced: false };
                served.insert(text(&definition["spec"]["names"]["kind"]).to_owned(), served_as);
            }
        }
        (!served.is_empty()).then_some(served)
    }

    pub fn has(&self, name: &str) -> bool {
        self.objects.keys().any(|object| object.to_string() == name)
    }

    pub fn get(&self, name: &str) -> &Value {
        self.objects.iter().find(|(object, _)| object.to_string() == name).unwrap().1
    }

    pub fn put(&mut self, mut value: Value) {
        self.revision += 1;
        value["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        value["metadata"]["uid"] = json!(format!("uid-{}", self.revision));
        self.objects.insert(Object::of(Side::Guest, &value), value);
    }

    /// Does all that is decided, one turn after another; tells what was done, and what became of it.
    pub fn follows(&mut self, order: &Order) -> (Vec<String>, Told) {
        let mut observed = Observed { nodes: self.nodes.clone(), ..Observed::default() };
        let mut done = Vec::new();
        for _ in 0..20 {
            loop {
                let (versions, objects) = needs(order, &observed);
                if versions.is_empty() && objects.is_empty() {
                    break;
                }
                let mut hidden = Ok(());
                for version in versions {
                    match self.hides.contains(&version) {
                        true => hidden = Unread::Version(version).note(order, &mut observed, 503, "no backend"),
                        false => drop(observed.served.insert(version.clone(), self.serves(&version))),
                    }
                }
                for object in objects {
                    match self.hides.contains(&object.to_string()) {
                        true => hidden = Unread::Object(object).note(order, &mut observed, 500, "no such key"),
                        false => drop(observed.objects.insert(object.clone(), self.objects.get(&object).cloned())),
                    }
                }
                if let Err(why) = hidden {
                    return (done, unreadable(order, &why));
                }
            }
            let course = course(order, &observed);
            if course.steps.is_empty() {
                return (done, course.told);
            }
            for step in &course.steps {
                if step.addon.as_ref().is_none_or(|addon| !observed.failed.contains_key(addon)) {
                    done.extend(self.take(order, step, &mut observed));
                }
            }
        }
        panic!("there is no end to it: {done:#?}");
    }

    fn take(&mut self, order: &Order, step: &Step, observed: &mut Observed) -> Option<String> {
        let object = &step.object;
        if self.refuses.contains(&object.to_string()) {
            let why = refused(order, step, Some(422), "spec.selector: field is immutable");
            observed.failed.insert(step.addon.clone().unwrap(), why);
            return None;
        }
        match &step.deed {
            Deed::Adopt(patch) => {
                let mut live = self.objects[object].clone();
                assert_eq!(patch[1]["value"], live["metadata"]["resourceVersion"], "{object}");
                live["metadata"]["managedFields"] = patch[0]["value"].clone();
                self.put(live);
                observed.objects.insert(object.clone(), self.objects.get(object).cloned());
                None
            }
            Deed::Apply(_) if self.cannot_apply => {
                observed.cannot_apply = true;
                None
            }
            Deed::Create(body) | Deed::Apply(body) | Deed::Update(body) => {
                let live = self.objects.get(object);
                let is_created = matches!(step.deed, Deed::Create(_));
                assert_eq!(is_created, live.is_none(), "what is not there is created, and nothing else: {object}");
                for field in ["resourceVersion", "uid"] {
                    let guard = live.map_or(Value::Null, |one| one["metadata"][field].clone());
                    assert_eq!(body["metadata"][field], guard, "{object}");
                }
                let mut body = body.clone();
                let operation = if matches!(step.deed, Deed::Apply(_)) { "Apply" } else { "Update" };
                if !self.cannot_apply {
                    body["metadata"]["managedFields"] =
                        json!([{ "manager": "drover", "operation": operation, "fieldsV1": {} }]);
                }
                self.put(body.clone());
                observed.objects.insert(object.clone(), self.objects.get(object).cloned());
                observed.applied.insert(object.clone());
                if object.kind == "CustomResourceDefinition" {
                    observed.served.retain(|version, _| !version.starts_with(text(&body["spec"]["group"])));
                }
                Some(format!("apply {object}"))
            }
            Deed::Delete { uid } => {
                assert_eq!(self.objects[object]["metadata"]["uid"], uid.as_str());
                self.objects.remove(object);
                observed.objects.remove(object);
                Some(format!("delete {object}"))
            }
        }
    }
}

impl Scene {
    /// The image of a distribution brings an add-on, as its annotation says it.
    pub fn brings(&mut self, distribution: &str, addon: &str, annotation: &str) {
        let mut image = self.global.get(Collection::Images, &image_name(distribution)).unwrap().clone();
        image["metadata"]["annotations"][format!("{PREFIX}{addon}")] = json!(annotation);
        self.put(Collection::Images, image);
    }

    pub fn order(&self) -> Order {
        order_of_addons(&self.view(None)).unwrap()
    }

    /// The same, as if every machine were of the distribution that is asked for.
    pub fn settled_order(&self) -> Order {
        Order { old: None, ..self.order() }
    }
}

pub fn inline(value: &str) -> String {
    json!({ "type": "inline", "value": value }).to_string()
}

pub fn error_of<'a>(told: &'a Told, place: &str) -> &'a str {
    match &told.standing[place].state {
        State::Error(why) => why,
        other => panic!("{place} is {other:?}"),
    }
}

pub fn names(done: &[&str]) -> Vec<String> {
    done.iter().map(|name| (*name).to_owned()).collect()
}
