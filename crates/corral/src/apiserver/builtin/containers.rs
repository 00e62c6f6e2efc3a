//! What is checked in the containers of a pod, or of a template of pods.

use drover_api::quantity;
use serde_json::{Value, json};

use super::{
    security,
    values::{check_known, check_label, check_port, text},
};
use crate::apiserver::{names, status::FieldError};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: [&str; 2] = ["File", "FallbackToLogsOnError"];
const SCHEMES: [&str; 2] = ["HTTP", "HTTPS"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used \
                      for validation is '[-A-Za-z0-9]+')";
/// The ways in which a container can be looked at or spoken to, in the order in which they are checked.
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
/// What may be said of a container that is added to a running pod.
const EPHEMERAL: [&str; 16] = [
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "env",
    "envFrom",
    "volumeMounts",
    "volumeDevices",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
];

/// The lists of containers in the spec at `path`, in the order in which the original looks at them.
pub(super) fn check(path: &str, spec: &Value, volumes: &[&str], errors: &mut Vec<FieldError>) {
    let pod = Pod { spec, volumes };
    check_regular(path, &pod, errors);
    check_initial(path, &pod, errors);
    check_ephemeral(path, &pod, errors);
}

/// What containers are in.
struct Pod<'a> {
    spec: &'a Value,
    /// Those that may be mounted.
    volumes: &'a [&'a str],
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn check_regular(path: &str, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    let (path, containers) = (format!("{path}.containers"), list(pod.spec, "containers"));
    if containers.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let mut seen: Vec<&str> = vec![];
    for (index, container) in containers.iter().enumerate() {
        let place = format!("{path}[{index}]");
        check_common(&place, container, pod, errors);
        check_unique(&place, text(container, "name"), &mut seen, errors);
        check_lifecycle(&place, container, pod, errors);
        check_probes(&place, container, pod, errors);
    }
    check_host_ports(&path, containers, errors);
}

fn check_initial(path: &str, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    let spec = pod.spec;
    let mut seen: Vec<&str> = list(spec, "containers").iter().map(|container| text(container, "name")).collect();
    for (index, container) in list(spec, "initContainers").iter().enumerate() {
        let place = format!("{path}.initContainers[{index}]");
        check_common(&place, container, pod, errors);
        check_unique(&place, text(container, "name"), &mut seen, errors);
        if text(container, "restartPolicy") == "Always" {
            check_lifecycle(&place, container, pod, errors);
            check_probes(&place, container, pod, errors);
            continue;
        }
        for name in ["lifecycle"].iter().chain(&PROBES).filter(|name| container.get(**name).is_some()) {
            let why = "may not be set for init containers without restartPolicy=Always";
            errors.push(FieldError::forbidden(format!("{place}.{name}"), why));
        }
    }
}

fn check_ephemeral(path: &str, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    let spec = pod.spec;
    let others: Vec<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|name| list(spec, name))
        .map(|container| text(container, "name"))
        .collect();
    let mut seen = others.clone();
    for (index, container) in list(spec, "ephemeralContainers").iter().enumerate() {
        let place = format!("{path}.ephemeralContainers[{index}]");
        check_common(&place, container, pod, errors);
        check_unique(&place, text(container, "name"), &mut seen, errors);
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(&target) {
            errors.push(FieldError::not_found(format!("{place}.targetContainerName"), &json!(target)));
        }
        let fields = container.as_object().into_iter().flatten();
        let stated =
            fields.filter(|(_, value)| **value != json!({}) && !value.is_null()).map(|(name, _)| name.as_str());
        for name in stated.filter(|name| !EPHEMERAL.contains(name) && *name != "targetContainerName") {
            let why = "cannot be set for an Ephemeral Container";
            errors.push(FieldError::forbidden(format!("{place}.{name}"), why));
        }
    }
}

fn check_unique<'a>(place: &str, name: &'a str, seen: &mut Vec<&'a str>, errors: &mut Vec<FieldError>) {
    match seen.contains(&name) {
        true => errors.push(FieldError::duplicate(format!("{place}.name"), &json!(name))),
        false => seen.push(name),
    }
}

