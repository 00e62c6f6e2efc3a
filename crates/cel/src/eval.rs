//! What an expression comes to.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use crate::{
    Bindings,
    expr::{Expr, Kind, Loop, Purpose, Way},
    functions,
    value::{Key, Value},
};

/// How many steps an evaluation may take.
const STEP_LIMIT: u64 = 1_000_000;

/// Why an expression came to nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvalError {
    #[error("no such key: {0}")]
    NoSuchKey(String),
    #[error("index out of bounds: {0}")]
    IndexOutOfBounds(i64),
    #[error("division by zero")]
    DivisionByZero,
    #[error("modulus by zero")]
    ModulusByZero,
    #[error("integer overflow")]
    Overflow,
    #[error("unsigned integer overflow")]
    UnsignedOverflow,
    #[error("no such overload")]
    NoSuchOverload,
    #[error("no such attribute(s): {0}")]
    Unbound(String),
    #[error("operation cancelled: actual cost limit exceeded")]
    TooExpensive,
    #[error("optional.none() dereference")]
    EmptyOptional,
    #[error("{0}")]
    Other(String),
}

pub(crate) type Evaluated = Result<Value, EvalError>;

pub(crate) fn evaluate(expr: &Expr, bindings: &Bindings) -> Evaluated {
    Scope { bindings, locals: vec![], steps: 0 }.eval(expr)
}

struct Scope<'a> {
    bindings: &'a Bindings,
    locals: Vec<(String, Value)>,
    steps: u64,
}

impl Scope<'_> {
    fn eval(&mut self, expr: &Expr) -> Evaluated {
        self.pay(1)?;
        match &expr.kind {
            Kind::Literal(value) => Ok(value.clone()),
            Kind::Name(name) => self.lookup(name),
            Kind::Select { operand, field, way } => {
                let operand = self.eval(operand)?;
                select(&operand, field, *way)
            }
            Kind::Call { function, target, args } => self.call(function, target.as_deref(), args),
            Kind::List(items) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    match (item.optional, self.eval(&item.value)?) {
                        (true, Value::Optional(value)) => values.extend(value.map(|value| (*value).clone())),
                        (_, value) => values.push(value),
                    }
                }
                Ok(Value::list(values))
            }
            Kind::Map(entries) => {
                let mut map = BTreeMap::new();
                for entry in entries {
                    let key = Key::of(&self.eval(&entry.key)?).ok_or(EvalError::NoSuchOverload)?;
                    let value = match (entry.optional, self.eval(&entry.value)?) {
                        (true, Value::Optional(Some(value))) => (*value).clone(),
                        (true, Value::Optional(None)) => continue,
                        (_, value) => value,
                    };
                    if map.insert(key.clone(), value).is_some() {
                        let key = functions::shown(&key.value());
                        return Err(EvalError::Other(format!("Failed with repeated key: {key}")));
                    }
                }
                Ok(Value::map(map))
            }
            Kind::Loop(inner) => self.run(inner),
            Kind::Unwrap { operand, name, body, flat } => match self.eval(operand)? {
                Value::Optional(None) => Ok(Value::none()),
                Value::Optional(Some(value)) => {
                    self.locals.push((name.clone(), (*value).clone()));
                    let result = self.eval(body);
                    self.locals.pop();
                    result.map(|result| if *flat { result } else { Value::some(result) })
                }
                _ => Err(EvalError::NoSuchOverload),
            },
        }
    }

    fn pay(&mut self, steps: u64) -> Result<(), EvalError> {
        self.steps += steps;
        if self.steps > STEP_LIMIT { Err(EvalError::TooExpensive) } else { Ok(()) }
    }

    fn lookup(&self, name: &str) -> Evaluated {
        if let Some((_, value)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return Ok(value.clone());
        }
        if let Some(value) = self.bindings.values.get(name) {
            return value.clone();
        }
        match crate::declarations::type_name(name) {
            Some(_) => Ok(Value::Type(name.into())),
            None => Err(EvalError::Unbound(name.into())),
        }
    }

    fn call(&mut self, function: &str, target: Option<&Expr>, args: &[Expr]) -> Evaluated {
        match (function, args) {
            ("_&&_", [left, right]) => return self.junction(left, right, false),
            ("_||_", [left, right]) => return self.junction(left, right, true),
            ("_?_:_", [condition, yes, no]) => {
                return match self.eval(condition)? {
                    Value::Bool(true) => self.eval(yes),
                    Value::Bool(false) => self.eval(no),
                    _ => Err(EvalError::NoSuchOverload),
                };
            }
            // Only evaluated where it is needed.
            ("or" | "orValue", [other]) if target.is_some() => {
                if let Some(target) = target {
                    return match (self.eval(target)?, function) {
                        (value @ Value::Optional(Some(_)), "or") => Ok(value),
                        (Value::Optional(Some(value)), _) => Ok((*value).clone()),
                        (Value::Optional(None), _) => self.eval(other),
                        _ => Err(EvalError::NoSuchOverload),
                    };
                }
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            values.push(self.eval(arg)?);
        }
        self.pay(values.iter().map(cost).sum())?;
        functions::call(function, target.is_some(), &values)
    }

    /// `&&` and `||`: one side can decide alone, even if the other has failed.
    fn junction(&mut self, left: &Expr, right: &Expr, decides: bool) -> Evaluated {
        let left = self.eval(left);
        if matches!(left, Ok(Value::Bool(truth)) if truth == decides) {
            return left;
        }
        let right = self.eval(right);
        match (left, right) {
            (_, Ok(Value::Bool(truth))) if truth == decides => Ok(Value::Bool(decides)),
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decides)),
            (Err(error), _) | (Ok(Value::Bool(_)), Err(error)) => Err(error),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn run(&mut self, inner: &Loop) -> Evaluated {
        let range = self.eval(&inner.range)?;
        let elements: Vec<(Value, Value)> = match &range {
            Value::List(list) if inner.second.is_some() => {
                list.items.iter().enumerate().map(|(place, item)| (Value::Int(place as i64), item.clone())).collect()
            }
            Value::List(list) => list.items.iter().map(|item| (item.clone(), item.clone())).collect(),
            Value::Map(map) => map.iter().map(|(key, value)| (key.value(), value.clone())).collect(),
            _ => return Err(EvalError::NoSuchOverload),
        };
        let before = self.locals.len();
        let result = self.run_over(inner, &range, elements);
        self.locals.truncate(before);
        result
    }

    fn run_over(&mut self, inner: &Loop, range: &Value, elements: Vec<(Value, Value)>) -> Evaluated {
        let mut results = vec![];
        let mut failure = None;
        let mut count = 0;
        let base = self.locals.len();
        for (first, second) in elements {
            self.locals.truncate(base);
            self.locals.push((inner.first.clone(), first.clone()));
            if let Some(name) = &inner.second {
                self.locals.push((name.clone(), second.clone()));
            }
            if let Some(filter) = &inner.filter
                && !is_true(self.eval(filter)?)?
            {
                continue;
            }
            let body = self.eval(&inner.body);
            match inner.purpose {
                Purpose::All | Purpose::Exists => match body.and_then(is_true) {
                    Ok(truth) if truth == (inner.purpose == Purpose::Exists) => return Ok(Value::Bool(truth)),
                    Ok(_) => {}
                    // A later element may still decide.
                    Err(EvalError::TooExpensive) => return Err(EvalError::TooExpensive),
                    Err(error) => failure = failure.or(Some(error)),
                },
                Purpose::ExistsOne => count += usize::from(is_true(body?)?),
                Purpose::Filter => {
                    if is_true(body?)? {
                        results.push((first.clone(), first));
                    }
                }
                Purpose::List => results.push((first, body?)),
                Purpose::Map | Purpose::SortBy => results.push((first, body?)),
                Purpose::Entries => {
                    let Value::Map(entries) = body? else { return Err(EvalError::NoSuchOverload) };
                    results.extend(entries.iter().map(|(key, value)| (key.value(), value.clone())));
                }
            }
        }
        match (inner.purpose, failure) {
            (Purpose::All | Purpose::Exists, Some(error)) => Err(error),
            (Purpose::All | Purpose::Exists, None) => Ok(Value::Bool(inner.purpose == Purpose::All)),
            (Purpose::ExistsOne, _) => Ok(Value::Bool(count == 1)),
            (Purpose::Filter | Purpose::List, _) => {
                Ok(Value::list(results.into_iter().map(|(_, value)| value).collect()))
            }
            (Purpose::Map | Purpose::Entries, _) => to_map(results),
            (Purpose::SortBy, _) => {
                results.sort_by(|left, right| left.1.compare(&right.1).unwrap_or(Ordering::Equal));
                match range {
                    Value::List(_) => Ok(Value::list(results.into_iter().map(|(item, _)| item).collect())),
                    _ => Err(EvalError::NoSuchOverload),
                }
            }
        }
    }
}

