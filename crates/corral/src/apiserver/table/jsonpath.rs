//! The JSONPath of printer columns: fields, elements, slices, unions, wildcards, recursion and filters.

use std::cmp::Ordering;

use serde_json::Value;

/// A path, read once and followed in many objects.
#[derive(Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Union(Vec<JsonPath>),
    Filter {
        left: JsonPath,
        test: Test,
        right: JsonPath,
    },
    /// A value in a filter.
    Literal(Value),
}

#[derive(Debug, Default, PartialEq)]
struct Slice {
    from: Option<i64>,
    to: Option<i64>,
    step: Option<i64>,
    /// Whether one element is meant and not a range.
    is_index: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Test {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A path that cannot be followed in some object, such as an index into something that is no list.
struct Astray;

impl JsonPath {
    /// Reads a path as it stands in a column, without braces. None if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut steps = vec![];
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            rest = match first {
                ' ' | '@' | '$' => &rest[1..],
                '.' if rest.starts_with("..") => {
                    steps.push(Step::Recursive);
                    match rest[2..].starts_with(|next: char| next.is_alphanumeric() || next == '_') {
                        true => field(&rest[2..], &mut steps),
                        false => &rest[2..],
                    }
                }
                '.' => field(&rest[1..], &mut steps),
                '[' if rest.starts_with("[?(") => filter(&rest[3..], &mut steps)?,
                '[' => element(&rest[1..], &mut steps)?,
                '"' | '\'' => quoted(rest, first, &mut steps)?,
                _ => literal(rest, &mut steps)?,
            };
        }
        Some(JsonPath(steps))
    }

    /// The first value that the path leads to.
    pub fn first<'a>(&'a self, object: &'a Value) -> Option<&'a Value> {
        self.follow(vec![object]).ok()?.first().copied()
    }

    fn follow<'a>(&'a self, from: Vec<&'a Value>) -> Result<Vec<&'a Value>, Astray> {
        let mut found = from;
        for step in &self.0 {
            found = step.take(found)?;
        }
        Ok(found)
    }
}

impl Step {
    fn take<'a>(&'a self, from: Vec<&'a Value>) -> Result<Vec<&'a Value>, Astray> {
        Ok(match self {
            Step::Literal(value) => vec![value],
            Step::Field(name) => from.into_iter().filter_map(|value| value.as_object()?.get(name)).collect(),
            Step::Wildcard => from.into_iter().flat_map(children).collect(),
            Step::Recursive => {
                let mut found = vec![];
                from.into_iter().for_each(|value| descend(value, &mut found));
                found
            }
            Step::Slice(slice) => {
                let mut found = vec![];
                for value in from.into_iter().filter(|value| !value.is_null()) {
                    found.extend(slice.of(value.as_array().ok_or(Astray)?)?);
                }
                found
            }
            Step::Union(paths) => {
                let mut found = vec![];
                for path in paths {
                    found.extend(path.follow(from.clone())?);
                }
                found
            }
            Step::Filter { left, test, right } => {
                let mut found = vec![];
                for value in from {
                    for item in value.as_array().ok_or(Astray)? {
                        if passes(item, left, *test, right)? {
                            found.push(item);
                        }
                    }
                }
                found
            }
        })
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(object) => object.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => vec![],
    }
}

fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(value);
    for child in children(value) {
        descend(child, found);
    }
}

impl Slice {
    fn of<'a>(&self, items: &'a [Value]) -> Result<impl Iterator<Item = &'a Value>, Astray> {
        let length = items.len() as i64;
        let from_end = |place: i64| if place < 0 { place + length } else { place };
        let start = from_end(self.from.unwrap_or(0));
        let end = match self.to {
            Some(end) => from_end(end),
            None if self.is_index => start + 1,
            None => length,
        };
        let step = self.step.unwrap_or(1);
        let inside = 0 <= start && start < length && start <= end && end <= length;
        if step <= 0 || (start != end && !inside) {
            return Err(Astray);
        }
        let chosen = if start == end { &items[..0] } else { &items[start as usize..end as usize] };
        Ok(chosen.iter().step_by(step as usize))
    }
}

fn passes(item: &Value, left: &JsonPath, test: Test, right: &JsonPath) -> Result<bool, Astray> {
    let found = left.follow(vec![item]);
    if test == Test::Exists {
        return Ok(found.is_ok_and(|found| !found.is_empty()));
    }
    match (found?.as_slice(), right.follow(vec![item])?.as_slice()) {
        ([], _) | (_, []) => Ok(false),
        ([left], [right]) => compare(left, test, right).ok_or(Astray),
        _ => Err(Astray),
    }
}

/// None for values that cannot be compared.
fn compare(left: &Value, test: Test, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?)?,
        (Value::Bool(left), Value::Bool(right)) if matches!(test, Test::Equal | Test::NotEqual) => left.cmp(right),
        _ => return None,
    };
    Some(match test {
        Test::Exists => true,
        Test::Equal => order == Ordering::Equal,
        Test::NotEqual => order != Ordering::Equal,
        Test::Less => order == Ordering::Less,
        Test::LessOrEqual => order != Ordering::Greater,
        Test::Greater => order == Ordering::Greater,
        Test::GreaterOrEqual => order != Ordering::Less,
    })
}

/// A name up to the next step; a backslash takes away the meaning of what follows it.
fn field<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let mut name = String::new();
    let mut letters = text.char_indices();
    let mut end = text.len();
    while let Some((place, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, escaped)| escaped)),
            ' ' | '\t' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' => {
                end = place;
                break;
            }
            letter => name.push(letter),
        }
    }
    steps.push(if name == "*" { Step::Wildcard } else { Step::Field(name) });
    &text[end..]
}