fn check_common(place: &str, container: &Value, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    match text(container, "name") {
        "" => errors.push(FieldError::required(format!("{place}.name"), "")),
        name => check_label(&format!("{place}.name"), name, errors),
    }
    if text(container, "image").is_empty() {
        errors.push(FieldError::required(format!("{place}.image"), ""));
    }
    let policy = container.get("terminationMessagePolicy").unwrap_or(&Value::Null);
    check_known(&format!("{place}.terminationMessagePolicy"), policy, &MESSAGE_POLICIES, errors);
    check_ports(place, container, errors);
    check_environment(place, container, errors);
    check_mounts(place, container, pod.volumes, errors);
    let policy = container.get("imagePullPolicy").unwrap_or(&Value::Null);
    check_known(&format!("{place}.imagePullPolicy"), policy, &PULL_POLICIES, errors);
    check_resources(&format!("{place}.resources"), &container["resources"], errors);
    security::check_container(place, container, pod.spec["hostUsers"] != false, errors);
}

fn check_ports(place: &str, container: &Value, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = vec![];
    for (index, port) in list(container, "ports").iter().enumerate() {
        let field = |name: &str| format!("{place}.ports[{index}].{name}");
        match text(port, "name") {
            "" => {}
            name => match names::port(name) {
                wrong if !wrong.is_empty() => {
                    errors.extend(wrong.iter().map(|why| FieldError::invalid(field("name"), &json!(name), why)));
                }
                _ if seen.contains(&name) => errors.push(FieldError::duplicate(field("name"), &json!(name))),
                _ => seen.push(name),
            },
        }
        match port.get("containerPort").and_then(Value::as_i64).unwrap_or_default() {
            0 => errors.push(FieldError::required(field("containerPort"), "")),
            _ => check_port(&field("containerPort"), &port["containerPort"], errors),
        }
        if let Some(number) = port.get("hostPort").filter(|number| **number != 0) {
            check_port(&field("hostPort"), number, errors);
        }
        check_known(&field("protocol"), &port["protocol"], &PROTOCOLS, errors);
    }
}

fn check_host_ports(path: &str, containers: &[Value], errors: &mut Vec<FieldError>) {
    let mut seen: Vec<String> = vec![];
    for (index, container) in containers.iter().enumerate() {
        for (place, port) in list(container, "ports").iter().enumerate() {
            let Some(number) = port.get("hostPort").and_then(Value::as_i64).filter(|number| *number != 0) else {
                continue;
            };
            let taken = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            match seen.contains(&taken) {
                true => errors
                    .push(FieldError::duplicate(format!("{path}[{index}].ports[{place}].hostPort"), &json!(taken))),
                false => seen.push(taken),
            }
        }
    }
}

fn check_environment(place: &str, container: &Value, errors: &mut Vec<FieldError>) {
    for (index, variable) in list(container, "env").iter().enumerate() {
        let field = |name: &str| format!("{place}.env[{index}].{name}");
        match text(variable, "name") {
            "" => errors.push(FieldError::required(field("name"), "")),
            name if !name.bytes().all(|letter| (b' '..=b'~').contains(&letter) && letter != b'=') => {
                let why = "a valid environment variable name must consist only of printable ASCII characters other than \
                           '='";
                errors.push(FieldError::invalid(field("name"), &json!(name), why));
            }
            _ => {}
        }
        let Some(Value::Object(source)) = variable.get("valueFrom") else { continue };
        let sources = SOURCES.iter().filter(|name| source.contains_key(**name)).count();
        let why = match sources {
            0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(field("valueFrom"), &json!(""), why));
    }
}

fn check_mounts(place: &str, container: &Value, volumes: &[&str], errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = vec![];
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let field = |name: &str| format!("{place}.volumeMounts[{index}].{name}");
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(field("name"), ""));
        }
        if !volumes.contains(&name) {
            errors.push(FieldError::not_found(field("name"), &json!(name)));
        }
        if path.is_empty() {
            errors.push(FieldError::required(field("mountPath"), ""));
        }
        if seen.contains(&path) {
            errors.push(FieldError::invalid(field("mountPath"), &json!(path), "must be unique"));
        }
        seen.push(path);
    }
}

