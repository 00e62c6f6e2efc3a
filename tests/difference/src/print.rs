//! JSON for people: what fits in a line stands in one.

use serde_json::Value;

const WIDTH: usize = 120;

/// Names are sorted, so that two values differ in print only where they differ.
pub(crate) fn print(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, 0, &mut text);
    text
}

/// `before` is what already stands in the line, such as a name.
fn write(value: &Value, indent: usize, before: usize, text: &mut String) {
    let line = value.to_string();
    let small = indent + before + line.len() <= WIDTH;
    match value {
        Value::Array(items) if !small => {
            let items = items.iter().map(|item| (String::new(), item));
            block('[', ']', items, indent, text);
        }
        Value::Object(fields) if !small => {
            let mut fields: Vec<_> =
                fields.iter().map(|(name, value)| (format!("{}: ", quoted(name)), value)).collect();
            fields.sort_by(|first, second| first.0.cmp(&second.0));
            block('{', '}', fields.into_iter(), indent, text);
        }
        _ => text.push_str(&line),
    }
}

fn block<'a>(
    open: char,
    close: char,
    items: impl Iterator<Item = (String, &'a Value)>,
    indent: usize,
    text: &mut String,
) {
    text.push(open);
    let mut separator = "\n";
    for (name, value) in items {
        text.push_str(separator);
        text.push_str(&" ".repeat(indent + 1));
        text.push_str(&name);
        write(value, indent + 1, name.len(), text);
        separator = ",\n";
    }
    text.push('\n');
    text.push_str(&" ".repeat(indent));
    text.push(close);
}

fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_printed_can_be_read_back() {
        let value = json!({ "list": ["a".repeat(80), { "b": "c".repeat(80) }], "small": { "d": [1, null, true] } });
        let text = print(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.contains("\n \"small\": {\"d\":[1,null,true]}"), "{text}");
    }
}
