//! Services and what stands behind and before them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NONE, UNKNOWN, age, at_most_three, labels, list, name, number, selector, text, text_or, texts};

pub(super) fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let cluster_ip = list(object, "/spec/clusterIPs").first().and_then(Value::as_str).unwrap_or(NONE);
    let ports: Vec<_> = list(object, "/spec/ports").iter().map(port).collect();
    let ports = if ports.is_empty() { NONE.into() } else { ports.join(",") };
    vec![
        name(object),
        json!(text(object, "/spec/type")),
        json!(cluster_ip),
        json!(external_ip(object)),
        json!(ports),
        age(object, now),
        json!(labels(object.pointer("/spec/selector"))),
    ]
}

/// `80/TCP`, `80:30080/TCP`
fn port(port: &Value) -> String {
    let (number_, protocol) = (number(port, "/port"), text(port, "/protocol"));
    match number(port, "/nodePort") {
        0 => format!("{number_}/{protocol}"),
        on_nodes => format!("{number_}:{on_nodes}/{protocol}"),
    }
}

fn external_ip(service: &Value) -> String {
    let stated = texts(list(service, "/spec/externalIPs"), "");
    match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" if stated.is_empty() => NONE.into(),
        "ClusterIP" | "NodePort" => stated.join(","),
        "LoadBalancer" => {
            let mut addresses = balancers(service);
            addresses.extend(stated);
            if addresses.is_empty() { "<pending>".into() } else { addresses.join(",") }
        }
        "ExternalName" => text(service, "/spec/externalName").into(),
        _ => UNKNOWN.into(),
    }
}

/// The addresses of load balancers, each once.
fn balancers(object: &Value) -> Vec<&str> {
    let ingresses = list(object, "/status/loadBalancer/ingress").iter();
    let mut addresses: Vec<_> = ingresses.map(|one| text_or(one, "/ip", text(one, "/hostname"))).collect();
    addresses.retain(|address| !address.is_empty());
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

pub(super) fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let port = |port: &Value| match port.get("port").and_then(Value::as_i64) {
        Some(number) => number.to_string(),
        None => port.get("name").and_then(Value::as_str).unwrap_or("*").to_string(),
    };
    let ports: Vec<_> = list(object, "/ports").iter().map(port).collect();
    let addresses = list(object, "/endpoints").iter().flat_map(|endpoint| list(endpoint, "/addresses"));
    let addresses: Vec<_> = addresses.map(|address| address.as_str().unwrap_or_default().to_string()).collect();
    vec![
        name(object),
        json!(text(object, "/addressType")),
        json!(at_most_three(&ports)),
        json!(at_most_three(&addresses)),
        age(object, now),
    ]
}

pub(super) fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut shown = vec![];
    for subset in list(object, "/subsets") {
        let addresses = texts(list(subset, "/addresses"), "ip");
        let ports = list(subset, "/ports");
        if ports.is_empty() {
            shown.extend(addresses.iter().map(|address| address.to_string()));
        }
        for port in ports {
            shown.extend(addresses.iter().map(|address| host_and_port(address, number(port, "/port"))));
        }
    }
    let shown = match (list(object, "/subsets"), shown.as_slice()) {
        ([], _) => NONE.into(),
        (_, []) => String::new(),
        (_, shown) => at_most_three(shown),
    };
    vec![name(object), json!(shown), age(object, now)]
}

fn host_and_port(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

pub(super) fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports = if list(object, "/spec/tls").is_empty() { "80" } else { "80, 443" };
    vec![
        name(object),
        json!(text_or(object, "/spec/ingressClassName", NONE)),
        json!(hosts(list(object, "/spec/rules"))),
        json!(balancers(object).join(",")),
        json!(ports),
        age(object, now),
    ]
}

fn hosts(rules: &[Value]) -> String {
    let named: Vec<_> = texts(rules, "host").into_iter().filter(|host| !host.is_empty()).collect();
    let shown = named[..named.len().min(3)].join(",");
    match (named.len(), rules.len()) {
        (0, _) => "*".into(),
        (named, rules) if named >= 3 && rules > 3 => format!("{shown} + {} more...", rules - 3),
        _ => shown,
    }
}

pub(super) fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = object.pointer("/spec/parameters").map(|found| {
        let group = found["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
        format!("{}{group}/{}", text(found, "/kind"), text(found, "/name"))
    });
    let parameters = parameters.unwrap_or_else(|| NONE.into());
    vec![name(object), json!(text(object, "/spec/controller")), json!(parameters), age(object, now)]
}

pub(super) fn network_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(selector(object.pointer("/spec/podSelector"))), age(object, now)]
}

pub(super) fn service_cidr(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(texts(list(object, "/spec/cidrs"), "").join(",")), age(object, now)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_shows_three_addresses_and_counts_the_rest() {
        let object = json!({
            "metadata": { "name": "a" }, "addressType": "IPv4", "ports": [{ "port": 80 }, { "name": "web" }, {}],
            "endpoints": [{ "addresses": ["10.0.0.1"] }, { "addresses": ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"] }],
        });
        let cells = endpoint_slice(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(cells[2], "80,web,*");
        assert_eq!(cells[3], "10.0.0.1,10.0.0.2,10.0.0.3 + 2 more...");
    }

    #[test]
    fn a_service_shows_its_ports_on_nodes_and_its_balancers() {
        let object = json!({
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80, "nodePort": 30080, "protocol": "TCP" }] },
            "status": { "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }] } },
        });
        let cells = service(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(cells[2], "<none>");
        assert_eq!(cells[3], "1.2.3.4");
        assert_eq!(cells[4], "80:30080/TCP");
    }
}
