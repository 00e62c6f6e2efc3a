//! The PodSecurityPolicies that every cluster of the original has, and that its users bind to by name. No image brings them: they are the
//! controller's own.
//!
//! They are made where they are missing. What is there stays as it is, whoever made it: it says what pods may do.

use drover_api::vm_operator::virtual_machine_image::addons as names;

use super::super::distribution::Distribution;
use super::{Source, manifest};

/// Kubernetes 1.25 has none any more.
const LAST_MINOR: u64 = 24;

const POLICIES: &str = "
apiVersion: policy/v1beta1
kind: PodSecurityPolicy
metadata:
  name: vmware-system-privileged
  annotations: { seccomp.security.alpha.kubernetes.io/allowedProfileNames: '*' }
spec:
  privileged: true
  allowPrivilegeEscalation: true
  allowedCapabilities: ['*']
  volumes: ['*']
  hostNetwork: true
  hostPorts: [{ min: 0, max: 65535 }]
  hostIPC: true
  hostPID: true
  runAsUser: { rule: RunAsAny }
  seLinux: { rule: RunAsAny }
  supplementalGroups: { rule: RunAsAny }
  fsGroup: { rule: RunAsAny }
---
apiVersion: policy/v1beta1
kind: PodSecurityPolicy
metadata: { name: vmware-system-restricted }
spec:
  privileged: false
  allowPrivilegeEscalation: false
  requiredDropCapabilities: [ALL]
  volumes: [configMap, emptyDir, projected, secret, downwardAPI, persistentVolumeClaim]
  hostNetwork: false
  hostIPC: false
  hostPID: false
  runAsUser: { rule: MustRunAsNonRoot }
  seLinux: { rule: RunAsAny }
  supplementalGroups: { rule: MustRunAs, ranges: [{ min: 1, max: 65535 }] }
  fsGroup: { rule: MustRunAs, ranges: [{ min: 1, max: 65535 }] }
  readOnlyRootFilesystem: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: psp:vmware-system-privileged }
rules: [{ apiGroups: [policy], resources: [podsecuritypolicies], resourceNames: [vmware-system-privileged], verbs: [use] }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: psp:vmware-system-restricted }
rules: [{ apiGroups: [policy], resources: [podsecuritypolicies], resourceNames: [vmware-system-restricted], verbs: [use] }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: psp:vmware-system-privileged, namespace: kube-system }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: psp:vmware-system-privileged }
subjects:
- { apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:nodes }
- { apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:serviceaccounts:kube-system }
";

/// What a cluster of a distribution has whose image brings none.
pub fn policies(distribution: &Distribution) -> Source {
    if distribution.kubernetes.minor() > LAST_MINOR {
        return Source::None(format!("Kubernetes {} has no PodSecurityPolicies", distribution.kubernetes));
    }
    match manifest::objects(POLICIES) {
        Ok(objects) => {
            let label = distribution.label();
            Source::Default(objects.into_iter().map(|one| manifest::shaped(one, names::PSP, &label)).collect())
        }
        Err(flaw) => Source::Broken(format!("what is to be there{flaw}")),
    }
}
