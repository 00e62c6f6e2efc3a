//! What is checked in the security contexts of pods and of their containers. Those for Windows are not looked at.

use serde_json::{Value, json};

use super::values::{check_known, listed, text};
use crate::apiserver::status::FieldError;

const CHANGE_POLICIES: [&str; 2] = ["Always", "OnRootMismatch"];
const GROUP_POLICIES: [&str; 2] = ["Merge", "Strict"];
const LABEL_POLICIES: [&str; 1] = ["Recursive"];
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const PROC_MOUNTS: [&str; 2] = ["Default", "Unmasked"];
const LONGEST_SYSCTL: usize = 253;
const LONGEST_PATH: usize = 4095;
const SYSCTL: &str = "must have at most 253 characters and match regex \
                      ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
/// The settings of a kernel that a pod in the host's own network, or beside the host's processes, shares with it.
const NETWORK_SETTINGS: &str = "net.";
const PROCESS_SETTINGS: [&str; 3] = ["kernel.shm", "kernel.msg", "fs.mqueue."];
const SEMAPHORES: &str = "kernel.sem";

/// The context of the pod whose spec stands at `path`.
pub(super) fn check_pod(path: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let place = format!("{path}.securityContext");
    let context = &spec["securityContext"];
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        check_id(&format!("{place}.{name}"), &context[name], errors);
    }
    for (index, group) in listed(context, "supplementalGroups").enumerate() {
        check_id(&format!("{place}.supplementalGroups[{index}]"), group, errors);
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(format!("{place}.shareProcessNamespace"), &json!(true), why));
    }
    check_settings(&place, spec, errors);
    if let Some(policy) = context.get("fsGroupChangePolicy") {
        check_known(&format!("{place}.fsGroupChangePolicy"), policy, &CHANGE_POLICIES, errors);
    }
    check_seccomp(&format!("{place}.seccompProfile"), &context["seccompProfile"], errors);
    check_app_armor(&format!("{place}.appArmorProfile"), &context["appArmorProfile"], errors);
    let policies = [("supplementalGroupsPolicy", GROUP_POLICIES.as_slice()), ("seLinuxChangePolicy", &LABEL_POLICIES)];
    for (name, known) in policies {
        if let Some(policy) = context.get(name) {
            check_known(&format!("{place}.{name}"), policy, known, errors);
        }
    }
}

