//! Expressions, as the parser builds them.

use crate::value::Value;

/// An expression, and the byte of the source at which errors about it point.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub at: usize,
    /// How many expressions stand in each other at the deepest place.
    pub depth: usize,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Literal(Value),
    Name(String),
    /// `operand.field`, `operand.?field`, `has(operand.field)`
    Select {
        operand: Box<Expr>,
        field: String,
        way: Way,
    },
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List(Vec<Item>),
    Map(Vec<Entry>),
    Loop(Box<Loop>),
    /// `optMap`, `optFlatMap`: the name stands for what the optional holds.
    Unwrap {
        operand: Box<Expr>,
        name: String,
        body: Box<Expr>,
        flat: bool,
    },
}

/// What is wanted of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Value,
    Optional,
    Presence,
}

/// An element of a list; an optional one stands there only if it has a value.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub value: Expr,
    pub optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

/// A macro that goes over the elements of a list or the keys of a map.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub purpose: Purpose,
    pub range: Expr,
    /// The element or key; with a second name, the index or key.
    pub first: String,
    /// The element or value.
    pub second: Option<String>,
    /// Which elements count, where there is a choice.
    pub filter: Option<Expr>,
    /// The predicate, or what an element becomes.
    pub body: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Purpose {
    All,
    Exists,
    ExistsOne,
    /// `map`, `transformList`
    List,
    Filter,
    /// `transformMap`
    Map,
    /// `transformMapEntry`
    Entries,
    /// `sortBy`
    SortBy,
}

impl Expr {
    pub fn new(at: usize, kind: Kind) -> Self {
        let deepest = |inside: &mut dyn Iterator<Item = &Expr>| inside.map(|expr| expr.depth).max().unwrap_or_default();
        let inside = match &kind {
            Kind::Literal(_) | Kind::Name(_) => 0,
            Kind::Select { operand, .. } => operand.depth,
            Kind::Call { target, args, .. } => deepest(&mut args.iter().chain(target.as_deref())),
            Kind::List(items) => deepest(&mut items.iter().map(|item| &item.value)),
            Kind::Map(entries) => deepest(&mut entries.iter().flat_map(|entry| [&entry.key, &entry.value])),
            Kind::Loop(inner) => deepest(&mut [&inner.range, &inner.body].into_iter().chain(&inner.filter)),
            Kind::Unwrap { operand, body, .. } => operand.depth.max(body.depth),
        };
        Expr { at, depth: inside + 1, kind }
    }

    pub fn call(at: usize, function: &str, args: Vec<Expr>) -> Self {
        Expr::new(at, Kind::Call { function: function.into(), target: None, args })
    }

    /// `a.b.c` as one name, if it could be one.
    pub fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Name(name) => Some(name.clone()),
            Kind::Select { operand, field, way: Way::Value } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }
}
