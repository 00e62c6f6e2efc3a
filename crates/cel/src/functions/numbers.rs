//! Arithmetic, comparison, and conversion between basic types.

use std::cmp::Ordering;

use super::time;
use crate::{
    eval::{EvalError, Evaluated},
    value::Value,
};

pub(super) fn call(function: &str, _: bool, args: &[Value]) -> Option<Evaluated> {
    Some(match (function, args) {
        ("_<_", [left, right]) => compare(left, right, Ordering::is_lt),
        ("_<=_", [left, right]) => compare(left, right, Ordering::is_le),
        ("_>_", [left, right]) => compare(left, right, Ordering::is_gt),
        ("_>=_", [left, right]) => compare(left, right, Ordering::is_ge),
        ("-_", [Value::Int(number)]) => whole(number.checked_neg()),
        ("-_", [Value::Double(number)]) => Ok(Value::Double(-number)),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [left, right]) => return arithmetic(function, left, right),
        ("int", [value]) => to_int(value),
        ("uint", [value]) => to_uint(value),
        ("double", [value]) => to_double(value),
        ("bool", [value]) => to_bool(value),
        _ => return None,
    })
}

fn compare(left: &Value, right: &Value, holds: fn(Ordering) -> bool) -> Evaluated {
    match left.compare(right) {
        Some(order) => Ok(Value::Bool(holds(order))),
        // Not a number compares with nothing.
        None if matches!((left, right), (Value::Double(_), Value::Double(_))) => Ok(Value::Bool(false)),
        None => Err(EvalError::NoSuchOverload),
    }
}

fn whole(number: Option<i64>) -> Evaluated {
    number.map(Value::Int).ok_or(EvalError::Overflow)
}

fn natural(number: Option<u64>) -> Evaluated {
    number.map(Value::Uint).ok_or(EvalError::UnsignedOverflow)
}

fn arithmetic(operator: &str, left: &Value, right: &Value) -> Option<Evaluated> {
    Some(match (operator, left, right) {
        ("_/_", Value::Int(_), Value::Int(0)) | ("_/_", Value::Uint(_), Value::Uint(0)) => {
            Err(EvalError::DivisionByZero)
        }
        ("_%_", Value::Int(_), Value::Int(0)) | ("_%_", Value::Uint(_), Value::Uint(0)) => {
            Err(EvalError::ModulusByZero)
        }
        ("_+_", Value::Int(left), Value::Int(right)) => whole(left.checked_add(*right)),
        ("_-_", Value::Int(left), Value::Int(right)) => whole(left.checked_sub(*right)),
        ("_*_", Value::Int(left), Value::Int(right)) => whole(left.checked_mul(*right)),
        ("_/_", Value::Int(left), Value::Int(right)) => whole(left.checked_div(*right)),
        ("_%_", Value::Int(left), Value::Int(right)) => whole(left.checked_rem(*right)),
        ("_+_", Value::Uint(left), Value::Uint(right)) => natural(left.checked_add(*right)),
        ("_-_", Value::Uint(left), Value::Uint(right)) => natural(left.checked_sub(*right)),
        ("_*_", Value::Uint(left), Value::Uint(right)) => natural(left.checked_mul(*right)),
        ("_/_", Value::Uint(left), Value::Uint(right)) => natural(left.checked_div(*right)),
        ("_%_", Value::Uint(left), Value::Uint(right)) => natural(left.checked_rem(*right)),
        ("_+_", Value::Double(left), Value::Double(right)) => Ok(Value::Double(left + right)),
        ("_-_", Value::Double(left), Value::Double(right)) => Ok(Value::Double(left - right)),
        ("_*_", Value::Double(left), Value::Double(right)) => Ok(Value::Double(left * right)),
        ("_/_", Value::Double(left), Value::Double(right)) => Ok(Value::Double(left / right)),
        _ => return None,
    })
}

fn to_int(value: &Value) -> Evaluated {
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(number) => whole(i64::try_from(*number).ok()),
        // The limits themselves cannot be told from what lies just beyond them.
        Value::Double(number) if *number > -9_223_372_036_854_775_808.0 && *number < 9_223_372_036_854_775_808.0 => {
            Ok(Value::Int(*number as i64))
        }
        Value::Double(_) => Err(EvalError::Overflow),
        Value::String(text) => text.parse().map(Value::Int).map_err(|_| unparsable("strconv.ParseInt", text)),
        Value::Timestamp(at) => Ok(Value::Int(at.as_second())),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        other => no_conversion(other, "int"),
    }
}

fn to_uint(value: &Value) -> Evaluated {
    match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(number) => natural(u64::try_from(*number).ok()),
        Value::Double(number) if *number >= 0.0 && *number < 18_446_744_073_709_551_616.0 => {
            Ok(Value::Uint(*number as u64))
        }
        Value::Double(_) => Err(EvalError::UnsignedOverflow),
        Value::String(text) => text.parse().map(Value::Uint).map_err(|_| unparsable("strconv.ParseUint", text)),
        other => no_conversion(other, "uint"),
    }
}

fn to_double(value: &Value) -> Evaluated {
    match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => text.parse().map(Value::Double).map_err(|_| unparsable("strconv.ParseFloat", text)),
        other => no_conversion(other, "double"),
    }
}

fn to_bool(value: &Value) -> Evaluated {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            text => Err(unparsable("strconv.ParseBool", text)),
        },
        other => no_conversion(other, "bool"),
    }
}

fn unparsable(how: &str, text: &str) -> EvalError {
    EvalError::Other(format!("{how}: parsing {text:?}: invalid syntax"))
}

fn no_conversion(value: &Value, to: &str) -> Evaluated {
    Err(EvalError::Other(format!("type conversion error from '{}' to '{to}'", value.type_name())))
}

impl Value {
    /// A value as `string()` gives it; none for what has no such form.
    pub(crate) fn to_text(&self) -> Option<String> {
        Some(match self {
            Value::Bool(truth) => truth.to_string(),
            Value::Int(number) => number.to_string(),
            Value::Uint(number) => number.to_string(),
            Value::Double(number) => super::strings::number(*number),
            Value::String(text) => text.to_string(),
            Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok()?,
            Value::Timestamp(at) => at.to_string(),
            Value::Duration(nanos) => time::shown(*nanos),
            Value::Ip(address) => address.to_string(),
            Value::Cidr(network) => network.to_string(),
            Value::Type(name) => name.to_string(),
            _ => return None,
        })
    }
}
