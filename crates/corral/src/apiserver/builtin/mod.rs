//! The kinds that are always served: all that the original serves.
//!
//! Their names are recorded. Kinds with rules of their own here are held to what the original does with them; the others
//! are stored, listed, watched and changed, and their fields checked, and no more.

use std::sync::{Arc, LazyLock, OnceLock};

use super::{
    admission::{BindingRules, PolicyRules, WebhookRules},
    crds::DefinitionRules,
    event_forms, forms,
    namespaces::NamespaceRules,
    resources::{Dependents, Generation, Naming, Resource, ResourceId, Rules},
};

pub(crate) mod advice;
mod autoscaler;
mod budget;
mod containers;
mod controller_revision;
mod daemon_set;
mod deployment;
mod dns;
mod endpoint_slice;
mod event;
mod job;
mod job_status;
mod lease;
pub(crate) mod named;
mod node;
mod persistent_volume;
mod placement;
mod pod;
pub(crate) mod pod_parts;
mod pod_spec;
mod priority_class;
mod replica_set;
mod secret;
mod security;
mod selector;
mod service;
pub(crate) mod shapes;
mod stateful_set;
mod template;
mod values;
mod volumes;

use self::named::{Named, RECORDED};
pub(crate) use self::service::release as release_service;

/// A kind without anything particular.
struct Plain;

impl Rules for Plain {}

/// All servers of a process share them: what is worked out for a kind is worked out once, however many simulations run.
pub(crate) static ALL: LazyLock<Vec<Arc<Resource>>> = LazyLock::new(|| {
    // Events of the newer group are those of the older one, and autoscalers of the older version those of the newer one.
    let is_form = |group: &str, version: &str, named: &Named| {
        let api_version = if group.is_empty() { version.into() } else { format!("{group}/{version}") };
        forms::of(&api_version, &named.kind).is_some()
    };
    let kept = RECORDED.kept().filter(|(group, version, named)| !is_form(group, version, named));
    kept.map(|(group, version, named)| Arc::new(particular(ordinary(group, version, named)))).collect()
});

/// The kind of scales, which are shown and sent, and never kept.
pub(crate) fn scale() -> Resource {
    let named =
        Named { name: "scales".into(), kind: "Scale".into(), namespaced: true, verbs: vec![], ..Named::default() };
    ordinary("autoscaling", "v1", &named)
}

fn ordinary(group: &str, version: &str, named: &Named) -> Resource {
    let id = ResourceId::new(group, &named.name, &named.kind);
    let group_version = if group.is_empty() { version.into() } else { format!("{group}/{version}") };
    Resource {
        singular: named.singular_name.clone(),
        short_names: named.short_names.clone(),
        categories: named.categories.clone(),
        list_kind: format!("{}List", id.kind),
        versions: vec![version.into()],
        storage_version: version.into(),
        namespaced: named.namespaced,
        naming: Naming::Subdomain,
        status: RECORDED.has_status(&group_version, &named.name),
        generation: Generation::Never,
        dependents: Dependents::Delete,
        create_on_update: false,
        unconditional_update: true,
        returns_deleted: false,
        shape: shapes::of(&id.qualified()),
        rules: Arc::new(Plain),
        kind_types: OnceLock::new(),
        id,
    }
}

