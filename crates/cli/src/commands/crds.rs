//! `drover crds`: the definitions of the kinds that users write for Drover.

use clap::{Args, ValueEnum};
use drover_api::crds::{Controller, of};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use crate::args::Format;
use crate::output::{print, print_document, table, yaml};

#[derive(Debug, Args)]
pub struct CrdsArgs {
    /// Only those of these controllers
    #[arg(long = "for", value_name = "CONTROLLER", value_delimiter = ',')]
    controllers: Vec<ControllerName>,
}

/// A controller as it is called on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ControllerName {
    Plan,
    Harvester,
    Guest,
}

impl ControllerName {
    fn is(self, controller: Controller) -> bool {
        match self {
            ControllerName::Plan => controller == Controller::Plan,
            ControllerName::Harvester => controller == Controller::Harvester,
            ControllerName::Guest => controller == Controller::Guest,
        }
    }
}

pub fn run(args: &CrdsArgs, format: Option<Format>) -> anyhow::Result<()> {
    let wanted = |controller: &Controller| {
        args.controllers.is_empty() || args.controllers.iter().any(|name| name.is(*controller))
    };
    let definitions: Vec<CustomResourceDefinition> = Controller::ALL.into_iter().filter(wanted).flat_map(of).collect();
    match format.unwrap_or(Format::Yaml) {
        Format::Yaml => {
            let documents = definitions.iter().map(yaml).collect::<anyhow::Result<Vec<String>>>()?;
            print(&documents.join("---\n"))
        }
        Format::Json => {
            print_document(Format::Json, &json!({ "apiVersion": "v1", "kind": "List", "items": definitions }))
        }
        Format::Table | Format::Markdown => {
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