/// A pod with users of its own shares nothing else with its host.
pub(super) fn check_host_users(path: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    if spec["hostUsers"] != false {
        return;
    }
    for (name, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec[name] == true {
            errors.push(FieldError::forbidden(format!("{path}.{shown}"), "when `hostUsers` is false"));
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in listed(spec, list).enumerate() {
            if listed(container, "volumeDevices").next().is_some() {
                let field = format!("{path}.{list}[{index}].volumeDevices");
                errors.push(FieldError::forbidden(field, "when `hostUsers` is false"));
            }
        }
    }
}

/// The context of a container that stands at `place`.
pub(super) fn check_container(place: &str, container: &Value, host_users: bool, errors: &mut Vec<FieldError>) {
    let place = format!("{place}.securityContext");
    let Some(context) = container.get("securityContext").filter(|context| context.is_object()) else { return };
    check_id(&format!("{place}.runAsUser"), &context["runAsUser"], errors);
    check_id(&format!("{place}.runAsGroup"), &context["runAsGroup"], errors);
    if let Some(mount) = context.get("procMount") {
        let field = format!("{place}.procMount");
        check_known(&field, mount, &PROC_MOUNTS, errors);
        if host_users && mount == "Unmasked" {
            errors.push(FieldError::invalid(field, mount, "`hostUsers` must be false to use `Unmasked`"));
        }
    }
    check_seccomp(&format!("{place}.seccompProfile"), &context["seccompProfile"], errors);
    check_escalation(&place, context, errors);
    check_app_armor(&format!("{place}.appArmorProfile"), &context["appArmorProfile"], errors);
}

/// Who may do everything already cannot be kept from more.
fn check_escalation(place: &str, context: &Value, errors: &mut Vec<FieldError>) {
    if context["allowPrivilegeEscalation"] != false {
        return;
    }
    let wrong = |why: &str| FieldError::invalid_as(place, &inner(context), why);
    if context["privileged"] == true {
        errors.push(wrong("cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
    }
    for _ in listed(&context["capabilities"], "add").filter(|capability| **capability == "CAP_SYS_ADMIN") {
        errors.push(wrong("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"));
    }
}

/// A context as the original shows it in a refusal: by the names that its fields have inside, in their order.
fn inner(context: &Value) -> String {
    let shown = |value: &Value, fields: &[&str]| match value {
        Value::Null => "null".to_string(),
        value => {
            let shown = fields.iter().map(|name| {
                let stated = value.get(name).filter(|stated| !stated.is_null());
                format!("{:?}:{}", inner_name(name), stated.unwrap_or(&Value::Null))
            });
            format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
        }
    };
    let labels = match &context["seLinuxOptions"] {
        Value::Null => Value::Null,
        stated => {
            let said = |name: &str| text(stated, name);
            json!({ "user": said("user"), "role": said("role"), "type": said("type"), "level": said("level") })
        }
    };
    let parts = [
        ("capabilities", shown(&context["capabilities"], &["add", "drop"])),
        ("privileged", context["privileged"].to_string()),
        ("seLinuxOptions", shown(&labels, &["user", "role", "type", "level"])),
        ("windowsOptions", context["windowsOptions"].to_string()),
        ("runAsUser", context["runAsUser"].to_string()),
        ("runAsGroup", context["runAsGroup"].to_string()),
        ("runAsNonRoot", context["runAsNonRoot"].to_string()),
        ("readOnlyRootFilesystem", context["readOnlyRootFilesystem"].to_string()),
        ("allowPrivilegeEscalation", context["allowPrivilegeEscalation"].to_string()),
        ("procMount", context["procMount"].to_string()),
        ("seccompProfile", shown(&context["seccompProfile"], &["type", "localhostProfile"])),
        ("appArmorProfile", shown(&context["appArmorProfile"], &["type", "localhostProfile"])),
    ];
    let parts: Vec<_> = parts.iter().map(|(name, value)| format!("{:?}:{value}", inner_name(name))).collect();
    format!("{{{}}}", parts.join(","))
}

fn inner_name(name: &str) -> String {
    match name {
        "seLinuxOptions" => "SELinuxOptions".into(),
        name => name[..1].to_uppercase() + &name[1..],
    }
}

fn check_id(field: &str, id: &Value, errors: &mut Vec<FieldError>) {
    if id.as_i64().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
        errors.push(FieldError::invalid(field, id, "must be between 0 and 2147483647, inclusive"));
    }
}

fn check_settings(place: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = vec![];
    for (index, setting) in listed(&spec["securityContext"], "sysctls").enumerate() {
        let field = format!("{place}.sysctls[{index}].name");
        let name = text(setting, "name");
        if name.is_empty() {
            errors.push(FieldError::required(field.as_str(), ""));
        } else if !is_setting(name) {
            errors.push(FieldError::invalid(field.as_str(), &json!(name), SYSCTL));
        } else if seen.contains(&name) {
            errors.push(FieldError::duplicate(field.as_str(), &json!(name)));
        }
        let dotted = name.replace('/', ".");
        let of_processes = dotted == SEMAPHORES || PROCESS_SETTINGS.iter().any(|start| dotted.starts_with(start));
        let shared = match dotted.starts_with(NETWORK_SETTINGS) {
            true => "hostNetwork",
            false if of_processes => "hostIPC",
            false => "",
        };
        if !shared.is_empty() && spec[shared] == true {
            let why = format!("may not be specified when '{shared}' is true");
            errors.push(FieldError::invalid(field, &json!(name), &why));
        }
        seen.push(name);
    }
}

/// `kernel.shm_rmid_forced`, or the same with slashes.
fn is_setting(name: &str) -> bool {
    let edge = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.first().is_some_and(|first| edge(*first))
            && bytes.last().is_some_and(|last| edge(*last))
            && bytes.iter().all(|letter| edge(*letter) || matches!(letter, b'-' | b'_'))
    };
    name.len() <= LONGEST_SYSCTL && name.split(['.', '/']).all(is_segment)
}

fn check_seccomp(place: &str, profile: &Value, errors: &mut Vec<FieldError>) {
    if !profile.is_object() {
        return;
    }
    let kind = text(profile, "type");
    match kind {
        "" => errors.push(FieldError::required(format!("{place}.type"), "type is required when seccompProfile is set")),
        _ => check_known(&format!("{place}.type"), &profile["type"], &PROFILES, errors),
    }
    let field = format!("{place}.localhostProfile");
    match (kind, profile["localhostProfile"].as_str()) {
        ("Localhost", None) => {
            errors.push(FieldError::required(field, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(path)) => {
            if path.starts_with('/') {
                errors.push(FieldError::invalid(field.as_str(), &json!(path), "must be a relative path"));
            }
            if path.split('/').any(|part| part == "..") {
                errors.push(FieldError::invalid(field, &json!(path), "must not contain '..'"));
            }
        }
        (_, None) => {}
        (_, Some(path)) => {
            let shown = format!("{{\"Type\":{},\"LocalhostProfile\":{}}}", json!(kind), json!(path));
            errors.push(FieldError::invalid_as(field, &shown, "can only be set when seccomp type is Localhost"));
        }
    }
}

fn check_app_armor(place: &str, profile: &Value, errors: &mut Vec<FieldError>) {
    if !profile.is_object() {
        return;
    }
    let field = format!("{place}.localhostProfile");
    let needed = "must be set when AppArmor type is Localhost";
    match (text(profile, "type"), profile["localhostProfile"].as_str()) {
        ("Localhost", None) => errors.push(FieldError::required(field, needed)),
        ("Localhost", Some(path)) => {
            if path.trim() != path {
                let why = "must not be padded with whitespace";
                errors.push(FieldError::invalid(field.as_str(), &json!(path), why));
            } else if path.is_empty() {
                errors.push(FieldError::required(field.as_str(), needed));
            }
            if path.len() > LONGEST_PATH {
                errors.push(FieldError::too_long(field, LONGEST_PATH as u64));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(path)) => {
            let why = "can only be set when AppArmor type is Localhost";
            errors.push(FieldError::invalid(field, &json!(path), why));
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => {
            let why = "type is required when appArmorProfile is set";
            errors.push(FieldError::required(format!("{place}.type"), why));
        }
        _ => check_known(&format!("{place}.type"), &profile["type"], &PROFILES, errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_kernel_have_dots_or_slashes() {
        for good in ["kernel.shm_rmid_forced", "net/ipv4/tcp_syncookies", "a"] {
            assert!(is_setting(good), "{good}");
        }
        for bad in ["", "a..b", "_a", "a.", "Kernel", &"a".repeat(254)] {
            assert!(!is_setting(bad), "{bad}");
        }
    }

    #[test]
    fn a_context_is_shown_by_its_inner_names() {
        let shown = inner(&json!({ "privileged": true, "capabilities": { "add": ["NET_ADMIN"] } }));
        assert!(shown.starts_with(
            "{\"Capabilities\":{\"Add\":[\"NET_ADMIN\"],\"Drop\":null},\"Privileged\":true,\"SELinuxOptions\":null,"
        ));
    }
}
