//! The names of everything that the original serves, recorded from its discovery.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::apiserver::{recorded, resources::Resource};

#[derive(Debug)]
pub(crate) struct Recorded {
    /// The named groups, in the order of their importance.
    pub groups: Vec<Group>,
    /// The resources of each version of a group, by `GROUP/VERSION`, subresources included.
    pub resources: BTreeMap<String, Vec<Named>>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    pub name: String,
    pub versions: Vec<GroupVersion>,
    pub preferred_version: GroupVersion,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupVersion {
    pub group_version: String,
    pub version: String,
}

/// A resource or subresource, as discovery names it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Named {
    pub name: String,
    pub singular_name: String,
    pub namespaced: bool,
    /// The group and version of what is sent and answered, if they are not those of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub kind: String,
    pub verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_version_hash: Option<String>,
}

pub(crate) static RECORDED: LazyLock<Recorded> = LazyLock::new(Recorded::read);

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<Named>,
}

impl Recorded {
    fn read() -> Self {
        let mut recorded = Recorded { groups: vec![], resources: BTreeMap::new() };
        recorded.groups = document("/apis").map(|Groups { groups }| groups).unwrap_or_default();
        let named = recorded.groups.iter().flat_map(|group| &group.versions);
        let paths = named.map(|version| (version.group_version.clone(), format!("/apis/{}", version.group_version)));
        for (group_version, path) in paths.chain([("v1".to_string(), "/api/v1".to_string())]) {
            let resources = document(&path).map(|Resources { resources }| resources).unwrap_or_default();
            recorded.resources.insert(group_version, resources);
        }
        recorded
    }

    /// The group, the version, and each resource of which objects are kept.
    pub fn kept(&self) -> impl Iterator<Item = (&str, &str, &Named)> {
        self.resources.iter().flat_map(|(group_version, resources)| {
            let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
            let kept = resources.iter().filter(|named| named.verbs.iter().any(|verb| verb == "watch"));
            kept.map(move |named| (group, version, named))
        })
    }

    /// Whether the original knows a kind by this name.
    pub fn has_kind(&self, api_version: &str, kind: &str) -> bool {
        self.resources.get(api_version).into_iter().flatten().any(|named| named.kind == kind)
    }

    /// Whether a verb can be used on the objects of a built-in kind.
    pub fn allows(&self, resource: &Resource, verb: &str) -> bool {
        let listed = self.resources.get(&resource.stored_api_version()).into_iter().flatten();
        let mut named = listed.filter(|named| named.name == resource.id.plural);
        named.any(|named| named.verbs.iter().any(|known| known == verb))
    }

    pub fn has_status(&self, group_version: &str, plural: &str) -> bool {
        let wanted = format!("{plural}/status");
        self.resources.get(group_version).into_iter().flatten().any(|named| named.name == wanted)
    }
}

fn document<T: DeserializeOwned>(path: &str) -> Option<T> {
    serde_json::from_slice(&recorded::document(path)?).ok()
}
