//! The repository as a virtual machine that boots the release and serves it, for those who want it as it was up to Harvester v1.6.
//!
//! It moves with the other VMs when its node is drained. One that is lost is made again; one that somebody has stopped is
//! started again, unless somebody does that: who is a moment late is told by KubeVirt that it runs already.

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::jobs::{CREATOR, CREATOR_HARVESTER, repository};
use drover_api::kubevirt::virtual_machine::strategies;
use drover_api::kubevirt::virtual_machine_instance::conditions::READY;
use drover_api::kubevirt::virtual_machine_instance::phases;
use drover_api::marks::{REPOSITORY, REPOSITORY_VM};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::decide::Turn;
use super::repo::{image_of, labels};
use crate::cluster::condition;
use crate::decision::{Act, Kind, Purpose, Reason, Subject, Wait};

/// So long it is left to whoever has stopped it to start it again.
const LEFT_ALONE: SignedDuration = SignedDuration::from_secs(60);

pub(super) fn is_wanted(turn: &Turn<'_>) -> bool {
    turn.annotation(REPOSITORY) == Some(REPOSITORY_VM)
}

/// True while it runs and answers.
pub(super) fn serve(turn: &mut Turn<'_>, name: &str) -> bool {
    let subject = Subject::new(Kind::VirtualMachine, NAMESPACE, name);
    let cluster = turn.cluster();
    let Some(machine) = cluster.kubevirt.machines.get(NAMESPACE, name) else {
        let machine = machine(turn, name);
        turn.write(Purpose::Provide, subject.clone(), Act::Create(machine));
        turn.wait(subject, Reason::RepositoryNotReady, format!("VirtualMachine {NAMESPACE}/{name} is being made"));
        return false;
    };
    let instance = cluster.kubevirt.instances.get(NAMESPACE, name);
    let remedy = format!("virtctl stop {name} -n {NAMESPACE}, then virtctl start {name} -n {NAMESPACE}");
    if let Some(instance) = instance.filter(|instance| instance.status.phase == phases::RUNNING) {
        // Its probe asks for the release: one that hangs runs all the same.
        let Some(silent) = condition(&instance.status.conditions, READY).filter(|ready| !ready.is_true()) else {
            return true;
        };
        let said = silent.said();
        let sentence =
            format!("VirtualMachine {NAMESPACE}/{name}, which serves the release, runs and does not answer: {said}");
        turn.wait_with_remedy(subject, Reason::RepositoryNotReady, sentence, remedy);
        return false;
    }
    let is_off = machine.spec.run_strategy == strategies::HALTED || machine.spec.running == Some(false);
    if is_off && instance.is_none() && machine.metadata.deletion_timestamp.is_none() {
        start_by_and_by(turn, subject, remedy);
        return false;
    }
    let says = match machine.status.printable_status.as_str() {
        "" => "it has no status yet",
        status => status,
    };
    let sentence = format!("VirtualMachine {NAMESPACE}/{name}, which serves the release, does not run: {says}");
    turn.wait_with_remedy(subject, Reason::RepositoryNotReady, sentence, remedy);
    false
}

fn start_by_and_by(turn: &mut Turn<'_>, subject: Subject, remedy: String) {
    let sentence = format!("VirtualMachine {NAMESPACE}/{}, which serves the release, is off", subject.name);
    let latest = turn.now.checked_add(LEFT_ALONE).unwrap_or(turn.now);
    let mut told = turn.view.told.iter().filter(|told| told.subject == subject && told.sentence == sentence);
    // One that is further off says only that a clock was set back.
    let deadline = told.find_map(|told| told.deadline).map_or(latest, |told| told.min(latest));
    if turn.now >= deadline {
        turn.write(Purpose::Provide, subject.clone(), Act::Call { part: "start" });
    } else {
        turn.look_again = turn.look_again.into_iter().chain([deadline]).min();
    }
    let wait = Wait::new(subject, Reason::RepositoryNotReady, sentence, turn.now).with_remedy(remedy);
    turn.waits.push(Wait { deadline: Some(deadline), ..wait });
}

fn machine(turn: &Turn<'_>, name: &str) -> Value {
    let mut own = labels(turn);
    own[CREATOR] = json!(CREATOR_HARVESTER);
    let (_, claim) = image_of(turn);
    let cd = |name: &str| json!({ "name": name, "cdrom": { "bus": "scsi" } });
    let mut boots = cd("disk-0");
    boots["bootOrder"] = json!(1);
    let amounts = json!({ "cpu": "1", "memory": "1G" });
    let page =
        json!({ "path": format!("/{}/{}", repository::PATH, repository::RELEASE_FILE), "port": repository::PORT });
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": own, "ownerReferences": turn.owner() },
        "spec": {
            "runStrategy": strategies::ALWAYS,
            "template": {
                "metadata": { "labels": own },
                "spec": {
                    "evictionStrategy": "LiveMigrateIfPossible",
                    "domain": {
                        "cpu": { "cores": 1, "sockets": 1, "threads": 1 },
                        "firmware": { "bootloader": { "efi": { "secureBoot": false } } },
                        "devices": {
                            "disks": [boots, cd("cloudinitdisk")],
                            "interfaces": [{ "name": "default", "model": "virtio", "masquerade": {} }],
                        },
                        "resources": { "limits": amounts, "requests": amounts },
                    },
                    "networks": [{ "name": "default", "pod": {} }],
                    "volumes": [
                        { "name": "disk-0", "persistentVolumeClaim": { "claimName": claim } },
                        { "name": "cloudinitdisk", "cloudInitNoCloud": { "userData": repository::SERVE_MODE } },
                    ],
                    "readinessProbe": { "httpGet": page, "timeoutSeconds": 30, "failureThreshold": 5 },
                },
            },
        },
    })
}