/// What sets each kind apart from an ordinary one.
fn particular(resource: Resource) -> Resource {
    let with = |rules: Arc<dyn Rules>, resource: Resource| Resource { rules, ..resource };
    let counted = |resource: Resource| Resource { generation: Generation::OnSpec, ..resource };
    let returned = |resource: Resource| Resource { returns_deleted: true, ..resource };
    let upserted = |resource: Resource| Resource { create_on_update: true, ..resource };
    let conditional = |resource: Resource| Resource { unconditional_update: false, ..resource };
    match resource.id.qualified().as_str() {
        "configmaps" => with(Arc::new(secret::ConfigMapRules), resource),
        "events" => {
            let resource = upserted(with(Arc::new(event::EventRules), resource));
            let versions = vec!["v1".into(), event_forms::NEWER.into()];
            Resource { dependents: Dependents::None, versions, ..resource }
        }
        "namespaces" => Resource { naming: Naming::Label, ..returned(with(Arc::new(NamespaceRules), resource)) },
        "nodes" => with(Arc::new(node::NodeRules), resource),
        "persistentvolumeclaims" => returned(with(Arc::new(persistent_volume::ClaimRules), resource)),
        "persistentvolumes" => returned(with(Arc::new(persistent_volume::VolumeRules), resource)),
        "pods" => returned(counted(with(Arc::new(pod::PodRules), resource))),
        "secrets" => with(Arc::new(secret::SecretRules), resource),
        "services" => Resource {
            naming: Naming::ServiceLabel,
            ..returned(upserted(with(Arc::new(service::ServiceRules), resource)))
        },
        "serviceaccounts" | "resourcequotas" => returned(resource),
        "podtemplates" => returned(counted(resource)),
        "limitranges" | "endpoints" => upserted(resource),
        "replicationcontrollers" => Resource { dependents: Dependents::Orphan, ..counted(resource) },
        "customresourcedefinitions.apiextensions.k8s.io" => {
            counted(conditional(with(Arc::new(DefinitionRules), resource)))
        }
        "controllerrevisions.apps" => with(Arc::new(controller_revision::ControllerRevisionRules), resource),
        "daemonsets.apps" => counted(with(Arc::new(daemon_set::DaemonSetRules), resource)),
        "deployments.apps" => {
            let resource = with(Arc::new(deployment::DeploymentRules), resource);
            Resource { generation: Generation::OnSpecOrAnnotations, ..resource }
        }
        "replicasets.apps" => counted(with(Arc::new(replica_set::ReplicaSetRules), resource)),
        "statefulsets.apps" => {
            let resource = counted(with(Arc::new(stateful_set::StatefulSetRules), resource));
            Resource { naming: Naming::Label, ..resource }
        }
        "horizontalpodautoscalers.autoscaling" => {
            let resource = with(Arc::new(autoscaler::AutoscalerRules), resource);
            Resource { versions: vec!["v2".into(), "v1".into()], ..resource }
        }
        "jobs.batch" => Resource { dependents: Dependents::Orphan, ..counted(with(Arc::new(job::JobRules), resource)) },
        "cronjobs.batch" => counted(resource),
        "leases.coordination.k8s.io" => conditional(upserted(with(Arc::new(lease::LeaseRules), resource))),
        "endpointslices.discovery.k8s.io" => {
            let resource = with(Arc::new(endpoint_slice::EndpointSliceRules), resource);
            Resource { generation: Generation::OnContent, ..resource }
        }
        "poddisruptionbudgets.policy" => counted(conditional(with(Arc::new(budget::BudgetRules), resource))),
        "priorityclasses.scheduling.k8s.io" => {
            let resource = with(Arc::new(priority_class::PriorityClassRules), resource);
            Resource { generation: Generation::OnContent, ..resource }
        }
        "ingresses.networking.k8s.io"
        | "ingressclasses.networking.k8s.io"
        | "networkpolicies.networking.k8s.io"
        | "deviceclasses.resource.k8s.io"
        | "resourceslices.resource.k8s.io"
        | "flowschemas.flowcontrol.apiserver.k8s.io"
        | "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io" => counted(resource),
        "validatingadmissionpolicies.admissionregistration.k8s.io" => {
            counted(conditional(with(Arc::new(PolicyRules), resource)))
        }
        "validatingadmissionpolicybindings.admissionregistration.k8s.io" => {
            counted(conditional(with(Arc::new(BindingRules), resource)))
        }
        "mutatingwebhookconfigurations.admissionregistration.k8s.io"
        | "validatingwebhookconfigurations.admissionregistration.k8s.io" => {
            let resource = with(Arc::new(WebhookRules), resource);
            Resource { generation: Generation::OnContent, ..conditional(resource) }
        }
        "runtimeclasses.node.k8s.io" => conditional(upserted(resource)),
        "roles.rbac.authorization.k8s.io"
        | "rolebindings.rbac.authorization.k8s.io"
        | "clusterroles.rbac.authorization.k8s.io"
        | "clusterrolebindings.rbac.authorization.k8s.io" => {
            Resource { naming: Naming::PathSegment, ..upserted(resource) }
        }
        "csidrivers.storage.k8s.io" | "csinodes.storage.k8s.io" | "volumeattachments.storage.k8s.io" => {
            returned(conditional(resource))
        }
        "csistoragecapacities.storage.k8s.io" => conditional(resource),
        "storageclasses.storage.k8s.io" | "volumeattributesclasses.storage.k8s.io" => returned(resource),
        _ => resource,
    }
}
