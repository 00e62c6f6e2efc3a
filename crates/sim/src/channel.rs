//! A channel without a network: what it names stands in a ConfigMap, where a scenario can change it.

use drover_core::decision::Question;
use drover_core::plan::Answer;
use drover_corral::apiserver::ApiServer;
use drover_operator::Channels;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::scenario::NAMESPACE;

/// The ConfigMap `channels`: the last element of a channel's path is a key, its value the version.
#[derive(Debug)]
pub struct ScriptedChannels(pub ApiServer);

impl Channels for ScriptedChannels {
    fn ask(&self, question: Question, _: Option<String>) -> BoxFuture<'static, Result<Answer, String>> {
        let channel = question.url.rsplit('/').next().unwrap_or_default().to_owned();
        let map = self.0.direct("channel").get::<ConfigMap>(Some(NAMESPACE), "channels").ok().flatten();
        let version = map.and_then(|map| map.data?.get(&channel).cloned());
        let answer = match version {
            Some(version) => {
                Ok(Answer { status: 302, location: Some(format!("https://example.com/release/{version}")) })
            }
            None => Err("nobody listens there".to_owned()),
        };
        Box::pin(async move { answer })
    }
}
