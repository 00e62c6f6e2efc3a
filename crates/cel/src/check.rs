//! Does an expression make sense, as far as the types of its variables say?
//!
//! The rules, and the words where one is broken, are those of the original's type checker.

use std::collections::BTreeMap;

use crate::{
    Environment, Problem, Program,
    declarations::{FUNCTIONS, Overload, type_name},
    expr::{Expr, Kind, Loop, Purpose, Way},
    types::Type,
    value::Value,
};

pub(crate) fn check(mut expr: Expr, environment: &Environment) -> Result<Program, Vec<Problem>> {
    let mut checker =
        Checker { environment, locals: vec![], found: BTreeMap::new(), unknowns: 0, problems: vec![], names: vec![] };
    let kind = checker.check(&mut expr);
    let kind = checker.resolved(&kind, true);
    if checker.problems.is_empty() {
        check_literals(&expr, &mut checker.problems);
    }
    match checker.problems.is_empty() {
        true => Ok(Program { expr, kind, names: checker.names }),
        false => Err(checker.problems),
    }
}

/// Whether a value of one type may stand where another is expected.
pub fn is_assignable(to: &Type, from: &Type) -> bool {
    Found::default().unify(to, from)
}

struct Checker<'a> {
    environment: &'a Environment,
    /// Names that macros have introduced, the innermost last.
    locals: Vec<(String, Type)>,
    found: BTreeMap<u32, Type>,
    unknowns: u32,
    problems: Vec<Problem>,
    names: Vec<String>,
}

