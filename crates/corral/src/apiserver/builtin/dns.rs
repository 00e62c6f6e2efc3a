//! How a pod finds others by name: what is checked in its settings of DNS, and in the names that it knows by itself.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::values::{check_subdomain, listed, text};
use crate::apiserver::{names, status::FieldError};

const MOST_SERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;
const LONGEST_SEARCH: usize = 2048;

/// The settings of the spec at `path`.
pub(super) fn check(path: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let place = format!("{path}.dnsConfig");
    let config = &spec["dnsConfig"];
    let servers: Vec<_> = listed(config, "nameservers").collect();
    if spec["dnsPolicy"] == "None" && servers.is_empty() {
        errors.push(match config.is_null() {
            true => FieldError::required(place, "must provide `dnsConfig` when `dnsPolicy` is None"),
            false => {
                let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
                FieldError::required(format!("{place}.nameservers"), why)
            }
        });
        return;
    }
    if servers.len() > MOST_SERVERS {
        let why = format!("must not have more than {MOST_SERVERS} nameservers");
        errors.push(FieldError::invalid(format!("{place}.nameservers"), &json!(servers), &why));
    }
    for (index, server) in servers.iter().enumerate() {
        check_address(&format!("{place}.nameservers[{index}]"), server, errors);
    }
    check_searches(&format!("{place}.searches"), config, errors);
    for (index, option) in listed(config, "options").enumerate() {
        if text(option, "name").is_empty() {
            errors.push(FieldError::required(format!("{place}.options[{index}]"), "must not be empty"));
        }
    }
}

fn check_searches(field: &str, config: &Value, errors: &mut Vec<FieldError>) {
    let searches: Vec<&str> = listed(config, "searches").filter_map(Value::as_str).collect();
    if searches.len() > MOST_SEARCHES {
        let why = format!("must not have more than {MOST_SEARCHES} search paths");
        errors.push(FieldError::invalid(field, &json!(searches), &why));
    }
    if searches.join(" ").len() > LONGEST_SEARCH {
        let why = format!("must not have more than {LONGEST_SEARCH} characters (including spaces) in the search list");
        errors.push(FieldError::invalid(field, &json!(searches), &why));
    }
    for (index, search) in searches.iter().enumerate().filter(|(_, search)| **search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        let wrong = names::search_path(search);
        errors.extend(wrong.iter().map(|why| FieldError::invalid(format!("{field}[{index}]"), &json!(search), why)));
    }
}

/// The hosts that the spec at `path` names by itself.
pub(super) fn check_aliases(path: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    for (index, alias) in listed(spec, "hostAliases").enumerate() {
        let place = format!("{path}.hostAliases[{index}]");
        check_address(&format!("{place}.ip"), &json!(text(alias, "ip")), errors);
        for (number, name) in listed(alias, "hostnames").enumerate() {
            check_subdomain(&format!("{place}.hostnames[{number}]"), name.as_str().unwrap_or_default(), errors);
        }
    }
}

fn check_address(field: &str, address: &Value, errors: &mut Vec<FieldError>) {
    // An old form of the same address has zeros before its numbers.
    let plain = |text: &str| match text.contains(':') {
        true => text.to_string(),
        false => {
            let trimmed = text.split('.').map(|part| match part.trim_start_matches('0') {
                "" if !part.is_empty() => "0",
                rest => rest,
            });
            trimmed.collect::<Vec<_>>().join(".")
        }
    };
    if address.as_str().is_none_or(|text| plain(text).parse::<IpAddr>().is_err()) {
        let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(field, address, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_zeros_before_its_numbers() {
        for (address, count) in
            [("010.002.003.004", 0), ("::1", 0), ("0.0.0.0", 0), ("1.2.3", 1), ("", 1), ("a.b.c.d", 1)]
        {
            let mut errors = vec![];
            check_address("x", &json!(address), &mut errors);
            assert_eq!(errors.len(), count, "{address}");
        }
    }
}
