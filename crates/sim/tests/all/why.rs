//! `drover why` and the fault machine: a fault that holds an upgrade up is named, wherever the upgrade stands when it
//! happens; and where nothing goes wrong, nothing is said to be wrong.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

use drover_core::cluster::{Cluster, Condition, condition};
use drover_core::why::{Explanation, explain_all};
use drover_sim::known::Known;
use drover_sim::scenario::{NAMESPACE, PlanLines, Vms, Workload};
use drover_sim::{Fault, Incident, Moment, Scenario, Schedule, Stage, Terms, run};
use serde_json::{Value, json};

/// How long the upgrades of these tests take on a node.
const JOB_SECONDS: u64 = 4;
/// When the store has stood still for so many seconds, no write is under way, and whatever takes its usual time (an
/// upgrade, the start of a pod) is done: nothing is due any more but a deadline.
const QUIET: usize = 8;
/// So many seconds each run is looked at after its fault.
const LOOKED_AT: usize = 35;

/// Something that goes wrong with one object and stays so.
struct Held {
    what: &'static str,
    scenario: Scenario,
    faults: Vec<Value>,
    /// What the object's name begins with, such as `Pod/default/web-`.
    culprit: &'static str,
    /// It is so, and somebody waits for it.
    holds: fn(&Known) -> bool,
}

fn patch(object: &str, with: Value) -> Value {
    json!({ "patch": { "object": object, "with": with } })
}

fn annotated(key: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { (key): value } } })
}

fn tells(annotation: &str, value: &str) -> Value {
    annotated(&format!("corral.drover.dev/{annotation}"), value)
}

fn plan(spec: Value) -> Vec<PlanLines> {
    vec![PlanLines { name: "upgrade".to_owned(), spec, ..PlanLines::default() }]
}

fn is_complete(known: &Known) -> bool {
    let mut conditions = known.all("Plan").filter_map(|plan| plan["status"]["conditions"].as_array()).flatten();
    conditions.any(|condition| condition["type"] == "Complete" && condition["status"] == "True")
}

fn jobs(known: &Known) -> impl Iterator<Item = &Value> {
    known.named("Job").filter(|(namespace, ..)| *namespace == NAMESPACE).map(|(.., job)| job)
}

fn has_ended(job: &Value) -> bool {
    job["status"]["completionTime"].is_string()
        || job["status"]["conditions"].as_array().into_iter().flatten().any(|one| one["type"] == "Failed")
}

/// A pod of an upgrade that has not succeeded.
fn has_unfinished_pod(known: &Known) -> bool {
    let mut pods = known.named("Pod").filter(|(namespace, ..)| *namespace == NAMESPACE);
    pods.any(|(.., pod)| pod["status"]["phase"] != "Succeeded")
}

fn is_ready(node: &Value) -> bool {
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// An upgrade of three nodes, one after the other.
fn plain() -> Scenario {
    Scenario { job_seconds: JOB_SECONDS, ..Scenario::default() }
}

/// The same, where a Secret goes with each upgrade.
fn with_secret() -> Scenario {
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "registry", "namespace": NAMESPACE } });
    Scenario {
        manifests: vec![secret],
        plans: plan(json!({ "secrets": [{ "name": "registry", "path": "/etc/registry" }] })),
        ..plain()
    }
}

/// The same, where nodes are drained of a service first.
fn draining() -> Scenario {
    let web = Workload { replicas: 3, min_available: Some(2), ..Workload::new("web") };
    Scenario { workloads: vec![web], plans: plan(json!({ "drain": {} })), ..plain() }
}