/// What stands in brackets: an index, a range, a name in quotes, or several of these.
fn element<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let (inside, rest) = text.split_once(']')?;
    let parts: Vec<_> = inside.split(',').collect();
    if parts.len() > 1 {
        let paths = parts.iter().map(|part| JsonPath::parse(&format!("[{}]", part.trim())));
        steps.push(Step::Union(paths.collect::<Option<_>>()?));
        return Some(rest);
    }
    let quoted = inside.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
    if let Some(name) = quoted {
        steps.extend(JsonPath::parse(&format!(".{name}"))?.0);
        return Some(rest);
    }
    steps.push(Step::Slice(range(inside)?));
    Some(rest)
}

fn range(text: &str) -> Option<Slice> {
    if text == "*" {
        return Some(Slice::default());
    }
    let number =
        |text: &str| -> Option<Option<i64>> { if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) } };
    let mut parts = text.split(':');
    let slice = Slice {
        from: number(parts.next()?)?,
        to: number(parts.next().unwrap_or_default())?,
        step: number(parts.next().unwrap_or_default())?,
        is_index: !text.contains(':'),
    };
    (parts.next().is_none() && !text.is_empty()).then_some(slice)
}

fn filter<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let end = end_of_filter(text)?;
    let (inside, rest) = (&text[..end], text[end..].strip_prefix(")]")?);
    let is_sign = |letter: char| matches!(letter, '!' | '<' | '>' | '=');
    let step = match inside.find(is_sign) {
        Some(start) if start > 0 => {
            let after = &inside[start..];
            let sign = &after[..after.find(|letter| !is_sign(letter))?];
            let test = match sign {
                "==" => Test::Equal,
                "!=" => Test::NotEqual,
                "<" => Test::Less,
                "<=" => Test::LessOrEqual,
                ">" => Test::Greater,
                ">=" => Test::GreaterOrEqual,
                _ => return None,
            };
            let (left, right) = (JsonPath::parse(&inside[..start])?, JsonPath::parse(&after[sign.len()..])?);
            Step::Filter { left, test, right }
        }
        _ => Step::Filter { left: JsonPath::parse(inside)?, test: Test::Exists, right: JsonPath(vec![]) },
    };
    steps.push(step);
    Some(rest)
}

/// The parenthesis that ends a filter is the first one outside of quotes.
fn end_of_filter(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut before = ' ';
    for (place, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if letter == open && before != '\\' => quote = None,
            (None, ')') => return Some(place),
            _ => {}
        }
        before = letter;
    }
    None
}

fn quoted<'a>(text: &'a str, quote: char, steps: &mut Vec<Step>) -> Option<&'a str> {
    let mut value = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((place, letter)) = letters.next() {
        match letter {
            '\\' => value.push(letters.next()?.1),
            letter if letter == quote => {
                steps.push(Step::Literal(Value::String(value)));
                return Some(&text[place + 1..]);
            }
            letter => value.push(letter),
        }
    }
    None
}

fn literal<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && !"+-.".contains(letter));
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    let value: Value = serde_json::from_str(word.trim_start_matches('+')).ok()?;
    matches!(value, Value::Bool(_) | Value::Number(_)).then(|| steps.push(Step::Literal(value)))?;
    Some(rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn first(path: &str) -> Option<Value> {
        let object = json!({
            "spec": { "size": 3, "tags": ["x", "y", "z"], "a.b": "dotted", "nothing": null },
            "status": { "conditions": [
                { "type": "Progressing", "status": "False" },
                { "type": "Ready", "status": "True", "generation": 7 },
            ] },
        });
        JsonPath::parse(path).unwrap().first(&object).cloned()
    }

    #[test]
    fn a_path_leads_through_fields_elements_and_filters() {
        assert_eq!(first(".spec.size"), Some(json!(3)));
        assert_eq!(first("$.spec['size']"), Some(json!(3)));
        assert_eq!(first(r".spec.a\.b"), Some(json!("dotted")));
        assert_eq!(first(".spec.tags[1]"), Some(json!("y")));
        assert_eq!(first(".spec.tags[-1]"), Some(json!("z")));
        assert_eq!(first(".spec.tags[*]"), Some(json!("x")));
        assert_eq!(first(".spec.tags[1:3]"), Some(json!("y")));
        assert_eq!(first(".spec.tags[2,0]"), Some(json!("z")));
        assert_eq!(first(".spec.nothing"), Some(Value::Null));
        assert_eq!(first("..generation"), Some(json!(7)));
        assert_eq!(first(r#".status.conditions[?(@.type=="Ready")].status"#), Some(json!("True")));
        assert_eq!(first(".status.conditions[?(@.type=='Ready')].status"), Some(json!("True")));
        assert_eq!(first(".status.conditions[?(@.generation>6)].type"), Some(json!("Ready")));
        assert_eq!(first(".status.conditions[?(@.generation)].type"), Some(json!("Ready")));
        assert_eq!(first(".status.conditions[?(@.type!='Ready')].type"), Some(json!("Progressing")));
    }

    #[test]
    fn a_path_that_leads_nowhere_finds_nothing() {
        for path in
            [".spec.gone", ".spec.tags[7]", ".spec.size[0]", ".status.conditions[?(@.type==1)].status", ".a.b.c"]
        {
            assert_eq!(first(path), None, "{path}");
        }
    }

    #[test]
    fn a_malformed_path_is_refused() {
        for path in [".spec.tags[", ".spec.tags[x]", ".a[?(@.b==\"c\"]", "%", ".a[?(@.b=~'c')]", ".a[1:2:3:4]"] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
