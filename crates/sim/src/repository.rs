//! The repository of a release without a network: it answers while a pod of its Deployment is available, or its machine runs. One that is told
//! so takes requests and never answers.

use std::collections::BTreeMap;

use drover_api::kubevirt::virtual_machine_instance::VirtualMachineInstance;
use drover_corral::apiserver::ApiServer;
use drover_operator::harvester::{Repositories, Texts};
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::Value;

/// Annotation of the Deployment: with the value `never` it hangs.
const ANSWERS: &str = "corral.drover.dev/answers";

/// Serves one release, whichever Upgrade asks.
#[derive(Debug)]
pub struct ScriptedRepositories {
    pub server: ApiServer,
    pub release: Value,
    pub images: Option<String>,
    pub previous_images: Option<String>,
    /// What else it serves, by path.
    pub files: BTreeMap<String, String>,
}

/// Whether the repository at a URL answers.
enum Voice {
    Answers,
    Refuses,
    /// It takes requests and never answers.
    Hangs,
}

impl ScriptedRepositories {
    fn voice(&self, url: &str) -> Voice {
        let host = url.trim_start_matches("http://").split('.').next().unwrap_or_default().to_owned();
        let deployment = self.server.direct("repository").get::<Deployment>(Some("harvester-system"), &host);
        let deployment = deployment.ok().flatten().unwrap_or_default();
        let told = deployment.metadata.annotations.as_ref().and_then(|all| all.get(ANSWERS));
        if told.is_some_and(|told| told == "never") {
            return Voice::Hangs;
        }
        let available = deployment.status.and_then(|status| status.available_replicas).unwrap_or(0);
        let machine = self.server.direct("repository").get::<VirtualMachineInstance>(Some("harvester-system"), &host);
        let runs = machine.ok().flatten().and_then(|one| one.status?.phase).is_some_and(|phase| phase == "Running");
        if available > 0 || runs { Voice::Answers } else { Voice::Refuses }
    }

    /// By what is asked for, while it answers.
    fn say(&self, url: &str, answer: Result<String, String>) -> BoxFuture<'static, Result<String, String>> {
        match self.voice(url) {
            Voice::Answers => Box::pin(async move { answer }),
            Voice::Refuses => Box::pin(async { Err("connection refused".to_owned()) }),
            Voice::Hangs => Box::pin(futures::future::pending()),
        }
    }
}

impl Repositories for ScriptedRepositories {
    fn fetch(&self, url: String, _: String) -> BoxFuture<'static, Result<Texts, String>> {
        // JSON is YAML, too.
        let texts = Texts {
            release: self.release.to_string(),
            images: self.images.clone(),
            previous_images: self.previous_images.clone(),
        };
        let answer = self.say(&url, Ok(String::new()));
        Box::pin(async move { answer.await.map(|_| texts) })
    }

    fn file(&self, url: String) -> BoxFuture<'static, Result<String, String>> {
        let known = self.files.iter().find(|(path, _)| url.ends_with(&format!("/{path}")));
        let missing = || Err("404 Not Found".to_owned());
        self.say(&url, known.map_or_else(missing, |(_, text)| Ok(text.clone())))
    }
}
