//! Writes down how Kubernetes encodes its built-in kinds in protobuf: which number stands for which field of the JSON.
//!
//! The `.proto` files of the Go modules say which numbers and types there are; the struct tags in the Go files beside
//! them say how JSON calls a field, whether it stands there when it is empty, and which structs are spread into others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::error::{Error, OnFile, Result};
use crate::pins::kubernetes_version;

/// The modules that hold the kinds which clients send.
const MODULES: [&str; 4] = ["api", "apimachinery", "apiextensions-apiserver", "kube-aggregator"];
const COMPRESSION: i32 = 19;

/// A field: its number, its name in JSON (empty if it is spread), its type, and what is particular about it.
type Field = (u32, String, String, String);

/// Reads the modules in Go's cache and writes the table to `file`.
pub fn write_table(file: &Path) -> Result<()> {
    let cache = module_cache()?;
    // k8s.io/api v0.34.4 belongs to Kubernetes v1.34.4.
    let version = kubernetes_version().replacen("v1.", "v0.", 1);
    let mut messages = BTreeMap::new();
    for module in MODULES {
        let folder = cache.join(format!("k8s.io/{module}@{version}"));
        read_folder(&folder, &mut messages)?;
    }
    let table = json!(messages).to_string();
    let packed = zstd::bulk::compress(table.as_bytes(), COMPRESSION).on_file("compress the table for", file)?;
    std::fs::write(file, packed).on_file("write", file)
}

fn module_cache() -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["env", "GOMODCACHE"])
        .output()
        .map_err(|source| Error::Start { name: "go".into(), source })?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn read_folder(folder: &Path, messages: &mut BTreeMap<String, Vec<Field>>) -> Result<()> {
    let mut entries = vec![];
    for entry in std::fs::read_dir(folder).on_file("read", folder)? {
        entries.push(entry.on_file("read", folder)?.path());
    }
    entries.sort();
    let proto = folder.join("generated.proto");
    if entries.contains(&proto) {
        let text = std::fs::read_to_string(&proto).on_file("read", &proto)?;
        let mut tags = BTreeMap::new();
        for path in entries.iter().filter(|path| path.extension().is_some_and(|end| end == "go")) {
            read_tags(&std::fs::read_to_string(path).on_file("read", path)?, &mut tags);
        }
        read_proto(&text, &tags, messages);
    }
    for path in entries.iter().filter(|path| path.is_dir()) {
        read_folder(path, messages)?;
    }
    Ok(())
}

/// What the tags of a Go struct say of a field.
struct Tag {
    /// Empty if the struct is spread.
    name: String,
    /// Whether JSON leaves it out when it is zero.
    omits_zero: bool,
}

/// The tags of all structs in a Go file, by struct and field number.
fn read_tags(source: &str, tags: &mut BTreeMap<(String, u32), Tag>) {
    let mut name = String::new();
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("type ") {
            name = rest.split(' ').next().unwrap_or_default().into();
        }
        let Some((before, tag)) = line.split_once('`') else { continue };
        let (Some(json), Some(protobuf)) = (quoted(tag, "json:"), quoted(tag, "protobuf:")) else { continue };
        let Some(number) = protobuf.split(',').nth(1).and_then(|number| number.parse().ok()) else { continue };
        let is_pointer = before.split_whitespace().last().is_some_and(|kind| kind.starts_with('*'));
        let mut parts = json.split(',');
        let field = parts.next().unwrap_or_default().to_owned();
        let omits_zero = parts.any(|part| part == "omitempty") && !is_pointer;
        tags.insert((name.clone(), number), Tag { name: field, omits_zero });
    }
}

/// The text in quotes after a key.
fn quoted<'a>(tag: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(key)?;
    rest.strip_prefix('"')?.split('"').next()
}

fn read_proto(text: &str, tags: &BTreeMap<(String, u32), Tag>, messages: &mut BTreeMap<String, Vec<Field>>) {
    let mut package = "";
    let mut message = "";
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if let Some(name) = line.strip_prefix("package ") {
            package = name.trim_end_matches(';');
        } else if let Some(name) = line.strip_prefix("message ") {
            message = name.trim_end_matches('{').trim();
            messages.insert(short(&format!("{package}.{message}")), vec![]);
        } else if let Some((declared, number)) = line.trim_end_matches(';').split_once(" = ") {
            let Ok(number) = number.parse() else { continue };
            let Some((kind, name)) = declared.rsplit_once(' ') else { continue };
            let (flags, kind) = match (kind.strip_prefix("map<string, "), kind.split_once(' ')) {
                (Some(value), _) => ("m", value.trim_end_matches('>')),
                (None, Some(("repeated", kind))) => ("r", kind),
                (None, Some((_, kind))) => ("", kind),
                (None, None) => continue,
            };
            let tag = tags.get(&(message.to_owned(), number));
            let omits = if tag.is_some_and(|tag| tag.omits_zero) { "o" } else { "" };
            let name = tag.map_or(name, |tag| tag.name.as_str()).to_owned();
            let field = (number, name, resolved(kind, package), format!("{flags}{omits}"));
            messages.entry(short(&format!("{package}.{message}"))).or_default().push(field);
        }
    }
}

/// A type by its full name, or a basic one.
fn resolved(kind: &str, package: &str) -> String {
    match kind {
        "string" | "bytes" | "bool" | "int32" | "int64" | "double" | "float" => kind.into(),
        _ => match kind.strip_prefix('.') {
            Some(full) => short(full),
            None => short(&format!("{package}.{kind}")),
        },
    }
}

/// `core.v1.Pod`, `meta.v1.ObjectMeta`
fn short(name: &str) -> String {
    let prefixes = ["k8s.io.api.", "k8s.io.apimachinery.pkg.apis.", "k8s.io.apimachinery.pkg."];
    let name = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    let (_, inner) = name.split_once(".pkg.apis.").unwrap_or(("", name));
    inner.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_with_the_names_that_json_uses() {
        let go = "type Probe struct {\n\tProbeHandler `json:\",inline\" protobuf:\"bytes,1,opt,name=handler\"`\n\
                  \tPeriod int32 `json:\"periodSeconds,omitempty\" protobuf:\"varint,2,opt,name=periodSeconds\"`\n\
                  \tGrace *int64 `json:\"grace,omitempty\" protobuf:\"varint,3,opt,name=grace\"`\n}\n";
        let proto = "package k8s.io.api.core.v1;\nmessage Probe {\n  optional ProbeHandler handler = 1;\n  \
                     optional int32 periodSeconds = 2;\n  optional int64 grace = 3;\n  map<string, \
                     .k8s.io.apimachinery.pkg.api.resource.Quantity> limits = 4;\n}\n";
        let mut tags = BTreeMap::new();
        read_tags(go, &mut tags);
        let mut messages = BTreeMap::new();
        read_proto(proto, &tags, &mut messages);
        let field = |number, name: &str, kind: &str, flags: &str| (number, name.into(), kind.into(), flags.into());
        let expected: Vec<Field> = vec![
            field(1, "", "core.v1.ProbeHandler", ""),
            field(2, "periodSeconds", "int32", "o"),
            field(3, "grace", "int64", ""),
            field(4, "limits", "api.resource.Quantity", "m"),
        ];
        assert_eq!(messages["core.v1.Probe"], expected);
    }
}
