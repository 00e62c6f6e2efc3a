//! Add-ons come first: new machines bring the images of new add-ons only.
//!
//! Whoever applies add-ons says so in `status.addons`; what stands there is waited for.

use drover_api::tanzu::tanzu_kubernetes_cluster::addon_states::{APPLIED, UNMANAGED};
use drover_api::vm_operator::virtual_machine_image::annotations::ADDON_PREFIX;
use serde_json::Value;

use super::distribution::Distribution;
use super::{Reason, View, Wait, text};
use crate::guest::seen::Collection;

/// What is waited for; none if every add-on that is kept is applied in the version of the distribution.
pub fn gate(view: &View<'_>, distribution: &Distribution) -> Option<Wait> {
    let image = view.global.get(Collection::Images, &distribution.image)?;
    let all = view.tkc["status"]["addons"].as_object().into_iter().flatten();
    let held: Vec<String> = all.filter_map(|(kind, addon)| why_not(image, distribution, kind, addon)).collect();
    if held.is_empty() {
        return None;
    }
    let wait = view.wait(view.object(), Reason::AddonsNotApplied, held.join("; "));
    Some(wait.with_remedy("look at status.addons of the cluster; the control plane follows by itself"))
}

fn why_not(image: &Value, distribution: &Distribution, kind: &str, addon: &Value) -> Option<String> {
    let (name, state, version) = (text(&addon["name"]), text(&addon["status"]), text(&addon["version"]));
    let name = if name.is_empty() { kind } else { name };
    if state == UNMANAGED {
        return None;
    }
    if state != APPLIED {
        let said = text(&addon["lastErrorMessage"]);
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        return Some(format!("add-on {name} is {}{said}", if state.is_empty() { "unknown" } else { state }));
    }
    let wanted = wanted(image, distribution, kind, name);
    (version != wanted).then(|| format!("add-on {name} is applied in {version}, and has to be in {wanted}"))
}

/// The version in the annotation of the add-on, else that of the distribution; kubeadm's own have theirs.
fn wanted(image: &Value, distribution: &Distribution, kind: &str, name: &str) -> String {
    match kind {
        "dns" => return distribution.parts.coredns.version.clone(),
        "proxy" => return distribution.parts.kubernetes.version.clone(),
        _ => {}
    }
    let said = image["metadata"]["annotations"][format!("{ADDON_PREFIX}{name}")].as_str();
    let said: Option<Value> = said.and_then(|said| serde_json::from_str(said).ok());
    let version = said.and_then(|said| said["version"].as_str().map(str::to_owned));
    version.filter(|version| !version.is_empty()).unwrap_or_else(|| distribution.version.clone())
}
