//! What the objects of each built-in kind look like. A shape takes a while to build, so each is built when it is first
//! needed, once for all servers of the process.

use std::{collections::BTreeMap, ops::Deref, sync::Arc, sync::LazyLock, sync::OnceLock};

use k8s_openapi::{
    api::{
        admissionregistration::v1 as admissionregistration,
        apps::v1 as apps,
        autoscaling::{v1 as autoscaling_v1, v2 as autoscaling},
        batch::v1 as batch,
        certificates::v1 as certificates,
        coordination::v1 as coordination,
        core::v1 as core,
        discovery::v1 as discovery,
        events::v1 as events,
        flowcontrol::v1 as flowcontrol,
        networking::v1 as networking,
        node::v1 as node,
        policy::v1 as policy,
        rbac::v1 as rbac,
        resource::v1 as resource,
        scheduling::v1 as scheduling,
        storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration,
};

use crate::apiserver::schema::shape::Shape;

/// A shape that is built when somebody looks at it.
#[derive(Debug)]
pub(crate) struct LazyShape {
    build: fn() -> Arc<Shape>,
    built: OnceLock<Arc<Shape>>,
}

impl LazyShape {
    fn new(build: fn() -> Arc<Shape>) -> Self {
        LazyShape { build, built: OnceLock::new() }
    }
}

impl Deref for LazyShape {
    type Target = Shape;

    fn deref(&self) -> &Shape {
        self.built.get_or_init(self.build)
    }
}

/// The shape of a kind, by its qualified plural.
pub(crate) fn of(qualified: &str) -> Option<&'static LazyShape> {
    SHAPES.get(qualified)
}

macro_rules! shapes {
    ($($plural:literal => $kind:ty,)*) => {
        BTreeMap::from([$(($plural, LazyShape::new(Shape::of::<$kind>)),)*])
    };
}

static SHAPES: LazyLock<BTreeMap<&str, LazyShape>> = LazyLock::new(|| {
    shapes! {
        "apiservices.apiregistration.k8s.io" => apiregistration::APIService,
        "certificatesigningrequests.certificates.k8s.io" => certificates::CertificateSigningRequest,
        "clusterrolebindings.rbac.authorization.k8s.io" => rbac::ClusterRoleBinding,
        "clusterroles.rbac.authorization.k8s.io" => rbac::ClusterRole,
        "configmaps" => core::ConfigMap,
        "controllerrevisions.apps" => apps::ControllerRevision,
        "cronjobs.batch" => batch::CronJob,
        "csidrivers.storage.k8s.io" => storage::CSIDriver,
        "csinodes.storage.k8s.io" => storage::CSINode,
        "csistoragecapacities.storage.k8s.io" => storage::CSIStorageCapacity,
        "customresourcedefinitions.apiextensions.k8s.io" => apiextensions::CustomResourceDefinition,
        "daemonsets.apps" => apps::DaemonSet,
        "deployments.apps" => apps::Deployment,
        "deviceclasses.resource.k8s.io" => resource::DeviceClass,
        "endpoints" => core::Endpoints,
        "endpointslices.discovery.k8s.io" => discovery::EndpointSlice,
        "events" => core::Event,
        "events.events.k8s.io" => events::Event,
        "flowschemas.flowcontrol.apiserver.k8s.io" => flowcontrol::FlowSchema,
        "horizontalpodautoscalers.autoscaling" => autoscaling::HorizontalPodAutoscaler,
        "horizontalpodautoscalers.v1.autoscaling" => autoscaling_v1::HorizontalPodAutoscaler,
        "ingressclasses.networking.k8s.io" => networking::IngressClass,
        "ingresses.networking.k8s.io" => networking::Ingress,
        "ipaddresses.networking.k8s.io" => networking::IPAddress,
        "jobs.batch" => batch::Job,
        "leases.coordination.k8s.io" => coordination::Lease,
        "limitranges" => core::LimitRange,
        "mutatingwebhookconfigurations.admissionregistration.k8s.io" => admissionregistration::MutatingWebhookConfiguration,
        "namespaces" => core::Namespace,
        "networkpolicies.networking.k8s.io" => networking::NetworkPolicy,
        "nodes" => core::Node,
        "persistentvolumeclaims" => core::PersistentVolumeClaim,
        "persistentvolumes" => core::PersistentVolume,
        "poddisruptionbudgets.policy" => policy::PodDisruptionBudget,
        "pods" => core::Pod,
        "podtemplates" => core::PodTemplate,
        "priorityclasses.scheduling.k8s.io" => scheduling::PriorityClass,
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io" => flowcontrol::PriorityLevelConfiguration,
        "replicasets.apps" => apps::ReplicaSet,
        "replicationcontrollers" => core::ReplicationController,
        "resourceclaims.resource.k8s.io" => resource::ResourceClaim,
        "resourceclaimtemplates.resource.k8s.io" => resource::ResourceClaimTemplate,
        "resourcequotas" => core::ResourceQuota,
        "resourceslices.resource.k8s.io" => resource::ResourceSlice,
        "rolebindings.rbac.authorization.k8s.io" => rbac::RoleBinding,
        "roles.rbac.authorization.k8s.io" => rbac::Role,
        "runtimeclasses.node.k8s.io" => node::RuntimeClass,
        "scales.autoscaling" => autoscaling_v1::Scale,
        "secrets" => core::Secret,
        "serviceaccounts" => core::ServiceAccount,
        "servicecidrs.networking.k8s.io" => networking::ServiceCIDR,
        "services" => core::Service,
        "statefulsets.apps" => apps::StatefulSet,
        "storageclasses.storage.k8s.io" => storage::StorageClass,
        "validatingadmissionpolicies.admissionregistration.k8s.io" => admissionregistration::ValidatingAdmissionPolicy,
        "validatingadmissionpolicybindings.admissionregistration.k8s.io" => admissionregistration::ValidatingAdmissionPolicyBinding,
        "validatingwebhookconfigurations.admissionregistration.k8s.io" => admissionregistration::ValidatingWebhookConfiguration,
        "volumeattachments.storage.k8s.io" => storage::VolumeAttachment,
        "volumeattributesclasses.storage.k8s.io" => storage::VolumeAttributesClass,
    }
});
