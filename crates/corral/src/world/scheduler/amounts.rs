//! How much of a node's resources something needs.

use std::collections::BTreeMap;

use drover_api::quantity;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

type Quantities = BTreeMap<String, Quantity>;

/// Amounts by resource: cpu in thousandths of a core, everything else in its own unit. What is zero is not there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Amounts(Vec<(String, i64)>);

impl Amounts {
    /// What a pod requests: its containers together, or its largest init container if that is more, and its overhead.
    /// Init containers that go on running count with the containers.
    pub fn requested_by(spec: &PodSpec) -> Amounts {
        let mut together = Amounts::default();
        for container in &spec.containers {
            together.add(&Amounts::of_container(container));
        }
        let mut peak = Amounts::default();
        let mut lasting = Amounts::default();
        for init in spec.init_containers.iter().flatten() {
            let own = Amounts::of_container(init);
            if init.restart_policy.as_deref() == Some("Always") {
                together.add(&own);
                lasting.add(&own);
                peak.raise_to(&lasting);
            } else {
                let mut now = own;
                now.add(&lasting);
                peak.raise_to(&now);
            }
        }
        together.raise_to(&peak);
        together.add(&Amounts::from_quantities(spec.overhead.as_ref()));
        together
    }

    pub fn from_quantities(quantities: Option<&Quantities>) -> Amounts {
        let mut all = Amounts::default();
        for (name, quantity) in quantities.into_iter().flatten() {
            let scale = if name == "cpu" { 1000 } else { 1 };
            all.set(name, amount(&quantity.0, scale).unwrap_or(0));
        }
        all
    }

    pub fn get(&self, name: &str) -> i64 {
        self.0.iter().find(|(known, _)| known == name).map_or(0, |(_, amount)| *amount)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub fn add(&mut self, other: &Amounts) {
        for (name, amount) in other.iter() {
            self.set(name, self.get(name).saturating_add(amount));
        }
    }

    pub fn subtract(&mut self, other: &Amounts) {
        for (name, amount) in other.iter() {
            self.set(name, self.get(name).saturating_sub(amount).max(0));
        }
    }

    fn raise_to(&mut self, other: &Amounts) {
        for (name, amount) in other.iter() {
            self.set(name, self.get(name).max(amount));
        }
    }

    fn set(&mut self, name: &str, amount: i64) {
        match self.0.iter().position(|(known, _)| known == name) {
            Some(at) if amount == 0 => {
                self.0.remove(at);
            }
            Some(at) => {
                if let Some(entry) = self.0.get_mut(at) {
                    entry.1 = amount;
                }
            }
            None if amount == 0 => {}
            None => self.0.push((name.into(), amount)),
        }
    }

    fn of_container(container: &Container) -> Amounts {
        Amounts::from_quantities(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
    }
}

/// A quantity such as `250m`, `1.5` or `2Gi`, in units of one over `scale`, rounded up.
pub fn amount(text: &str, scale: i64) -> Option<i64> {
    quantity::count(text, scale).and_then(|parts| i64::try_from(parts).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn requested(spec: Value) -> Amounts {
        Amounts::requested_by(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn quantities_are_read_in_every_notation() {
        assert_eq!(amount("250m", 1000), Some(250));
        assert_eq!(amount("1.5", 1000), Some(1500));
        assert_eq!(amount("8", 1000), Some(8000));
        assert_eq!(amount("100u", 1000), Some(1), "less than a thousandth counts as one");
        assert_eq!(amount("2Gi", 1), Some(2 << 30));
        assert_eq!(amount("1e3", 1), Some(1000));
        assert_eq!(amount("5k", 1), Some(5000));
        assert_eq!(amount("soon", 1), None);
    }

    #[test]
    fn a_pod_needs_its_containers_together_or_its_largest_init_container() {
        let container = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        let spec = json!({
            "containers": [container("a", "100m"), container("b", "200m")],
            "initContainers": [container("prepare", "1")],
        });
        assert_eq!(requested(spec).get("cpu"), 1000);

        let mut sidecar = container("proxy", "50m");
        sidecar["restartPolicy"] = json!("Always");
        let spec = json!({
            "containers": [container("a", "100m")], "initContainers": [sidecar, container("prepare", "120m")],
            "overhead": {"cpu": "10m"},
        });
        assert_eq!(requested(spec).get("cpu"), 180, "the sidecar beside the init container, and the overhead");
    }
}
