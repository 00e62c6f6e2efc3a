//! The system services: one Job raises them, component by component.

use drover_api::harvester::NAMESPACE;

use super::decide::{Phase, Turn};
use super::jobs::{self, Course};
use super::progress::Ending;
use super::{around, images, names};
use crate::decision::{Reason, Subject};

pub(super) fn apply(turn: &mut Turn<'_>) -> bool {
    match &turn.next.services {
        Some(Ending::Succeeded) => return true,
        Some(Ending::Failed { .. }) => return false,
        None => {}
    }
    turn.phase = Phase::UpgradingServices;
    let name = names::apply_manifests(turn.name());
    match jobs::course(turn, &name) {
        Course::Missing => jobs::apply_manifests(turn),
        Course::Running => around::tend_script(turn, &name),
        Course::Done => {
            turn.next.services = Some(Ending::Succeeded);
            return true;
        }
        Course::Failed { reason, message } => {
            turn.next.services = Some(Ending::Failed { reason: reason.clone(), message: message.clone() });
            turn.fail(reason, message);
            return false;
        }
    }
    let subject = Subject::job(NAMESPACE, &name);
    let told = super::nodes::told_by_pods(turn, &name);
    if told.is_empty() && !images::mend(turn, &name) {
        turn.wait(subject, Reason::JobRunning, format!("Job {NAMESPACE}/{name} raises the system services"));
    }
    turn.waits.extend(told);
    false
}
