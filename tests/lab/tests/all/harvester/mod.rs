//! Upgrades of Harvester on a real control plane with KWOK nodes: admission by the real API server, pauses, and a whole way
//! with Drover's own planner. What no real component plays there is played by [`stand_ins`].

mod ground;
mod stand_ins;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use drover_sim::Scenario;
use serde_json::{Value, json};

use super::plan::{condition, get, until};
use ground::{Ground, SYSTEM};
use stand_ins::Part;

const NEW_SYSTEM: &str = "Harvester v1.8.0";
const NEW_KUBELET: &str = "v1.34.1+rke2r1";
const PAUSE: &str = "harvesterhci.io/node-upgrade-pause";
const PAUSE_MAP: &str = "harvesterhci.io/node-upgrade-pause-map";
/// An add-on that does not get on: with it no Upgrade begins.
const ADDON: &str = r#"{
    "apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon", "metadata": { "name": "pcidevices", "namespace": "harvester-system" },
    "spec": { "enabled": true }, "status": { "status": "AddonEnabling" }
}"#;

/// Three servers without Rancher; `config` is the setting `upgrade-config`, `own_status` says whose definition of Upgrade there is.
fn scenario(config: &Value, own_status: bool) -> Result<Scenario> {
    let scenario = json!({
        "name": "real", "nodes": 3, "from": "v1.33.5+rke2r1", "to": NEW_KUBELET,
        "harvester": { "ownPlanner": true, "ownStatus": own_status, "config": config, "upgrade": { "name": "unused" } },
    });
    Ok(serde_json::from_value(scenario)?)
}

fn asked(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": { "name": name, "namespace": SYSTEM, "annotations": annotations },
        "spec": { "version": "v1.8.0" },
    })
}

impl Ground {
    fn upgrade(&self, name: &str) -> Result<Value> {
        get(&self.lab, &["-n", SYSTEM, "upgrades.harvesterhci.io", name])
    }

    fn nodes(&self) -> Result<Vec<Value>> {
        Ok(get(&self.lab, &["nodes"])?["items"].as_array().cloned().unwrap_or_default())
    }

    /// Nodes that carry the mark of a pause.
    fn marked(&self) -> Result<Vec<String>> {
        let nodes = self.nodes()?.into_iter().filter(|node| !node["metadata"]["annotations"][PAUSE].is_null());
        Ok(nodes.map(|node| ground::name(&node).to_owned()).collect())
    }

    async fn until_state(&self, upgrade: &str, node: &str, state: &str) -> Result<()> {
        let said = until(&format!("{node} is {state}"), || Ok(state_of(&self.upgrade(upgrade)?, node) == state)).await;
        said.map_err(|error| error.context(format!("{:#}", self.upgrade(upgrade).unwrap_or_default())))
    }

    async fn until_label(&self, upgrade: &str, state: &str) -> Result<()> {
        let of = |upgrade: &Value| upgrade["metadata"]["labels"]["harvesterhci.io/upgradeState"] == state;
        let said = until(&format!("{upgrade} is {state}"), || Ok(of(&self.upgrade(upgrade)?))).await;
        said.map_err(|error| error.context(format!("{:#}", self.upgrade(upgrade).unwrap_or_default())))
    }

    fn is_held(&self, chart: &str) -> Result<bool> {
        Ok(get(&self.lab, &["-n", "fleet-local", "managedcharts.management.cattle.io", chart])?["spec"]["paused"]
            == true)
    }

    /// Deletes it as a user would, who waits for the end of it.
    async fn delete(&self, upgrade: &str) -> Result<()> {
        self.lab.kubectl(&["-n", SYSTEM, "delete", "upgrades.harvesterhci.io", upgrade, "--timeout=120s"])?;
        let left = || -> Result<String> {
            let kinds = "plans.upgrade.cattle.io,jobs,deployments,services,virtualmachineimages.harvesterhci.io";
            let label = format!("harvesterhci.io/upgrade={upgrade}");
            let own = self.lab.kubectl(&["get", kinds, "-A", "-l", &label, "-o", "name"])?;
            let of_plans = self.lab.kubectl(&["get", "jobs", "-n", "cattle-system", "-o", "name"])?;
            Ok(own + &of_plans)
        };
        let gone = until("nothing of it is left", || Ok(left()?.is_empty())).await;
        gone.map_err(|error| error.context(left().unwrap_or_default()))?;
        let unmarked = until("no node is marked", || Ok(self.holds_no_marks().is_ok())).await;
        unmarked.or_else(|error| self.holds_no_marks().map_err(|marks| error.context(marks)))
    }

