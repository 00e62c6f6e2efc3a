//! Sets of fields, in the form in which objects carry them (`FieldsV1`).
//!
//! A set is a tree of steps. A leaf is a member; a node with steps below it is one only if it holds `.` as well:
//!
//! ```json
//! { "f:metadata": { "f:labels": { ".": {}, "f:app": {} } } }
//! ```
//!
//! Here `metadata.labels` and `metadata.labels.app` are members, `metadata` is not. The tree is worked on as it is, since
//! decoding it and back for each write would cost more than the write.

use serde_json::{Map, Value};

pub(super) type Tree = Map<String, Value>;

/// Says of a node with steps below it that it is a member itself.
const SELF: &str = ".";

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldSet(Tree);

impl FieldSet {
    /// Takes a set as an object carries it; none if it is not one.
    pub fn from_json(fields: Value) -> Option<Self> {
        fn is_tree(tree: &Tree) -> bool {
            tree.iter().all(|(step, below)| match below {
                Value::Object(below) if step == SELF => below.is_empty(),
                Value::Object(below) => super::step::is_step(step) && is_tree(below),
                _ => false,
            })
        }
        match fields {
            Value::Object(tree) if is_tree(&tree) => Some(FieldSet(tree)),
            _ => None,
        }
    }

    pub fn into_json(self) -> Value {
        Value::Object(self.0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the field at a path. The fields above it are not added.
    pub fn insert<S: AsRef<str>>(&mut self, path: &[S]) {
        // Nobody owns the whole object.
        let Some((last, above)) = path.split_last() else { return };
        let mut tree = &mut self.0;
        for step in above {
            let is_new = !tree.contains_key(step.as_ref());
            tree = below(tree, step.as_ref());
            if !is_new && tree.is_empty() {
                tree.insert(SELF.into(), empty());
            }
        }
        let is_new = !tree.contains_key(last.as_ref());
        let node = below(tree, last.as_ref());
        if !is_new && !node.is_empty() {
            node.insert(SELF.into(), empty());
        }
    }

    pub fn tree(&self) -> &Tree {
        &self.0
    }

    pub fn is_within(&self, other: &FieldSet) -> bool {
        is_within(&self.0, &other.0)
    }

    pub fn union(mut self, other: &FieldSet) -> FieldSet {
        add(&mut self.0, &other.0);
        self
    }

    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        FieldSet(common(&self.0, &other.0))
    }

    /// What is in this set and not in the other. A field leaves what is below it alone.
    pub fn difference(mut self, other: &FieldSet) -> FieldSet {
        take(&mut self.0, &other.0, false);
        self
    }

    /// What is in this set and neither in the other nor below a field that is.
    pub fn recursive_difference(mut self, other: &FieldSet) -> FieldSet {
        take(&mut self.0, &other.0, true);
        self
    }

    /// The paths of all members: those at one height first, then what is below them.
    pub fn paths(&self) -> Vec<Vec<String>> {
        let mut found = vec![];
        list(&self.0, &mut vec![], &mut found);
        found
    }
}

impl From<Tree> for FieldSet {
    fn from(tree: Tree) -> Self {
        FieldSet(tree)
    }
}

/// Adds a step with what is below it, if that is anything.
pub(super) fn grow(tree: &mut Tree, step: String, mut below: Tree, is_member: bool) {
    if is_member || !below.is_empty() {
        if is_member && !below.is_empty() {
            below.insert(SELF.into(), empty());
        }
        tree.insert(step, Value::Object(below));
    }
}

fn empty() -> Value {
    Value::Object(Tree::new())
}

fn below<'a>(tree: &'a mut Tree, step: &str) -> &'a mut Tree {
    crate::apiserver::object::child(tree, step)
}

pub(super) fn is_member(node: &Tree) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

/// The steps of a node with what is below each.
pub(super) fn steps(node: &Tree) -> impl Iterator<Item = (&String, &Tree)> {
    node.iter().filter(|(step, _)| *step != SELF).filter_map(|(step, below)| Some((step, below.as_object()?)))
}

pub(super) fn has_steps(node: &Tree) -> bool {
    steps(node).next().is_some()
}

/// Makes a node a member or not, whatever is below it. False if it is nothing any more.
fn set_member(node: &mut Tree, member: bool) -> bool {
    node.remove(SELF);
    if !node.is_empty() && member {
        node.insert(SELF.into(), empty());
    }
    member || !node.is_empty()
}

fn add(tree: &mut Tree, other: &Tree) {
    for (step, theirs) in steps(other) {
        match tree.get_mut(step) {
            Some(Value::Object(mine)) => {
                let member = is_member(mine) || is_member(theirs);
                add(mine, theirs);
                set_member(mine, member);
            }
            _ => {
                tree.insert(step.clone(), Value::Object(theirs.clone()));
            }
        }
    }
}

