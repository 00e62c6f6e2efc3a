//! A gate: an expression over any object that has to be true when a node is started.
//!
//! `drover.dev/gate: deployments.v1.apps/shop/cart: object.status.readyReplicas >= 3`

use drover_api::marks;
use drover_cel::{Bindings, Environment, Program, Type, Value as CelValue};
use jiff::Timestamp;
use serde_json::Value;

use super::decide::View;
use crate::decision::{Reason, Wait};
use crate::seen::PlanSeen;

/// The object that a gate is over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Empty: the core group.
    pub group: String,
    pub version: String,
    pub resource: String,
    /// Empty: the object is the cluster's.
    pub namespace: String,
    pub name: String,
}

/// What is known of that object.
#[derive(Debug, Clone, PartialEq)]
pub enum GateSeen {
    Object(Value),
    Missing,
    /// It cannot be read, for this reason.
    Unseen(String),
}

impl Target {
    /// `RESOURCE.VERSION[.GROUP]/[NAMESPACE/]NAME`
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/').map(str::to_owned);
        let (kind, first, second) = (parts.next()?, parts.next()?, parts.next());
        let (namespace, name) = match second {
            Some(name) => (first, name),
            None => (String::new(), first),
        };
        let mut kind = kind.splitn(3, '.').map(str::to_owned);
        let (resource, version, group) = (kind.next()?, kind.next()?, kind.next().unwrap_or_default());
        let whole = [&resource, &version, &name].iter().all(|part| !part.is_empty()) && parts.next().is_none();
        whole.then_some(Target { group, version, resource, namespace, name })
    }

    /// The path of all objects of that resource.
    pub fn collection(&self) -> String {
        let root = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match self.namespace.as_str() {
            "" => format!("{root}/{}", self.resource),
            namespace => format!("{root}/namespaces/{namespace}/{}", self.resource),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.resource, self.version)?;
        for part in [&self.group].into_iter().filter(|part| !part.is_empty()) {
            write!(f, ".{part}")?;
        }
        for part in [&self.namespace, &self.name].into_iter().filter(|part| !part.is_empty()) {
            write!(f, "/{part}")?;
        }
        Ok(())
    }
}

/// The object that the gate of a Plan is over, if it has one that can be read.
pub fn gate_of(plan: &PlanSeen) -> Option<Target> {
    parse(plan.meta.annotations.get(marks::GATE)?).map(|(target, _)| target)
}

fn parse(text: &str) -> Option<(Target, &str)> {
    let (target, expression) = text.split_once(": ")?;
    Some((Target::parse(target.trim())?, expression.trim()))
}

/// What keeps the gate from being open, if anything does.
pub(super) fn wait(view: &View<'_>, now: Timestamp) -> Option<Wait> {
    let text = view.plan.meta.annotations.get(marks::GATE)?;
    let fails = |sentence: String| Some(Wait::new(view.plan.subject(), Reason::GateFails, sentence, now));
    let Some((target, expression)) = parse(text) else {
        return fails(format!(
            "{} cannot be read: write it as RESOURCE.VERSION.GROUP/NAMESPACE/NAME: EXPRESSION",
            marks::GATE
        ));
    };
    let object = match view.gates.get(&target) {
        Some(GateSeen::Object(object)) => object,
        Some(GateSeen::Missing) => return fails(format!("{target}, which the gate is over, is not there")),
        Some(GateSeen::Unseen(cause)) => {
            return fails(format!("{target}, which the gate is over, cannot be read: {cause}"));
        }
        None => return fails(format!("{target}, which the gate is over, has not been read yet")),
    };
    match is_open(expression, object) {
        Ok(true) => None,
        Ok(false) => {
            let sentence = format!("the gate is closed: {expression} is not true of {target}");
            Some(Wait::new(view.plan.subject(), Reason::GateClosed, sentence, now))
        }
        Err(cause) => fails(format!("{} cannot be evaluated: {cause}", marks::GATE)),
    }
}

fn is_open(expression: &str, object: &Value) -> Result<bool, String> {
    let environment = Environment::new().variable("object", Type::Dyn);
    let program = Program::compile(expression, &environment).map_err(|error| error.to_string())?;
    if !matches!(program.kind(), Type::Bool | Type::Dyn) {
        return Err("the expression is not one that is true or false".to_owned());
    }
    let bindings = Bindings::new().with("object", CelValue::from_json(object));
    program.is_true(&bindings).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_every_kind_can_be_named() {
        for (text, collection) in [
            ("deployments.v1.apps/shop/cart", "/apis/apps/v1/namespaces/shop/deployments"),
            ("nodes.v1/node-1", "/api/v1/nodes"),
            ("configmaps.v1/shop/flags", "/api/v1/namespaces/shop/configmaps"),
            (
                "volumes.v1beta2.longhorn.io/longhorn-system/v",
                "/apis/longhorn.io/v1beta2/namespaces/longhorn-system/volumes",
            ),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!((target.to_string().as_str(), target.collection().as_str()), (text, collection));
        }
        for text in ["", "nodes/node-1", "nodes.v1", "nodes.v1/", "a.v1/b/c/d"] {
            assert_eq!(Target::parse(text), None, "{text}");
        }
    }
}
