//! HorizontalPodAutoscalers have two forms, in `autoscaling/v1` and in `autoscaling/v2`, and are the same objects in both.
//! They are kept in the second. What the first has no fields for stands in annotations, as JSON in the order of the
//! original's types.

use serde_json::{Value, json};

use super::object::{Meta, Object, child};

pub(crate) const OLDER: &str = "autoscaling/v1";
const KEPT: &str = "autoscaling/v2";
/// What is aimed at if nothing else is stated, in percent of the processors that pods request.
pub(crate) const DEFAULT_UTILIZATION: i64 = 80;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const TOLERANCES: [&str; 2] =
    ["autoscaling.alpha.kubernetes.io/scale-down-tolerance", "autoscaling.alpha.kubernetes.io/scale-up-tolerance"];

/// Shows an autoscaler that is kept in the older form.
pub(crate) fn to_older(autoscaler: &mut Object) {
    let spec = autoscaler.get("spec").cloned().unwrap_or_default();
    let status = autoscaler.get("status").cloned().unwrap_or_default();
    let metrics = list(&spec["metrics"]);
    let utilization = metrics.iter().find(|metric| is_utilization(metric));

    let mut older = picked(&spec, &["scaleTargetRef", "minReplicas", "maxReplicas"]);
    if let Some(metric) = utilization {
        older.insert(
            "targetCPUUtilizationPercentage".into(),
            metric["resource"]["target"]["averageUtilization"].clone(),
        );
    }
    autoscaler.insert("spec".into(), Value::Object(older));

    let mut older = picked(&status, &["observedGeneration", "lastScaleTime"]);
    for name in ["currentReplicas", "desiredReplicas"] {
        older.insert(name.into(), json!(status[name].as_i64().unwrap_or_default()));
    }
    let current = list(&status["currentMetrics"]);
    let of_processors = current.iter().filter(|metric| is_of_processors(metric));
    let mut measured = of_processors.map(|metric| &metric["resource"]["current"]["averageUtilization"]);
    if let Some(measured) = measured.rfind(|measured| !measured.is_null()) {
        older.insert("currentCPUUtilizationPercentage".into(), measured.clone());
    }
    autoscaler.insert("status".into(), Value::Object(older));

    forget_notes(autoscaler);
    let all = |items: &[Value], show: fn(&Value) -> String| {
        let shown: Vec<_> = items.iter().map(show).collect();
        format!("[{}]", shown.join(","))
    };
    let others: Vec<_> = metrics.iter().filter(|metric| !is_utilization(metric)).cloned().collect();
    let conditions = list(&status["conditions"]);
    let notes = [
        (METRICS, (!others.is_empty()).then(|| all(&others, |metric| Side::Target.note(metric)))),
        (CURRENT_METRICS, (!current.is_empty()).then(|| all(&current, |metric| Side::Current.note(metric)))),
        (BEHAVIOR, spec["behavior"].is_object().then(|| behavior(&spec["behavior"]))),
        (CONDITIONS, (!conditions.is_empty()).then(|| all(&conditions, condition))),
    ];
    for (name, note) in notes.into_iter().filter_map(|(name, note)| Some((name, note?))) {
        child(autoscaler.meta_mut(), "annotations").insert(name.into(), json!(escaped(&note)));
    }
    autoscaler.insert("apiVersion".into(), json!(OLDER));
}

