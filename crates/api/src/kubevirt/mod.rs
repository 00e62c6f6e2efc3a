//! The kinds of KubeVirt that a drain looks at. See <https://kubevirt.io/api-reference/>.

pub mod kube_virt;
pub mod virtual_machine;
pub mod virtual_machine_instance;
pub mod virtual_machine_instance_migration;

/// The group of `start`, `stop` and `healthz`.
pub const SUBRESOURCES_GROUP: &str = "subresources.kubevirt.io";
/// What the names of the budgets of evacuations begin with.
pub const EVACUATION_BUDGET_PREFIX: &str = "kubevirt-migration-pdb-kubevirt-evacuation-";
/// What the names of the budgets of instances begin with.
pub const BUDGET_PREFIX: &str = "kubevirt-disruption-budget-";
/// The webhook that is asked whether a launcher pod may be evicted.
pub const EVICTION_WEBHOOK: &str = "virt-launcher-eviction-interceptor.kubevirt.io";
