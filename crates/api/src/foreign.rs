//! Kinds of other products, typed as far as Drover reads and writes them.
//!
//! What a type does not name is kept: every level that is written back ends in a map of the other fields, so an object
//! that was read, changed and written loses nothing, whatever version of its product made it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The fields that a type does not name.
pub type Rest = BTreeMap<String, Value>;

/// Declares a kind with its names and its scope (`Namespaced` or `Cluster`), and the fields beside `metadata` that are
/// used. Fields that it does not have are `None` and are not written.
macro_rules! foreign_kind {
    (
        $(#[$doc:meta])*
        $name:ident = $group:literal $version:literal $plural:literal $scope:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            pub api_version: String,
            pub kind: String,
            #[serde(default)]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            $(
                $(#[$field_doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
            #[serde(flatten)]
            pub rest: $crate::foreign::Rest,
        }

        impl $name {
            /// An object with this name and nothing else.
            pub fn named(name: &str) -> Self {
                $name {
                    api_version: $crate::foreign::api_version($group, $version),
                    kind: stringify!($name).into(),
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                        name: Some(name.into()),
                        ..Default::default()
                    },
                    $($field: None,)*
                    rest: $crate::foreign::Rest::new(),
                }
            }
        }

        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = $crate::foreign::scope::$scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// Declares a part of such a kind: the fields that are used, and a map of the others.
macro_rules! foreign_part {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
            #[serde(rename_all = "camelCase")]
            pub struct $name {
                $(
                    $(#[$field_doc])*
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    pub $field: Option<$type>,
                )*
                #[serde(flatten)]
                pub rest: $crate::foreign::Rest,
            }
        )*
    };
}

pub(crate) use {foreign_kind, foreign_part};

/// The scopes by the words that definitions use.
pub mod scope {
    pub type Namespaced = k8s_openapi::NamespaceResourceScope;
    pub type Cluster = k8s_openapi::ClusterResourceScope;
}

pub(crate) fn api_version(group: &str, version: &str) -> String {
    format!("{group}/{version}")
}

/// A condition as wrangler and Cluster API write it: everything but type and status may be missing, and times are text.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LooseCondition {
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl LooseCondition {
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// The condition of a type, if there is one.
pub fn condition<'a>(conditions: Option<&'a Vec<LooseCondition>>, type_: &str) -> Option<&'a LooseCondition> {
    conditions?.iter().find(|condition| condition.type_ == type_)
}

foreign_part! {
    /// A reference to another object, in any of the forms that Cluster API has had.
    Reference {
        api_version: String,
        api_group: String,
        kind: String,
        namespace: String,
        name: String,
        uid: String,
    }
}
