//! A Job carries out the plans of machines that no agent is on.

use super::*;

impl World {
    /// A server and a worker on which no agent is, and the server has what it is asked for.
    fn without_agent(options: Value) -> Self {
        let mut world = World::new(&["ec", "w"], options);
        world.settle();
        world.ask(TO);
        world.machines.get_mut("custom-2").unwrap()["metadata"]["annotations"] =
            json!({ "drover.dev/executor": "job" });
        world.settle();
        if world.drains.contains_key("node-1") {
            world.drained("node-1");
        }
        world.settle();
        world.applied(1);
        world.settle();
        if world.drains.contains_key("node-2") {
            world.drained("node-2");
        }
        world
    }

    fn job(&mut self) -> &mut Value {
        assert_eq!(self.jobs.len(), 1, "{:?}", self.jobs.keys());
        self.jobs.values_mut().next().unwrap()
    }

    fn ends(&mut self, condition: &str) {
        self.job()["status"] =
            json!({ "conditions": [{ "type": condition, "status": "True", "message": "often enough" }] });
    }
}

fn labels(world: &World) -> Value {
    world.nodes["node-2"]["metadata"]["labels"].clone()
}

#[test]
fn a_job_runs_under_the_claim_and_is_named_by_the_machine_and_its_plan() {
    let mut world = World::without_agent(drains());
    assert_eq!(world.settle().as_deref(), Some("configuring worker node(s) custom-2: waiting for plan to be applied"));

    let claim = labels(&world)["drover.dev/claim"].clone();
    let secret: SecretSeen = serde_json::from_value(world.secret(2).clone()).unwrap();
    let sum = checksum(&secret.datum("plan").unwrap());
    let job = world.job().clone();
    assert_eq!(job["metadata"]["name"], format!("apply-plan-custom-2-{}", &sum[..10]));
    assert_eq!(job["metadata"]["labels"], json!({ "drover.dev/machine": "custom-2", "drover.dev/claim": claim }));
    let pod = &job["spec"]["template"]["spec"];
    let affinity = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let is = |key: &str, value: &Value| json!([{ "key": key, "operator": "In", "values": [value] }]);
    let term = json!({ "matchFields": is("metadata.name", &json!("node-2")), "matchExpressions": is("drover.dev/claim", &claim) });
    assert_eq!(affinity["nodeSelectorTerms"], json!([term]));
    assert_eq!(pod["containers"][0]["image"], "drover");
    let args = ["node", "apply-plan", "--node", "node-2", "--plan", "/plan/plan", "--kubernetes-version", TO];
    assert_eq!(pod["containers"][0]["args"], json!(args));
    assert_eq!(world.jobs.len(), 1, "the server has an agent");
}

#[test]
fn what_the_job_has_done_is_noted_as_an_agent_would_and_the_node_comes_back() {
    let mut world = World::without_agent(drains());
    world.settle();
    world.ends("Complete");
    world.nodes.get_mut("node-2").unwrap()["status"]["nodeInfo"]["kubeletVersion"] = json!(TO);

    assert_eq!(world.settle(), None);

    let secret: SecretSeen = serde_json::from_value(world.secret(2).clone()).unwrap();
    assert!(secret.is_in_sync() && secret.ill_probes().is_empty());
    assert_eq!((world.cordoned(), labels(&world)), (vec![], json!({})));
    assert!(world.purposes.contains(&"NoteApplied".to_owned()));
}

