//! What a request carries: objects, patches and options in JSON or YAML, and what is said of those that cannot be read.
//!
//! The original says it in the words of Go's decoder, and clients show them to people, so they are the same here.

use kube::core::Status;
use serde_json::{Map, Value};

use super::{
    object::{Object, text},
    protobuf::{self, PROTOBUF},
    status::{Answer, bad_request, patch_rejected, unexplained, unsupported_media_type},
    verbs::patch::Patch,
};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
/// What the original reads the head of an object into.
const TYPE_META: &str =
    "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";

/// The object in a body, which has to be of `kind`.
pub(crate) fn object(content_type: &str, body: &[u8], kind: &str) -> Answer<Object> {
    read_object(content_type, body)?.map_err(|why| unrecognised(body, kind, &why))
}

/// What is said of a body that is no object of this kind.
pub(crate) fn unrecognised(body: &[u8], kind: &str, why: &str) -> Box<Status> {
    let shown = summary(body);
    bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({shown})"))
}

/// The options in the body of a delete. What cannot be read of them is an error without a reason.
pub(crate) fn options(content_type: &str, body: &[u8]) -> Answer<Object> {
    if body.is_empty() {
        return Ok(Object::new());
    }
    let options = read_object(content_type, body)?.map_err(|why| unexplained(&why))?;
    let (version, kind) = (text(&options, &["apiVersion"]), text(&options, &["kind"]));
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(unexplained(&format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:110\""
        )));
    }
    Ok(options)
}

fn read_object(content_type: &str, body: &[u8]) -> Answer<Result<Object, String>> {
    let head = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    Ok(match content_type {
        "" | JSON => value(body).and_then(typed).map_err(head),
        YAML => match serde_saphyr::from_str(&String::from_utf8_lossy(body)) {
            Ok(value) => typed(value).map_err(head),
            Err(error) => Err(format!("yaml: {error}")),
        },
        PROTOBUF => protobuf::decode(body),
        _ => {
            let accepted = [JSON, YAML, PROTOBUF].join(", ");
            return Err(unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            )));
        }
    })
}

/// An object whose head has the right types; null is an empty one.
fn typed(value: Value) -> Result<Object, String> {
    match value {
        Value::Object(object) => {
            for name in ["apiVersion", "kind"] {
                if let Some(found) = object.get(name).filter(|found| !found.is_string() && !found.is_null()) {
                    let found = go_kind(found);
                    return Err(format!("json: cannot unmarshal {found} into Go struct field .{name} of type string"));
                }
            }
            Ok(object)
        }
        Value::Null => Ok(Object::new()),
        other => Err(format!("json: cannot unmarshal {} into Go value of type {TYPE_META}", go_kind(&other))),
    }
}

/// A merge patch.
pub(crate) fn merge_patch(body: &[u8]) -> Answer<Value> {
    match value(body).map_err(|why| bad_request(format!("error decoding patch: {why}")))? {
        Value::Object(changes) => Ok(Value::Object(changes)),
        Value::Null => Err(bad_request("Invalid JSON Patch")),
        other => Err(bad_request(format!("error decoding patch: {}", not_a_map(&other)))),
    }
}

pub(crate) fn strategic_patch(body: &[u8]) -> Answer<Object> {
    match value(body).map_err(bad_request)? {
        Value::Object(changes) => Ok(changes),
        Value::Null => Ok(Map::new()),
        other => Err(bad_request(not_a_map(&other))),
    }
}

pub(crate) fn json_patch(body: &[u8]) -> Answer<Patch> {
    let wrong = |found: &Value, wanted: &str| {
        let found = go_kind(found);
        bad_request(format!("error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}"))
    };
    let operations = match value(body).map_err(|why| bad_request(format!("error decoding patch: {why}")))? {
        Value::Array(operations) => operations,
        Value::Null => vec![],
        other => return Err(wrong(&other, "[]handlers.jsonPatchOp")),
    };
    if let Some(other) = operations.iter().find(|operation| !operation.is_object()) {
        return Err(wrong(other, "handlers.jsonPatchOp"));
    }
    let mut odd = vec![];
    for (place, operation) in operations.iter().enumerate() {
        let names = operation.as_object().into_iter().flatten().map(|(name, _)| name);
        let unknown = names.filter(|name| !["op", "path", "from", "value"].contains(&name.as_str()));
        odd.extend(unknown.map(|name| format!("json patch unknown field \"[{place}].{name}\"")));
    }
    // An operation that does not exist, or lacks a part, fails when it is applied.
    let operations = serde_json::from_value(Value::Array(operations)).map_err(|_| patch_rejected())?;
    Ok(Patch::Json { operations, odd })
}

/// What a body applies. It is YAML, and mostly JSON, which is the same and read in less time.
pub(crate) fn applied(body: &[u8]) -> Answer<Object> {
    let read = serde_json::from_slice(body).or_else(|_| {
        let wrong = |error: &dyn std::fmt::Display| bad_request(format!("error decoding YAML: {error}"));
        let text = std::str::from_utf8(body).map_err(|error| wrong(&error))?;
        serde_saphyr::from_str::<Option<Value>>(text).map_err(|error| wrong(&error))
    })?;
    match read {
        Some(Value::Object(config)) => Ok(config),
        None | Some(Value::Null) => Ok(Object::new()),
        Some(other) => {
            let why = not_a_map(&other);
            let within = "error decoding YAML: error unmarshaling JSON: while decoding JSON";
            Err(bad_request(format!("{within}: {why}")))
        }
    }
}

