//! A new machine is a copy of an old one, with what is asked for changed: its infrastructure, its bootstrap config, and the
//! Machine that ties them together.

use drover_api::cluster_api::machine::annotations::{NAME_BASE, UPGRADE_ID};
use drover_api::marks::{CONTROL_PLANE_DIGEST, GENERATED, MACHINE_FAILED};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::generated::Generated;
use super::order::LONGEST_NAME;
use super::patch;
use super::seen::Collection;
use super::view::{Flow, Machine, View};
use super::wait::{Deed, Next, Object, Reason, Side, Write};
use crate::decision::Act;

/// Between the name of a cluster and that of one of its machines.
const CONTROL_PLANE: &str = "-control-plane-";

/// What of an object's metadata is its own and not a copy's.
const OWN: [&str; 8] = [
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "selfLink",
];

/// Makes what is missing of the machine that follows `old`, in the order in which it is needed.
pub fn make(view: &View<'_>, old: &Machine<'_>) -> Flow<()> {
    make_like(view, old, &successor(view, old), old.base())
}

/// Makes what is missing of one more machine, which is like `model`; `count` are there already.
pub fn add(view: &View<'_>, model: &Machine<'_>, count: usize) -> Flow<()> {
    let order = view.order;
    let lot = Sha256::digest(format!("{} {} {count}", order.cluster, order.id).as_bytes());
    let lot: String = lot.iter().take(3).map(|byte| format!("{byte:02x}")).collect();
    let room = LONGEST_NAME.saturating_sub(CONTROL_PLANE.len() + lot.len());
    let cluster: String = order.cluster.chars().take(room).collect();
    let name = format!("{cluster}{CONTROL_PLANE}{lot}");
    make_like(view, model, &name, &name)
}

fn make_like(view: &View<'_>, old: &Machine<'_>, name: &str, base: &str) -> Flow<()> {
    let Some(config) = view.config_of(old) else {
        let sentence = format!("{} has no KubeadmConfig that could be copied", old.reference());
        return view.fail(
            Reason::MachineIncomplete,
            sentence,
            "delete the Machine by hand, or give it its bootstrap.configRef back",
        );
    };
    let Some(infrastructure) = view.infrastructure_of(old) else {
        let reference = old.infrastructure_ref();
        let sentence =
            format!("{} refers to {} {}, which is not there", old.reference(), reference["kind"], reference["name"]);
        let remedy = "delete the Machine by hand, or bring what its spec.infrastructureRef names back";
        return view.fail(Reason::MachineIncomplete, sentence.replace('"', ""), remedy);
    };
    let kind = infrastructure["kind"].as_str().unwrap_or_default();
    let mut deeds = Vec::new();
    let made = view.seen.get(Collection::Infrastructure, &format!("{kind}/{name}"));
    deeds.extend(provide(
        view,
        made,
        new_infrastructure(view, infrastructure, name)?,
        "make the infrastructure of a machine",
    )?);
    let made = view.seen.get(Collection::Configs, name);
    deeds.extend(provide(view, made, new_config(view, config, name)?, "make the bootstrap config of a machine")?);
    let machine = new_machine(view, old, name, base);
    let object = Object::of(Side::Management, &machine);
    deeds.push(Deed::Write(Box::new(Write { object, act: Act::Create(machine), purpose: "make a machine" })));
    Err(Next::Act(deeds))
}

/// What the successor of a machine is called.
pub fn successor(view: &View<'_>, old: &Machine<'_>) -> String {
    let name = view.order.name_after(old.base());
    let is_taken = view.machines().iter().any(|machine| machine.name() == name);
    // One that an earlier update with this id has made, and that is not as it is asked for now.
    if is_taken { format!("{name}-{}", &view.order.digest()[..5]) } else { name }
}

/// Nothing if it is there; what an earlier try has left and is not as wanted is cleared away first, since no Machine has it.
fn provide(view: &View<'_>, made: Option<&Value>, wanted: Value, purpose: &'static str) -> Flow<Option<Deed>> {
    let object = Object::of(Side::Management, &wanted);
    let act = match made {
        Some(made) if !made["metadata"]["deletionTimestamp"].is_null() => {
            let sentence = format!("{object} is still on its way out");
            return view.wait(
                object.clone(),
                Reason::MachineDeleting,
                sentence,
                view.since(&object, Reason::MachineDeleting),
                view.order.machine_timeout,
            );
        }
        Some(made) if without_provider(made) == without_provider(&wanted) => return Ok(None),
        Some(made) => {
            let uid = made["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let deed = Deed::Write(Box::new(Write {
                object,
                act: Act::Delete { uid },
                purpose: "clear away what was made for no machine",
            }));
            return Err(Next::Act(vec![deed]));
        }
        None => Act::Create(wanted),
    };
    Ok(Some(Deed::Write(Box::new(Write { object, act, purpose }))))
}

