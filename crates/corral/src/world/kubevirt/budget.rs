//! The budget of an instance: what keeps an eviction from taking the pod of a guest that should migrate.
//!
//! Models `pkg/virt-controller/watch/drain/disruptionbudget` of KubeVirt 1.6, and the part of the migration controller that lets
//! the budget grow while there are two pods.

use std::collections::BTreeMap;

use drover_api::kubevirt::BUDGET_PREFIX;
use drover_api::kubevirt::virtual_machine_instance::{VirtualMachineInstance, launcher};
use drover_api::kubevirt::virtual_machine_instance_migration::{MIGRATION_NAME, VirtualMachineInstanceMigration};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{has_ended, is_leaving, migration, wants_to_migrate};
use crate::world::outcome::{Action, Outcome};
use crate::world::pods;
use crate::world::workloads::template::controlled_by;

pub fn reconcile(
    instance: &VirtualMachineInstance,
    strategy: &str,
    launchers: &[Pod],
    migrations: &[VirtualMachineInstanceMigration],
    budgets: &[PodDisruptionBudget],
) -> Outcome {
    let wanted = !is_leaving(instance) && !has_ended(instance) && wants_to_migrate(instance, strategy);
    let own = |budget: &&PodDisruptionBudget| {
        pods::controller(&budget.metadata).is_some_and(|owner| owner.uid == pods::uid(&instance.metadata))
    };
    let Some(budget) = budgets.iter().find(own) else {
        let made = wanted.then(|| Action::create(&budget_of(instance)));
        return Outcome::act(made.into_iter().collect());
    };
    if !wanted {
        return Outcome::act(vec![Action::delete(budget)]);
    }
    let under_way = migrations.iter().find(|one| migration::has_target(one));
    let two_pods = launchers.iter().filter(|pod| !pods::has_ended(pod)).count() > 1;
    let name = budget.metadata.labels.as_ref().and_then(|labels| labels.get(MIGRATION_NAME));
    let least = match (under_way, name) {
        (Some(_), _) => 2,
        // It shrinks when the migration is over and one pod is left.
        (None, Some(_)) if two_pods => 2,
        (None, _) => 1,
    };
    let mut after = budget.clone();
    after.spec.get_or_insert_default().min_available = Some(IntOrString::Int(least));
    let labels = after.metadata.labels.get_or_insert_default();
    match under_way {
        Some(migration) => drop(labels.insert(MIGRATION_NAME.into(), pods::name(&migration.metadata).into())),
        None if least == 1 => drop(labels.remove(MIGRATION_NAME)),
        None => {}
    }
    if labels.is_empty() {
        after.metadata.labels = None;
    }
    Outcome::act(if after == *budget { Vec::new() } else { vec![Action::update(&after)] })
}

fn budget_of(instance: &VirtualMachineInstance) -> PodDisruptionBudget {
    let uid = pods::uid(&instance.metadata).to_string();
    PodDisruptionBudget {
        metadata: ObjectMeta {
            generate_name: Some(BUDGET_PREFIX.into()),
            namespace: instance.metadata.namespace.clone(),
            owner_references: Some(vec![controlled_by(instance)]),
            ..ObjectMeta::default()
        },
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector {
                match_labels: Some(BTreeMap::from([(launcher::CREATED_BY.into(), uid)])),
                match_expressions: None,
            }),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}
