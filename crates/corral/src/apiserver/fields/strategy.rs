//! What a strategic merge patch has to know of a kind: which lists are merged, and by what.

use super::{
    KindType,
    types::{PatchStrategy, TypeId, Types},
};

/// Where in an object a patch is being applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    types: &'a Types,
    /// None inside what the schema does not describe.
    id: Option<TypeId>,
}

/// How a list takes a patch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ListPatch<'a> {
    /// Element by element, matched by this field.
    By(&'a str),
    /// As a set of plain values.
    Set,
    /// As a whole.
    Whole,
}

impl KindType {
    /// The whole object.
    pub fn place(&self) -> Place<'_> {
        Place { types: &self.types, id: Some(self.root) }
    }
}

impl<'a> Place<'a> {
    fn strategy(self, name: &str) -> Option<&'a PatchStrategy> {
        let map = self.types.get(self.id?).map.as_ref()?;
        map.fields.get(name).map(|field| &field.patch)
    }

    /// How the list in a field takes a patch.
    pub fn list(self, name: &str) -> ListPatch<'a> {
        match self.strategy(name) {
            Some(PatchStrategy { merges: true, key: Some(key), .. }) => ListPatch::By(key),
            Some(PatchStrategy { merges: true, key: None, .. }) => ListPatch::Set,
            _ => ListPatch::Whole,
        }
    }

    /// Whether the object in a field is replaced rather than merged.
    pub fn replaces(self, name: &str) -> bool {
        self.strategy(name).is_some_and(|strategy| strategy.replaces)
    }

    pub fn field(self, name: &str) -> Place<'a> {
        let below = || self.types.get(self.id?).map.as_ref()?.field(name);
        Place { types: self.types, id: below() }
    }

    /// The elements of the list in a field.
    pub fn elements(self, name: &str) -> Place<'a> {
        let field = self.field(name);
        let below = || Some(self.types.get(field.id?).list.as_ref()?.element);
        Place { types: self.types, id: below() }
    }
}