/// Makes an autoscaler of the older form one that can be kept.
pub(crate) fn to_kept(autoscaler: &mut Object) {
    let spec = autoscaler.get("spec").cloned().unwrap_or_default();
    let status = autoscaler.get("status").cloned().unwrap_or_default();
    let note = |name: &str| -> Option<Value> {
        serde_json::from_str(autoscaler.meta("annotations")?.get(name)?.as_str()?).ok()
    };
    let noted = |name: &str, read: fn(&Value) -> Value| -> Option<Vec<Value>> {
        note(name).as_ref().and_then(Value::as_array).map(|items| items.iter().map(read).collect())
    };

    let mut kept = picked(&spec, &["scaleTargetRef", "minReplicas", "maxReplicas"]);
    let mut metrics = noted(METRICS, |note| Side::Target.read(note)).unwrap_or_default();
    match &spec["targetCPUUtilizationPercentage"] {
        Value::Null if !metrics.is_empty() => {}
        Value::Null => metrics.push(utilization(&json!(DEFAULT_UTILIZATION))),
        stated => metrics.push(utilization(stated)),
    }
    kept.insert("metrics".into(), Value::Array(metrics));
    if let Some(behavior) = note(BEHAVIOR).map(|note| with_lower_names(&note)).filter(|behavior| *behavior != json!({}))
    {
        kept.insert("behavior".into(), behavior);
    }

    let mut kept_status = picked(&status, &["observedGeneration", "lastScaleTime", "currentReplicas"]);
    kept_status.retain(|name, value| name != "currentReplicas" || *value != 0);
    kept_status.insert("desiredReplicas".into(), json!(status["desiredReplicas"].as_i64().unwrap_or_default()));
    let measured = noted(CURRENT_METRICS, |note| Side::Current.read(note)).map(Value::Array);
    let measured = measured.unwrap_or_else(|| match &status["currentCPUUtilizationPercentage"] {
        Value::Null => Value::Null,
        percent => json!([{
            "type": "Resource", "resource": { "name": "cpu", "current": { "averageUtilization": percent } },
        }]),
    });
    kept_status.insert("currentMetrics".into(), measured);
    if let Some(Value::Array(conditions)) = note(CONDITIONS) {
        kept_status.insert("conditions".into(), Value::Array(conditions));
    }

    autoscaler.insert("spec".into(), Value::Object(kept));
    autoscaler.insert("status".into(), Value::Object(kept_status));
    forget_notes(autoscaler);
    autoscaler.insert("apiVersion".into(), json!(KEPT));
}

/// What the older form has a field for, as a metric.
pub(crate) fn utilization(percent: &Value) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": percent });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

