//! Services, and the addresses and ports that each gets.

use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::values::{check_known, check_label, check_port, check_subdomain};
use crate::apiserver::{
    names,
    object::{Meta, Object, at, child, fill, text},
    resources::{ResourceId, Rules},
    status::{Answer, FieldError, internal, invalid},
    store::{Cause, Store},
};

/// Where addresses come from: a /12, of which the first few are left for those who choose theirs.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const ADDRESSES: u32 = 1 << 20;
const RANGE: &str = "10.96.0.0/12";
const FIRST_DRAWN: u32 = 256;
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;
/// The place of the type among the selectable fields.
const TYPE: usize = 1;

pub(super) struct ServiceRules;

impl Rules for ServiceRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        let spec = child(object, "spec");
        fill(spec, "sessionAffinity", "None");
        fill(spec, "type", "ClusterIP");
        if spec["sessionAffinity"] == "None" {
            spec.remove("sessionAffinityConfig");
        } else if spec["sessionAffinity"] == "ClientIP" {
            fill(child(child(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", 10800);
        }
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let Value::Object(port) = port else { continue };
            fill(port, "protocol", "TCP");
            if matches!(port.get("targetPort"), None | Some(Value::Null)) || port["targetPort"] == 0 {
                port.insert("targetPort".into(), port.get("port").cloned().unwrap_or(json!(0)));
            }
        }
        let kind = spec["type"].as_str().unwrap_or_default().to_string();
        let has_external_ips = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && has_external_ips) {
            fill(spec, "externalTrafficPolicy", "Cluster");
        }
        if kind != "ExternalName" {
            fill(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            fill(spec, "allocateLoadBalancerNodePorts", true);
        }
    }

    fn prepare_create(&self, object: &mut Object, _at: Timestamp) {
        object.remove("status");
        name_family(child(object, "spec"));
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        let (before, after) = (text(old, &["spec", "type"]).to_string(), text(new, &["spec", "type"]).to_string());
        let spec = child(new, "spec");
        let old_spec = old.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        let same = |spec: &Object, name: &str| spec.get(name) == old_spec.get(name);
        if after == "ExternalName" && before != "ExternalName" {
            for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if same(spec, name) {
                    spec.remove(name);
                }
            }
        } else if after != "ExternalName" {
            for name in ["clusterIP", "clusterIPs"] {
                if let Some(known) = old_spec.get(name) {
                    fill(spec, name, known.clone());
                }
            }
        }
        if needs_node_ports(&before) && !needs_node_ports(&after) {
            drop_node_ports(spec, &old_spec);
        } else if needs_node_ports(&after) {
            keep_node_ports(spec, &old_spec);
        }
        for (name, kinds) in [
            ("allocateLoadBalancerNodePorts", &["LoadBalancer"][..]),
            ("loadBalancerClass", &["LoadBalancer"]),
            ("externalTrafficPolicy", &["LoadBalancer", "NodePort"]),
        ] {
            if kinds.contains(&before.as_str()) && !kinds.contains(&after.as_str()) && same(spec, name) {
                spec.remove(name);
            }
        }
        name_family(spec);
        if after != "LoadBalancer" {
            child(new, "status").insert("loadBalancer".into(), json!({}));
        }
    }

    fn allocate(&self, store: &mut Store, cause: &Cause<'_>, object: &mut Object) -> Answer<()> {
        allocate_address(store, cause, object)?;
        allocate_node_ports(store, object)
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let kind = text(object, &["spec", "type"]);
        let headless = text(object, &["spec", "clusterIP"]) == "None";
        let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        if ports.is_empty() && !headless && kind != "ExternalName" {
            errors.push(FieldError::required("spec.ports", ""));
        }
        check_kind(spec, kind, headless, errors);
        check_ports(ports, errors);
        for (key, value) in spec["selector"].as_object().into_iter().flatten() {
            let wrong = |text: &str, why: &String| FieldError::invalid("spec.selector", &json!(text), why);
            errors.extend(names::qualified(key).iter().map(|why| wrong(key, why)));
            let value = value.as_str().unwrap_or_default();
            errors.extend(names::label_value(value).iter().map(|why| wrong(value, why)));
        }
        check_known("spec.sessionAffinity", &spec["sessionAffinity"], &["ClientIP", "None"], errors);
        check_addresses(spec, errors);
        let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        check_known("spec.type", &spec["type"], &kinds, errors);
        check_node_ports(ports, kind, errors);
        if !spec["allocateLoadBalancerNodePorts"].is_null() && kind != "LoadBalancer" {
            let why = "may only be used when `type` is 'LoadBalancer'";
            errors.push(FieldError::forbidden("spec.allocateLoadBalancerNodePorts", why));
        }
        if !spec["externalTrafficPolicy"].is_null() {
            check_known("spec.externalTrafficPolicy", &spec["externalTrafficPolicy"], &["Cluster", "Local"], errors);
        }
        if !spec["internalTrafficPolicy"].is_null() {
            check_known("spec.internalTrafficPolicy", &spec["internalTrafficPolicy"], &["Cluster", "Local"], errors);
        }
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        let (before, after) = (at(old, &["spec", "clusterIPs"]), at(new, &["spec", "clusterIPs"]));
        let external = [old, new].iter().any(|object| text(object, &["spec", "type"]) == "ExternalName");
        let first = |ips: Option<&Value>| ips.and_then(|ips| ips.get(0)).cloned();
        if !external && first(before).is_some() && first(before) != first(after) {
            let why = "may not change once set";
            errors.push(FieldError::invalid("spec.clusterIPs[0]", after.unwrap_or(&Value::Null), why));
        }
    }

    fn selectable(&self) -> &[&'static str] {
        &["spec.clusterIP", "spec.type"]
    }
}