    fn holds_no_marks(&self) -> Result<()> {
        for node in self.nodes()? {
            let marks = ["annotations", "labels"].map(|part| node["metadata"][part].to_string()).concat();
            for mark in ["drover.dev/", PAUSE, "pendingOSImage"] {
                ensure!(!marks.contains(mark), "{} still has {mark}: {marks}", ground::name(&node));
            }
            ensure!(node["spec"]["unschedulable"].is_null(), "{} is cordoned", ground::name(&node));
            let taints = node["spec"]["taints"].to_string();
            ensure!(!taints.contains("kubevirt.io/drain"), "{} has {taints}", ground::name(&node));
        }
        Ok(())
    }
}

fn state_of<'a>(upgrade: &'a Value, node: &str) -> &'a str {
    upgrade["status"]["nodeStatuses"][node]["state"].as_str().unwrap_or_default()
}

/// The words of the conditions, by their types.
fn conditions(upgrade: &Value) -> BTreeMap<&str, &str> {
    let all = upgrade["status"]["conditions"].as_array().into_iter().flatten();
    all.filter_map(|one| Some((one["type"].as_str()?, one["status"].as_str()?))).collect()
}

/// Pauses as the plan of their tests has it for several nodes, on the definition that Harvester installs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn an_upgrade_is_admitted_pauses_goes_on_and_ends() -> Result<()> {
    let config = json!({ "nodeUpgradeOption": { "mode": "manual", "pauseNodes": ["node-2"] } });
    let ground = Ground::up(&scenario(&config, false)?).await?;
    let lab = &ground.lab;
    let upgrade = asked("hvst-upgrade-9gmg2", &json!({}));

    // All that speaks against it is told at once, by the real API server, which trusts the certificate that was made.
    lab.kubectl(&["cordon", "node-3"])?;
    let addon: Value = serde_json::from_str(ADDON)?;
    ground::make(&ground.client, &addon).await?;
    until("the webhooks are asked", || {
        Ok(lab.kubectl(&["get", "validatingwebhookconfigurations", "drover-harvester"]).is_ok())
    })
    .await?;
    let mut refusal = String::new();
    until("the API server calls them", || {
        refusal = ground.refusal_of(&upgrade)?;
        Ok(refusal.contains("upgrades.harvester.drover.dev"))
    })
    .await?;
    for text in [
        "denied the request: (1) addon harvester-system/pcidevices is enabled but still on status AddonEnabling",
        "(2) node node-3 is unschedulable, please wait for it to be schedulable",
    ] {
        ensure!(refusal.contains(text), "{refusal}");
    }
    lab.kubectl(&["uncordon", "node-3"])?;
    ground.merge_status(&addon, &json!({ "status": "AddonDeploySuccessful" })).await?;

    // Initialised: labels, conditions, every node, the map of pauses and the mark on the Node.
    ground.held.hold(Part::Images);
    ground.create(&upgrade)?;
    until("it has begun", || Ok(conditions(&ground.upgrade("hvst-upgrade-9gmg2")?).contains_key("ImageReady"))).await?;
    let begun = ground.upgrade("hvst-upgrade-9gmg2")?;
    ensure!(begun["metadata"]["labels"]["harvesterhci.io/latestUpgrade"] == "true", "{begun:#}");
    ensure!(begun["status"]["previousVersion"] == "v1.7.0", "{begun:#}");
    ensure!(begun["metadata"]["annotations"][PAUSE_MAP] == r#"{"node-2":"pause"}"#, "{begun:#}");
    let said = conditions(&begun);
    ensure!((said["Completed"], said["ImageReady"]) == ("Unknown", "Unknown"), "{begun:#}");
    let nodes: Vec<&String> =
        begun["status"]["nodeStatuses"].as_object().into_iter().flat_map(|all| all.keys()).collect();
    ensure!(nodes == ["node-1", "node-2", "node-3"], "{begun:#}");
    until("node-2 carries its mark", || Ok(ground.marked()? == ["node-2"])).await?;
    let refused = ground.refusal_of(&asked("second", &json!({})))?;
    ensure!(refused.contains("cannot proceed until previous upgrade \"hvst-upgrade-9gmg2\" completes"), "{refused}");
    let joins = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "late" } });
    let refused = ground.refusal_of(&joins)?;
    ensure!(refused.contains("cannot add node \"late\" to the cluster"), "{refused}");

    // The others go on while node-2 waits in service; meanwhile it is not deleted by accident.
    ground.held.release(Part::Images);
    for done in ["node-1", "node-3"] {
        ground.until_state("hvst-upgrade-9gmg2", done, "Succeeded").await?;
    }
    ground.until_state("hvst-upgrade-9gmg2", "node-2", "Node-upgrade paused").await?;
    let paused = get(lab, &["node", "node-2"])?;
    ensure!(paused["spec"]["unschedulable"].is_null(), "{paused:#}");
    let refused =
        ground.refusal(&["-n", SYSTEM, "delete", "upgrades.harvesterhci.io", "hvst-upgrade-9gmg2", "--wait=false"])?;
    for text in ["node upgrade is in progressing", "drover upgrade abort upgrade/hvst-upgrade-9gmg2"] {
        ensure!(refused.contains(text), "{refused}");
    }

    // As the guide says.
    lab.kubectl(&["annotate", "node", "node-2", &format!("{PAUSE}-")])?;
    ground.until_label("hvst-upgrade-9gmg2", "Succeeded").await?;
    until("it is cleaned up", || {
        Ok(ground.upgrade("hvst-upgrade-9gmg2")?["metadata"]["labels"]["harvesterhci.io/upgradeCleanup"] == "Succeeded")
    })
    .await?;
    // The status follows the labels, once a second.
    until("its conditions say so", || {
        let ended = ground.upgrade("hvst-upgrade-9gmg2")?;
        let kinds =
            ["Completed", "ImageReady", "RepoReady", "NodesPrepared", "SystemServicesUpgraded", "NodesUpgraded"];
        Ok(kinds.iter().all(|kind| condition(&ended, kind)["status"] == "True"))
    })
    .await?;
    for node in ground.nodes()? {
        let info = &node["status"]["nodeInfo"];
        ensure!((&info["osImage"], &info["kubeletVersion"]) == (&json!(NEW_SYSTEM), &json!(NEW_KUBELET)), "{info:#}");
    }
    ground.holds_no_marks()?;
    let jobs =
        lab.kubectl(&["get", "jobs", "-n", SYSTEM, "-l", "harvesterhci.io/upgradeComponent=node", "-o", "name"])?;
    ensure!(jobs.lines().count() == 6, "{jobs}");
    let capi = get(lab, &["-n", "fleet-local", "clusters.cluster.x-k8s.io", "local"])?;
    ensure!(capi["status"]["phase"] == "Provisioned", "{capi:#}");
    // The next one is let in.
    ground.held.hold(Part::Images);
    ground.create(&asked("hvst-upgrade-next", &json!({})))?;
    Ok(())
}

