//! The types of values, as far as they are known before there are any.

use std::{collections::BTreeMap, fmt, sync::Arc};

#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Known only when there is a value.
    Dyn,
    /// Of what was already complained about.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Object(Arc<ObjectType>),
    Optional(Box<Type>),
    /// The type of a type.
    Type(Box<Type>),
    /// A type of Kubernetes' own, such as `kubernetes.Quantity`.
    Opaque(&'static str),
    /// A type that is still to be found: a parameter of a function, or the element of an empty list.
    Unknown(u32),
}

/// The fields of an object, by the names that expressions use for them.
#[derive(Debug, PartialEq)]
pub struct ObjectType {
    pub name: String,
    pub fields: BTreeMap<String, Type>,
}

impl Type {
    pub fn list(element: Type) -> Type {
        Type::List(Box::new(element))
    }

    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Box::new(key), Box::new(value))
    }

    pub fn optional(value: Type) -> Type {
        Type::Optional(Box::new(value))
    }

    pub fn object(name: impl Into<String>, fields: BTreeMap<String, Type>) -> Type {
        Type::Object(Arc::new(ObjectType { name: name.into(), fields }))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// The types inside this one.
    pub(crate) fn parts(&self) -> Vec<&Type> {
        match self {
            Type::List(part) | Type::Optional(part) | Type::Type(part) => vec![part],
            Type::Map(key, value) => vec![key, value],
            _ => vec![],
        }
    }

    /// This type with other types inside.
    pub(crate) fn with_parts(&self, mut change: impl FnMut(&Type) -> Type) -> Type {
        match self {
            Type::List(part) => Type::list(change(part)),
            Type::Optional(part) => Type::optional(change(part)),
            Type::Type(part) => Type::Type(Box::new(change(part))),
            Type::Map(key, value) => {
                let key = change(key);
                Type::map(key, change(value))
            }
            other => other.clone(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => formatter.write_str("dyn"),
            Type::Error => formatter.write_str("!error!"),
            Type::Null => formatter.write_str("null"),
            Type::Bool => formatter.write_str("bool"),
            Type::Int => formatter.write_str("int"),
            Type::Uint => formatter.write_str("uint"),
            Type::Double => formatter.write_str("double"),
            Type::String => formatter.write_str("string"),
            Type::Bytes => formatter.write_str("bytes"),
            Type::Timestamp => formatter.write_str("timestamp"),
            Type::Duration => formatter.write_str("duration"),
            Type::List(element) => write!(formatter, "list({element})"),
            Type::Map(key, value) => write!(formatter, "map({key}, {value})"),
            Type::Object(object) => formatter.write_str(&object.name),
            Type::Optional(value) => write!(formatter, "optional_type({value})"),
            Type::Type(of) => write!(formatter, "type({of})"),
            Type::Opaque(name) => formatter.write_str(name),
            Type::Unknown(number) => write!(formatter, "_var{number}"),
        }
    }
}
