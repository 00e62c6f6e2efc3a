//! Which add-ons a cluster has, and what the image of its distribution brings for each.

use drover_api::tanzu::tanzu_kubernetes_cluster::addons as places;
use drover_api::vm_operator::virtual_machine_image::addons as names;
use drover_api::vm_operator::virtual_machine_image::annotations::ADDON_PREFIX;
use serde_json::{Value, json};

use super::super::distribution::Distribution;
use super::super::{View, creation, text};
use super::{Addon, Source, manifest, psp, storage};
use crate::guest::seen::Collection;
use crate::guest::wait::{Object, Side};

const SYSTEM: &str = "kube-system";
/// Without these no machine becomes a Node.
pub const NEEDED: [&str; 3] = [places::CNI, places::CSI, places::CLOUD_PROVIDER];

/// What helps where an image is not as it should be.
const AGAIN: &str = "synchronise the content library again, or ask for another version";

/// All of them: those of `status.addons`, and whatever else the image brings.
pub fn all(view: &View<'_>, distribution: &Distribution, image: &Value) -> Vec<Addon> {
    let network = network(view);
    let mut all = kubeadm(distribution);
    for (place, name) in [
        (places::CNI, network),
        (places::CSI, names::STORAGE),
        (places::CLOUD_PROVIDER, names::CLOUD_PROVIDER),
        (places::PSP, names::PSP),
        (places::AUTHSVC, names::AUTHSVC),
    ] {
        all.push(match began_with_authsvc(view) && place == places::AUTHSVC {
            true => Addon {
                place: place.to_owned(),
                id: name.to_owned(),
                name: name.to_owned(),
                version: String::new(),
                source: Source::None("the machines of the control plane apply it themselves".to_owned()),
            },
            false => brought(distribution, image, place, name),
        });
    }
    for addon in all.iter_mut().filter(|addon| matches!(addon.source, Source::None(_))) {
        if addon.place == places::PSP {
            addon.source = psp::policies(distribution);
        } else if let Some(why) = lacks(view, image, &addon.place, &addon.id).filter(|_| creation::is_due(view)) {
            addon.source = Source::Broken(why);
        }
    }
    let known = [names::STORAGE, names::CLOUD_PROVIDER, names::PSP, names::AUTHSVC];
    let annotations = image["metadata"]["annotations"].as_object().into_iter().flatten();
    let others = annotations.filter_map(|(key, _)| key.strip_prefix(ADDON_PREFIX));
    let others = others.filter(|name| !known.contains(name) && !names::NETWORKS.contains(name) && *name != network);
    all.extend(others.map(|name| brought(distribution, image, name, name)));
    all.extend(storage::classes(view, distribution));
    all
}

/// What a new cluster needs and the image does not bring: the object to blame, why, and what helps.
pub fn lacking(view: &View<'_>, image: &Value) -> Option<(Object, String, &'static str)> {
    let needed =
        [(places::CNI, network(view)), (places::CSI, names::STORAGE), (places::CLOUD_PROVIDER, names::CLOUD_PROVIDER)];
    let why = needed.into_iter().find_map(|(place, id)| lacks(view, image, place, id))?;
    Some((Object::of(Side::Management, image), why, AGAIN))
}

/// Why no machine would become a Node of a cluster that is made of this image.
fn lacks(view: &View<'_>, image: &Value, place: &str, id: &str) -> Option<String> {
    let key = format!("{ADDON_PREFIX}{id}");
    let annotations = &image["metadata"]["annotations"];
    if !NEEDED.contains(&place) || annotations[&key].is_string() {
        return None;
    }
    let object = Object::of(Side::Management, image);
    let is_chosen = place == places::CNI && !text(&view.tkc["spec"]["settings"]["network"]["cni"]["name"]).is_empty();
    let others = names::NETWORKS.iter().filter(|name| annotations[format!("{ADDON_PREFIX}{name}")].is_string());
    let others: Vec<&str> = others.copied().collect();
    let chosen = match is_chosen && !others.is_empty() {
        true => format!("; spec.settings.network.cni.name may be {}", others.join(" or ")),
        false => String::new(),
    };
    Some(format!("{object} has no annotation {key}: without {place} no machine becomes a Node{chosen}"))
}

/// What an add-on is called before anything is known of it.
pub fn named(view: &View<'_>, place: &str) -> String {
    let name = match place {
        places::DNS => names::DNS,
        places::PROXY => names::PROXY,
        places::CNI => network(view),
        places::CSI => names::STORAGE,
        places::CLOUD_PROVIDER => names::CLOUD_PROVIDER,
        places::PSP => names::PSP,
        other => other,
    };
    name.to_owned()
}

/// The network that is chosen.
pub fn network<'a>(view: &View<'a>) -> &'a str {
    match text(&view.tkc["spec"]["settings"]["network"]["cni"]["name"]) {
        "" => names::CALICO,
        chosen => chosen,
    }
}

/// In early clusters a command after kubeadm applied it; it is not taken over.
pub fn began_with_authsvc(view: &View<'_>) -> bool {
    let configs = view.machines(true).filter_map(|machine| {
        view.own.get(Collection::Configs, text(&machine["spec"]["bootstrap"]["configRef"]["name"]))
    });
    let mut commands =
        configs.flat_map(|config| config["spec"]["postKubeadmCommands"].as_array().into_iter().flatten());
    commands.any(|command| text(command).contains(names::AUTHSVC))
}

fn brought(distribution: &Distribution, image: &Value, place: &str, id: &str) -> Addon {
    let object = Object::of(Side::Management, image);
    let key = format!("{ADDON_PREFIX}{id}");
    let mut addon = Addon {
        place: place.to_owned(),
        id: id.to_owned(),
        name: id.to_owned(),
        version: distribution.version.clone(),
        source: Source::None(format!("{object} has no annotation {key}")),
    };
    let Some(said) = image["metadata"]["annotations"][&key].as_str() else { return addon };
    match manifest::read(said) {
        Ok(brought) => {
            addon.name = brought.name.unwrap_or(addon.name);
            addon.version = brought.version.unwrap_or(addon.version);
            let label = distribution.label();
            let shaped = brought.objects.into_iter().map(|object| manifest::shaped(object, id, &label));
            addon.source = Source::Objects(shaped.collect());
        }
        Err(flaw) => {
            addon.source = Source::Broken(format!("{object}: annotation {key} {flaw}; {AGAIN}"));
        }
    }
    addon
}

/// What kubeadm has made: only the image changes, to that which the distribution brings.
fn kubeadm(distribution: &Distribution) -> Vec<Addon> {
    let changed = |place: &str, name: &str, kind: &str, object: &str, version: &str, image: String| {
        let change = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": object, "namespace": SYSTEM },
            "spec": { "template": { "spec": { "containers": [{ "name": object, "image": image }] } } },
        });
        Addon {
            place: place.to_owned(),
            id: object.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            source: Source::Change(manifest::shaped(change, object, &distribution.label())),
        }
    };
    let (dns, proxy) = (&distribution.parts.coredns, &distribution.parts.kubernetes);
    // In the tag of an image there is no `+`.
    let image =
        |repository: &str, name: &str, version: &str| format!("{repository}/{name}:{}", version.replace('+', "_"));
    let dns_image = image(&dns.image_repository, "coredns", &dns.version);
    let proxy_image = image(&proxy.image_repository, "kube-proxy", &proxy.version);
    vec![
        changed(places::DNS, names::DNS, "Deployment", "coredns", &dns.version, dns_image),
        changed(places::PROXY, names::PROXY, "DaemonSet", "kube-proxy", &proxy.version, proxy_image),
    ]
}