fn needs_node_ports(kind: &str) -> bool {
    matches!(kind, "NodePort" | "LoadBalancer")
}

/// One family of addresses is all that this server has.
fn name_family(spec: &mut Object) {
    if spec.get("type").is_some_and(|kind| kind == "ExternalName") {
        return;
    }
    if let Some(address) = spec.get("clusterIP").and_then(Value::as_str).filter(|ip| !ip.is_empty()).map(String::from) {
        fill(spec, "clusterIPs", json!([address]));
    }
    fill(spec, "ipFamilies", json!(["IPv4"]));
    fill(spec, "ipFamilyPolicy", "SingleStack");
}

fn drop_node_ports(spec: &mut Object, old: &Object) {
    let numbers = |spec: &Object| -> Vec<Value> {
        spec.get("ports").and_then(Value::as_array).into_iter().flatten().map(|port| port["nodePort"].clone()).collect()
    };
    if numbers(spec) == numbers(old) {
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
}

/// A port that does not say keeps the number that one of its name has.
fn keep_node_ports(spec: &mut Object, old: &Object) {
    let old_ports = old.get("ports").and_then(Value::as_array).cloned().unwrap_or_default();
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    let Some(ports) = ports else { return };
    let taken: Vec<Value> = ports.iter().map(|port| port["nodePort"].clone()).collect();
    for port in ports {
        let known = old_ports.iter().find(|old| old["name"] == port["name"]).map(|old| old["nodePort"].clone());
        if let (Value::Object(port), Some(known)) =
            (port, known.filter(|known| !known.is_null() && !taken.contains(known)))
        {
            fill(port, "nodePort", known);
        }
    }
}

fn addresses() -> ResourceId {
    ResourceId::new("networking.k8s.io", "ipaddresses", "IPAddress")
}

fn allocate_address(store: &mut Store, cause: &Cause<'_>, object: &mut Object) -> Answer<()> {
    let address = text(object, &["spec", "clusterIP"]).to_string();
    if text(object, &["spec", "type"]) == "ExternalName" || address == "None" {
        return Ok(());
    }
    let owner = json!({ "group": "", "resource": "services", "namespace": object.namespace(), "name": object.name() });
    let address = match address.as_str() {
        "" => draw_address(store, object)?,
        stated if !is_in_range(stated) => {
            let why = format!(
                "failed to allocate IP {stated}: the provided IP ({stated}) is not in the valid range. The range of valid \
                 IPs is {RANGE}"
            );
            let error = FieldError::invalid("spec.clusterIPs", &json!([stated]), &why);
            return Err(invalid("", "Service", object.name(), &[error]));
        }
        stated => match store.get(&addresses(), stated) {
            None => stated.to_string(),
            Some(taken) if taken.object()?.get("spec").is_some_and(|spec| spec["parentRef"] == owner) => return Ok(()),
            Some(_) => {
                let why = "failed to allocate IP ".to_string() + stated + ": provided IP is already allocated";
                let error = FieldError::invalid("spec.clusterIPs", &json!([stated]), &why);
                return Err(invalid("", "Service", object.name(), &[error]));
            }
        },
    };
    let spec = child(object, "spec");
    spec.insert("clusterIP".into(), json!(address));
    spec.insert("clusterIPs".into(), json!([address]));
    let labels = json!({ "ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io" });
    let taken = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {
            "name": address, "labels": labels, "uid": store.identities.uid(store.revision + 1, 1),
            "creationTimestamp": crate::apiserver::object::moment(cause.at),
        },
        "spec": { "parentRef": owner },
    });
    if let Value::Object(taken) = taken {
        store.put(cause, &addresses(), &address, taken)?;
    }
    Ok(())
}

