//! What could not be read although the guest has answered: the add-ons that need it are left alone, and the others go on.

use std::collections::BTreeSet;

use drover_api::tanzu::tanzu_kubernetes_cluster::addons as places;
use serde_json::Value;

use super::course::{Observed, placed, remedy};
use super::{Order, corefile, inventory};
use crate::guest::wait::{Object, Side};

/// What a guest was asked for in vain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unread {
    /// Which kinds there are of a version.
    Version(String),
    Object(Object),
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unread::Version(version) => write!(f, "discover {version}"),
            Unread::Object(object) => write!(f, "read {object}"),
        }
    }
}

impl Unread {
    /// Notes that the guest has answered with a code in place of it; in words what that means for all add-ons, where all need it.
    pub fn note(self, order: &Order, observed: &mut Observed, code: u16, why: &str) -> Result<(), String> {
        let said = format!("cannot {self}: {why}; {}", remedy(order, Some(code)));
        let inventory = inventory::object();
        // Whoever does not know what was applied applies nothing, and says of nothing that it needs not be applied.
        if self == Unread::Version(inventory.api_version.clone()) || self == Unread::Object(inventory) {
            return Err(said);
        }
        let concerned = self.concerned(order, observed);
        observed.failed.extend(concerned.into_iter().map(|addon| (addon, said.clone())));
        observed.unread.insert(self);
        Ok(())
    }

    /// The ids of the add-ons that need it: what they contain, or contained before.
    fn concerned(&self, order: &Order, observed: &Observed) -> BTreeSet<String> {
        let is_it = |manifest: &Value| match self {
            Unread::Version(version) => manifest["apiVersion"] == **version,
            Unread::Object(object) => {
                placed(observed, Object::of(Side::Guest, manifest)).is_ok_and(|one| one == *object)
            }
        };
        let reads_it = |place: &str| place == places::DNS && *self == Unread::Object(corefile::object());
        let now = order.addons.iter().filter(|addon| reads_it(&addon.place) || addon.manifests().iter().any(is_it));
        let before = order.before.iter().filter(|before| is_it(&before.manifest));
        now.map(|addon| addon.id.clone()).chain(before.map(|before| before.addon.clone())).collect()
    }
}