impl Checker<'_> {
    fn complain(&mut self, at: usize, message: String) -> Type {
        self.problems.push(Problem { at, message });
        Type::Error
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        self.complain(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn mismatch(&mut self, at: usize, expected: &Type, found: &Type) -> Type {
        let (expected, found) = (self.resolved(expected, false), self.resolved(found, false));
        self.complain(at, format!("expected type '{expected}' but found '{found}'"))
    }

    fn unknown(&mut self) -> Type {
        self.unknowns += 1;
        Type::Unknown(self.unknowns - 1)
    }

    fn lookup(&mut self, name: &str) -> Option<Type> {
        if let Some((_, kind)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return Some(kind.clone());
        }
        if let Some(kind) = self.environment.lookup(name) {
            self.names.push(name.into());
            return Some(kind.clone());
        }
        type_name(name).map(|kind| Type::Type(Box::new(kind)))
    }

    fn check(&mut self, expr: &mut Expr) -> Type {
        let at = expr.at;
        if let Kind::Select { way: Way::Value, .. } = &expr.kind
            && let Some(name) = expr.qualified_name()
            && let Some(kind) = self.lookup(&name)
        {
            expr.kind = Kind::Name(name);
            return kind;
        }
        match &mut expr.kind {
            Kind::Literal(value) => literal(value),
            Kind::Name(name) => {
                let name = name.clone();
                self.lookup(&name).unwrap_or_else(|| self.undeclared(at, &name))
            }
            Kind::Select { operand, field, way } => {
                let operand = self.check(operand);
                match way {
                    Way::Presence => {
                        self.select(at, &operand, field);
                        Type::Bool
                    }
                    Way::Value => self.select(at, &operand, field),
                    Way::Optional => match self.select(at, &operand, field) {
                        optional @ Type::Optional(_) => optional,
                        other => Type::optional(other),
                    },
                }
            }
            Kind::Call { function, target, args } => {
                let args_types: Vec<_> = args.iter_mut().map(|arg| self.check(arg)).collect();
                let places: Vec<_> = args.iter().map(|arg| arg.at).collect();
                if let Some(name) = target.as_ref().and_then(|target| target.qualified_name()) {
                    let qualified = format!("{name}.{function}");
                    if FUNCTIONS.contains_key(&qualified) {
                        *function = qualified;
                        *target = None;
                    }
                }
                let function = function.clone();
                let receiver = target.as_mut().map(|target| self.check(target));
                self.call(at, &function, receiver, args_types, &places)
            }
            Kind::List(items) => {
                let mut element = None;
                for item in items {
                    let kind = self.check(&mut item.value);
                    let kind = self.unwrapped(item.value.at, kind, item.optional);
                    element = Some(self.join(item.value.at, element, kind));
                }
                let element = element.unwrap_or_else(|| self.unknown());
                Type::list(element)
            }
            Kind::Map(entries) => {
                let (mut key, mut value) = (None, None);
                for entry in entries {
                    let kind = self.check(&mut entry.key);
                    key = Some(self.join(entry.key.at, key, kind));
                    let kind = self.check(&mut entry.value);
                    let kind = self.unwrapped(entry.value.at, kind, entry.optional);
                    value = Some(self.join(entry.value.at, value, kind));
                }
                let key = key.unwrap_or_else(|| self.unknown());
                let value = value.unwrap_or_else(|| self.unknown());
                Type::map(key, value)
            }
            Kind::Loop(inner) => self.check_loop(at, inner),
            Kind::Unwrap { operand, name, body, flat } => {
                let kind = self.check(operand);
                let inner = match self.resolved(&kind, false) {
                    Type::Optional(inner) => *inner,
                    other if other.is_dyn_or_error() => Type::Dyn,
                    other => self.complain(at, format!("expected type 'optional_type(dyn)' but found '{other}'")),
                };
                let (name, flat) = (name.clone(), *flat);
                let result = self.with_local(vec![(name, inner)], |checker| checker.check(body));
                if flat { result } else { Type::optional(result) }
            }
        }
    }

    fn with_local<T>(&mut self, locals: Vec<(String, Type)>, check: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.locals.len();
        self.locals.extend(locals);
        let checked = check(self);
        self.locals.truncate(before);
        checked
    }

    fn select(&mut self, at: usize, operand: &Type, field: &str) -> Type {
        let operand = self.resolved(operand, false);
        let (inside, is_optional) = match &operand {
            Type::Optional(inner) => (self.resolved(inner, false), true),
            other => (other.clone(), false),
        };
        let result = match &inside {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(kind) => kind.clone(),
                None => self.complain(at, format!("undefined field '{field}'")),
            },
            Type::Unknown(_) => {
                self.unify(&Type::Dyn, &inside);
                Type::Dyn
            }
            other if other.is_dyn_or_error() => Type::Dyn,
            other => {
                self.complain(at, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if is_optional { Type::optional(result) } else { result }
    }

    fn call(&mut self, at: usize, function: &str, receiver: Option<Type>, args: Vec<Type>, places: &[usize]) -> Type {
        let Some(overloads) = FUNCTIONS.get(function) else { return self.undeclared(at, function) };
        if function == "_&&_" || function == "_||_" {
            let mut is_wrong = false;
            for (arg, place) in args.iter().zip(places) {
                if !self.unify(arg, &Type::Bool) {
                    self.mismatch(*place, &Type::Bool, arg);
                    is_wrong = true;
                }
            }
            return if is_wrong { Type::Error } else { Type::Bool };
        }
        let is_method = receiver.is_some();
        let args: Vec<Type> = receiver.into_iter().chain(args).collect();
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.is_method == is_method) {
            let Some(fits) = self.try_overload(overload, &args) else { continue };
            result = Some(match result {
                None => fits,
                Some(Type::Dyn) => Type::Dyn,
                Some(before) if before == fits => before,
                Some(_) => Type::Dyn,
            });
        }
        result.unwrap_or_else(|| {
            let mut shown = args.iter().map(|arg| self.resolved(arg, true).to_string());
            let before = if is_method { format!("{}.", shown.next().unwrap_or_default()) } else { String::new() };
            let shown: Vec<_> = shown.collect();
            let signature = format!("{before}({})", shown.join(", "));
            self.complain(at, format!("found no matching overload for '{function}' applied to '{signature}'"))
        })
    }

    fn try_overload(&mut self, overload: &Overload, args: &[Type]) -> Option<Type> {
        if overload.args.len() != args.len() {
            return None;
        }
        let first = self.unknowns;
        self.unknowns += overload.unknowns;
        let mut found = Found { types: self.found.clone() };
        let expected = overload.args.iter().map(|kind| renumbered(kind, first));
        if !args.iter().zip(expected).all(|(arg, expected)| found.unify(arg, &expected)) {
            return None;
        }
        self.found = found.types;
        Some(self.resolved(&renumbered(&overload.result, first), false))
    }

    fn check_loop(&mut self, at: usize, inner: &mut Loop) -> Type {
        let range = self.check(&mut inner.range);
        let range = self.resolved(&range, false);
        let (first, second) = match &range {
            Type::List(element) if inner.second.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Unknown(_) => {
                self.unify(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let why = "cannot be range of a comprehension (must be list, map, or dynamic)";
                self.complain(inner.range.at, format!("expression of type '{other}' {why}"));
                (Type::Error, Type::Error)
            }
        };
        let mut locals = vec![(inner.first.clone(), first.clone())];
        locals.extend(inner.second.clone().map(|name| (name, second)));
        let body = self.with_local(locals, |checker| {
            if let Some(filter) = &mut inner.filter {
                let kind = checker.check(filter);
                checker.expect_bool(filter.at, &kind);
            }
            checker.check(&mut inner.body)
        });
        match inner.purpose {
            Purpose::All | Purpose::Exists | Purpose::ExistsOne => {
                self.expect_bool(inner.body.at, &body);
                Type::Bool
            }
            Purpose::Filter => {
                self.expect_bool(inner.body.at, &body);
                Type::list(first)
            }
            Purpose::List => Type::list(body),
            Purpose::SortBy => range,
            Purpose::Map => Type::map(if inner.second.is_some() { first } else { Type::Dyn }, body),
            Purpose::Entries => match self.resolved(&body, false) {
                map @ Type::Map(_, _) => map,
                other if other.is_dyn_or_error() => Type::map(Type::Dyn, Type::Dyn),
                other => self.complain(at, format!("expected type 'map(dyn, dyn)' but found '{other}'")),
            },
        }
    }

    fn expect_bool(&mut self, at: usize, kind: &Type) {
        if !self.unify(kind, &Type::Bool) {
            self.mismatch(at, &Type::Bool, kind);
        }
    }

    /// The type of an element that stands there only if it has a value.
    fn unwrapped(&mut self, at: usize, kind: Type, optional: bool) -> Type {
        match (optional, self.resolved(&kind, false)) {
            (true, Type::Optional(inner)) => *inner,
            (true, other) if other != Type::Dyn => self.mismatch(at, &Type::optional(other.clone()), &other),
            _ => kind,
        }
    }

    /// The type that two elements have in common.
    fn join(&mut self, at: usize, before: Option<Type>, kind: Type) -> Type {
        match before {
            None => kind,
            Some(before) if self.unify(&before, &kind) => most_general(before, kind),
            Some(before) => self.mismatch(at, &before, &kind),
        }
    }

    fn unify(&mut self, left: &Type, right: &Type) -> bool {
        let mut found = Found { types: self.found.clone() };
        let fits = found.unify(left, right);
        if fits {
            self.found = found.types;
        }
        fits
    }

    fn resolved(&self, kind: &Type, to_dyn: bool) -> Type {
        resolved(&self.found, kind, to_dyn)
    }
}

/// The parameters of a function by numbers that are free.
fn renumbered(kind: &Type, first: u32) -> Type {
    match kind {
        Type::Unknown(number) => Type::Unknown(first + number),
        other => other.with_parts(|part| renumbered(part, first)),
    }
}

fn resolved(found: &BTreeMap<u32, Type>, kind: &Type, to_dyn: bool) -> Type {
    match kind {
        Type::Unknown(number) => match found.get(number) {
            Some(kind) => resolved(found, kind, to_dyn),
            None if to_dyn => Type::Dyn,
            None => kind.clone(),
        },
        other => other.with_parts(|part| resolved(found, part, to_dyn)),
    }
}

/// Which types the unknown ones turned out to be.
#[derive(Default)]
struct Found {
    types: BTreeMap<u32, Type>,
}

impl Found {
    fn unify(&mut self, left: &Type, right: &Type) -> bool {
        if left == right {
            return true;
        }
        if let Type::Unknown(number) = right {
            let known = self.types.contains_key(number);
            if self.substitute(left, *number) {
                return true;
            }
            if known {
                return false;
            }
        }
        if let Type::Unknown(number) = left {
            return self.substitute(right, *number);
        }
        match (left, right) {
            (left, right) if left.is_dyn_or_error() || right.is_dyn_or_error() => true,
            (Type::Null, other) | (other, Type::Null) => {
                matches!(
                    other,
                    Type::Null
                        | Type::Optional(_)
                        | Type::Opaque(_)
                        | Type::Object(_)
                        | Type::Timestamp
                        | Type::Duration
                )
            }
            (Type::Object(left), Type::Object(right)) => left.name == right.name,
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(_), Type::List(_))
            | (Type::Map(_, _), Type::Map(_, _))
            | (Type::Optional(_), Type::Optional(_)) => {
                left.parts().into_iter().zip(right.parts()).all(|(left, right)| self.unify(left, right))
            }
            _ => false,
        }
    }

    /// Whether an unknown type may be this one.
    fn substitute(&mut self, kind: &Type, number: u32) -> bool {
        if let Some(before) = self.types.get(&number).cloned() {
            if before == *kind {
                return true;
            }
            if !self.unify(kind, &before) {
                return false;
            }
            let general = most_general(kind.clone(), before);
            if !self.refers(&general, number) {
                self.types.insert(number, general);
            }
            return true;
        }
        if self.refers(kind, number) {
            return false;
        }
        self.types.insert(number, kind.clone());
        true
    }

    fn refers(&self, kind: &Type, number: u32) -> bool {
        match kind {
            Type::Unknown(other) => {
                *other == number || self.types.get(other).is_some_and(|kind| self.refers(kind, number))
            }
            other => other.parts().into_iter().any(|part| self.refers(part, number)),
        }
    }
}

fn most_general(left: Type, right: Type) -> Type {
    if is_as_general(&left, &right) { left } else { right }
}

fn is_as_general(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Dyn | Type::Unknown(_), _) => true,
        (_, Type::Dyn | Type::Unknown(_)) => false,
        (Type::List(_), Type::List(_))
        | (Type::Map(_, _), Type::Map(_, _))
        | (Type::Optional(_), Type::Optional(_)) => {
            left.parts().into_iter().zip(right.parts()).all(|(left, right)| is_as_general(left, right))
        }
        (left, right) => left == right,
    }
}

