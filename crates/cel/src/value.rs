//! What expressions evaluate to.

use std::{cmp::Ordering, collections::BTreeMap, net::IpAddr, sync::Arc};

use jiff::Timestamp;

use crate::functions::{Cidr, Format, Quantity, Url};

#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Arc<List>),
    Map(Arc<BTreeMap<Key, Value>>),
    Timestamp(Timestamp),
    /// In nanoseconds.
    Duration(i64),
    /// A type, by its name.
    Type(Arc<str>),
    Optional(Option<Arc<Value>>),
    #[doc(hidden)]
    Quantity(Quantity),
    #[doc(hidden)]
    Ip(IpAddr),
    #[doc(hidden)]
    Cidr(Cidr),
    #[doc(hidden)]
    Url(Arc<Url>),
    #[doc(hidden)]
    Semver(Arc<semver::Version>),
    #[doc(hidden)]
    Format(&'static Format),
}

/// A list, and what the order of its elements means.
#[derive(Clone, Debug, Default)]
pub struct List {
    pub items: Vec<Value>,
    pub order: Order,
}

/// What makes two lists the same, by `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Order {
    #[default]
    Atomic,
    Set,
    /// Elements with the same values of these fields are the same element.
    Map(Vec<String>),
}

/// The key of a map. Whole numbers are the same key whatever their type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    Number(i128),
    String(Arc<str>),
}

impl Key {
    /// None for what cannot be one.
    pub fn of(value: &Value) -> Option<Key> {
        Some(match value {
            Value::Bool(truth) => Key::Bool(*truth),
            Value::Int(number) => Key::Number((*number).into()),
            Value::Uint(number) => Key::Number((*number).into()),
            Value::Double(number) if number.fract() == 0.0 => Key::Number(*number as i128),
            Value::String(text) => Key::String(text.clone()),
            _ => return None,
        })
    }

    pub fn value(&self) -> Value {
        match self {
            Key::Bool(truth) => Value::Bool(*truth),
            Key::Number(number) => match i64::try_from(*number) {
                Ok(number) => Value::Int(number),
                Err(_) => Value::Uint(u64::try_from(*number).unwrap_or(u64::MAX)),
            },
            Key::String(text) => Value::String(text.clone()),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::String(text.into())
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Value::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl Value {
    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Arc::new(List { items, order: Order::Atomic }))
    }

    pub fn map(entries: BTreeMap<Key, Value>) -> Value {
        Value::Map(Arc::new(entries))
    }

    pub fn some(value: Value) -> Value {
        Value::Optional(Some(Arc::new(value)))
    }

    pub fn none() -> Value {
        Value::Optional(None)
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Type(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Url(_) => "kubernetes.URL",
            Value::Semver(_) => "kubernetes.Semver",
            Value::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// Whether two values are equal; values of different types are not.
    pub fn equals(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bytes(left), Value::Bytes(right)) => left == right,
            (Value::Bool(left), Value::Bool(right)) => left == right,
            (Value::List(left), Value::List(right)) => left.equals(right),
            (Value::Map(left), Value::Map(right)) => {
                left.len() == right.len()
                    && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| value.equals(other)))
            }
            (Value::Type(left), Value::Type(right)) => left == right,
            (Value::Optional(left), Value::Optional(right)) => match (left, right) {
                (Some(left), Some(right)) => left.equals(right),
                (left, right) => left.is_none() && right.is_none(),
            },
            (Value::Ip(left), Value::Ip(right)) => left == right,
            (Value::Cidr(left), Value::Cidr(right)) => left == right,
            (Value::Url(left), Value::Url(right)) => left == right,
            (Value::Format(left), Value::Format(right)) => left.name == right.name,
            (left, right) => left.compare(right) == Some(Ordering::Equal),
        }
    }

    /// The order of two values, where there is one.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Bytes(left), Value::Bytes(right)) => Some(left.cmp(right)),
            (Value::Timestamp(left), Value::Timestamp(right)) => Some(left.cmp(right)),
            (Value::Duration(left), Value::Duration(right)) => Some(left.cmp(right)),
            (Value::Quantity(left), Value::Quantity(right)) => Some(left.cmp(right)),
            (Value::Semver(left), Value::Semver(right)) => Some(left.cmp_precedence(right)),
            (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
            (Value::Double(left), right) => left.partial_cmp(&(right.whole()? as f64)),
            (left, Value::Double(right)) => (left.whole()? as f64).partial_cmp(right),
            (left, right) => Some(left.whole()?.cmp(&right.whole()?)),
        }
    }

    fn whole(&self) -> Option<i128> {
        match self {
            Value::Int(number) => Some((*number).into()),
            Value::Uint(number) => Some((*number).into()),
            _ => None,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.equals(other)
    }
}

impl List {
    fn equals(&self, other: &List) -> bool {
        if self.items.len() != other.items.len() {
            return false;
        }
        match &self.order {
            Order::Atomic => self.items.iter().zip(&other.items).all(|(left, right)| left.equals(right)),
            Order::Set | Order::Map(_) => self.items.iter().all(|item| other.contains(item)),
        }
    }

    pub fn contains(&self, value: &Value) -> bool {
        self.items.iter().any(|item| item.equals(value))
    }

    /// This list and another: sets and maps take in what they do not have, or replace what they have.
    pub(crate) fn joined(&self, other: &List) -> List {
        let mut items = self.items.clone();
        let is_same = |left: &Value, right: &Value| match (&self.order, left, right) {
            (Order::Set, left, right) => left.equals(right),
            (Order::Map(keys), Value::Map(left), Value::Map(right)) => keys.iter().all(|key| {
                let key = Key::String(key.as_str().into());
                match (left.get(&key), right.get(&key)) {
                    (Some(left), Some(right)) => left.equals(right),
                    (left, right) => left.is_none() && right.is_none(),
                }
            }),
            _ => false,
        };
        for item in &other.items {
            match items.iter().position(|known| is_same(known, item)) {
                Some(place) => items[place] = item.clone(),
                None => items.push(item.clone()),
            }
        }
        List { items, order: self.order.clone() }
    }
}