#[test]
fn a_failure_is_told_with_its_words_and_tried_again_when_a_user_says_so() {
    let mut world = World::without_agent(drains());
    world.settle();
    world.ends("Failed");
    let (name, uid) = (world.job()["metadata"]["name"].clone(), world.job()["metadata"]["uid"].clone());
    let told = |why: &str| {
        let name = name.as_str().unwrap();
        Some(format!("configuring worker node(s) custom-2: failure while applying plan: Job {name}: {why}"))
    };
    assert_eq!(world.settle(), told("often enough"));
    let pod = json!({
        "metadata": { "name": "p", "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid }] },
        "status": { "containerStatuses": [{ "name": "upgrade", "state": { "terminated": { "exitCode": 1, "message": "no room" } } }] },
    });
    world.pods.insert("p".into(), pod);
    assert_eq!(world.settle(), told("no room"));
    assert_eq!(world.cordoned(), ["node-2"]);

    world.nodes.get_mut("node-2").unwrap()["metadata"]["annotations"]["drover.dev/retry"] = json!("now");
    world.settle();
    assert_ne!(world.job()["metadata"]["uid"], uid, "another one, of the same name");
    assert_eq!(world.job()["metadata"]["name"], name);
    assert!(world.nodes["node-2"]["metadata"]["annotations"]["drover.dev/retry"].is_null());
}

#[test]
fn a_job_of_another_claim_is_made_anew_and_one_that_nobody_waits_for_goes() {
    let mut world = World::without_agent(drains());
    world.settle();
    let claim = labels(&world)["drover.dev/claim"].clone();
    world.job()["metadata"]["labels"]["drover.dev/claim"] = json!("of-a-dead-planner");
    world.settle();
    assert_eq!(world.job()["metadata"]["labels"]["drover.dev/claim"], claim);

    let mut late = world.job().clone();
    late["metadata"]["name"] = json!("apply-plan-custom-2-0123456789");
    world.jobs.insert("apply-plan-custom-2-0123456789".into(), late);
    world.settle();
    assert_eq!(world.jobs.len(), 1);
    assert_eq!(world.jobs.keys().filter(|name| name.ends_with("0123456789")).count(), 0);
}

#[test]
fn without_a_drain_the_node_is_marked_and_not_cordoned() {
    let mut world = World::without_agent(json!({}));
    world.settle();
    assert_eq!((world.jobs.len(), world.cordoned()), (1, vec![]));
    assert!(labels(&world)["drover.dev/claim"].is_string());

    // A mark that is lost is written again: without it the Job gets no pod.
    world.nodes.get_mut("node-2").unwrap()["metadata"]["labels"] = json!({});
    world.settle();
    assert!(labels(&world)["drover.dev/claim"].is_string());
    world.ends("Complete");
    world.nodes.get_mut("node-2").unwrap()["status"]["nodeInfo"]["kubeletVersion"] = json!(TO);
    assert_eq!(world.settle(), None);
    assert_eq!(labels(&world), json!({}));
}

#[test]
fn a_cluster_can_ask_for_all_of_its_machines_and_a_machine_knows_better() {
    let mut world = World::new(&["ec", "w"], json!({}));
    world.settle();
    world.cluster["metadata"]["annotations"] = json!({ "drover.dev/executor": "job" });
    world.machines.get_mut("custom-2").unwrap()["metadata"]["annotations"] = json!({ "drover.dev/executor": "agent" });
    world.ask(TO);
    world.settle();
    assert_eq!(world.job()["metadata"]["labels"]["drover.dev/machine"], "custom-1");
    world.ends("Complete");
    world.nodes.get_mut("node-1").unwrap()["status"]["nodeInfo"]["kubeletVersion"] = json!(TO);
    assert_eq!(world.settle().as_deref(), Some("configuring worker node(s) custom-2: waiting for plan to be applied"));
    assert_eq!(world.jobs.len(), 1);
}

#[test]
fn no_job_is_made_for_a_voter_while_another_is_out() {
    let mut world = ready(drains(), &SERVERS);
    world.machines.get_mut("custom-1").unwrap()["metadata"]["annotations"] = json!({ "drover.dev/executor": "job" });
    world.ask(TO);
    world.settle();
    world.drained("node-1");
    while !world.purposes.contains(&"DeliverPlan".to_owned()) {
        world.decide().writes.iter().for_each(|write| world.write(write));
    }
    let well = world.nodes["node-3"]["status"]["conditions"].clone();
    world.nodes.get_mut("node-3").unwrap()["status"]["conditions"][0]["status"] = json!("False");

    let said = world.settle().unwrap();

    assert!(said.contains("node-3 is out: node-1 must not be taken out as well"), "{said}");
    assert_eq!(world.jobs.len(), 0);
    world.nodes.get_mut("node-3").unwrap()["status"]["conditions"] = well;
    world.settle();
    assert_eq!(world.jobs.len(), 1);
}