fn of_upgrades() -> Vec<Held> {
    vec![
        Held {
            what: "a Secret is deleted",
            scenario: with_secret(),
            faults: vec![json!({ "delete": "Secret/system-upgrade/registry" })],
            culprit: "Secret/system-upgrade/registry",
            holds: |known| known.get("Secret", NAMESPACE, "registry").is_none() && !is_complete(known),
        },
        Held {
            what: "a Job is suspended",
            scenario: plain(),
            faults: vec![patch("Job/system-upgrade/*", json!({ "spec": { "suspend": true } }))],
            culprit: "Job/system-upgrade/apply-upgrade-on-",
            holds: |known| jobs(known).any(|job| job["spec"]["suspend"] == true && !has_ended(job)),
        },
        Held {
            what: "a Job that somebody deletes is kept by a finalizer",
            scenario: plain(),
            faults: vec![
                patch("Job/system-upgrade/*", json!({ "metadata": { "finalizers": ["example.com/keep"] } })),
                json!({ "delete": "Job/system-upgrade/*" }),
            ],
            culprit: "Job/system-upgrade/apply-upgrade-on-",
            holds: |known| {
                !is_complete(known) && jobs(known).any(|job| job["metadata"]["deletionTimestamp"].is_string())
            },
        },
        Held {
            what: "upgrades hang",
            scenario: plain(),
            faults: vec![patch("Node/*", tells("job-duration", "never"))],
            culprit: "Job/system-upgrade/apply-upgrade-on-",
            holds: |known| jobs(known).any(|job| !has_ended(job)),
        },
        Held {
            what: "pods of upgrades fail",
            scenario: plain(),
            faults: vec![patch("Node/*", tells("job-exit-code", "1"))],
            culprit: "Pod/system-upgrade/apply-upgrade-on-",
            holds: has_unfinished_pod,
        },
        Held {
            what: "pods of upgrades find no image",
            scenario: plain(),
            faults: vec![patch("Node/node-2", tells("missing-images", "*"))],
            culprit: "Pod/system-upgrade/apply-upgrade-on-node-2",
            holds: has_unfinished_pod,
        },
        Held {
            what: "the Plan is paused",
            scenario: plain(),
            faults: vec![patch("Plan/system-upgrade/upgrade", annotated("drover.dev/paused", "true"))],
            culprit: "Plan/system-upgrade/upgrade",
            holds: |known| !is_complete(known),
        },
    ]
}

