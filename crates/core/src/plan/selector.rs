//! Which objects does a label selector match?

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::syntax::{label_key_problem, label_value_problem};

/// A selector whose keys, operators and values are sound. One without requirements matches everything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Selector {
    /// In the order of their keys.
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Test {
    Equals(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

/// Why a selector cannot be used, in the words of the API server.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SelectorProblem {
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
    #[error("key: Invalid value: {key:?}: {problem}")]
    Key { key: String, problem: String },
    #[error("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty")]
    NoValues,
    #[error("values: Invalid value: {0}: values set must be empty for exists and does not exist")]
    NeedlessValues(serde_json::Value),
    #[error("values[{index}][{key}]: Invalid value: {value:?}: {problem}")]
    Value { key: String, index: usize, value: String, problem: String },
}

impl Selector {
    pub fn parse(selector: &LabelSelector) -> Result<Self, SelectorProblem> {
        let labels = selector.match_labels.iter().flatten();
        let equal = labels.map(|(key, value)| Requirement::new(key, Test::Equals(value.clone())));
        let expressions = selector.match_expressions.iter().flatten().map(Requirement::parse);
        let mut requirements = equal.chain(expressions).collect::<Result<Vec<_>, _>>()?;
        requirements.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(Self { requirements })
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// The same selector for those objects only that do not have the label `key`.
    pub fn without(mut self, key: &str) -> Self {
        let at = self.requirements.partition_point(|requirement| requirement.key.as_str() < key);
        self.requirements.insert(at, Requirement { key: key.to_owned(), test: Test::DoesNotExist });
        self
    }
}

impl Requirement {
    fn parse(expression: &LabelSelectorRequirement) -> Result<Self, SelectorProblem> {
        let values = expression.values.clone().unwrap_or_default();
        let test = match expression.operator.as_str() {
            "In" => Test::In(values),
            "NotIn" => Test::NotIn(values),
            "Exists" if values.is_empty() => Test::Exists,
            "DoesNotExist" if values.is_empty() => Test::DoesNotExist,
            "Exists" | "DoesNotExist" => return Err(SelectorProblem::NeedlessValues(values.into())),
            other => return Err(SelectorProblem::Operator(other.to_owned())),
        };
        Self::new(&expression.key, test)
    }

    fn new(key: &str, test: Test) -> Result<Self, SelectorProblem> {
        if let Some(problem) = label_key_problem(key) {
            return Err(SelectorProblem::Key { key: key.to_owned(), problem });
        }
        let values = match &test {
            Test::In(values) | Test::NotIn(values) if values.is_empty() => return Err(SelectorProblem::NoValues),
            Test::In(values) | Test::NotIn(values) => values.as_slice(),
            Test::Equals(value) => std::slice::from_ref(value),
            Test::Exists | Test::DoesNotExist => &[],
        };
        for (index, value) in values.iter().enumerate() {
            if let Some(problem) = label_value_problem(value) {
                let (key, value) = (key.to_owned(), value.clone());
                return Err(SelectorProblem::Value { key, index, value, problem });
            }
        }
        Ok(Self { key: key.to_owned(), test })
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let label = labels.get(&self.key);
        match &self.test {
            Test::Equals(value) => label == Some(value),
            Test::In(values) => label.is_some_and(|label| values.contains(label)),
            Test::NotIn(values) => label.is_none_or(|label| !values.contains(label)),
            Test::Exists => label.is_some(),
            Test::DoesNotExist => label.is_none(),
        }
    }
}

/// As `kubectl --selector` takes it.
impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Requirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = &self.key;
        let sorted = |values: &[String]| {
            let mut values = values.to_vec();
            values.sort();
            values.join(",")
        };
        match &self.test {
            Test::Equals(value) => write!(f, "{key}={value}"),
            Test::In(values) => write!(f, "{key} in ({})", sorted(values)),
            Test::NotIn(values) => write!(f, "{key} notin ({})", sorted(values)),
            Test::Exists => f.write_str(key),
            Test::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(selector: Value) -> Result<Selector, SelectorProblem> {
        Selector::parse(&serde_json::from_value(selector).unwrap())
    }

    fn expression(operator: &str, values: Value) -> Value {
        json!({ "matchExpressions": [{ "key": "pool", "operator": operator, "values": values }] })
    }

    fn matches(selector: Value, labels: Value) -> bool {
        parse(selector).unwrap().matches(&serde_json::from_value(labels).unwrap())
    }

    #[test]
    fn an_empty_selector_matches_everything() {
        assert!(matches(json!({}), json!({})));
        assert!(matches(json!({}), json!({ "pool": "a" })));
    }

    #[test]
    fn labels_must_be_equal() {
        let selector = json!({ "matchLabels": { "pool": "a" } });

        assert!(matches(selector.clone(), json!({ "pool": "a", "other": "x" })));
        assert!(!matches(selector.clone(), json!({ "pool": "b" })));
        assert!(!matches(selector, json!({})));
    }

    #[test]
    fn in_needs_the_label_and_not_in_does_not() {
        assert!(matches(expression("In", json!(["a", "b"])), json!({ "pool": "b" })));
        assert!(!matches(expression("In", json!(["a", "b"])), json!({ "pool": "c" })));
        assert!(!matches(expression("In", json!(["a"])), json!({})));

        assert!(!matches(expression("NotIn", json!(["a"])), json!({ "pool": "a" })));
        assert!(matches(expression("NotIn", json!(["a"])), json!({ "pool": "b" })));
        assert!(matches(expression("NotIn", json!(["a"])), json!({})));
    }

    #[test]
    fn a_label_exists_whatever_its_value() {
        assert!(matches(expression("Exists", json!([])), json!({ "pool": "" })));
        assert!(!matches(expression("Exists", json!(null)), json!({})));
        assert!(matches(expression("DoesNotExist", json!([])), json!({})));
        assert!(!matches(expression("DoesNotExist", json!([])), json!({ "pool": "" })));
    }

    #[test]
    fn all_requirements_must_hold() {
        let selector = json!({
            "matchLabels": { "pool": "a" },
            "matchExpressions": [{ "key": "gpu", "operator": "DoesNotExist" }],
        });

        assert!(matches(selector.clone(), json!({ "pool": "a" })));
        assert!(!matches(selector, json!({ "pool": "a", "gpu": "yes" })));
    }

    #[test]
    fn a_selector_is_printed_in_the_order_of_its_keys() {
        let selector = json!({
            "matchLabels": { "x": "y" },
            "matchExpressions": [
                { "key": "component", "operator": "NotIn", "values": ["z", "a"] },
                { "key": "b", "operator": "In", "values": ["1"] },
                { "key": "e", "operator": "Exists" },
            ],
        });

        let selector = parse(selector).unwrap().without("upgrade.cattle.io/controller");

        assert_eq!(selector.to_string(), "b in (1),component notin (a,z),e,!upgrade.cattle.io/controller,x=y");
    }

    #[test]
    fn what_cannot_be_used_is_said_in_the_words_of_the_api_server() {
        let problem = |selector| parse(selector).unwrap_err().to_string();

        assert_eq!(problem(expression("Gt", json!(["1"]))), r#""Gt" is not a valid label selector operator"#);
        assert_eq!(
            problem(expression("In", json!([]))),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
        );
        assert_eq!(
            problem(expression("Exists", json!(["a", "b"]))),
            r#"values: Invalid value: ["a","b"]: values set must be empty for exists and does not exist"#
        );
        let key = problem(json!({ "matchLabels": { "a b": "c" } }));
        assert!(key.starts_with(r#"key: Invalid value: "a b": name part must consist of"#), "{key}");
        let value = problem(expression("In", json!(["a", "b c"])));
        assert!(value.starts_with(r#"values[1][pool]: Invalid value: "b c": a valid label must be"#), "{value}");
    }
}
