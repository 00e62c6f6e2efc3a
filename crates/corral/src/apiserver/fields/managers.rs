//! Who manages which fields of an object: `metadata.managedFields`, read, changed and written.

use serde_json::{Map, Value, json};

use super::set::FieldSet;

/// More managers that update than this are not kept apart.
const MOST_UPDATERS: usize = 10;
/// Who is said to manage what the oldest of them did.
const ANCIENT: &str = "ancient-changes";

/// One manager, and the fields that it manages by one kind of operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manager {
    pub id: ManagerId,
    /// The version of the API in whose terms the fields are.
    pub version: String,
    pub time: Option<String>,
    pub fields: FieldSet,
}

/// What tells managers apart. Two updates by one name in two versions are two managers, two applies are not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ManagerId {
    pub name: String,
    pub applies: bool,
    /// Empty for one that applies.
    pub update_version: String,
    pub subresource: String,
}

impl ManagerId {
    pub fn new(name: &str, applies: bool, version: &str, subresource: &str) -> Self {
        let name = if name.is_empty() { "unknown" } else { name };
        ManagerId {
            name: name.into(),
            applies,
            update_version: if applies { String::new() } else { version.into() },
            subresource: subresource.into(),
        }
    }

    /// As the refusal of an apply names it.
    pub fn shown(&self) -> String {
        let mut shown = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            shown.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if !self.applies {
            shown.push_str(&format!(" using {}", self.update_version));
        }
        shown
    }
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Managers(pub Vec<Manager>);

impl Managers {
    /// Takes what an object carries; none if it is not in order.
    pub fn read(entries: Option<Value>) -> Option<Self> {
        let mut managers = Managers::default();
        let Some(Value::Array(entries)) = entries else { return Some(managers) };
        for mut entry in entries {
            let fields = match entry.get_mut("fieldsV1").map(Value::take) {
                None | Some(Value::Null) => FieldSet::default(),
                Some(fields) => FieldSet::from_json(fields)?,
            };
            let text = |name: &str| entry[name].as_str().unwrap_or_default();
            let applies = match text("operation") {
                "Apply" => true,
                "Update" => false,
                _ => return None,
            };
            let version = text("apiVersion");
            if version.is_empty() || text("fieldsType") != "FieldsV1" {
                return None;
            }
            // Unlike a client's, a stored name is taken as it is.
            let id =
                ManagerId { name: text("manager").into(), ..ManagerId::new("", applies, version, text("subresource")) };
            let time = entry["time"].as_str().map(String::from);
            managers.put(Manager { id, version: version.into(), time, fields });
        }
        Some(managers)
    }

    /// Whether a client asks to forget all managers: an empty list, or a list of nothing.
    pub fn is_reset(entries: Option<&Value>) -> bool {
        match entries.and_then(Value::as_array).map(Vec::as_slice) {
            Some([]) => true,
            Some([Value::Object(only)]) => only.is_empty(),
            _ => false,
        }
    }

    /// The entries for an object; none if nobody manages anything.
    pub fn write(mut self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        self.0.sort_by(|one, other| {
            let (mine, theirs) = (&one.id, &other.id);
            (!mine.applies, &one.time, &mine.name, &one.version, &mine.subresource).cmp(&(
                !theirs.applies,
                &other.time,
                &theirs.name,
                &other.version,
                &theirs.subresource,
            ))
        });
        Some(Value::Array(self.0.into_iter().map(entry).collect()))
    }

    pub fn get(&self, id: &ManagerId) -> Option<&Manager> {
        self.0.iter().find(|manager| manager.id == *id)
    }

    /// Takes the fields of a manager that is to be put again; none if it is not there.
    pub fn take_fields(&mut self, id: &ManagerId) -> Option<FieldSet> {
        let manager = self.0.iter_mut().find(|manager| manager.id == *id)?;
        Some(std::mem::take(&mut manager.fields))
    }

