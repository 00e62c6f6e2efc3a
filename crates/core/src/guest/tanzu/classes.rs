//! Whether there is what machines are to be made by: their class, and the storage class of their disks.
//!
//! Without it no machine comes, and the one that is tried first would say so only after it was begun. Where nothing of a kind is seen at
//! all, it may be that nobody may look, or that the kind is kept elsewhere: then nothing is said against it.

use super::{Held, Reason, View, text};
use crate::guest::seen::Collection;

/// The field, the kind that it names, what is kept of it, and how people list it.
const NAMED: [(&str, &str, Collection, &str); 2] = [
    ("class", "VirtualMachineClass", Collection::Classes, "virtualmachineclasses"),
    ("storageClass", "StorageClass", Collection::StorageClasses, "storageclasses"),
];

/// Refuses what no machine could be made by.
pub fn refuse(view: &View<'_>) -> Held<()> {
    for pool in ["controlPlane", "workers"] {
        let spec = &view.tkc["spec"]["topology"][pool];
        if spec["count"].as_i64().unwrap_or(0) == 0 {
            continue;
        }
        for (field, kind, collection, listed) in NAMED {
            let name = text(&spec[field]);
            let is_known = view.global.all(collection).next().is_some();
            if is_known && view.global.get(collection, name).is_none() {
                let sentence = format!("spec.topology.{pool}.{field} is {name:?}, and there is no {kind} of that name");
                let wait = view.wait(view.object(), Reason::ClassMissing, sentence);
                let remedy = format!("choose one of: kubectl get {listed}; or have {name:?} made");
                return Err(Box::new(wait.with_remedy(remedy)));
            }
        }
    }
    Ok(())
}
