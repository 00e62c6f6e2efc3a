//! A person's word on a TanzuKubernetesCluster: reads what it rests on, decides with [`drover_core::guest::tanzu::verbs`], writes.

use drover_api::tanzu::NAMESPACE;
use drover_clock::Clock;
use drover_core::decision::Act;
use drover_core::guest::tanzu::verbs::{self, Refusal};
use drover_core::guest::tanzu::{Settings, View, Watched};
use drover_core::guest::{Collection, Write};
use jiff::SignedDuration;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::hands::send;
use super::ledger::{Key, Ledger, PARTS, Part};
use crate::api::{Api, ApiError};

/// What is read for it.
const READ: [Collection; 5] =
    [Collection::Tanzu, Collection::Images, Collection::Machines, Collection::Deployments, Collection::Jobs];

#[derive(Debug, thiserror::Error)]
pub enum WordError {
    #[error("cannot {act}: {cause}")]
    Api { act: String, cause: ApiError },
    #[error("there is no TanzuKubernetesCluster {0}/{1}, or the cluster that was asked knows none")]
    NotThere(String, String),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// One TanzuKubernetesCluster, for somebody who changes it.
#[derive(Debug)]
pub struct TanzuVerbs {
    api: Api,
    clock: Clock,
    key: Key,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

impl TanzuVerbs {
    pub fn on(client: Client, clock: Clock, namespace: &str, name: &str) -> Self {
        TanzuVerbs { api: Api::new(client, clock), clock, key: (namespace.to_owned(), name.to_owned()) }
    }

    /// Which version would be asked for, in full, or why none would; nothing is written.
    pub async fn would_start(&self, to: &str) -> Result<String, WordError> {
        let write = self.decide(|view| verbs::start(view, to)).await?;
        let Act::Patch(patch) = &write.act else { return Ok(to.to_owned()) };
        Ok(patch["spec"]["distribution"]["fullVersion"].as_str().unwrap_or(to).to_owned())
    }

    /// Asks for a version; says which one that is in full.
    pub async fn start(&self, to: &str) -> Result<String, WordError> {
        let write = self.decide(|view| verbs::start(view, to)).await?;
        let body = self.write(&write).await?;
        let tkc: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        Ok(tkc["spec"]["distribution"]["fullVersion"].as_str().unwrap_or(to).to_owned())
    }

    /// Nothing of it is begun until it is resumed.
    pub async fn pause(&self) -> Result<(), WordError> {
        let write = self.decide(verbs::pause).await?;
        self.write(&write).await.map(drop)
    }

    pub async fn resume(&self) -> Result<(), WordError> {
        let write = self.decide(verbs::resume).await?;
        self.write(&write).await.map(drop)
    }

    /// Has tried again what has failed; says what was changed for it.
    pub async fn retry(&self) -> Result<Vec<String>, WordError> {
        let writes = self.decide(verbs::retry).await?;
        for write in &writes {
            self.write(write).await?;
        }
        Ok(writes.iter().map(|write| write.object.to_string()).collect())
    }

    async fn decide<T>(&self, decide: impl FnOnce(&View<'_>) -> Result<T, Refusal>) -> Result<T, WordError> {
        let mut ledger = Ledger::default();
        for part in PARTS.into_iter().filter(|part| READ.contains(&part.collection)) {
            self.read(part, &mut ledger).await?;
        }
        // No word makes a Job.
        let settings = Settings {
            image: String::new(),
            service_account: String::new(),
            machine_timeout: SignedDuration::ZERO,
            node_selector: None,
        };
        let (namespace, name) = &self.key;
        let own = ledger.space(namespace);
        let tkc = own.get(Collection::Tanzu, name);
        let view = View {
            tkc: tkc.ok_or_else(|| WordError::NotThere(namespace.clone(), name.clone()))?,
            own: &own,
            global: ledger.common(""),
            system: ledger.common(NAMESPACE),
            nodes: None,
            configuration: None,
            addons: None,
            places: None,
            after: &[],
            settings: &settings,
            watched: &Watched::default(),
            steady: self.clock.now(),
            now: self.clock.now(),
        };
        Ok(decide(&view)?)
    }

    /// A kind that is not served has no objects.
    async fn read(&self, part: Part, ledger: &mut Ledger) -> Result<(), WordError> {
        let act = |cause| WordError::Api { act: format!("list {}s", part.kind), cause };
        let body = match self.api.get(&part.path_for(&self.key.0)).await {
            Err(error) if error.code() == Some(404) => return Ok(()),
            answer => answer.map_err(act)?,
        };
        let unreadable = |error: serde_json::Error| act(ApiError::Unreadable(error.to_string()));
        let list: List<'_> = serde_json::from_slice(&body).map_err(unreadable)?;
        for object in list.items.iter().filter_map(|item| part.kept(item.get())) {
            ledger.put(part, object);
        }
        Ok(())
    }

    async fn write(&self, write: &Write) -> Result<Vec<u8>, WordError> {
        let act = |cause| WordError::Api { act: format!("{}: {}", write.purpose, write.object), cause };
        send(&self.api, write).await.map(|body| body.to_vec()).map_err(act)
    }
}
