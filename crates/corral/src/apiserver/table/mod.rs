//! Objects as rows of a table: what `kubectl get` asks for and prints.

use jiff::Timestamp;
use serde_json::{Value, json};

use self::columns::Columns;
use super::resources::Resource;

mod age;
mod cells;
mod columns;
mod jsonpath;

pub(crate) use self::columns::Column;

/// How much of an object goes with its row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Whole,
}

/// A table of objects of one kind, as one version of its API shows them.
pub(crate) struct Table<'a> {
    columns: Columns<'a>,
    is_pods: bool,
    /// `v1` or `v1beta1`: the version of the table itself.
    version: &'a str,
    include: Include,
    now: Timestamp,
}

impl<'a> Table<'a> {
    pub fn new(
        resource: &'a Resource,
        resource_version: &str,
        version: &'a str,
        include: Include,
        now: Timestamp,
    ) -> Self {
        let columns = Columns::of(resource, resource_version);
        Table { columns, is_pods: resource.id.group.is_empty() && resource.id.plural == "pods", version, include, now }
    }

    /// The whole table.
    pub fn of(&self, metadata: Value, rows: Vec<Value>, with_header: bool) -> Value {
        let header = if with_header { self.columns.header() } else { Value::Null };
        json!({
            "kind": "Table", "apiVersion": format!("meta.k8s.io/{}", self.version), "metadata": metadata,
            "columnDefinitions": header, "rows": rows,
        })
    }

    /// A table of one object.
    pub fn of_one(&self, object: Value, with_header: bool) -> Value {
        let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
        let row = self.row(object);
        self.of(metadata, vec![row], with_header)
    }

    pub fn row(&self, object: Value) -> Value {
        let cells = self.columns.cells(&object, self.now);
        let conditions = if self.is_pods { cells::pod_conditions(&object) } else { None };
        // The end of the initial events is a mark on the object, and would be lost without it.
        let marked = !object["metadata"]["annotations"]["k8s.io/initial-events-end"].is_null();
        let object = match self.include {
            Include::Whole => object,
            Include::Nothing if !marked => Value::Null,
            _ => metadata_of(object, self.version),
        };
        let mut row = json!({ "cells": cells, "object": object });
        if let Some(conditions) = conditions {
            row["conditions"] = conditions;
        }
        row
    }
}

/// An object reduced to its metadata.
pub(crate) fn metadata_of(mut object: Value, version: &str) -> Value {
    let metadata = object["metadata"].take();
    json!({ "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata })
}