/// No more may be asked for than is allowed.
fn check_resources(place: &str, resources: &Value, errors: &mut Vec<FieldError>) {
    let amounts = |part: &str| resources.get(part).and_then(Value::as_object).into_iter().flatten();
    for part in ["limits", "requests"] {
        for (name, amount) in amounts(part) {
            let amount = amount.as_str().unwrap_or_default();
            if quantity::compare(amount, "0").is_some_and(|order| order.is_lt()) {
                let field = format!("{place}.{part}[{name}]");
                errors.push(FieldError::invalid(field, &json!(amount), "must be greater than or equal to 0"));
            }
            let limit = if part == "requests" { resources["limits"].get(name).and_then(Value::as_str) } else { None };
            if let Some(limit) = limit
                && quantity::compare(amount, limit).is_some_and(|order| order.is_gt())
            {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(format!("{place}.requests"), &json!(amount), &why));
            }
        }
    }
}

/// What is done when a container has begun, and before it is ended.
fn check_lifecycle(place: &str, container: &Value, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    for name in ["postStart", "preStop"] {
        if let Some(hook) = container["lifecycle"].get(name).filter(|hook| hook.is_object()) {
            check_handler(&format!("{place}.lifecycle.{name}"), hook, pod, errors);
        }
    }
}

fn check_probes(place: &str, container: &Value, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    for name in PROBES {
        let Some(probe) = container.get(name).filter(|probe| probe.is_object()) else { continue };
        let place = format!("{place}.{name}");
        check_handler(&place, probe, pod, errors);
        for number in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            if let Some(value) = probe.get(number).filter(|value| value.as_i64().is_some_and(|number| number < 0)) {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(format!("{place}.{number}"), value, why));
            }
        }
        if name != "readinessProbe" && probe["successThreshold"] != 1 {
            errors.push(FieldError::invalid(
                format!("{place}.successThreshold"),
                &probe["successThreshold"],
                "must be 1",
            ));
        }
    }
}

fn check_handler(place: &str, probe: &Value, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    let mut stated = HANDLERS.iter().filter(|name| probe.get(**name).is_some());
    let Some(first) = stated.next() else {
        errors.push(FieldError::required(place, "must specify a handler type"));
        return;
    };
    let field = |name: &str| format!("{place}.{first}.{name}");
    let handler = &probe[first];
    match *first {
        "exec" if list(handler, "command").is_empty() => errors.push(FieldError::required(field("command"), "")),
        "httpGet" => {
            if text(handler, "path").is_empty() {
                errors.push(FieldError::required(field("path"), ""));
            }
            check_number_or_name(&field("port"), &handler["port"], errors);
            check_known(&field("scheme"), &handler["scheme"], &SCHEMES, errors);
            for name in list(handler, "httpHeaders").iter().map(|header| text(header, "name")) {
                let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-';
                if name.is_empty() || !name.bytes().all(is_letter) {
                    errors.push(FieldError::invalid(field("httpHeaders"), &json!(name), HEADER));
                }
            }
        }
        "sleep" => {
            let grace = pod.spec["terminationGracePeriodSeconds"].as_i64().unwrap_or_default();
            let seconds = handler["seconds"].as_i64().unwrap_or_default();
            if !(0..=grace).contains(&seconds) {
                let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                errors.push(FieldError::invalid(format!("{place}.sleep"), &json!(seconds), &why));
            }
        }
        "tcpSocket" | "grpc" => check_number_or_name(&field("port"), &handler["port"], errors),
        _ => {}
    }
    for other in stated {
        errors.push(FieldError::forbidden(format!("{place}.{other}"), "may not specify more than 1 handler type"));
    }
}

fn check_number_or_name(field: &str, port: &Value, errors: &mut Vec<FieldError>) {
    match port {
        Value::String(name) => {
            errors.extend(names::port(name).iter().map(|why| FieldError::invalid(field, port, why)));
        }
        number => check_port(field, number, errors),
    }
}