/// The same for the only node: the very release that runs, and the setting in its shortest form.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn the_only_node_waits_for_its_user_and_is_upgraded() -> Result<()> {
    let config = json!({ "nodeUpgradeOption": { "mode": "manual" } });
    let only = json!({
        "name": "only", "nodes": 1, "from": NEW_KUBELET, "to": NEW_KUBELET,
        "harvester": { "servers": 1, "ownPlanner": true, "os": NEW_SYSTEM, "config": config, "upgrade": { "name": "unused" } },
    });
    let ground = Ground::up(&serde_json::from_value(only)?).await?;
    let upgrade = "hvst-upgrade-only";
    ground.create(&asked(upgrade, &json!({})))?;

    ground.until_state(upgrade, "node-1", "Node-upgrade paused").await?;
    ensure!(ground.marked()? == ["node-1"]);
    let begun = ground.upgrade(upgrade)?;
    ensure!(begun["status"]["singleNode"] == "node-1", "{begun:#}");
    ensure!(begun["metadata"]["annotations"][PAUSE_MAP] == r#"{"node-1":"pause"}"#, "{begun:#}");
    let of_nodes = ["-n", SYSTEM, "jobs", "-l", "harvesterhci.io/upgradeComponent=node"];
    let jobs = get(&ground.lab, &of_nodes)?;
    ensure!(jobs["items"] == json!([]), "{jobs:#}");

    ground.lab.kubectl(&["annotate", "node", "node-1", &format!("{PAUSE}-")])?;
    ground.until_label(upgrade, "Succeeded").await?;
    until("it is cleaned up", || {
        Ok(ground.upgrade(upgrade)?["metadata"]["labels"]["harvesterhci.io/upgradeCleanup"] == "Succeeded")
    })
    .await?;
    let jobs = get(&ground.lab, &of_nodes)?;
    let names: Vec<&str> = jobs["items"].as_array().into_iter().flatten().map(ground::name).collect();
    ensure!(names == ["hvst-upgrade-only-single-node-upgrade-node-1"], "{names:?}");
    ground.holds_no_marks()?;
    // The next one is let in.
    ground.held.hold(Part::Images);
    ground.create(&asked("hvst-upgrade-next", &json!({})))?;
    Ok(())
}

