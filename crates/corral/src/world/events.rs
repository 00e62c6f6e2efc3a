//! Events: what the parts of the world say about objects, for people and for whoever explains what is going on.
//!
//! Models `k8s.io/client-go/tools/record` 1.34: the same thing said again raises the count of one Event. Only what tells of
//! trouble or of a turn is said, not every start of a container. An Event's name follows from what it says, so a run
//! can be repeated.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::kubelet::{digest, hex};
use super::outcome::stamp;
use super::pods;
use crate::apiserver::{Answer, Direct};

/// What is to be said about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    about: ObjectReference,
    is_warning: bool,
    reason: &'static str,
    message: String,
    component: &'static str,
    host: Option<String>,
}

impl Note {
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Note {
        Note { is_warning: true, ..Note::normal(reason, message) }
    }

    pub fn normal(reason: &'static str, message: impl Into<String>) -> Note {
        let about = ObjectReference::default();
        Note { about, is_warning: false, reason, message: message.into(), component: "", host: None }
    }

    /// Which component says it.
    pub fn by(mut self, component: &'static str) -> Note {
        self.component = component;
        self
    }

    /// The machine on which it is said.
    pub fn on(mut self, host: &str) -> Note {
        self.host = Some(host.into());
        self
    }

    pub fn about<K: Resource<DynamicType = ()>>(mut self, object: &K) -> Note {
        let metadata = object.meta();
        self.about = ObjectReference {
            api_version: Some(K::api_version(&()).into()),
            kind: Some(K::kind(&()).into()),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            field_path: None,
        };
        self
    }

    #[cfg(test)]
    pub fn reason(&self) -> &str {
        self.reason
    }

    /// Says it, or that it is so once more.
    pub fn publish(&self, direct: &Direct, now: Timestamp) -> Answer<()> {
        // What is said about objects without a namespace is kept in the default one.
        let namespace = self.about.namespace.as_deref().unwrap_or("default");
        let name = self.name();
        if let Some(mut event) = direct.get::<Event>(Some(namespace), &name)? {
            event.count = Some(event.count.unwrap_or(1) + 1);
            event.last_timestamp = Some(stamp(now));
            return direct.put(&event);
        }
        direct.put_new(&self.event(namespace, name, now))
    }

    fn event(&self, namespace: &str, name: String, now: Timestamp) -> Event {
        Event {
            metadata: ObjectMeta { name: Some(name), namespace: Some(namespace.into()), ..ObjectMeta::default() },
            involved_object: self.about.clone(),
            type_: Some(if self.is_warning { "Warning" } else { "Normal" }.into()),
            reason: Some(self.reason.into()),
            message: Some(self.message.clone()),
            source: Some(EventSource { component: Some(self.component.into()), host: self.host.clone() }),
            reporting_component: Some(self.component.into()),
            reporting_instance: self.host.clone(),
            first_timestamp: Some(stamp(now)),
            last_timestamp: Some(stamp(now)),
            count: Some(1),
            ..Event::default()
        }
    }

    fn name(&self) -> String {
        let uid = self.about.uid.as_deref().unwrap_or_default();
        let said = hex(&digest(&[uid, self.component, self.reason, &self.message])[..8]);
        format!("{}.{said}", self.about.name.as_deref().unwrap_or_default())
    }
}

/// `namespace/name` as events write it.
pub fn named(metadata: &ObjectMeta) -> String {
    format!("{}/{}", pods::namespace(metadata), pods::name(metadata))
}
