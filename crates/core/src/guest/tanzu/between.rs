//! The order between clusters: one begins when those are done that it names in `drover.dev/after`.

use drover_api::marks::AFTER;
use serde_json::Value;

use super::{Reason, View, Wait, text};
use crate::after::{self, Name};

/// How a cluster stands that another one comes after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is as it is asked for.
    Done,
    OnItsWay,
    /// A person has to do something about it.
    Halted,
    Missing,
    /// It comes after the other, over however many.
    Circle,
}

/// A cluster that comes first, as `NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Predecessor {
    pub name: String,
    pub standing: Standing,
}

/// Each cluster that this one comes after.
pub fn named(tkc: &Value) -> Vec<Name> {
    let metadata = &tkc["metadata"];
    after::named(text(&metadata["namespace"]), text(&metadata["annotations"][AFTER]))
}

/// Those that `tkc` comes after. `find` is how a cluster is found, `standing` how one stands by what there is of it.
pub fn predecessors<'a>(
    tkc: &Value,
    find: impl Fn(&Name) -> Option<&'a Value>,
    standing: impl Fn(&Name) -> Standing,
) -> Vec<Predecessor> {
    let metadata = &tkc["metadata"];
    let own = (text(&metadata["namespace"]).to_owned(), text(&metadata["name"]).to_owned());
    let all = named(tkc).into_iter().map(|key| {
        let standing = match find(&key) {
            None => Standing::Missing,
            Some(_) if after::leads_to(&key, &own, |key| find(key).map(named).unwrap_or_default()) => Standing::Circle,
            Some(_) => standing(&key),
        };
        Predecessor { name: format!("{}/{}", key.0, key.1), standing }
    });
    all.collect()
}

/// What this cluster waits for before it begins.
pub(super) fn wait(view: &View<'_>) -> Option<Wait> {
    let first = view.after.iter().find(|one| matches!(one.standing, Standing::Missing | Standing::Circle));
    let first = first.or_else(|| view.after.iter().find(|one| one.standing != Standing::Done))?;
    let name = &first.name;
    let wait = |reason: Reason, sentence: String| Some(view.wait(view.object(), reason, sentence));
    match first.standing {
        Standing::Done => None,
        Standing::OnItsWay => {
            wait(Reason::PredecessorFirst, format!("TanzuKubernetesCluster {name} has to be as it is asked for first"))
        }
        Standing::Halted => {
            let sentence = format!("TanzuKubernetesCluster {name} comes first, and waits for a person");
            let remedy = format!("drover why tkc/{name}; or take {AFTER} away");
            wait(Reason::PredecessorFirst, sentence).map(|wait| wait.with_remedy(remedy))
        }
        Standing::Missing => {
            let sentence = format!("{AFTER} names TanzuKubernetesCluster {name}, which is not there");
            wait(Reason::OrderRefused, sentence).map(|wait| wait.with_remedy(format!("mend or remove {AFTER}")))
        }
        Standing::Circle => {
            let sentence = format!("TanzuKubernetesCluster {name} comes after this one, and this one after it");
            wait(Reason::OrderRefused, sentence)
                .map(|wait| wait.with_remedy(format!("take {AFTER} out of one of them")))
        }
    }
}