    /// Adds a manager, or replaces the one with its identity.
    pub fn put(&mut self, manager: Manager) {
        match self.0.iter_mut().find(|known| known.id == manager.id) {
            Some(known) => *known = manager,
            None => self.0.push(manager),
        }
    }

    /// Merges the oldest managers that update into one for each version, until few enough are left.
    pub fn cap(&mut self) {
        let mut count = self.0.iter().filter(|manager| !manager.id.applies).count();
        if count <= MOST_UPDATERS {
            return;
        }
        let mut updaters: Vec<_> = self.0.iter().filter(|manager| !manager.id.applies).cloned().collect();
        updaters.sort_by(|one, other| (&one.time, &one.id).cmp(&(&other.time, &other.id)));
        let mut first_of: Vec<Manager> = vec![];
        for manager in updaters {
            if count <= MOST_UPDATERS {
                break;
            }
            let Some(first) = first_of.iter().find(|first| first.version == manager.version).cloned() else {
                first_of.push(manager);
                continue;
            };
            let bucket = ManagerId::new(ANCIENT, false, &manager.version, "");
            let known = match self.get(&bucket) {
                Some(known) => known.fields.clone(),
                None => {
                    self.0.retain(|other| other.id != first.id);
                    first.fields
                }
            };
            self.0.retain(|other| other.id != manager.id);
            let fields = manager.fields.union(&known);
            self.put(Manager { id: bucket, version: manager.version, time: manager.time, fields });
            count -= 1;
        }
    }
}

fn entry(manager: Manager) -> Value {
    let Manager { id, version, time, fields } = manager;
    let mut entry = Map::new();
    entry.insert("apiVersion".into(), json!(version));
    entry.insert("fieldsType".into(), json!("FieldsV1"));
    entry.insert("fieldsV1".into(), fields.into_json());
    if !id.name.is_empty() {
        entry.insert("manager".into(), json!(id.name));
    }
    entry.insert("operation".into(), json!(if id.applies { "Apply" } else { "Update" }));
    if !id.subresource.is_empty() {
        entry.insert("subresource".into(), json!(id.subresource));
    }
    if let Some(time) = time {
        entry.insert("time".into(), json!(time));
    }
    Value::Object(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updater(name: &str, minute: usize) -> Manager {
        let mut fields = FieldSet::default();
        fields.insert(&[format!("f:{name}")]);
        let time = Some(format!("2026-01-01T12:{minute:02}:00Z"));
        Manager { id: ManagerId::new(name, false, "v1", ""), version: "v1".into(), time, fields }
    }

    #[test]
    fn managers_that_apply_come_first_and_then_the_oldest() {
        let apply = Manager { id: ManagerId::new("z", true, "v1", ""), ..updater("z", 30) };
        let written = Managers(vec![updater("b", 2), updater("a", 1), apply]).write().unwrap();
        let names: Vec<_> =
            written.as_array().unwrap().iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
        assert_eq!(names, ["z", "a", "b"]);
        assert_eq!(Managers::read(Some(written.clone())).unwrap().write().unwrap(), written);
    }

    #[test]
    fn the_oldest_of_too_many_updaters_become_one() {
        let mut managers = Managers((0..12).map(|number| updater(&format!("m{number:02}"), number)).collect());
        managers.cap();

        assert_eq!(managers.0.len(), 10);
        let ancient = managers.get(&ManagerId::new(ANCIENT, false, "v1", "")).unwrap();
        assert_eq!(ancient.fields.clone().into_json(), json!({ "f:m00": {}, "f:m01": {}, "f:m02": {} }));
        assert_eq!(ancient.time.as_deref(), Some("2026-01-01T12:02:00Z"));
    }

    #[test]
    fn an_entry_that_is_not_in_order_spoils_the_list() {
        assert!(Managers::read(Some(json!([{ "operation": "Update" }]))).is_none());
        assert!(Managers::is_reset(Some(&json!([{}]))) && Managers::is_reset(Some(&json!([]))));
        assert!(!Managers::is_reset(None));
    }
}
