//! Over real sockets, on the wall clock.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use drover_clock::Clock;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::*;
use crate::apiserver::Options;

async fn served() -> (ApiServer, Served) {
    let options = Options { clock: Clock::real(), seed: 1, latency: Duration::ZERO, watch_window: 1000 };
    let server = ApiServer::new(options);
    let served = serve(server.clone(), SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    (server, served)
}

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

#[tokio::test]
async fn a_client_with_the_kubeconfig_reads_writes_and_watches() {
    let (_, served) = served().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(served.kubeconfig()).await);

    let mut events = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let created = api.create(&PostParams::default(), &config_map("one")).await.unwrap();
    assert_eq!(api.get("one").await.unwrap().metadata.uid, created.metadata.uid);

    // The watch stays open: an event that waited in a buffer for more would never come.
    for name in ["one", "two"] {
        let event = tokio::time::timeout(Duration::from_secs(10), events.next()).await.expect("an event comes at once");
        match event.unwrap().unwrap() {
            WatchEvent::Added(seen) => assert_eq!(seen.metadata.name.as_deref(), Some(name)),
            other => panic!("{other:?}"),
        }
        if name == "one" {
            api.create(&PostParams::default(), &config_map("two")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_wrong_token_is_told_401_as_by_a_real_server() {
    let (_, served) = served().await;
    let mut lines: Vec<String> = served.kubeconfig().lines().map(String::from).collect();
    for line in lines.iter_mut().filter(|line| line.contains("token:")) {
        *line = "    token: guessed".into();
    }
    let api: Api<Node> = Api::all(client(&lines.join("\n")).await);

    let Err(kube::Error::Api(status)) = api.get("n1").await else { panic!("it was let in") };

    assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (401, "Unauthorized", "Unauthorized"));
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_authority_gets_no_further_than_tls() {
    let (_, served) = served().await;
    let (_, other) = self::served().await;
    let foreign = other.kubeconfig().replace(&other.addr().to_string(), &served.addr().to_string());
    let api: Api<Node> = Api::all(client(&foreign).await);

    let error = api.get("n1").await.unwrap_err();

    assert!(!matches!(error, kube::Error::Api(_)), "{error}");
}

#[tokio::test]
async fn commits_are_noted_under_the_clients_name() {
    let (server, served) = served().await;
    let (sender, actors) = std::sync::mpsc::channel();
    server.observe(Box::new(move |commit| drop(sender.send(commit.actor.to_string()))));
    let kubeconfig = Kubeconfig::from_yaml(served.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.headers.push((header::USER_AGENT, HeaderValue::from_static("kubectl/v1.34.4 (linux/amd64)")));
    let api: Api<ConfigMap> = Api::default_namespaced(Client::try_from(config).unwrap());

    api.create(&PostParams::default(), &config_map("one")).await.unwrap();

    assert_eq!(actors.recv().unwrap(), "kubectl");
}

#[tokio::test]
async fn dropping_it_closes_the_port() {
    let (_, served) = served().await;
    let addr = served.addr();
    drop(served);

    let mut closed = false;
    for _ in 0..100 {
        closed = TcpStream::connect(addr).await.is_err();
        if closed {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(closed);
}

/// Says so and passes where kubectl is not installed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_lists_nodes() {
    let (server, served) = served().await;
    let node = Node { metadata: ObjectMeta { name: Some("n1".into()), ..ObjectMeta::default() }, ..Node::default() };
    server.direct("test").create(&node).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    served.write_kubeconfig(&path).unwrap();

    let kubectl = std::process::Command::new("kubectl")
        .args(["get", "nodes", "--request-timeout=20s", "--cache-dir"])
        .arg(folder.path())
        .arg("--kubeconfig")
        .arg(&path)
        .output();
    let output = match kubectl {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return eprintln!("skipped: there is no kubectl here"),
        Err(error) => panic!("kubectl does not start: {error}"),
    };

    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}{errors}");
    assert!(printed.lines().any(|line| line.starts_with("n1 ")), "{printed}{errors}");
}