fn literal(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Dyn,
    }
}

/// Complains about texts in an expression that can never be what they are used as.
fn check_literals(expr: &Expr, problems: &mut Vec<Problem>) {
    let mut within = |expr: &Expr| check_literals(expr, problems);
    match &expr.kind {
        Kind::Literal(_) | Kind::Name(_) => {}
        Kind::Select { operand, .. } => within(operand),
        Kind::Unwrap { operand, body, .. } => {
            within(operand);
            within(body);
        }
        Kind::List(items) => items.iter().for_each(|item| within(&item.value)),
        Kind::Map(entries) => entries.iter().for_each(|entry| {
            within(&entry.key);
            within(&entry.value);
        }),
        Kind::Loop(inner) => {
            within(&inner.range);
            inner.filter.iter().for_each(&mut within);
            within(&inner.body);
        }
        Kind::Call { function, target, args } => {
            target.iter().for_each(|target| within(target));
            args.iter().for_each(&mut within);
            let Some(Expr { at, kind: Kind::Literal(Value::String(text)), .. }) = args.last() else { return };
            let is_wrong = match function.as_str() {
                "matches" => regex::Regex::new(text).is_err(),
                "duration" => crate::functions::parse_duration(text).is_none(),
                "timestamp" => text.parse::<jiff::Timestamp>().is_err(),
                _ => false,
            };
            if is_wrong {
                problems.push(Problem { at: *at, message: format!("invalid {function} argument") });
            }
        }
    }
}
