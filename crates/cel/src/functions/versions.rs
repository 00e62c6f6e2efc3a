//! Semantic versions.

use std::sync::Arc;

use semver::Version;

use crate::{
    eval::{EvalError, Evaluated},
    value::Value,
};

pub(super) fn call(function: &str, _: bool, args: &[Value]) -> Option<Evaluated> {
    let parsed = |text: &str, normalise: bool| match normalise {
        true => normalised(text).parse::<Version>(),
        false => text.parse::<Version>(),
    };
    Some(match (function, args) {
        ("semver", [Value::String(text)]) => version(parsed(text, false)),
        ("semver", [Value::String(text), Value::Bool(normalise)]) => version(parsed(text, *normalise)),
        ("isSemver", [Value::String(text)]) => Ok(Value::Bool(parsed(text, false).is_ok())),
        ("isSemver", [Value::String(text), Value::Bool(normalise)]) => {
            Ok(Value::Bool(parsed(text, *normalise).is_ok()))
        }
        ("isGreaterThan", [Value::Semver(left), Value::Semver(right)]) => {
            Ok(Value::Bool(left.cmp_precedence(right).is_gt()))
        }
        ("isLessThan", [Value::Semver(left), Value::Semver(right)]) => {
            Ok(Value::Bool(left.cmp_precedence(right).is_lt()))
        }
        ("compareTo", [Value::Semver(left), Value::Semver(right)]) => Ok(Value::Int(left.cmp_precedence(right) as i64)),
        ("major", [Value::Semver(version)]) => number(version.major),
        ("minor", [Value::Semver(version)]) => number(version.minor),
        ("patch", [Value::Semver(version)]) => number(version.patch),
        _ => return None,
    })
}

fn version(parsed: Result<Version, semver::Error>) -> Evaluated {
    parsed.map(|version| Value::Semver(Arc::new(version))).map_err(|error| EvalError::Other(error.to_string()))
}

fn number(number: u64) -> Evaluated {
    i64::try_from(number).map(Value::Int).map_err(|_| EvalError::Overflow)
}

/// A version as people write it: with a `v`, without a patch, with zeros in front.
fn normalised(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut numbers: Vec<_> = numbers
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            trimmed => trimmed,
        })
        .collect();
    while numbers.len() < 3 {
        numbers.push("0");
    }
    format!("{}{rest}", numbers.join("."))
}
