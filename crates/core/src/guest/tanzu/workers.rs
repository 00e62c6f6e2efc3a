//! The workers: what their templates should be. A template never changes: another content is another template.

use drover_api::cluster_api::labels::CLUSTER_NAME;
use drover_api::marks::GENERATED;
use serde_json::{Value, json};

use super::difference::leaves;
use super::distribution::Distribution;
use super::wanted::{Leaves, Wanted, patches, short};
use super::{Held, Reason, View, text};
use crate::decision::Act;
use crate::guest::generated::{Fields, Generated};
use crate::guest::order::Version;
use crate::guest::patch;
use crate::guest::seen::Collection;
use crate::guest::wait::{Object, Side, Write};

/// What a MachineDeployment makes its Machines of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub version: String,
    pub infrastructure: String,
    pub config: String,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.version, self.infrastructure, self.config)
    }
}

impl Target {
    pub fn of(deployment: &Value) -> Self {
        let spec = &deployment["spec"]["template"]["spec"];
        Target {
            version: text(&spec["version"]).to_owned(),
            infrastructure: text(&spec["infrastructureRef"]["name"]).to_owned(),
            config: text(&spec["bootstrap"]["configRef"]["name"]).to_owned(),
        }
    }

    pub fn parse(said: &str) -> Option<Self> {
        let mut parts = said.split(' ').map(str::to_owned);
        let target = Target { version: parts.next()?, infrastructure: parts.next()?, config: parts.next()? };
        parts.next().is_none().then_some(target)
    }
}

/// The workers as they are and as they should be.
#[derive(Debug)]
pub struct Workers<'a> {
    pub deployment: &'a Value,
    pub current: Target,
    pub wanted: Target,
    /// Templates that have to be made first.
    pub templates: Vec<Write>,
    pub differences: Vec<String>,
    /// The control plane has to be as far before: the version rises, or the image is another.
    pub raises: bool,
    pub version: Version,
}

/// None if there are to be no workers.
pub fn compare<'a>(view: &View<'a>, distribution: &Distribution, asked: &Wanted) -> Held<Option<Workers<'a>>> {
    let count = view.tkc["spec"]["topology"]["workers"]["count"].as_i64().unwrap_or(0);
    let is_one = |one: &&Value| one["metadata"]["labels"][CLUSTER_NAME] == view.name();
    let all: Vec<&Value> = view.own.all(Collection::Deployments).filter(is_one).collect();
    let deployment = match all.as_slice() {
        [] if count == 0 => return Ok(None),
        [one] => *one,
        several => {
            let names: Vec<&str> = several.iter().map(|one| text(&one["metadata"]["name"])).collect();
            let named = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            let sentence = format!(
                "spec.topology.workers.count is {count}, and there are {} MachineDeployments of the cluster{named}, and not one",
                several.len()
            );
            let remedy = format!(
                "one MachineDeployment in {} carries the label {CLUSTER_NAME}={}: bring it back, or take the label off the others",
                view.namespace(),
                view.name()
            );
            return Err(Box::new(view.wait(view.object(), Reason::WorkersUnclear, sentence).with_remedy(remedy)));
        }
    };
    let current = Target::of(deployment);
    let missing = |kind: &str, name: &str| {
        let object = Object::of(Side::Management, deployment);
        let sentence = format!("{object} refers to {kind} {name}, which is not there");
        let remedy = format!(
            "bring {kind} {name} back, or name one that is there in spec.template.spec of the MachineDeployment: kubectl edit {}",
            object.arguments()
        );
        Box::new(view.wait(object, Reason::MachineIncomplete, sentence).with_remedy(remedy))
    };
    let machine = view.own.get(Collection::MachineTemplates, &current.infrastructure);
    let machine = machine.ok_or_else(|| missing("WCPMachineTemplate", &current.infrastructure))?;
    let config = view.own.get(Collection::ConfigTemplates, &current.config);
    let config = config.ok_or_else(|| missing("KubeadmConfigTemplate", &current.config))?;
    let patched = |old: &Value, leaves: &Leaves, before: &Fields| -> Held<Value> {
        let mut whole = json!({ "spec": old["spec"]["template"]["spec"] });
        let patches = patches(leaves, before, &[&whole]);
        patch::apply(&mut whole, &patches).map_err(|why| {
            let object = Object::of(Side::Management, old);
            let sentence = format!("{object} cannot be made as it is asked for: {why}");
            let remedy = "point the MachineDeployment at a template that has this field's parent, or take the field out of the defaults";
            Box::new(view.wait(object, Reason::MachineIncomplete, sentence).with_remedy(remedy))
        })?;
        Ok(whole["spec"].clone())
    };
    let machines = &machine["spec"]["template"]["spec"];
    let made = Generated::of(machine).unwrap_or_default();
    let machines_wanted = patched(machine, &asked.infrastructure, &made.infrastructure)?;
    let joins = &config["spec"]["template"]["spec"];
    let made = Generated::of(config).unwrap_or_default();
    let joins_wanted = patched(config, &asked.bootstrap, &made.bootstrap)?;

    let generated = asked.generated().to_string();
    let mut templates = Vec::new();
    let mut name_of = |old: &Value, before: &Value, after: &Value, collection: Collection| {
        if before == after {
            return text(&old["metadata"]["name"]).to_owned();
        }
        let name = format!("{}-workers-{}", view.name(), short(&after.to_string(), 5));
        if view.own.get(collection, &name).is_none() {
            templates.push(template(old, &name, after, &generated));
        }
        name
    };
    let wanted = Target {
        version: distribution.kubernetes.to_string(),
        infrastructure: name_of(machine, machines, &machines_wanted, Collection::MachineTemplates),
        config: name_of(config, joins, &joins_wanted, Collection::ConfigTemplates),
    };
    let runs = Version::parse(&current.version);
    // Whether it is written with `v` is no difference.
    let same_version = runs.as_ref() == Some(&distribution.kubernetes);
    let wanted = if same_version { Target { version: current.version.clone(), ..wanted } } else { wanted };
    let mut differences = Vec::new();
    if !same_version {
        differences.push(format!("version: {} → {}", current.version, wanted.version));
    }
    differences.extend(leaves(machines, &machines_wanted));
    differences.extend(leaves(joins, &joins_wanted));
    let raises = !same_version || machines["imageName"] != machines_wanted["imageName"];
    let version = distribution.kubernetes.clone();
    Ok(Some(Workers { deployment, current, wanted, templates, differences, raises, version }))
}

/// A template like another one with another content.
pub fn template(old: &Value, name: &str, spec: &Value, generated: &str) -> Write {
    let metadata = &old["metadata"];
    let mut own = json!({
        "name": name, "namespace": metadata["namespace"], "annotations": { GENERATED: generated },
    });
    for field in ["labels", "ownerReferences"] {
        if !metadata[field].is_null() {
            own[field] = metadata[field].clone();
        }
    }
    let made = json!({
        "apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": own, "spec": { "template": { "spec": spec } },
    });
    let object = Object::of(Side::Management, &made);
    Write { object, act: Act::Create(made), purpose: "make a template of workers" }
}
