//! The kinds that are always served.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, OnceLock},
};

use k8s_openapi::{
    api::{
        batch::v1::Job,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret, ServiceAccount},
        policy::v1::PodDisruptionBudget,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};

use super::{
    crds::{self, DefinitionRules},
    namespaces::{self, NamespaceRules},
    resources::{Dependents, Generation, Naming, Resource, ResourceId, Rules},
    schema::shape::Shape,
};

mod budget;
mod event;
mod job;
mod node;
mod pod;
mod pod_spec;
mod secret;

/// A kind without anything particular.
struct Plain;

impl Rules for Plain {}

/// The shapes of all kinds, which take a while to build, by plural.
static SHAPES: LazyLock<BTreeMap<&str, Arc<Shape>>> = LazyLock::new(|| {
    BTreeMap::from([
        ("configmaps", Shape::of::<ConfigMap>()),
        ("customresourcedefinitions", Shape::of::<CustomResourceDefinition>()),
        ("events", Shape::of::<Event>()),
        ("jobs", Shape::of::<Job>()),
        ("leases", Shape::of::<Lease>()),
        ("namespaces", Shape::of::<Namespace>()),
        ("nodes", Shape::of::<Node>()),
        ("poddisruptionbudgets", Shape::of::<PodDisruptionBudget>()),
        ("pods", Shape::of::<Pod>()),
        ("secrets", Shape::of::<Secret>()),
        ("serviceaccounts", Shape::of::<ServiceAccount>()),
    ])
});

fn resource(id: ResourceId, rules: impl Rules + 'static) -> Resource {
    Resource {
        singular: id.kind.to_lowercase(),
        short_names: vec![],
        categories: vec![],
        list_kind: format!("{}List", id.kind),
        versions: vec!["v1".into()],
        storage_version: "v1".into(),
        namespaced: true,
        naming: Naming::Subdomain,
        status: false,
        generation: Generation::Never,
        dependents: Dependents::Delete,
        create_on_update: false,
        unconditional_update: true,
        returns_deleted: false,
        shape: SHAPES.get(id.plural.as_str()).cloned(),
        rules: Arc::new(rules),
        kind_types: OnceLock::new(),
        id,
    }
}

fn short(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

pub(crate) fn all() -> Vec<Resource> {
    vec![
        Resource {
            short_names: short(&["cm"]),
            ..resource(ResourceId::new("", "configmaps", "ConfigMap"), secret::ConfigMapRules)
        },
        Resource {
            short_names: short(&["ev"]),
            create_on_update: true,
            dependents: Dependents::None,
            ..resource(ResourceId::new("", "events", "Event"), event::EventRules)
        },
        Resource {
            short_names: short(&["ns"]),
            namespaced: false,
            naming: Naming::Label,
            status: true,
            returns_deleted: true,
            ..resource(namespaces::id(), NamespaceRules)
        },
        Resource {
            short_names: short(&["no"]),
            namespaced: false,
            status: true,
            ..resource(ResourceId::new("", "nodes", "Node"), node::NodeRules)
        },
        Resource {
            short_names: short(&["po"]),
            categories: short(&["all"]),
            status: true,
            generation: Generation::OnSpec,
            returns_deleted: true,
            ..resource(ResourceId::new("", "pods", "Pod"), pod::PodRules)
        },
        resource(ResourceId::new("", "secrets", "Secret"), secret::SecretRules),
        Resource {
            short_names: short(&["sa"]),
            returns_deleted: true,
            ..resource(ResourceId::new("", "serviceaccounts", "ServiceAccount"), Plain)
        },
        Resource {
            short_names: short(&["crd", "crds"]),
            categories: short(&["api-extensions"]),
            namespaced: false,
            status: true,
            generation: Generation::OnSpec,
            unconditional_update: false,
            ..resource(crds::id(), DefinitionRules)
        },
        Resource {
            categories: short(&["all"]),
            status: true,
            generation: Generation::OnSpec,
            dependents: Dependents::Orphan,
            ..resource(ResourceId::new("batch", "jobs", "Job"), job::JobRules)
        },
        Resource {
            create_on_update: true,
            unconditional_update: false,
            ..resource(ResourceId::new("coordination.k8s.io", "leases", "Lease"), Plain)
        },
        Resource {
            short_names: short(&["pdb"]),
            status: true,
            generation: Generation::OnSpec,
            unconditional_update: false,
            ..resource(ResourceId::new("policy", "poddisruptionbudgets", "PodDisruptionBudget"), budget::BudgetRules)
        },
    ]
}