fn is_of_processors(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

fn is_utilization(metric: &Value) -> bool {
    is_of_processors(metric) && !metric["resource"]["target"]["averageUtilization"].is_null()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn picked(from: &Value, names: &[&str]) -> Object {
    let stated = names.iter().filter_map(|name| Some((name.to_string(), from.get(name)?.clone())));
    stated.filter(|(_, value)| !value.is_null()).collect()
}

/// Takes away the annotations that only stand for fields of the other form.
fn forget_notes(autoscaler: &mut Object) {
    let Some(Value::Object(annotations)) = autoscaler.meta_mut().get_mut("annotations") else { return };
    for name in [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].iter().chain(&TOLERANCES) {
        annotations.remove(*name);
    }
    if annotations.is_empty() {
        autoscaler.meta_mut().remove("annotations");
    }
}

/// The original escapes what could be taken for HTML.
fn escaped(json: &str) -> String {
    json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

/// An object as JSON, its fields in this order; those without a value are left out.
fn ordered(fields: &[(&str, Option<String>)]) -> String {
    let stated = fields.iter().filter_map(|(name, value)| Some(format!("{name:?}:{}", value.as_ref()?)));
    format!("{{{}}}", stated.collect::<Vec<_>>().join(","))
}

fn stated(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| value.to_string())
}

/// An amount that is always written.
fn amount(value: &Value) -> Option<String> {
    Some(value.as_str().map_or_else(|| json!("0").to_string(), |amount| json!(amount).to_string()))
}

fn text(value: &Value) -> Option<String> {
    Some(json!(value.as_str().unwrap_or_default()).to_string())
}

fn selector(value: &Value) -> Option<String> {
    value.is_object().then(|| {
        ordered(&[
            ("matchLabels", stated(&value["matchLabels"])),
            ("matchExpressions", stated(&value["matchExpressions"])),
        ])
    })
}

fn reference(value: &Value) -> Option<String> {
    let version = stated(&value["apiVersion"]).filter(|version| version != "\"\"");
    Some(ordered(&[("kind", text(&value["kind"])), ("name", text(&value["name"])), ("apiVersion", version)]))
}

/// Whether a metric says what is aimed at, or what was measured.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Target,
    Current,
}

impl Side {
    fn part(self) -> &'static str {
        match self {
            Side::Target => "target",
            Side::Current => "current",
        }
    }

    /// `targetValue`, `currentValue`
    fn field(self, name: &str) -> String {
        format!("{}{name}", self.part())
    }

    /// An amount that is written only if there is one; what was measured always is.
    fn optional(self, value: &Value) -> Option<String> {
        match self {
            Side::Target => stated(value),
            Side::Current => amount(value),
        }
    }

    /// A metric as the older form notes it.
    fn note(self, metric: &Value) -> String {
        let (object, pods, external) = (&metric["object"], &metric["pods"], &metric["external"]);
        let container = &metric["containerResource"];
        ordered(&[
            ("type", text(&metric["type"])),
            ("object", object.is_object().then(|| self.note_object(object))),
            ("pods", pods.is_object().then(|| self.note_pods(pods))),
            ("resource", metric["resource"].is_object().then(|| self.note_resource(&metric["resource"], None))),
            (
                "containerResource",
                container.is_object().then(|| self.note_resource(container, text(&container["container"]))),
            ),
            ("external", external.is_object().then(|| self.note_external(external))),
        ])
    }

    fn note_object(self, object: &Value) -> String {
        let amounts = &object[self.part()];
        ordered(&[
            ("target", reference(&object["describedObject"])),
            ("metricName", text(&object["metric"]["name"])),
            (&self.field("Value"), amount(&amounts["value"])),
            ("selector", selector(&object["metric"]["selector"])),
            ("averageValue", stated(&amounts["averageValue"])),
        ])
    }

    fn note_pods(self, pods: &Value) -> String {
        ordered(&[
            ("metricName", text(&pods["metric"]["name"])),
            (&self.field("AverageValue"), amount(&pods[self.part()]["averageValue"])),
            ("selector", selector(&pods["metric"]["selector"])),
        ])
    }

    fn note_resource(self, resource: &Value, container: Option<String>) -> String {
        let amounts = &resource[self.part()];
        ordered(&[
            ("name", text(&resource["name"])),
            (&self.field("AverageUtilization"), stated(&amounts["averageUtilization"])),
            (&self.field("AverageValue"), self.optional(&amounts["averageValue"])),
            ("container", container),
        ])
    }

    fn note_external(self, external: &Value) -> String {
        let amounts = &external[self.part()];
        ordered(&[
            ("metricName", text(&external["metric"]["name"])),
            ("metricSelector", selector(&external["metric"]["selector"])),
            (&self.field("Value"), self.optional(&amounts["value"])),
            (&self.field("AverageValue"), stated(&amounts["averageValue"])),
        ])
    }

    /// A metric as it is kept, from what the older form notes.
    fn read(self, note: &Value) -> Value {
        let nothing = Value::Null;
        let stated = |name: &str| note.get(name).filter(|stated| stated.is_object());
        let mut metric = Object::new();
        metric.insert("type".into(), note["type"].clone());
        for name in ["resource", "containerResource"] {
            let Some(resource) = stated(name) else { continue };
            let percent = &resource[self.field("AverageUtilization")];
            let kind = if percent.is_null() { "AverageValue" } else { "Utilization" };
            let amounts = self.amounts(kind, &nothing, &resource[self.field("AverageValue")], percent);
            let read = json!({ "name": resource["name"], "container": resource["container"], self.part(): amounts });
            metric.insert(name.into(), without_nothing(read));
        }
        if let Some(object) = stated("object") {
            let average = &object["averageValue"];
            let kind = if average.is_null() { "Value" } else { "AverageValue" };
            let named = named(&object["metricName"], &object["selector"]);
            let amounts = self.amounts(kind, &object[self.field("Value")], average, &nothing);
            let read = json!({ "describedObject": object["target"], "metric": named, self.part(): amounts });
            metric.insert("object".into(), read);
        }
        if let Some(pods) = stated("pods") {
            let named = named(&pods["metricName"], &pods["selector"]);
            let amounts = self.amounts("AverageValue", &nothing, &pods[self.field("AverageValue")], &nothing);
            metric.insert("pods".into(), json!({ "metric": named, self.part(): amounts }));
        }
        if let Some(external) = stated("external") {
            let value = &external[self.field("Value")];
            let kind = if value.is_null() { "AverageValue" } else { "Value" };
            let named = named(&external["metricName"], &external["metricSelector"]);
            let amounts = self.amounts(kind, value, &external[self.field("AverageValue")], &nothing);
            metric.insert("external".into(), json!({ "metric": named, self.part(): amounts }));
        }
        Value::Object(metric)
    }

    fn amounts(self, kind: &str, value: &Value, average: &Value, utilization: &Value) -> Value {
        let kind = if self == Side::Target { json!(kind) } else { Value::Null };
        without_nothing(json!({
            "type": kind, "value": value, "averageValue": average, "averageUtilization": utilization,
        }))
    }
}

fn condition(condition: &Value) -> String {
    let moment = Some(condition["lastTransitionTime"].to_string());
    let said = |name: &str| stated(&condition[name]).filter(|said| said != "\"\"");
    ordered(&[
        ("type", text(&condition["type"])),
        ("status", text(&condition["status"])),
        ("lastTransitionTime", moment),
        ("reason", said("reason")),
        ("message", said("message")),
    ])
}