fn is_in_range(address: &str) -> bool {
    let place =
        address.parse().ok().and_then(|address: Ipv4Addr| u32::from(address).checked_sub(u32::from(FIRST_ADDRESS)));
    place.is_some_and(|place| place < ADDRESSES)
}

/// A free address that follows from the uid.
fn draw_address(store: &Store, object: &Object) -> Answer<String> {
    let drawn = ADDRESSES - FIRST_DRAWN - 1;
    let start = digits(object.uid()) % drawn;
    let address =
        |step: u32| Ipv4Addr::from(u32::from(FIRST_ADDRESS) + FIRST_DRAWN + (start + step) % drawn).to_string();
    let free = (0..drawn).map(address).find(|address| store.get(&addresses(), address).is_none());
    free.ok_or_else(|| internal("failed to allocate a serviceIP: range is full"))
}

/// A number that follows from a uid.
fn digits(uid: &str) -> u32 {
    let hex: String = uid.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    u32::from_str_radix(&hex, 16).unwrap_or_default()
}

/// Gives back the addresses of a service that is gone.
pub(crate) fn release(store: &mut Store, cause: &Cause<'_>, service: &Object) -> Answer<()> {
    let address = text(service, &["spec", "clusterIP"]);
    let Some(taken) = store.get(&addresses(), address) else { return Ok(()) };
    let taken = taken.object()?;
    store.remove(cause, &addresses(), address, taken).map(|_| ())
}

fn allocate_node_ports(store: &Store, object: &mut Object) -> Answer<()> {
    let kind = text(object, &["spec", "type"]);
    let refused = at(object, &["spec", "allocateLoadBalancerNodePorts"]) == Some(&json!(false));
    if !needs_node_ports(kind) || (kind == "LoadBalancer" && refused) {
        return Ok(());
    }
    let own = (object.namespace().to_string(), object.name().to_string());
    let mut taken = node_ports(store, &own)?;
    let start = i64::from(digits(object.uid()));
    let name = object.name().to_string();
    for (place, port) in
        child(object, "spec").get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten().enumerate()
    {
        let stated = port["nodePort"].as_i64().filter(|number| *number != 0);
        let number = match stated {
            Some(number) if taken.contains(&number) => {
                let field = format!("spec.ports[{place}].nodePort");
                let error = FieldError::invalid(field, &json!(number), "provided port is already allocated");
                return Err(invalid("", "Service", &name, &[error]));
            }
            Some(number) => number,
            None => {
                let count = NODE_PORTS.end() - NODE_PORTS.start() + 1;
                let mut candidates = (0..count).map(|step| NODE_PORTS.start() + (start + step) % count);
                let free = candidates.find(|number| !taken.contains(number));
                free.ok_or_else(|| internal("failed to allocate a nodePort: range is full"))?
            }
        };
        taken.push(number);
        port["nodePort"] = json!(number);
    }
    Ok(())
}

