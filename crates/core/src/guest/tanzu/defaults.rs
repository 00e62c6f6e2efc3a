//! What an installation wants of all guest clusters beside what their owners ask for: flags of components, arguments of kubelets, fields of
//! machines. It stands in a ConfigMap; another content is rolled out like anything else that is asked for.

use drover_api::tanzu::{DEFAULTS_MAP, NAMESPACE};
use serde_json::Value;

use super::{Held, Reason, View, text};
use crate::guest::generated::Fields;
use crate::guest::seen::Collection;
use crate::guest::wait::{Object, Side};

/// A part of kubeadm's ClusterConfiguration.
const CLUSTER: &str = "clusterConfiguration";
/// A part of kubeadm's JoinConfiguration, of all machines.
const JOIN: &str = "joinConfiguration";
/// A part of the spec of what stands for a virtual machine.
const MACHINE: &str = "machine";
const KEYS: [&str; 3] = [CLUSTER, JOIN, MACHINE];

/// Fields of a ClusterConfiguration that machines which are there already would not agree on with new ones.
const UNCHANGEABLE: [&str; 9] = [
    "/apiVersion",
    "/kind",
    "/kubernetesVersion",
    "/networking",
    "/controlPlaneEndpoint",
    "/clusterName",
    "/certificatesDir",
    "/etcd/external",
    "/etcd/local/dataDir",
];
/// Those among them, at their beginning, that belong to the version and to nobody's wishes.
const OF_VERSION: usize = 3;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Defaults {
    pub cluster: Fields,
    pub join: Fields,
    pub machine: Fields,
    /// What is asked for and no new machine can change.
    pub unchangeable: Vec<String>,
    /// What a cluster can be given only when it is made.
    pub from_the_start: Fields,
}

/// None of it if there is no such ConfigMap.
pub fn read(view: &View<'_>) -> Held<Defaults> {
    let Some(map) = view.system.get(Collection::Defaults, DEFAULTS_MAP) else { return Ok(Defaults::default()) };
    let refused = |key: &str, why: String| {
        let object = object();
        let sentence = format!("{object}, data.{key}: {why}");
        let wait = view.wait(object, Reason::DefaultsInvalid, sentence);
        Box::new(wait.with_remedy(format!("mend it: kubectl -n {NAMESPACE} edit configmap {DEFAULTS_MAP}")))
    };
    let mut defaults = Defaults::default();
    for (key, value) in map["data"].as_object().into_iter().flatten() {
        if !KEYS.contains(&key.as_str()) {
            return Err(refused(key, format!("it is none of {}", KEYS.join(", "))));
        }
        let document: Value = serde_saphyr::from_str(text(value))
            .map_err(|error| refused(key, format!("it is no YAML: {}", error.without_snippet())))?;
        if !document.is_object() && !document.is_null() {
            return Err(refused(key, "it is no mapping".to_owned()));
        }
        let mut fields = Fields::new();
        flatten("", &document, &mut fields);
        if let Some((path, value)) =
            fields.iter().find(|(path, value)| path.contains("xtraArgs/") && !value.is_string())
        {
            let sentence = format!("{} is {value}, and flags are texts", shown(path));
            return Err(refused(key, format!("{sentence}: write \"{value}\"")));
        }
        match key.as_str() {
            CLUSTER => {
                let (stays, goes) = fields.into_iter().partition(|(path, _)| is_in(&UNCHANGEABLE, path));
                let stays: Fields = stays;
                let is_other = |path: &String, value: &Value| {
                    view.configuration.is_none_or(|known| known.pointer(path) != Some(value))
                };
                let others = stays.iter().filter(|(path, value)| is_other(path, value));
                defaults.unchangeable = others.map(|(path, _)| shown(path)).collect();
                let is_wish = |path: &String| !is_in(&UNCHANGEABLE[..OF_VERSION], path);
                defaults.from_the_start = stays.into_iter().filter(|(path, _)| is_wish(path)).collect();
                defaults.cluster = goes;
            }
            JOIN => defaults.join = fields,
            _ => defaults.machine = fields,
        }
    }
    Ok(defaults)
}

pub fn object() -> Object {
    Object {
        side: Side::Management,
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: NAMESPACE.to_owned(),
        name: DEFAULTS_MAP.to_owned(),
    }
}

fn is_in(fields: &[&str], path: &str) -> bool {
    let is_part = |field: &&str| path == *field || path.strip_prefix(*field).is_some_and(|rest| rest.starts_with('/'));
    fields.iter().any(is_part)
}

/// `apiServer.extraArgs.profiling` of `/apiServer/extraArgs/profiling`.
pub fn shown(path: &str) -> String {
    let parts = path.trim_start_matches('/').split('/');
    parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect::<Vec<_>>().join(".")
}

/// Every field that is no object, by its path; a list is one field.
fn flatten(path: &str, value: &Value, found: &mut Fields) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                flatten(&format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), value, found);
            }
        }
        Value::Null => {}
        _ => drop(found.insert(path.to_owned(), value.clone())),
    }
}