/// How fast it may scale; the original notes it by the names that its fields have inside.
fn behavior(behavior: &Value) -> String {
    let shown = |value: &Value| Some(value.to_string());
    let policy = |policy: &Value| {
        ordered(&[
            ("Type", text(&policy["type"])),
            ("Value", shown(&policy["value"])),
            ("PeriodSeconds", shown(&policy["periodSeconds"])),
        ])
    };
    let rules = |rules: &Value| match rules {
        Value::Object(_) => {
            let policies = rules["policies"].as_array().map(|all| {
                let all: Vec<_> = all.iter().map(policy).collect();
                format!("[{}]", all.join(","))
            });
            ordered(&[
                ("StabilizationWindowSeconds", shown(&rules["stabilizationWindowSeconds"])),
                ("SelectPolicy", shown(&rules["selectPolicy"])),
                ("Policies", Some(policies.unwrap_or_else(|| "null".into()))),
                ("Tolerance", shown(&rules["tolerance"])),
            ])
        }
        _ => "null".into(),
    };
    ordered(&[("ScaleUp", Some(rules(&behavior["scaleUp"]))), ("ScaleDown", Some(rules(&behavior["scaleDown"])))])
}

fn with_lower_names(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let stated = fields.iter().filter(|(_, value)| !value.is_null());
            let lower = stated.map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().map(|letter| letter.to_ascii_lowercase());
                (first.into_iter().chain(letters).collect(), with_lower_names(value))
            });
            Value::Object(lower.collect())
        }
        Value::Array(items) => items.iter().map(with_lower_names).collect(),
        other => other.clone(),
    }
}

/// An object without the fields that hold nothing.
fn without_nothing(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, value| !value.is_null());
    }
    value
}

fn named(name: &Value, selector: &Value) -> Value {
    without_nothing(json!({ "name": name.as_str().unwrap_or_default(), "selector": selector }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_is_the_same_in_both_forms() {
        let kept = json!({
            "apiVersion": KEPT, "kind": "HorizontalPodAutoscaler", "metadata": { "name": "a" },
            "spec": {
                "scaleTargetRef": { "kind": "Deployment", "name": "web" }, "minReplicas": 1, "maxReplicas": 3,
                "metrics": [
                    { "type": "Pods", "pods": { "metric": { "name": "qps", "selector": { "matchLabels": { "a": "b" } } },
                                                "target": { "type": "AverageValue", "averageValue": "10" } } },
                    { "type": "External", "external": { "metric": { "name": "queue" },
                                                        "target": { "type": "Value", "value": "5" } } },
                    utilization(&json!(50)),
                ],
                "behavior": { "scaleUp": { "selectPolicy": "Max", "policies": [{ "type": "Pods", "value": 4, "periodSeconds": 15 }] } },
            },
            "status": {
                "desiredReplicas": 2, "currentReplicas": 1,
                "currentMetrics": [{ "type": "Resource", "resource": {
                    "name": "cpu", "current": { "averageUtilization": 40, "averageValue": "10m" } } }],
                "conditions": [{ "type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z" }],
            },
        });
        let mut autoscaler = kept.as_object().unwrap().clone();
        to_older(&mut autoscaler);
        assert_eq!(autoscaler["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(autoscaler["status"]["currentCPUUtilizationPercentage"], 40);
        let notes = &autoscaler["metadata"]["annotations"];
        assert_eq!(
            notes[METRICS],
            "[{\"type\":\"Pods\",\"pods\":{\"metricName\":\"qps\",\"targetAverageValue\":\"10\",\"selector\":\
             {\"matchLabels\":{\"a\":\"b\"}}}},{\"type\":\"External\",\"external\":{\"metricName\":\"queue\",\
             \"targetValue\":\"5\"}}]"
        );
        to_kept(&mut autoscaler);
        assert_eq!(Value::Object(autoscaler), kept);
    }

    #[test]
    fn an_older_autoscaler_that_aims_at_nothing_aims_at_the_processors() {
        let older = json!({ "spec": { "scaleTargetRef": {}, "maxReplicas": 3 } });
        let mut autoscaler = older.as_object().unwrap().clone();
        to_kept(&mut autoscaler);
        assert_eq!(autoscaler["spec"]["metrics"], json!([utilization(&json!(80))]));
    }
}
