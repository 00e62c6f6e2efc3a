//! The definitions that Drover brings along say what those say that users have today.

use drover_api::crds::{self, Controller};
use serde_json::{Value, json};

/// What users, scripts and pages rely on: names, scope, version, whether `/status` exists, the columns of `kubectl get`.
struct Known {
    name: &'static str,
    kind: &'static str,
    scope: &'static str,
    version: &'static str,
    short_names: &'static [&'static str],
    has_status: bool,
    columns: &'static [(&'static str, &'static str)],
}

const KNOWN: [Known; 6] = [
    Known {
        name: "plans.upgrade.cattle.io",
        kind: "Plan",
        scope: "Namespaced",
        version: "v1",
        short_names: &[],
        has_status: true,
        columns: &[
            ("Image", ".spec.upgrade.image"),
            ("Channel", ".spec.channel"),
            ("Version", ".spec.version"),
            ("Complete", ".status.conditions[?(@.type=='Complete')].status"),
            ("Message", ".status.conditions[?(@.message!='')].message"),
            ("Applying", ".status.applying"),
        ],
    },
    Known {
        name: "upgrades.harvesterhci.io",
        kind: "Upgrade",
        scope: "Namespaced",
        version: "v1beta1",
        short_names: &[],
        // Harvester's own has none; with one, a client that puts an Upgrade back without its status does not wipe it.
        has_status: true,
        columns: &[],
    },
    Known {
        name: "upgradelogs.harvesterhci.io",
        kind: "UpgradeLog",
        scope: "Namespaced",
        version: "v1beta1",
        short_names: &[],
        has_status: false,
        columns: &[("UPGRADE", ".spec.upgradeName")],
    },
    Known {
        name: "versions.harvesterhci.io",
        kind: "Version",
        scope: "Namespaced",
        version: "v1beta1",
        short_names: &[],
        has_status: false,
        columns: &[
            ("ISO-URL", ".spec.isoURL"),
            ("ReleaseDate", ".spec.releaseDate"),
            ("MinUpgradableVersion", ".spec.minUpgradableVersion"),
        ],
    },
    Known {
        name: "tanzukubernetesclusters.run.tanzu.vmware.com",
        kind: "TanzuKubernetesCluster",
        scope: "Namespaced",
        version: "v1alpha1",
        short_names: &["tkc"],
        has_status: true,
        columns: &[
            ("Control Plane", ".spec.topology.controlPlane.count"),
            ("Worker", ".spec.topology.workers.count"),
            ("Distribution", ".spec.distribution.fullVersion"),
            ("Age", ".metadata.creationTimestamp"),
            ("Phase", ".status.phase"),
        ],
    },
    Known {
        name: "tanzukubernetesreleases.run.tanzu.vmware.com",
        kind: "TanzuKubernetesRelease",
        scope: "Cluster",
        version: "v1alpha1",
        short_names: &["tkr"],
        has_status: true,
        columns: &[],
    },
];

fn definitions() -> Vec<Value> {
    crds::all().iter().map(|definition| serde_json::to_value(definition).unwrap()).collect()
}

#[test]
fn names_scopes_subresources_and_columns_are_those_that_users_know() {
    let definitions = definitions();
    assert_eq!(definitions.len(), KNOWN.len());
    for (definition, known) in definitions.iter().zip(&KNOWN) {
        let (spec, version) = (&definition["spec"], &definition["spec"]["versions"][0]);
        assert_eq!(definition["metadata"]["name"], known.name);
        assert_eq!(spec["names"]["kind"], known.kind);
        assert_eq!(spec["names"]["listKind"], format!("{}List", known.kind));
        assert_eq!(spec["scope"], known.scope, "{}", known.name);
        assert_eq!(spec["versions"].as_array().unwrap().len(), 1, "{}", known.name);
        assert_eq!(version["name"], known.version, "{}", known.name);
        let short: Vec<&str> =
            spec["names"]["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        assert_eq!(short, known.short_names, "{}", known.name);
        assert_eq!(version["subresources"].get("status").is_some(), known.has_status, "{}", known.name);
        let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten();
        let columns: Vec<(&str, &str)> =
            columns.map(|column| (column["name"].as_str().unwrap(), column["jsonPath"].as_str().unwrap())).collect();
        assert_eq!(columns, known.columns, "{}", known.name);
    }
}

#[test]
fn each_controller_brings_its_own_and_nothing_of_another_product() {
    let names = |controller| -> Vec<String> {
        crds::of(controller).into_iter().map(|definition| definition.metadata.name.unwrap()).collect()
    };
    assert_eq!(names(Controller::Plan), ["plans.upgrade.cattle.io"]);
    assert_eq!(
        names(Controller::Harvester),
        ["upgrades.harvesterhci.io", "upgradelogs.harvesterhci.io", "versions.harvesterhci.io"]
    );
    assert_eq!(
        names(Controller::Guest),
        ["tanzukubernetesclusters.run.tanzu.vmware.com", "tanzukubernetesreleases.run.tanzu.vmware.com"]
    );
}

fn schema(name: &str, path: &[&str]) -> Value {
    let definition = definitions().into_iter().find(|definition| definition["metadata"]["name"] == name).unwrap();
    let all = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    path.iter().fold(all, |schema, field| schema["properties"][field].clone())
}

#[test]
fn an_upgrade_keeps_its_logs_unless_told_otherwise() {
    assert_eq!(schema("upgrades.harvesterhci.io", &["spec", "logEnabled"])["default"], json!(true));
    assert_eq!(schema("upgrades.harvesterhci.io", &["spec"])["required"], Value::Null);
}

#[test]
fn the_upgrade_of_a_log_cannot_be_changed() {
    let name = schema("upgradelogs.harvesterhci.io", &["spec", "upgradeName"]);
    assert_eq!(name["x-kubernetes-validations"][0]["rule"], "self == oldSelf");
    assert_eq!(schema("upgradelogs.harvesterhci.io", &["spec"])["required"], json!(["upgradeName"]));
}

#[test]
fn a_release_needs_to_say_where_its_iso_is() {
    assert_eq!(schema("versions.harvesterhci.io", &["spec"])["required"], json!(["isoURL"]));
}

#[test]
fn a_guest_cluster_needs_a_topology() {
    let name = "tanzukubernetesclusters.run.tanzu.vmware.com";
    assert_eq!(schema(name, &["spec"])["required"], json!(["distribution", "topology"]));
    assert_eq!(schema(name, &["spec", "topology", "controlPlane", "count"])["format"], "int32");
}
