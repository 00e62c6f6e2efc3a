//! What others have applied before, and a newer distribution no longer contains.
//!
//! The images of machines that are still there say what their distributions brought. An object of theirs that is in the guest as its
//! manifest says, and that nobody has marked, was applied from it: it is remembered with its uid, and goes like any other that is no longer
//! contained. Where the add-on is remembered already, Drover has applied it itself, and remembers that better.

use std::collections::BTreeSet;

use drover_api::marks::ADDON;
use drover_api::vm_operator::virtual_machine_image::annotations::ADDON_PREFIX;
use serde_json::Value;

use super::super::distribution::{self, Distribution};
use super::super::{View, text};
use super::course::{Observed, placed};
use super::inventory::{Entry, Inventory};
use super::{Addon, Before, Order, Source, manifest};
use crate::guest::seen::Collection;
use crate::guest::wait::{Object, Side};

/// The names of the images that machines of the cluster were made of.
fn images<'a>(view: &View<'a>) -> BTreeSet<&'a str> {
    let infrastructure = view.machines(true).chain(view.machines(false)).filter_map(|machine| {
        let reference = &machine["spec"]["infrastructureRef"];
        let key = format!("{}/{}", text(&reference["kind"]), text(&reference["name"]));
        view.own.get(Collection::Infrastructure, &key)
    });
    infrastructure.map(|one| text(&one["spec"]["imageName"])).collect()
}

/// What the images of other machines of the cluster bring of these add-ons: what these do not contain, and what they contain in another form.
pub fn before(view: &View<'_>, distribution: &Distribution, addons: &[Addon]) -> (Vec<Before>, Vec<Value>) {
    let (mut before, mut earlier) = (Vec::new(), Vec::new());
    for name in images(view).into_iter().filter(|name| *name != distribution.image) {
        let Some(image) = view.global.get(Collection::Images, name) else { continue };
        let Some(version) = distribution::version_of(image) else { continue };
        for addon in addons {
            let Source::Objects(contained) = &addon.source else { continue };
            let said = image["metadata"]["annotations"][format!("{ADDON_PREFIX}{}", addon.id)].as_str();
            let Some(Ok(brought)) = said.map(manifest::read) else { continue };
            let is_contained = |one: &Value| contained.iter().any(|known| manifest::is_same(known, one));
            let (kept, left): (Vec<Value>, Vec<Value>) = brought.objects.into_iter().partition(is_contained);
            earlier.extend(kept);
            before.extend(left.into_iter().map(|manifest| Before {
                addon: addon.id.clone(),
                distribution: version.to_owned(),
                manifest,
            }));
        }
    }
    (before, earlier)
}

/// The names of the add-ons that they bring, whether or not those can be read.
pub fn brought_before(view: &View<'_>, distribution: &Distribution) -> BTreeSet<String> {
    let images = images(view).into_iter().filter(|name| *name != distribution.image);
    let images = images.filter_map(|name| view.global.get(Collection::Images, name));
    let names = |image: &Value| {
        let annotations = image["metadata"]["annotations"].as_object().into_iter().flatten();
        annotations.filter_map(|(key, _)| key.strip_prefix(ADDON_PREFIX).map(str::to_owned)).collect::<Vec<_>>()
    };
    images.flat_map(names).collect()
}

/// Those that may have to be remembered: of add-ons of which nothing is.
pub fn unknown<'a>(order: &'a Order, remembered: &'a Inventory) -> impl Iterator<Item = &'a Before> {
    order.before.iter().filter(|before| !remembered.contains_key(&before.addon))
}

/// What was applied by others, as it is remembered.
pub fn entries(order: &Order, observed: &Observed, remembered: &Inventory) -> Vec<(String, Entry)> {
    let found = unknown(order, remembered).filter_map(|before| {
        let object = placed(observed, Object::of(Side::Guest, &before.manifest)).ok()?;
        let live = observed.objects.get(&object)?.as_ref()?;
        let label = before.distribution.replace('+', "_");
        let applied = manifest::rolled_with_nodes(before.manifest.clone(), &label);
        let is_as_brought = manifest::holds(live, &before.manifest) || manifest::holds(live, &applied);
        let is_it = is_as_brought && live["metadata"]["labels"][ADDON].is_null();
        let entry =
            Entry { uid: text(&live["metadata"]["uid"]).to_owned(), ..Entry::of(&object, &before.distribution) };
        is_it.then(|| (before.addon.clone(), entry))
    });
    found.collect()
}
