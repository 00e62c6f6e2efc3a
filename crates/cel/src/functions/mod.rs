//! What functions and operators do with values.

mod formats;
mod lists;
mod net;
mod numbers;
mod quantity;
mod strings;
mod time;
mod versions;

use std::sync::Arc;

pub use self::time::parse_duration;
pub(crate) use self::{
    formats::{FORMATS, Format},
    net::{Cidr, Url},
    quantity::Quantity,
    strings::shown,
};
use crate::{
    eval::{EvalError, Evaluated},
    value::{Key, Value},
};

/// Calls a function; a method has the value that it is called on as its first argument.
pub(crate) fn call(function: &str, is_method: bool, args: &[Value]) -> Evaluated {
    if let Some(result) = operator(function, args) {
        return result;
    }
    let libraries = [numbers::call, strings::call, lists::call, time::call, net::call, quantity::call, versions::call];
    for library in libraries {
        if let Some(result) = library(function, is_method, args) {
            return result;
        }
    }
    formats::call(function, args).unwrap_or(Err(EvalError::NoSuchOverload))
}

fn operator(function: &str, args: &[Value]) -> Option<Evaluated> {
    Some(match (function, args) {
        ("_==_", [left, right]) => Ok(Value::Bool(left.equals(right))),
        ("_!=_", [left, right]) => Ok(Value::Bool(!left.equals(right))),
        ("!_", [Value::Bool(truth)]) => Ok(Value::Bool(!truth)),
        ("@in", [value, Value::List(list)]) => Ok(Value::Bool(list.contains(value))),
        ("@in", [value, Value::Map(map)]) => Ok(Value::Bool(Key::of(value).is_some_and(|key| map.contains_key(&key)))),
        ("_[_]", [operand, index]) => indexed(operand, index),
        ("_[?_]", [operand, index]) => match operand {
            Value::Optional(None) => Ok(Value::none()),
            Value::Optional(Some(inside)) => Ok(optional(indexed(inside, index))),
            operand => Ok(optional(indexed(operand, index))),
        },
        ("type", [value]) => Ok(Value::Type(value.type_name().into())),
        ("dyn", [value]) => Ok(value.clone()),
        ("optional.of", [value]) => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(if is_zero(value) { Value::none() } else { Value::some(value.clone()) })
        }
        ("optional.none", []) => Ok(Value::none()),
        ("value", [Value::Optional(value)]) => match value {
            Some(value) => Ok((**value).clone()),
            None => Err(EvalError::EmptyOptional),
        },
        ("hasValue", [Value::Optional(value)]) => Ok(Value::Bool(value.is_some())),
        _ => return None,
    })
}

fn optional(found: Evaluated) -> Value {
    Value::Optional(found.ok().map(Arc::new))
}

fn indexed(operand: &Value, index: &Value) -> Evaluated {
    match operand {
        Value::List(list) => {
            let place = match index {
                Value::Int(place) => *place,
                Value::Uint(place) => i64::try_from(*place).unwrap_or(i64::MAX),
                Value::Double(place) if place.fract() == 0.0 => *place as i64,
                _ => return Err(EvalError::NoSuchOverload),
            };
            let found = usize::try_from(place).ok().and_then(|place| list.items.get(place));
            found.cloned().ok_or(EvalError::IndexOutOfBounds(place))
        }
        Value::Map(map) => {
            let found = Key::of(index).and_then(|key| map.get(&key));
            found.cloned().ok_or_else(|| EvalError::NoSuchKey(shown(index)))
        }
        Value::Optional(None) => Ok(Value::none()),
        Value::Optional(Some(inside)) => Ok(optional(indexed(inside, index))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Optional(None) => true,
        Value::Bool(truth) => !truth,
        Value::Int(number) => *number == 0,
        Value::Uint(number) => *number == 0,
        Value::Double(number) => *number == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.items.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Duration(nanos) => *nanos == 0,
        _ => false,
    }
}
