//! The repository of a release without a network: it answers while a pod of its Deployment is available, or its machine runs. One that is told
//! so takes requests and never answers.

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
}

impl Repositories for ScriptedRepositories {
    fn fetch(&self, url: String, _: String) -> BoxFuture<'static, Result<Texts, String>> {
        // JSON is YAML, too.
        let texts = Texts {
            release: self.release.to_string(),
            images: self.images.clone(),
            previous_images: self.previous_images.clone(),
        };
        let host = url.trim_start_matches("http://").split('.').next().unwrap_or_default().to_owned();
        let deployment = self.server.direct("repository").get::<Deployment>(Some("harvester-system"), &host);
        let deployment = deployment.ok().flatten().unwrap_or_default();
        let told = deployment.metadata.annotations.as_ref().and_then(|all| all.get(ANSWERS));
        if told.is_some_and(|told| told == "never") {
            return Box::pin(futures::future::pending());
        }
        let available = deployment.status.and_then(|status| status.available_replicas).unwrap_or(0);
        let machine = self.server.direct("repository").get::<VirtualMachineInstance>(Some("harvester-system"), &host);
        let runs = machine.ok().flatten().and_then(|one| one.status?.phase).is_some_and(|phase| phase == "Running");
        Box::pin(async move { if available > 0 || runs { Ok(texts) } else { Err("connection refused".to_owned()) } })
    }
}
