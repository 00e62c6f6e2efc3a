use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use drover_clock::Clock;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::apiserver::{
    Answer, ApiServer, Options,
    admission::{Admission, Operation, Review},
    object::{Meta, Object, child},
    status::bad_request,
    store::Store,
    verbs::Target,
};

/// Labels every ConfigMap, refuses those called `bad`, and is overtaken by another writer the first time.
#[derive(Default)]
struct Labels {
    asked: AtomicUsize,
}

impl Admission for Labels {
    fn concerns(&self, _: &Store, _: Operation, target: &Target, _: &str) -> bool {
        target.resource.id.plural == "configmaps"
    }

    fn mutate<'a>(&'a self, server: &'a ApiServer, review: Review<'a>) -> BoxFuture<'a, Answer<Option<Object>>> {
        Box::pin(async move {
            if self.asked.fetch_add(1, Ordering::Relaxed) == 0 && review.operation == Operation::Update {
                let other = json!({ "data": { "other": "1" } });
                let id = &review.target.resource.id;
                server.direct("other").patch_object(id, "default", &review.target.name, &other)?;
            }
            let mut object = review.new.cloned().unwrap_or_default();
            child(object.meta_mut(), "labels").insert("seen".into(), json!("true"));
            Ok(Some(object))
        })
    }

    fn validate<'a>(&'a self, _: &'a ApiServer, review: Review<'a>) -> BoxFuture<'a, Answer<()>> {
        let refused = review.new.is_some_and(|object| object.name() == "bad");
        Box::pin(async move { if refused { Err(bad_request("bad")) } else { Ok(()) } })
    }
}

fn server() -> ApiServer {
    let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().unwrap());
    let options = Options { clock, seed: 1, latency: Duration::ZERO, watch_window: 10 };
    ApiServer::with_admission(options, Box::new(Labels::default()), true)
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

#[tokio::test(start_paused = true)]
async fn admission_may_change_an_object_and_refuse_one() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client("test"));

    let made = maps.create(&PostParams::default(), &config_map("good")).await.unwrap();
    let refused = maps.create(&PostParams::default(), &config_map("bad")).await;

    assert_eq!(made.metadata.labels.unwrap()["seen"], "true");
    assert!(refused.unwrap_err().to_string().starts_with("ApiError: bad: BadRequest"));
    assert!(maps.get_opt("bad").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_overtaken_while_it_was_admitted_begins_again_and_loses_nothing() {
    let server = server();
    server.direct("test").create(&config_map("a")).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client("test"));

    let patch = Patch::Merge(json!({ "data": { "mine": "1" } }));
    let changed = maps.patch("a", &PatchParams::default(), &patch).await.unwrap();

    let names: Vec<_> = changed.data.unwrap().into_keys().collect();
    assert_eq!(names, ["mine", "other"]);
}
