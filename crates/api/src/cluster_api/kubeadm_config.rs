//! `KubeadmConfig` and its template (bootstrap.cluster.x-k8s.io): how a Machine becomes a node.

use serde_json::Value;

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    /// As v1beta1 has it.
    KubeadmConfig = "bootstrap.cluster.x-k8s.io" "v1beta1" "kubeadmconfigs" Namespaced {
        spec: KubeadmConfigSpec,
        status: KubeadmConfigStatus,
    }
}

foreign_kind! {
    /// As v1beta1 has it.
    KubeadmConfigTemplate = "bootstrap.cluster.x-k8s.io" "v1beta1" "kubeadmconfigtemplates" Namespaced {
        spec: KubeadmConfigTemplateSpec,
    }
}

foreign_part! {
    KubeadmConfigSpec {
        /// The documents of kubeadm are kept as they are: their versions differ.
        cluster_configuration: Value,
        init_configuration: Value,
        join_configuration: Value,
        pre_kubeadm_commands: Vec<String>,
        post_kubeadm_commands: Vec<String>,
        format: String,
    }
    KubeadmConfigStatus {
        ready: bool,
        bootstrap_data: String,
        data_secret_name: String,
        error_reason: String,
        error_message: String,
        conditions: Vec<LooseCondition>,
    }
    KubeadmConfigTemplateSpec {
        template: KubeadmConfigTemplateResource,
    }
    KubeadmConfigTemplateResource {
        spec: KubeadmConfigSpec,
    }
}

/// The ConfigMap that keeps two control planes from being initialised: `<cluster>-lock`.
pub const LOCK_SUFFIX: &str = "-lock";

pub mod v1alpha2 {
    use super::{KubeadmConfigSpec, KubeadmConfigStatus, KubeadmConfigTemplateSpec};
    use crate::foreign::foreign_kind;

    foreign_kind! {
        KubeadmConfig = "bootstrap.cluster.x-k8s.io" "v1alpha2" "kubeadmconfigs" Namespaced {
            spec: KubeadmConfigSpec,
            status: KubeadmConfigStatus,
        }
    }

    foreign_kind! {
        KubeadmConfigTemplate = "bootstrap.cluster.x-k8s.io" "v1alpha2" "kubeadmconfigtemplates" Namespaced {
            spec: KubeadmConfigTemplateSpec,
        }
    }
}
