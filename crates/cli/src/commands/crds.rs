//! `drover crds`: the definitions of Drover's kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use crate::args::Format;
use crate::output::{print, print_document, table, yaml};

pub fn run(format: Option<Format>) -> anyhow::Result<()> {
    let definitions = drover_api::crds::all();
    match format.unwrap_or(Format::Yaml) {
        Format::Yaml => {
            let documents = definitions.iter().map(yaml).collect::<anyhow::Result<Vec<String>>>()?;
            print(&documents.join("---\n"))
        }
        Format::Json => {
            print_document(Format::Json, &json!({ "apiVersion": "v1", "kind": "List", "items": definitions }))
        }
        Format::Table => {
            let header = ["NAME", "KIND", "SCOPE", "VERSIONS"].map(str::to_owned).to_vec();
            let rows: Vec<Vec<String>> = std::iter::once(header).chain(definitions.iter().map(row)).collect();
            print(&table(&rows))
        }
    }
}

fn row(definition: &CustomResourceDefinition) -> Vec<String> {
    let spec = &definition.spec;
    let versions: Vec<&str> = spec.versions.iter().map(|version| version.name.as_str()).collect();
    let name = format!("{}.{}", spec.names.plural, spec.group);
    vec![name, spec.names.kind.clone(), spec.scope.clone(), versions.join(",")]
}