/// Deleted in each of the phases before that of the nodes, on Drover's own definition of Upgrade: each time it can be started over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the lab: make test-real"]
async fn an_upgrade_that_is_deleted_before_its_nodes_begin_leaves_nothing_behind() -> Result<()> {
    let config = json!({
        "imagePreloadOption": { "strategy": { "type": "sequential" } }, "nodeUpgradeOption": { "mode": "manual" },
    });
    let ground = Ground::up(&scenario(&config, true)?).await?;
    let lab = &ground.lab;

    // What speaks against it is overridden, with the annotation that Harvester has for it.
    lab.kubectl(&["cordon", "node-3"])?;
    until("the webhooks are asked", || {
        Ok(lab.kubectl(&["get", "validatingwebhookconfigurations", "drover-harvester"]).is_ok())
    })
    .await?;
    ground.held.hold(Part::Images);
    ground.create(&asked("while-importing", &json!({ "harvesterhci.io/skipWebhook": "true" })))?;
    lab.kubectl(&["uncordon", "node-3"])?;
    until("its image is waited for", || {
        Ok(condition(&ground.upgrade("while-importing")?, "Progressing")["reason"] == "ImageNotReady")
    })
    .await?;
    until("all nodes are to pause", || Ok(ground.marked()?.len() == 3)).await?;
    // A client that writes the object whole cannot wipe its status.
    let mut whole = ground.upgrade("while-importing")?;
    whole["status"] = json!({});
    ground.send("replace", &whole)?;
    let after = ground.upgrade("while-importing")?;
    ensure!(after["status"]["previousVersion"] == "v1.7.0", "{after:#}");
    ground.delete("while-importing").await?;

    // Jobs that load images are at work, and one of them does not end.
    ground.held.release(Part::Images);
    ground.create(&asked("while-loading", &json!({})))?;
    let plan = ["-n", "cattle-system", "plans.upgrade.cattle.io", "while-loading-prepare"];
    until("its Plan is there", || Ok(get(lab, &plan).is_ok())).await?;
    lab.kubectl(&["annotate", plan[0], plan[1], plan[2], plan[3], "lab.drover.dev/take=24h"])?;
    ground.until_label("while-loading", "PreparingNodes").await?;
    until("a node is at work for good", || {
        let jobs = get(lab, &["jobs", "-n", "cattle-system", "-l", "upgrade.cattle.io/plan=while-loading-prepare"])?;
        let takes = |job: &Value| job["spec"]["template"]["metadata"]["annotations"]["lab.drover.dev/take"] == "24h";
        Ok(jobs["items"].as_array().is_some_and(|jobs| jobs.iter().any(takes)))
    })
    .await?;
    ground.delete("while-loading").await?;

    // Charts are held for the system services; whoever deletes the Upgrade gets them back.
    ground.held.hold(Part::Charts);
    ground.create(&asked("while-raising", &json!({})))?;
    ground.until_label("while-raising", "UpgradingSystemServices").await?;
    until("charts are held", || ground.is_held("rancher-monitoring-crd")).await?;
    ground.delete("while-raising").await?;
    for chart in ["harvester", "harvester-crd", "rancher-monitoring-crd", "rancher-logging-crd"] {
        ensure!(!ground.is_held(chart)?, "{chart} is still held");
    }
    ground.create(&asked("next", &json!({})))?;
    Ok(())
}