fn to_map(entries: Vec<(Value, Value)>) -> Evaluated {
    let mut map = BTreeMap::new();
    for (key, value) in entries {
        let shown = functions::shown(&key);
        let key = Key::of(&key).ok_or(EvalError::NoSuchOverload)?;
        if map.insert(key, value).is_some() {
            return Err(EvalError::Other(format!("insert failed: key {shown} already exists")));
        }
    }
    Ok(Value::map(map))
}

fn is_true(value: Value) -> Result<bool, EvalError> {
    match value {
        Value::Bool(truth) => Ok(truth),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn select(operand: &Value, field: &str, way: Way) -> Evaluated {
    let map = match operand {
        Value::Map(map) => map,
        Value::Optional(None) => return Ok(if way == Way::Presence { Value::Bool(false) } else { Value::none() }),
        Value::Optional(Some(inside)) => {
            return select(inside, field, if way == Way::Value { Way::Optional } else { way });
        }
        _ => return Err(EvalError::NoSuchOverload),
    };
    let found = map.get(&Key::String(field.into()));
    match (way, found) {
        (Way::Presence, found) => Ok(Value::Bool(found.is_some())),
        (Way::Value, Some(value)) => Ok(value.clone()),
        (Way::Value, None) => Err(EvalError::NoSuchKey(field.into())),
        (Way::Optional, found) => Ok(Value::Optional(found.cloned().map(Arc::new))),
    }
}

/// What it costs to look at a value: texts and lists are gone through.
fn cost(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + text.len() as u64 / 10,
        Value::Bytes(bytes) => 1 + bytes.len() as u64 / 10,
        Value::List(list) => 1 + list.items.len() as u64 / 10,
        Value::Map(map) => 1 + map.len() as u64 / 10,
        _ => 1,
    }
}
