//! EndpointSlices.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::values::{check_known, check_label, check_unchanged};
use crate::apiserver::{
    names,
    object::{Object, fill, text},
    resources::Rules,
    status::FieldError,
};

const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;
const MOST_PORTS: usize = 20_000;

pub(super) struct EndpointSliceRules;

impl Rules for EndpointSliceRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        for port in object.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(port) = port {
                fill(port, "name", "");
                fill(port, "protocol", "TCP");
            }
        }
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let kind = text(object, &["addressType"]);
        if kind.is_empty() {
            errors.push(FieldError::required("addressType", ""));
        } else {
            check_known("addressType", &json!(kind), &["FQDN", "IPv4", "IPv6"], errors);
        }
        check_ports(object.get("ports").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default(), errors);
        let endpoints = object.get("endpoints").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if endpoints.len() > MOST_ENDPOINTS {
            errors.push(FieldError::too_many("endpoints", endpoints.len(), MOST_ENDPOINTS as u64));
            return;
        }
        for (place, endpoint) in endpoints.iter().enumerate() {
            check_endpoint(&format!("endpoints[{place}]"), endpoint, kind, errors);
        }
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        check_unchanged(new, old, &["addressType"], "addressType", errors);
    }
}

fn check_ports(ports: &[Value], errors: &mut Vec<FieldError>) {
    if ports.len() > MOST_PORTS {
        errors.push(FieldError::too_many("ports", ports.len(), MOST_PORTS as u64));
        return;
    }
    for (place, port) in ports.iter().enumerate() {
        let field = |name: &str| format!("ports[{place}].{name}");
        let name = port["name"].as_str().unwrap_or_default();
        if !name.is_empty() {
            check_label(&field("name"), name, errors);
        }
        if ports[..place].iter().any(|other| other["name"] == port["name"]) {
            errors.push(FieldError::duplicate(field("name"), &json!(name)));
        }
        check_known(&field("protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"], errors);
    }
}

fn check_endpoint(field: &str, endpoint: &Value, kind: &str, errors: &mut Vec<FieldError>) {
    let addresses = endpoint["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let place = format!("{field}.addresses");
    if addresses.is_empty() {
        errors.push(FieldError::required(place.clone(), "must contain at least 1 address"));
    } else if addresses.len() > MOST_ADDRESSES {
        errors.push(FieldError::too_many(place.clone(), addresses.len(), MOST_ADDRESSES as u64));
    }
    for (number, address) in addresses.iter().enumerate() {
        let text = address.as_str().unwrap_or_default();
        match (kind, text.parse::<IpAddr>()) {
            ("IPv4" | "IPv6", Err(_)) => {
                let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                errors.push(FieldError::invalid(format!("{place}[{number}]"), address, why));
            }
            ("IPv4", Ok(IpAddr::V6(_))) => {
                errors.push(FieldError::invalid(place.clone(), address, "must be an IPv4 address"));
            }
            ("IPv6", Ok(IpAddr::V4(_))) => {
                errors.push(FieldError::invalid(place.clone(), address, "must be an IPv6 address"));
            }
            _ => {}
        }
    }
    if let Some(node) = endpoint["nodeName"].as_str() {
        let wrong = names::subdomain(node);
        errors.extend(wrong.iter().map(|why| FieldError::invalid(format!("{field}.nodeName"), &json!(node), why)));
    }
    if let Some(host) = endpoint["hostname"].as_str() {
        check_label(&format!("{field}.hostname"), host, errors);
    }
}