fn common(tree: &Tree, other: &Tree) -> Tree {
    let mut shared = Tree::new();
    for (step, mine) in steps(tree) {
        let Some(theirs) = other.get(step).and_then(Value::as_object) else { continue };
        let mut node = common(mine, theirs);
        if set_member(&mut node, is_member(mine) && is_member(theirs)) {
            shared.insert(step.clone(), Value::Object(node));
        }
    }
    shared
}

fn is_within(tree: &Tree, other: &Tree) -> bool {
    steps(tree).all(|(step, mine)| {
        let theirs = other.get(step).and_then(Value::as_object);
        theirs.is_some_and(|theirs| (is_member(theirs) || !is_member(mine)) && is_within(mine, theirs))
    })
}

fn take(tree: &mut Tree, other: &Tree, recursive: bool) {
    // Most often only a few fields are taken from a large set.
    for (step, theirs) in steps(other) {
        let Some(Value::Object(mine)) = tree.get_mut(step) else { continue };
        let stays = if recursive && is_member(theirs) {
            false
        } else {
            let member = is_member(mine) && !is_member(theirs);
            take(mine, theirs, recursive);
            set_member(mine, member)
        };
        if !stays {
            tree.remove(step);
        }
    }
}

fn list(tree: &Tree, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    for (step, _) in steps(tree).filter(|(_, node)| is_member(node)) {
        let mut member = path.clone();
        member.push(step.clone());
        found.push(member);
    }
    for (step, node) in steps(tree) {
        path.push(step.clone());
        list(node, path, found);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(paths: &[&str]) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            set.insert(&path.split('/').map(|name| format!("f:{name}")).collect::<Vec<_>>());
        }
        set
    }

    #[test]
    fn a_field_is_a_leaf_until_something_below_it_is_a_member_too() {
        assert_eq!(set(&["a"]).into_json(), json!({ "f:a": {} }));
        assert_eq!(set(&["a/b"]).into_json(), json!({ "f:a": { "f:b": {} } }));
        assert_eq!(set(&["a", "a/b"]).into_json(), json!({ "f:a": { ".": {}, "f:b": {} } }));
        assert_eq!(set(&["a/b", "a"]), set(&["a", "a/b"]));
        assert_eq!(set(&["a/b"]).paths(), [["f:a", "f:b"]]);
    }

    #[test]
    fn a_set_is_within_another_if_that_has_all_its_members() {
        assert!(set(&["a/b", "c"]).is_within(&set(&["a", "a/b", "c", "c/d"])));
        assert!(!set(&["a", "a/b"]).is_within(&set(&["a/b"])));
        assert!(!set(&["a/b"]).is_within(&set(&["a"])));
        assert!(set(&[]).is_within(&set(&[])));
    }

    #[test]
    fn a_union_has_the_members_of_both() {
        assert_eq!(set(&["a", "b/c"]).union(&set(&["a/d", "b"])), set(&["a", "a/d", "b", "b/c"]));
    }

    #[test]
    fn an_intersection_has_what_is_in_both() {
        assert_eq!(set(&["a", "a/b", "c"]).intersection(&set(&["a/b", "c", "d"])), set(&["a/b", "c"]));
        assert!(set(&["a"]).intersection(&set(&["a/b"])).is_empty());
    }

    #[test]
    fn a_difference_leaves_what_is_below_alone_and_a_recursive_one_does_not() {
        let all = set(&["a", "a/b", "c/d"]);
        assert_eq!(all.clone().difference(&set(&["a"])), set(&["a/b", "c/d"]));
        assert_eq!(all.clone().difference(&set(&["a/b", "c/d"])), set(&["a"]));
        assert_eq!(all.clone().recursive_difference(&set(&["a"])), set(&["c/d"]));
        assert_eq!(all.clone().recursive_difference(&set(&["c"])), set(&["a", "a/b"]));
    }

    #[test]
    fn members_are_listed_height_by_height() {
        let paths: Vec<String> = set(&["a/b", "c", "a"]).paths().iter().map(|path| path.join("/")).collect();
        assert_eq!(paths, ["f:a", "f:c", "f:a/f:b"]);
    }

    #[test]
    fn what_is_no_set_is_not_taken_for_one() {
        assert!(FieldSet::from_json(json!({ "f:a": 1 })).is_none());
        assert!(FieldSet::from_json(json!({ "a": {} })).is_none());
        assert!(FieldSet::from_json(json!({ "f:a": { ".": {} }, "k:{\"name\":\"x\"}": {}, "v:1": {} })).is_some());
    }
}