/// The ports on nodes that other services have.
fn node_ports(store: &Store, own: &(String, String)) -> Answer<Vec<i64>> {
    let mut taken = vec![];
    let services = store.find("", "services").into_iter().flat_map(|found| found.objects.values());
    for stored in services.filter(|stored| needs_node_ports(stored.fields.nth(TYPE))) {
        let service = stored.object()?;
        if (service.namespace(), service.name()) != (own.0.as_str(), own.1.as_str()) {
            let ports = at(&service, &["spec", "ports"]).and_then(Value::as_array).into_iter().flatten();
            taken.extend(ports.filter_map(|port| port["nodePort"].as_i64()));
        }
    }
    Ok(taken)
}

fn check_kind(spec: &Value, kind: &str, headless: bool, errors: &mut Vec<FieldError>) {
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid("spec.clusterIPs[0]", &json!("None"), &why));
        }
        "ExternalName" => {
            for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !spec[name].is_null() {
                    let why = "may not be set for ExternalName services";
                    errors.push(FieldError::forbidden(format!("spec.{name}"), why));
                }
            }
            match spec["externalName"].as_str().unwrap_or_default().trim_end_matches('.') {
                "" => errors.push(FieldError::required("spec.externalName", "")),
                name => check_subdomain("spec.externalName", name, errors),
            }
        }
        _ => {}
    }
}

fn check_ports(ports: &[Value], errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = vec![];
    for (place, port) in ports.iter().enumerate() {
        let field = |name: &str| format!("spec.ports[{place}].{name}");
        match port["name"].as_str().unwrap_or_default() {
            "" if ports.len() > 1 => errors.push(FieldError::required(field("name"), "")),
            "" => {}
            name => {
                check_label(&field("name"), name, errors);
                if seen.contains(&name) {
                    errors.push(FieldError::duplicate(field("name"), &json!(name)));
                }
                seen.push(name);
            }
        }
        check_port(&field("port"), &port["port"], errors);
        check_known(&field("protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"], errors);
        if port["targetPort"].is_number() {
            check_port(&field("targetPort"), &port["targetPort"], errors);
        }
    }
}

fn check_addresses(spec: &Value, errors: &mut Vec<FieldError>) {
    let clusters = spec["clusterIPs"].as_array().map(Vec::as_slice).unwrap_or_default();
    if let (Some(one), Some(first)) = (spec["clusterIP"].as_str(), clusters.first())
        && first != one
    {
        let why = "first value must match `clusterIP`";
        errors.push(FieldError::invalid("spec.clusterIPs", &spec["clusterIPs"], why));
    }
    let externals = spec["externalIPs"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (list, ips) in [("clusterIPs", clusters), ("externalIPs", externals)] {
        for (place, ip) in ips.iter().enumerate() {
            let text = ip.as_str().unwrap_or_default();
            if !(list == "clusterIPs" && text == "None") && text.parse::<IpAddr>().is_err() {
                let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                errors.push(FieldError::invalid(format!("spec.{list}[{place}]"), ip, why));
            }
        }
    }
}

fn check_node_ports(ports: &[Value], kind: &str, errors: &mut Vec<FieldError>) {
    let is_set = |port: &Value| port["nodePort"].as_i64().is_some_and(|number| number != 0);
    for (place, port) in ports.iter().enumerate() {
        let field = format!("spec.ports[{place}].nodePort");
        if kind == "ClusterIP" && is_set(port) {
            errors.push(FieldError::forbidden(field.clone(), "may not be used when `type` is 'ClusterIP'"));
        }
        let same = |other: &&Value| other["nodePort"] == port["nodePort"] && other["protocol"] == port["protocol"];
        if is_set(port) && ports[..place].iter().any(|other| same(&other)) {
            errors.push(FieldError::duplicate(field, &port["nodePort"]));
        }
    }
    for (place, port) in ports.iter().enumerate() {
        let same = |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        if ports[..place].iter().any(|other| same(&other)) {
            let shown = json!({ "port": port["port"], "protocol": port["protocol"], "targetPort": 0 });
            errors.push(FieldError::duplicate(format!("spec.ports[{place}]"), &shown));
        }
    }
}
