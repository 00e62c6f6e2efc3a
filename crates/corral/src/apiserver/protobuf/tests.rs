use serde_json::json;

use super::*;

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = vec![];
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value as u64)].concat()
}

fn bytes(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn body(api_version: &str, kind: &str, raw: Vec<u8>) -> Vec<u8> {
    let identity = [bytes(1, api_version), bytes(2, kind)].concat();
    [MAGIC.to_vec(), bytes(1, identity), bytes(2, raw), bytes(3, ""), bytes(4, "")].concat()
}

fn decoded(api_version: &str, kind: &str, raw: Vec<u8>) -> Value {
    Value::Object(decode(&body(api_version, kind, raw)).unwrap())
}

#[test]
fn what_json_would_leave_out_is_left_out() {
    // As kubectl sends it: every field of the metadata is on the wire, set or not.
    let metadata = [bytes(1, "a"), bytes(2, ""), bytes(3, ""), bytes(5, ""), number(7, 0), bytes(8, "")].concat();
    let entry = [bytes(1, "key"), bytes(2, "value")].concat();
    assert_eq!(
        decoded("v1", "ConfigMap", [bytes(1, metadata), bytes(2, entry)].concat()),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "a" },
            "data": { "key": "value" },
        })
    );
}

#[test]
fn an_eviction_brings_its_options() {
    let preconditions = bytes(2, bytes(1, "uid-1"));
    let options = [number(1, 0), preconditions].concat();
    let eviction = [bytes(1, bytes(1, "cart-0")), bytes(2, options)].concat();
    assert_eq!(
        decoded("policy/v1", "Eviction", eviction),
        json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": "cart-0" },
            "deleteOptions": { "gracePeriodSeconds": 0, "preconditions": { "uid": "uid-1" } },
        })
    );
}

#[test]
fn types_with_a_form_of_their_own_keep_it() {
    let limit = [bytes(1, "cpu"), bytes(2, bytes(1, "500m"))].concat();
    let probe =
        [bytes(1, bytes(2, bytes(2, [number(1, 1), number(2, 0), bytes(3, "http")].concat()))), number(2, 0)].concat();
    let container = [bytes(1, "web"), bytes(8, bytes(1, limit)), bytes(10, probe)].concat();
    let pod = decoded("v1", "Pod", bytes(2, [bytes(2, container), number(4, 30), number(11, 0)].concat()));
    assert_eq!(
        pod["spec"],
        json!({
            "containers": [{
                "name": "web",
                "resources": { "limits": { "cpu": "500m" } },
                "livenessProbe": { "httpGet": { "port": "http" } },
            }],
            "terminationGracePeriodSeconds": 30,
        })
    );
}

#[test]
fn moments_and_bytes_are_written_as_json_writes_them() {
    let at = [number(1, 1_700_000_000), number(2, 5_000)].concat();
    let lease = decoded("coordination.k8s.io/v1", "Lease", bytes(2, bytes(4, at)));
    assert_eq!(lease["spec"]["renewTime"], "2023-11-14T22:13:20.000005Z");
    let secret = decoded("v1", "Secret", bytes(2, [bytes(1, "k"), bytes(2, [0, 255])].concat()));
    assert_eq!(secret["data"]["k"], "AP8=");
}

#[test]
fn negative_numbers_keep_their_sign() {
    let class = decoded("scheduling.k8s.io/v1", "PriorityClass", number(2, -5));
    assert_eq!(class["value"], -5);
}

#[test]
fn what_is_cut_off_or_unknown_is_refused() {
    let whole = body("v1", "ConfigMap", bytes(2, [bytes(1, "key"), bytes(2, "value")].concat()));
    assert!(decode(&whole).is_ok());
    // The last two fields of the envelope are empty, two bytes each; before them lies the object.
    for end in whole.len() - 18..whole.len() - 4 {
        assert!(decode(&whole[..end]).is_err(), "{end}");
    }
    assert!(decode(&body("example.com/v1", "Thing", vec![])).is_err());
    assert!(decode(b"{}").is_err());
}