fn not_a_map(found: &Value) -> String {
    format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", go_kind(found))
}

/// What Go's decoder calls a value.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The beginning of a body, for a person to recognise it by.
fn summary(body: &[u8]) -> String {
    const LIMIT: usize = 30;
    let start = &body[..body.len().min(LIMIT)];
    let more = if body.len() > LIMIT { " ..." } else { "" };
    match body.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => format!("{}{more}", start.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

/// A JSON value, or where it stops being one.
pub(crate) fn value(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|error| {
        let mut reader = Reader { body, place: 0 };
        reader.document().err().unwrap_or_else(|| error.to_string())
    })
}

/// Reads JSON as Go does, only to say what Go says where it is wrong.
struct Reader<'a> {
    body: &'a [u8],
    place: usize,
}

type Step = Result<(), String>;

impl Reader<'_> {
    fn document(&mut self) -> Step {
        self.value("looking for beginning of value")?;
        self.blanks();
        match self.peek() {
            None => Ok(()),
            Some(_) => self.wrong("after top-level value"),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.body.get(self.place).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.place += 1;
        }
    }

    fn wrong<T>(&self, context: &str) -> Result<T, String> {
        match self.peek() {
            None => Err("unexpected end of JSON input".into()),
            Some(byte) => Err(format!("invalid character {} {context}", quoted(byte))),
        }
    }

    fn expect(&mut self, wanted: u8, context: &str) -> Step {
        match self.peek() == Some(wanted) {
            true => {
                self.place += 1;
                Ok(())
            }
            false => self.wrong(context),
        }
    }

    fn value(&mut self, context: &str) -> Step {
        self.blanks();
        match self.peek() {
            Some(b'{') => self.members(),
            Some(b'[') => self.elements(),
            Some(b'"') => self.string(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.wrong(context),
        }
    }

    fn members(&mut self) -> Step {
        const KEY: &str = "looking for beginning of object key string";
        self.place += 1;
        self.blanks();
        if self.peek() == Some(b'}') {
            self.place += 1;
            return Ok(());
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return self.wrong(KEY);
            }
            self.string()?;
            self.blanks();
            self.expect(b':', "after object key")?;
            self.value("looking for beginning of value")?;
            self.blanks();
            match self.peek() {
                Some(b',') => self.place += 1,
                Some(b'}') => break,
                _ => return self.wrong("after object key:value pair"),
            }
        }
        self.place += 1;
        Ok(())
    }

    fn elements(&mut self) -> Step {
        self.place += 1;
        self.blanks();
        if self.peek() == Some(b']') {
            self.place += 1;
            return Ok(());
        }
        loop {
            self.value("looking for beginning of value")?;
            self.blanks();
            match self.peek() {
                Some(b',') => self.place += 1,
                Some(b']') => break,
                _ => return self.wrong("after array element"),
            }
        }
        self.place += 1;
        Ok(())
    }

    fn string(&mut self) -> Step {
        self.place += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.place += 1;
                    match self.peek() {
                        Some(b'u') => {
                            for _ in 0..4 {
                                self.place += 1;
                                if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                                    return self.wrong("in \\u hexadecimal character escape");
                                }
                            }
                        }
                        Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => {}
                        _ => return self.wrong("in string escape code"),
                    }
                    self.place += 1;
                }
                Some(0x20..) => self.place += 1,
                _ => return self.wrong("in string literal"),
            }
        }
        self.place += 1;
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Step {
        for letter in word.bytes() {
            let context = format!("in literal {word} (expecting {})", quoted(letter));
            self.expect(letter, &context)?;
        }
        Ok(())
    }

    fn number(&mut self) -> Step {
        if self.peek() == Some(b'-') {
            self.place += 1;
        }
        match self.peek() {
            Some(b'0') => self.place += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.wrong("in numeric literal"),
        }
        if self.peek() == Some(b'.') {
            self.place += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.place += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.place += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn some_digits(&mut self, context: &str) -> Step {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return self.wrong(context);
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.place += 1;
        }
    }
}

/// A byte as Go quotes it: each is taken for a letter of its own.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".into(),
        b'"' => "'\"'".into(),
        b'\n' => r"'\n'".into(),
        b'\t' => r"'\t'".into(),
        b'\r' => r"'\r'".into(),
        0x00..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..0xa1 | 0xad => format!("'\\u{byte:04x}'"),
        other => format!("'{}'", char::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_told_where_it_stops_being_json() {
        for (body, why) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("not json", "invalid character 'o' in literal null (expecting 'u')"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("{a: 1}", "invalid character 'a' looking for beginning of object key string"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            (r#"{"a":1 "b"}"#, "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
        ] {
            assert_eq!(value(body.as_bytes()).unwrap_err(), why, "{body}");
        }
    }

    #[test]
    fn what_is_json_is_read() {
        for body in ["{}", " [1, -2.5e+3, \"\\u00e4\", null, true] ", r#"{"a": {"b": []}}"#] {
            assert_eq!(value(body.as_bytes()).unwrap(), serde_json::from_str::<Value>(body).unwrap());
            assert_eq!(Reader { body: body.as_bytes(), place: 0 }.document(), Ok(()));
        }
    }

    #[test]
    fn a_body_is_recognised_by_its_beginning() {
        assert_eq!(summary(b""), "<empty>");
        assert_eq!(summary(b"[]"), "5b5d");
        assert_eq!(summary(br#"{"apiVersion":"v1","kind":"ConfigMap"}"#), r#"{"apiVersion":"v1","kind":"Con ..."#);
    }
}
