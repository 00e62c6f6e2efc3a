//! Finding objects by their labels, and selectors by what they select, without looking at all of them.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Expression, Selector};

use super::agenda::Key;

pub type Labels = BTreeMap<String, String>;
type Label = (String, String);

/// A label that everything which a selector matches carries; none if it does not insist on one.
pub fn required_label(selector: &Selector) -> Option<Label> {
    selector.clone().into_iter().find_map(|expression| match expression {
        Expression::Equal(key, value) => Some((key, value)),
        Expression::In(key, values) if values.len() == 1 => Some((key, values.into_iter().next()?)),
        _ => None,
    })
}

/// Objects by each of their labels.
#[derive(Debug, Default)]
pub struct Labelled {
    by_label: BTreeMap<(String, String, String), BTreeSet<Key>>,
}

impl Labelled {
    pub fn insert(&mut self, object: &Key, labels: &Labels) {
        for (key, value) in labels {
            let place = (object.0.clone(), key.clone(), value.clone());
            self.by_label.entry(place).or_default().insert(object.clone());
        }
    }

    pub fn remove(&mut self, object: &Key, labels: &Labels) {
        for (key, value) in labels {
            let place = (object.0.clone(), key.clone(), value.clone());
            if let Some(objects) = self.by_label.get_mut(&place) {
                objects.remove(object);
                if objects.is_empty() {
                    self.by_label.remove(&place);
                }
            }
        }
    }

    /// Those in a namespace that carry a label.
    pub fn with(&self, namespace: &str, (key, value): Label) -> impl Iterator<Item = &Key> {
        self.by_label.get(&(namespace.to_string(), key, value)).into_iter().flatten()
    }
}

/// Things that select by labels: budgets, controllers, pods that keep others away.
#[derive(Debug)]
pub struct Selecting<T> {
    by_label: BTreeMap<(String, Option<Label>), BTreeSet<T>>,
}

impl<T> Default for Selecting<T> {
    fn default() -> Self {
        Selecting { by_label: BTreeMap::new() }
    }
}

impl<T: Ord + Clone> Selecting<T> {
    /// An empty namespace stands for all of them.
    pub fn insert(&mut self, namespace: &str, selector: &Selector, what: T) {
        self.by_label.entry((namespace.into(), required_label(selector))).or_default().insert(what);
    }

    pub fn remove(&mut self, namespace: &str, selector: &Selector, what: &T) {
        let place = (namespace.to_string(), required_label(selector));
        if let Some(found) = self.by_label.get_mut(&place) {
            found.remove(what);
            if found.is_empty() {
                self.by_label.remove(&place);
            }
        }
    }

    /// Those that may select something with these labels; whether they do is for the caller to see.
    pub fn candidates(&self, namespace: &str, labels: &Labels) -> BTreeSet<&T> {
        let mut found = BTreeSet::new();
        for namespace in [namespace, ""] {
            found.extend(self.by_label.get(&(namespace.to_string(), None)).into_iter().flatten());
            for (key, value) in labels {
                let place = (namespace.to_string(), Some((key.clone(), value.clone())));
                found.extend(self.by_label.get(&place).into_iter().flatten());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    fn key(name: &str) -> Key {
        ("ns".into(), name.into())
    }

    #[test]
    fn objects_are_found_by_any_of_their_labels_until_they_go() {
        let mut all = Labelled::default();
        let both = labels(&[("app", "shop"), ("tier", "web")]);
        all.insert(&key("a"), &both);
        all.insert(&key("b"), &labels(&[("app", "shop")]));
        let found = |all: &Labelled, key: &str, value: &str| -> Vec<String> {
            all.with("ns", (key.into(), value.into())).map(|(_, name)| name.clone()).collect()
        };

        assert_eq!(found(&all, "app", "shop"), ["a", "b"]);
        assert_eq!(found(&all, "tier", "web"), ["a"]);
        all.remove(&key("a"), &both);
        assert_eq!(found(&all, "app", "shop"), ["b"]);
        assert_eq!(found(&all, "tier", "web"), [] as [&str; 0]);
    }

    #[test]
    fn only_selectors_that_could_match_are_candidates() {
        let shop: Selector = [Expression::Equal("app".into(), "shop".into())].into_iter().collect();
        let not_web: Selector = [Expression::NotEqual("tier".into(), "web".into())].into_iter().collect();
        let mut all = Selecting::default();
        all.insert("ns", &shop, "shop");
        all.insert("ns", &not_web, "anything but web");
        all.insert("", &shop, "shop everywhere");
        all.insert("elsewhere", &shop, "shop elsewhere");

        let candidates = |labels| all.candidates("ns", &labels).into_iter().copied().collect::<Vec<_>>();
        assert_eq!(candidates(labels(&[("app", "shop")])), ["anything but web", "shop", "shop everywhere"]);
        assert_eq!(candidates(labels(&[("app", "bank")])), ["anything but web"]);
    }
}
