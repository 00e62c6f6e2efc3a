//! Texts and bytes: searching, cutting, formatting, regular expressions.

use regex::Regex;

use crate::{
    eval::{EvalError, Evaluated},
    value::{Key, Value},
};

pub(super) fn call(function: &str, is_method: bool, args: &[Value]) -> Option<Evaluated> {
    Some(match (function, args) {
        ("string", [value]) => value
            .to_text()
            .map(|text| Value::from(text.as_str()))
            .ok_or_else(|| EvalError::Other(format!("type conversion error from '{}' to 'string'", value.type_name()))),
        ("bytes", [Value::String(text)]) => Ok(Value::Bytes(text.as_bytes().into())),
        ("bytes", [Value::Bytes(_)]) => Ok(args[0].clone()),
        ("size", [Value::String(text)]) => Ok(Value::Int(text.chars().count() as i64)),
        ("size", [Value::Bytes(bytes)]) => Ok(Value::Int(bytes.len() as i64)),
        ("_+_", [Value::String(left), Value::String(right)]) => Ok(Value::from(format!("{left}{right}").as_str())),
        ("_+_", [Value::Bytes(left), Value::Bytes(right)]) => Ok(Value::Bytes([&**left, &**right].concat().into())),
        ("contains", [Value::String(text), Value::String(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::String(text), Value::String(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::String(text), Value::String(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("matches", [Value::String(text), Value::String(pattern)]) => {
            let pattern = Regex::new(pattern).map_err(|_| EvalError::Other(format!("invalid pattern {pattern:?}")));
            pattern.map(|pattern| Value::Bool(pattern.is_match(text)))
        }
        ("find" | "findAll", [Value::String(text), Value::String(pattern), limit @ ..]) => {
            find(function, text, pattern, limit)
        }
        ("join", [Value::List(list), separator @ ..]) => join(&list.items, separator),
        ("format", [Value::String(text), Value::List(list)]) if is_method => format(text, &list.items),
        ("strings.quote", [Value::String(text)]) => Ok(Value::from(format!("{text:?}").as_str())),
        ("jsonpatch.escapeKey", [Value::String(text)]) => {
            Ok(Value::from(text.replace('~', "~0").replace('/', "~1").as_str()))
        }
        (_, [Value::String(text), rest @ ..]) if is_method => return on_text(function, text, rest),
        _ => return None,
    })
}

fn on_text(function: &str, text: &str, args: &[Value]) -> Option<Evaluated> {
    let owned = |text: String| Ok(Value::from(text.as_str()));
    let letters = || text.chars().collect::<Vec<_>>();
    Some(match (function, args) {
        ("lowerAscii", []) => owned(text.to_ascii_lowercase()),
        ("upperAscii", []) => owned(text.to_ascii_uppercase()),
        ("trim", []) => owned(text.trim().into()),
        ("reverse", []) => owned(text.chars().rev().collect()),
        ("charAt", [Value::Int(place)]) => {
            let letters = letters();
            match usize::try_from(*place) {
                Ok(place) if place == letters.len() => owned(String::new()),
                Ok(place) if place < letters.len() => owned(letters[place].into()),
                _ => Err(EvalError::Other(format!("index out of range: {place}"))),
            }
        }
        ("indexOf", [Value::String(part), from @ ..]) => index_of(&letters(), part, from, false),
        ("lastIndexOf", [Value::String(part), from @ ..]) => index_of(&letters(), part, from, true),
        ("replace", [Value::String(from), Value::String(to)]) => owned(text.replace(&**from, to)),
        ("replace", [Value::String(from), Value::String(to), Value::Int(count)]) => match usize::try_from(*count) {
            Ok(count) => owned(text.replacen(&**from, to, count)),
            Err(_) => owned(text.replace(&**from, to)),
        },
        ("split", [Value::String(separator)]) => Ok(split(text, separator, -1)),
        ("split", [Value::String(separator), Value::Int(count)]) => Ok(split(text, separator, *count)),
        ("substring", [Value::Int(from)]) => substring(&letters(), *from, text.chars().count() as i64),
        ("substring", [Value::Int(from), Value::Int(to)]) => substring(&letters(), *from, *to),
        _ => return None,
    })
}

fn index_of(letters: &[char], part: &str, from: &[Value], from_the_end: bool) -> Evaluated {
    let part: Vec<char> = part.chars().collect();
    let length = letters.len() as i64;
    let start = match from {
        [Value::Int(from)] if *from < 0 || *from > length => {
            return Err(EvalError::Other(format!("index out of range: {from}")));
        }
        [Value::Int(from)] => *from,
        _ if from_the_end => length,
        _ => 0,
    };
    let is_here = |place: &i64| letters[*place as usize..].starts_with(&part);
    let found = match from_the_end {
        true => (0..=start.min(length)).rev().find(is_here),
        false => (start..=length).find(is_here),
    };
    Ok(Value::Int(found.unwrap_or(-1)))
}

fn substring(letters: &[char], from: i64, to: i64) -> Evaluated {
    let length = letters.len() as i64;
    for place in [from, to] {
        if place < 0 || place > length {
            return Err(EvalError::Other(format!("index out of range: {place}")));
        }
    }
    if from > to {
        return Err(EvalError::Other(format!("invalid substring range. start: {from}, end: {to}")));
    }
    let cut: String = letters[from as usize..to as usize].iter().collect();
    Ok(Value::from(cut.as_str()))
}

fn split(text: &str, separator: &str, count: i64) -> Value {
    let parts: Vec<String> = match (usize::try_from(count), separator) {
        (Ok(0), _) => vec![],
        (Ok(count), "") => {
            let letters: Vec<char> = text.chars().collect();
            let cut = letters.len().min(count.saturating_sub(1));
            let single = letters[..cut].iter().map(char::to_string);
            let rest: String = letters[cut..].iter().collect();
            single.chain(Some(rest).filter(|rest| !rest.is_empty())).collect()
        }
        (Err(_), "") => text.chars().map(String::from).collect(),
        (Ok(count), separator) => text.splitn(count, separator).map(String::from).collect(),
        (Err(_), separator) => text.split(separator).map(String::from).collect(),
    };
    Value::list(parts.iter().map(|part| Value::from(part.as_str())).collect())
}

fn join(items: &[Value], separator: &[Value]) -> Evaluated {
    let separator = separator.first().and_then(Value::text).unwrap_or_default();
    let texts: Option<Vec<_>> = items.iter().map(Value::text).collect();
    texts.map(|texts| Value::from(texts.join(separator).as_str())).ok_or(EvalError::NoSuchOverload)
}

fn find(function: &str, text: &str, pattern: &str, limit: &[Value]) -> Evaluated {
    let pattern = Regex::new(pattern)
        .map_err(|_| EvalError::Other(format!("Illegal regex: error parsing regexp: {pattern:?}")))?;
    if function == "find" {
        return Ok(Value::from(pattern.find(text).map_or("", |found| found.as_str())));
    }
    let limit = match limit {
        [Value::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    Ok(Value::list(pattern.find_iter(text).take(limit).map(|found| Value::from(found.as_str())).collect()))
}

/// A number as `string()` gives it: plain, or with an exponent if it is very large or small.
pub(super) fn number(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    if number.is_nan() {
        return "NaN".into();
    }
    let size = number.abs();
    if size == 0.0 || (1e-4..1e21).contains(&size) {
        return number.to_string();
    }
    with_exponent(&format!("{number:e}"))
}

/// An exponent with its sign and at least two digits.
fn with_exponent(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Any value as text, as `%s` gives it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::List(list) => format!("[{}]", list.items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let entry = |(key, value): (&Key, &Value)| format!("{}: {}", shown(&key.value()), shown(value));
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        other => other.to_text().unwrap_or_else(|| other.type_name().into()),
    }
}

fn format(text: &str, args: &[Value]) -> Evaluated {
    let mut formatted = String::new();
    let mut args = args.iter();
    let mut place = 0;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        formatted.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            formatted.push('%');
            rest = after;
            continue;
        }
        let (precision, after) = match after.strip_prefix('.') {
            Some(after) => {
                let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
                (after[..end].parse::<usize>().ok().map(|digits| digits.min(100)), &after[end..])
            }
            None => (None, after),
        };
        let Some(letter) = after.chars().next() else {
            return Err(EvalError::Other("unexpected end of string".into()));
        };
        let Some(value) = args.next() else {
            return Err(EvalError::Other(format!("index {place} out of range")));
        };
        formatted.push_str(&clause(letter, precision, value)?);
        place += 1;
        rest = &after[letter.len_utf8()..];
    }
    formatted.push_str(rest);
    Ok(Value::from(formatted.as_str()))
}

fn clause(letter: char, precision: Option<usize>, value: &Value) -> Result<String, EvalError> {
    let digits = precision.unwrap_or(6);
    Ok(match (letter, value) {
        ('s', value) => shown(value),
        ('d', Value::Int(_) | Value::Uint(_) | Value::Double(_)) => shown(value),
        ('f', Value::Double(number)) => format!("{number:.digits$}"),
        ('f', Value::Int(number)) => format!("{:.digits$}", *number as f64),
        ('f', Value::Uint(number)) => format!("{:.digits$}", *number as f64),
        ('e', Value::Double(number)) => with_exponent(&format!("{number:.digits$e}")),
        ('e', Value::Int(number)) => with_exponent(&format!("{:.digits$e}", *number as f64)),
        ('b', Value::Int(number)) => signed(*number, |size| format!("{size:b}")),
        ('b', Value::Uint(number)) => format!("{number:b}"),
        ('b', Value::Bool(truth)) => u8::from(*truth).to_string(),
        ('o', Value::Int(number)) => signed(*number, |size| format!("{size:o}")),
        ('o', Value::Uint(number)) => format!("{number:o}"),
        ('x', Value::Int(number)) => signed(*number, |size| format!("{size:x}")),
        ('X', Value::Int(number)) => signed(*number, |size| format!("{size:X}")),
        ('x', Value::Uint(number)) => format!("{number:x}"),
        ('X', Value::Uint(number)) => format!("{number:X}"),
        ('x', Value::String(text)) => hexadecimal(text.as_bytes()),
        ('X', Value::String(text)) => hexadecimal(text.as_bytes()).to_uppercase(),
        ('x', Value::Bytes(bytes)) => hexadecimal(bytes),
        ('X', Value::Bytes(bytes)) => hexadecimal(bytes).to_uppercase(),
        ('d' | 'f' | 'e' | 'b' | 'o' | 'x' | 'X', value) => {
            let kind = value.type_name();
            return Err(EvalError::Other(format!("error during formatting: clause %{letter} does not take {kind}")));
        }
        (other, _) => {
            return Err(EvalError::Other(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{other}\""
            )));
        }
    })
}

fn signed(number: i64, shown: impl Fn(u64) -> String) -> String {
    format!("{}{}", if number < 0 { "-" } else { "" }, shown(number.unsigned_abs()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