fn of_nodes_and_pods() -> Vec<Held> {
    let budget = json!({ "apply": [{
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "minAvailable": 3, "selector": { "matchLabels": { "app": "web" } } },
    }] });
    let second = json!({ "apply": [{
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web-too", "namespace": "default" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    }] });
    // The first pod that is replaced does not come up, and the others have to stay.
    let never_ready = json!({ "spec": {
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } },
        "template": tells("ready-after", "never"),
    } });
    vec![
        Held {
            what: "a machine is gone",
            scenario: plain(),
            faults: vec![patch("Node/node-2", tells("down-until", "never"))],
            culprit: "Node/node-2",
            holds: |known| known.node("node-2").is_some_and(|node| !is_ready(node)),
        },
        Held {
            what: "a machine is gone from nodes that are drained",
            scenario: draining(),
            faults: vec![patch("Node/node-3", tells("down-until", "never"))],
            culprit: "Node/node-3",
            holds: |known| known.node("node-3").is_some_and(|node| !is_ready(node)),
        },
        Held {
            what: "a label is gone",
            scenario: plain(),
            // A kubelet would set it again.
            faults: vec![patch(
                "Node/node-3",
                json!({ "metadata": {
                    "labels": { "kubernetes.io/hostname": null }, "annotations": { "corral.drover.dev/kubelet": null },
                } }),
            )],
            culprit: "Node/node-3",
            holds: |known| {
                known.node("node-3").is_some_and(|node| node["metadata"]["labels"]["kubernetes.io/hostname"].is_null())
            },
        },
        Held {
            what: "a budget wants all pods",
            scenario: draining(),
            faults: vec![budget],
            culprit: "PodDisruptionBudget/default/web",
            holds: |known| !is_complete(known),
        },
        Held {
            what: "a second budget covers the same pods",
            scenario: draining(),
            faults: vec![second],
            culprit: "PodDisruptionBudget/default/web-too",
            holds: |known| !is_complete(known),
        },
        Held {
            what: "a pod that has to go is kept by a finalizer",
            scenario: draining(),
            faults: vec![patch("Pod/default/*", json!({ "metadata": { "finalizers": ["example.com/keep"] } }))],
            culprit: "Pod/default/web-",
            holds: |known| {
                !is_complete(known) && known.all("Pod").any(|pod| pod["metadata"]["deletionTimestamp"].is_string())
            },
        },
        Held {
            what: "a pod whose budget needs it does not become ready",
            scenario: draining(),
            faults: vec![patch("Deployment/default/web", never_ready)],
            culprit: "Pod/default/web-",
            holds: |known| !is_complete(known),
        },
    ]
}

/// What a condition of an object says.
fn says<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Three servers of a Harvester cluster.
fn harvester() -> Scenario {
    let all = drover_sim::scenario::built_in().unwrap();
    let known = all.into_iter().find(|scenario| scenario.name == "harvester-three-nodes").unwrap();
    Scenario { vms: Vms::Count(0), ..known }
}

fn of_harvester() -> Vec<Held> {
    vec![
        Held {
            what: "the download of a release stalls",
            scenario: harvester(),
            faults: vec![json!("downloadsStall")],
            culprit: "VirtualMachineImage/harvester-system/",
            holds: |known| {
                let mut images = known.all("VirtualMachineImage");
                images.any(|image| says(image, "Imported").is_some_and(|said| said["status"] == "Unknown"))
            },
        },
        Held {
            what: "a chart is never deployed",
            scenario: harvester(),
            faults: vec![patch("Bundle/fleet-local/mcc-harvester", tells("chart-duration", "never"))],
            culprit: "Bundle/fleet-local/mcc-harvester",
            holds: |known| {
                let bundle = known.get("Bundle", "fleet-local", "mcc-harvester");
                let waits =
                    bundle.and_then(|bundle| says(bundle, "Ready")).is_some_and(|ready| ready["status"] == "False");
                // An Upgrade that has ended gives the chart back, and waits for it no more.
                waits
                    && known
                        .all("Upgrade")
                        .any(|upgrade| upgrade["metadata"]["labels"]["harvesterhci.io/upgradeState"] != "Succeeded")
            },
        },
        Held {
            what: "a server is gone",
            scenario: harvester(),
            faults: vec![patch("Node/node-2", tells("down-until", "never"))],
            culprit: "Node/node-2",
            holds: |known| known.node("node-2").is_some_and(|node| !is_ready(node)),
        },
        Held {
            what: "a member of etcd is lost",
            scenario: harvester(),
            faults: vec![json!("etcdMemberLost")],
            culprit: "Node/node-3",
            holds: |known| {
                let voter = known.node("node-3").and_then(|node| says(node, "EtcdIsVoter"));
                voter.is_some_and(|voter| voter["status"] == "False")
            },
        },
    ]
}

fn look(stage: &Stage) -> Cluster {
    let mut cluster = Cluster::new(stage.clock.now());
    for object in stage.server.save()["items"].as_array().into_iter().flatten() {
        cluster.take(object.to_string().as_bytes());
    }
    cluster
}

/// The objects that are named, the first cause of the first explanation first.
fn named(cluster: &Cluster) -> Vec<String> {
    explain_all(cluster).iter().flat_map(|one| &one.causes).map(|cause| cause.object.to_string()).collect()
}

/// Runs on a clock that jumps.
fn in_virtual_time<T>(runs: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(runs)
}

/// The telling writes of an upgrade of Harvester, once for all its faults: the run takes long.
static OF_HARVESTER: OnceLock<Vec<usize>> = OnceLock::new();

/// The writes of a run without faults that meet another state, or have another purpose, than all before them.
fn telling_writes(scenario: &Scenario) -> Vec<usize> {
    let calm = run(scenario, &Terms::calm(1)).unwrap();
    let mut met = BTreeSet::new();
    let meetings = calm.at_writes.iter().take(calm.writes).enumerate();
    meetings.filter(|(_, meeting)| met.insert(*meeting)).map(|(index, _)| index + 1).collect()
}

/// What is named at each quiet moment after a fault at this write, as long as the fault holds.
async fn told(held: &Held, write: usize) -> Vec<Vec<String>> {
    let faults = held.faults.iter().map(|fault| serde_json::from_value::<Fault>(fault.clone()).unwrap());
    let faults = faults.map(|what| Incident { at: Moment::Write(write), what }).collect();
    let stage = Stage::open(&held.scenario, &Terms::of(Schedule { faults }, 1));
    while stage.writes() < write {
        stage.clock.sleep(Duration::from_millis(1)).await;
    }
    let (mut told, mut changes, mut still) = (Vec::new(), 0, 0);
    for _ in 0..LOOKED_AT {
        stage.clock.sleep(Duration::from_secs(1)).await;
        still = if std::mem::replace(&mut changes, stage.changes()) == changes { still + 1 } else { 0 };
        // What does not change is told the same: once in a while is enough.
        if still >= QUIET && still % QUIET == 0 && (held.holds)(&stage.known()) {
            told.push(named(&look(&stage)));
        }
    }
    told
}

/// How often a culprit was named first, among the first three, and looked for.
#[derive(Default)]
struct Share {
    first: usize,
    of_three: usize,
    all: usize,
    wrong: BTreeSet<String>,
}

impl Share {
    fn count(&mut self, held: &Held, write: usize, named: &[String]) {
        let place = named.iter().position(|name| name.starts_with(held.culprit));
        self.all += 1;
        self.first += usize::from(place == Some(0));
        self.of_three += usize::from(place.is_some_and(|place| place < 3));
        if place != Some(0) {
            self.wrong.insert(format!("{}, at write {write}: {named:?}", held.what));
        }
    }
}

/// Every so many writes a fault is tried, each fault beginning with another write.
const SAMPLED: usize = 5;
/// The same, of upgrades that take long.
const RARELY: usize = 24;

/// What is told of one fault, wherever it happens.
fn try_out(held: &Held, first: usize) -> Share {
    let mut share = Share::default();
    let sampled = if held.scenario.harvester.is_some() { RARELY } else { SAMPLED };
    let writes = match held.scenario.harvester.is_some() {
        true => OF_HARVESTER.get_or_init(|| telling_writes(&held.scenario)).clone(),
        false => telling_writes(&held.scenario),
    };
    for write in writes.into_iter().skip(first % sampled).step_by(sampled) {
        for named in in_virtual_time(told(held, write)) {
            share.count(held, write, &named);
        }
    }
    println!("{}: named first at {} of {} quiet moments", held.what, share.first, share.all);
    share
}

#[test]
fn a_fault_that_holds_is_named_first_wherever_the_upgrade_stands() {
    named_first(&of_upgrades().into_iter().chain(of_nodes_and_pods()).collect::<Vec<_>>());
}

#[test]
fn a_fault_that_holds_up_harvester_is_named_first_wherever_the_upgrade_stands() {
    named_first(&of_harvester());
}

fn named_first(faults: &[Held]) {
    let shares: Vec<Share> = std::thread::scope(|scope| {
        let halves = faults.chunks(faults.len().div_ceil(2)).enumerate();
        let work = halves.map(|(half, held)| {
            scope.spawn(move || {
                held.iter().enumerate().map(|(index, held)| try_out(held, index + half)).collect::<Vec<_>>()
            })
        });
        let work: Vec<_> = work.collect();
        work.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    let sum = |count: fn(&Share) -> usize| shares.iter().map(count).sum::<usize>();
    let (first, of_three, all) = (sum(|share| share.first), sum(|share| share.of_three), sum(|share| share.all));
    let wrong: Vec<&str> = shares.iter().flat_map(|share| &share.wrong).map(String::as_str).collect();
    let wrong = wrong.join("\n");
    println!("all: named first at {first} of {all} quiet moments, among the first three at {of_three}\n{wrong}");
    for (held, share) in faults.iter().zip(&shares) {
        assert!(share.all > 0, "{}: there is no quiet moment", held.what);
    }
    assert!(first * 100 >= all * 95, "named first at {first} of {all} quiet moments:\n{wrong}");
    assert_eq!(of_three, all, "among the first three:\n{wrong}");
}

/// Nothing goes wrong in it, on no machine. Guest clusters are not known to these explanations.
fn is_calm(scenario: &Scenario) -> bool {
    scenario.faults.is_empty()
        && scenario.guest.is_none()
        && scenario.machines.values().all(|machine| machine.annotations.is_empty())
        && scenario.manifests.iter().all(|object| object["kind"] != "Node")
        && scenario.expect.waits.is_empty()
        && scenario.expect.complete.is_none()
}

#[test]
fn an_upgrade_without_faults_raises_no_alarm_at_any_step() {
    let calm: Vec<Scenario> = drover_sim::scenario::built_in().unwrap().into_iter().filter(is_calm).collect();
    let mut alarms = BTreeSet::new();
    let mut steps = 0;
    for scenario in calm.iter().filter(|scenario| scenario.sampled.is_none()) {
        in_virtual_time(async {
            let stage = Stage::open(scenario, &Terms::calm(1));
            let mut changes = usize::MAX;
            loop {
                // A request takes a millisecond: no two changes of one object fall between two looks.
                stage.clock.sleep(Duration::from_millis(1)).await;
                if std::mem::replace(&mut changes, stage.changes()) == changes {
                    continue;
                }
                if stage.unmet_now().is_empty() {
                    break;
                }
                steps += 1;
                let explained = explain_all(&look(&stage));
                for cause in explained.iter().flat_map(|one| &one.causes).filter(|cause| cause.alarm) {
                    alarms.insert(format!("{}: {}", scenario.name, cause.statement));
                }
            }
        });
    }
    println!("{steps} steps of {} scenarios", calm.len());
    assert!(steps > 400, "{steps}");
    assert_eq!(alarms, BTreeSet::new());
}

/// Reasons that follow from what another node waits for, and are not told beside that.
const CONSEQUENCES: [&str; 2] = ["AnotherNodeIsOut", "PlannerWorks"];

/// What is wrong with how an Upgrade is explained, at a moment at which nothing moves.
fn unexplained(cluster: &Cluster) -> Vec<String> {
    let mut wrong = Vec::new();
    let explained = explain_all(cluster);
    for upgrade in cluster.harvester.upgrades.iter() {
        let published = condition(&upgrade.status.conditions, "Progressing").filter(|said| said.is_true());
        let Some(Condition { reason, message, .. }) = published else { continue };
        let is_own = |one: &&Explanation| one.object.kind == "Upgrade" && one.object.name == upgrade.metadata.name;
        let causes = explained.iter().find(is_own).map(|one| one.causes.as_slice()).unwrap_or_default();
        let told = causes.iter().any(|cause| cause.reason.is_some_and(|told| told.to_string() == *reason));
        if causes.is_empty() || !told && !CONSEQUENCES.contains(&reason.as_str()) {
            let statements: Vec<&str> = causes.iter().map(|cause| cause.statement.as_str()).collect();
            wrong.push(format!("{reason}: {message}: {statements:?}"));
        }
        let helpless = causes.iter().filter(|cause| cause.alarm && cause.remedy.is_none());
        wrong.extend(helpless.map(|cause| format!("nothing would help: {}", cause.statement)));
    }
    wrong
}

#[test]
fn whatever_an_upgrade_of_harvester_waits_for_is_explained() {
    let all = drover_sim::scenario::built_in().unwrap();
    let mut wrong = BTreeSet::new();
    let mut moments = 0;
    // Those without faults raise no alarm, which another test looks at, step by step.
    for scenario in all.iter().filter(|scenario| scenario.harvester.is_some() && !is_calm(scenario)) {
        in_virtual_time(async {
            let stage = Stage::open(scenario, &Terms::calm(1));
            let (mut changes, mut looked_at) = (usize::MAX, usize::MAX);
            while !stage.unmet_now().is_empty() {
                stage.clock.sleep(Duration::from_secs(1)).await;
                let is_still = std::mem::replace(&mut changes, stage.changes()) == changes;
                if is_still && std::mem::replace(&mut looked_at, changes) != changes {
                    moments += 1;
                    wrong.extend(
                        unexplained(&look(&stage)).into_iter().map(|what| format!("{}: {what}", scenario.name)),
                    );
                }
            }
        });
    }
    println!("{moments} moments at which nothing moves");
    assert!(moments > 50, "{moments}");
    assert_eq!(wrong, BTreeSet::new());
}