fn without_provider(object: &Value) -> Value {
    let mut spec = object["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("providerID");
    }
    spec
}

/// The spec of an infrastructure object with the patches.
pub fn infrastructure_spec(view: &View<'_>, infrastructure: &Value) -> Flow<Value> {
    let mut patched = infrastructure.clone();
    patched_by(view, &mut patched, &view.order.patches.infrastructure, "--infrastructure-patches")?;
    Ok(patched["spec"].clone())
}

/// The spec of a bootstrap config in the form that joins, without the patches and with them.
pub fn bootstrap_specs(view: &View<'_>, config: &Value) -> Flow<(Value, Value)> {
    let mut before = config.clone();
    before["spec"] = joining(view, &config["spec"]);
    let mut after = before.clone();
    patched_by(view, &mut after, &view.order.patches.bootstrap, "--bootstrap-patches")?;
    Ok((before["spec"].clone(), after["spec"].clone()))
}

fn patched_by(view: &View<'_>, object: &mut Value, patches: &[Value], what: &str) -> Flow<()> {
    let shown = Object::of(Side::Management, object);
    match patch::apply(object, patches) {
        Ok(()) => Ok(()),
        Err(why) => {
            let sentence = format!("{what} do not apply to {shown}: {why}");
            view.fail(
                Reason::PatchRefused,
                sentence,
                format!("add the parents of the field before it in {what}, or leave it out"),
            )
        }
    }
}

fn new_infrastructure(view: &View<'_>, old: &Value, name: &str) -> Flow<Value> {
    let mut copy = copied(old, name);
    if let Some(spec) = copy["spec"].as_object_mut() {
        spec.remove("providerID");
    }
    patched_by(view, &mut copy, &view.order.patches.infrastructure, "--infrastructure-patches")?;
    Ok(copy)
}

fn new_config(view: &View<'_>, old: &Value, name: &str) -> Flow<Value> {
    let mut copy = copied(old, name);
    copy["spec"] = joining(view, &old["spec"]);
    patched_by(view, &mut copy, &view.order.patches.bootstrap, "--bootstrap-patches")?;
    Ok(copy)
}

/// Whoever began the cluster joins it now: kubeadm would begin another one.
fn joining(view: &View<'_>, spec: &Value) -> Value {
    let mut spec = spec.clone();
    let first = spec["initConfiguration"]["nodeRegistration"].clone();
    if spec["joinConfiguration"].is_null() {
        spec["joinConfiguration"] = json!({});
    }
    if spec["joinConfiguration"]["controlPlane"].is_null() {
        spec["joinConfiguration"]["controlPlane"] = json!({});
    }
    if !first.is_null() {
        spec["joinConfiguration"]["nodeRegistration"] = first;
    }
    view.dialect.renew_token(&mut spec["joinConfiguration"]);
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("initConfiguration");
    }
    spec
}

fn new_machine(view: &View<'_>, old: &Machine<'_>, name: &str, base: &str) -> Value {
    let mut copy = copied(old.object, name);
    // Owners of a Machine, unlike those of what belongs to one, stay.
    copy["metadata"]["ownerReferences"] = old.object["metadata"]["ownerReferences"].clone();
    if let Some(annotations) = copy["metadata"]["annotations"].as_object_mut() {
        annotations.remove(MACHINE_FAILED);
        // That was about the Node of the other.
        annotations.remove(view.dialect.exclude_draining());
    }
    copy["metadata"]["annotations"][UPGRADE_ID] = json!(view.order.id);
    copy["metadata"]["annotations"][NAME_BASE] = json!(base);
    copy["metadata"]["annotations"][CONTROL_PLANE_DIGEST] = json!(view.order.digest());
    copy["metadata"]["annotations"][GENERATED] = json!(Generated::by(&view.order.patches).to_string());
    let spec = &mut copy["spec"];
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("providerID");
    }
    spec["version"] = json!(view.dialect.machine_version(&view.order.version));
    spec["infrastructureRef"]["name"] = json!(name);
    spec["bootstrap"]["configRef"]["name"] = json!(name);
    for reference in ["infrastructureRef", "bootstrap"] {
        let target = if reference == "bootstrap" { &mut spec["bootstrap"]["configRef"] } else { &mut spec[reference] };
        if let Some(fields) = target.as_object_mut() {
            fields.remove("uid");
            fields.remove("resourceVersion");
        }
    }
    view.dialect.clear_bootstrap_data(&mut spec["bootstrap"]);
    copy
}

/// The same object under another name, no Machine's yet.
fn copied(old: &Value, name: &str) -> Value {
    let mut copy = old.clone();
    if let Some(object) = copy.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = copy["metadata"].as_object_mut() {
        OWN.iter().for_each(|field| drop(metadata.remove(*field)));
        if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
            owners.retain(|owner| owner["kind"] != "Machine");
        }
    }
    copy["metadata"]["name"] = json!(name);
    copy
}
