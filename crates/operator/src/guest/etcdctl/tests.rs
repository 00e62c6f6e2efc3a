//! Pods that run etcdctl, or do not, behind an API server that speaks WebSocket as a real one does.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use futures::SinkExt as _;
use http::{HeaderValue, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use serde_json::json;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::*;

/// What a command prints, what it complains of, and why it has failed if it has; or the code that the server refuses it with.
type Said = Result<(&'static str, &'static str, &'static str), u16>;

/// By the pod and the query of what it is asked to run.
type Answer = fn(&str, &str) -> Said;

#[derive(Clone)]
struct Double {
    answer: Answer,
    heard: Arc<Mutex<Vec<String>>>,
}

/// Two pods of etcd, one with an address of IPv6, that answer so.
fn etcdctl(answer: Answer) -> (Etcdctl, Double) {
    let double = Double { answer, heard: Arc::default() };
    let serving = double.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let double = serving.clone();
        async move {
            let (near, far) = tokio::io::duplex(1 << 16);
            let service = service_fn(move |request| double.clone().serve(request));
            let server = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service);
            tokio::spawn(server.with_upgrades());
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await?;
            tokio::spawn(connection.with_upgrades());
            sender.send_request(request).await
        }
    });
    (Etcdctl { client: Client::new(service, "default") }, double)
}

impl Double {
    async fn serve(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
        let Some(pod) = path.strip_suffix("/exec").and_then(|path| path.rsplit('/').next()) else {
            assert_eq!(path, "/api/v1/namespaces/kube-system/pods");
            assert!(query.ends_with("labelSelector=component%3Detcd"), "{query}");
            let pod = |name: &str, ip: &str| json!({ "metadata": { "name": name }, "status": { "podIP": ip } });
            let list = json!({ "items": [pod("etcd-a", "10.0.0.1"), pod("etcd-b", "fd00::2")], "metadata": {} });
            return Ok(Response::new(Full::new(Bytes::from(list.to_string()))));
        };
        self.heard.lock().unwrap().push(format!("{pod} {query}"));
        let (out, err, failure) = match (self.answer)(pod, &query) {
            Ok(said) => said,
            Err(code) => return Ok(Response::builder().status(code).body(Full::default()).unwrap()),
        };
        let accepted = derive_accept_key(request.headers()[header::SEC_WEBSOCKET_KEY].as_bytes());
        tokio::spawn(async move {
            let upgraded = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
            let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, None).await;
            let status = match failure {
                "" => json!({ "status": "Success" }),
                why => json!({ "status": "Failure", "message": why }),
            };
            let status = status.to_string();
            // What is long comes in pieces.
            let (first, rest) = out.split_at(out.len() / 2);
            for (channel, text) in [(STDOUT, first), (STDERR, err), (STDOUT, rest), (STATUS, status.as_str())] {
                socket.send(Message::Binary([&[channel][..], text.as_bytes()].concat().into())).await.unwrap();
            }
            socket.close(None).await.unwrap();
        });
        let agreed = Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_ACCEPT, accepted)
            .header(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("v5.channel.k8s.io"));
        Ok(agreed.body(Full::default()).unwrap())
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

fn runs(query: &str, words: &str) -> bool {
    query.contains(&escaped(words))
}

const LIST: &str = r#"{"members":[{"ID":1,"name":"a","clientURLs":["https://10.0.0.1:2379"]},
    {"ID":2,"name":"b","clientURLs":["https://[fd00::2]:2379"]},{"ID":3,"name":"c","clientURLs":["https://10.0.0.3:2379"]}]}"#;
/// As it is printed where the third does not answer.
const STATUSES: &str = r#"[{"Endpoint":"https://10.0.0.1:2379","Status":{"header":{"member_id":1},"leader":1}},
    {"Endpoint":"https://[fd00::2]:2379","Status":{"header":{"member_id":2},"leader":1}}]"#;
const EXIT: &str = "command terminated with exit code 1";

#[tokio::test]
async fn members_are_told_by_the_first_pod_that_can_and_one_that_is_silent_is_not_well() {
    let (etcd, double) = etcdctl(|pod, query| match pod {
        "etcd-a" => Err(500),
        _ if runs(query, "endpoint status") => Ok((STATUSES, "Failed to get the status of endpoint", EXIT)),
        _ => Ok((LIST, "", "")),
    });

    let members = etcd.members().await.unwrap();

    let told: Vec<(&str, bool, bool)> =
        members.iter().map(|member| (member.name.as_str(), member.leader, member.healthy)).collect();
    assert_eq!(told, [("a", true, true), ("b", false, true), ("c", false, false)]);
    let heard = double.heard();
    assert_eq!(heard.len(), 4, "each is asked of the one, and then of the other: {heard:#?}");
    assert!(runs(&heard[1], "--endpoints https://[fd00::2]:2379 member list -w json"), "{heard:#?}");
    let all = "--endpoints https://10.0.0.1:2379,https://[fd00::2]:2379,https://10.0.0.3:2379 -w json";
    assert!(runs(&heard[3], all), "{heard:#?}");
}

#[tokio::test]
async fn a_member_that_is_gone_is_removed_whoever_cannot_be_asked_after_that() {
    let (etcd, _) = etcdctl(|pod, _| match pod {
        "etcd-a" => Ok(("", "Error: etcdserver: member not found", EXIT)),
        _ => Err(500),
    });
    assert_eq!(etcd.remove(9).await, Ok(()));

    let (etcd, _) = etcdctl(|pod, _| match pod {
        "etcd-a" => Ok(("", "Error: etcdserver: unhealthy cluster", EXIT)),
        _ => Err(500),
    });
    let expected = "etcd-a: command terminated with exit code 1: Error: etcdserver: unhealthy cluster; \
                    etcd-b: the API server does not let a command run: 500 Internal Server Error";
    assert_eq!(etcd.remove(9).await, Err(expected.to_owned()));
}

#[tokio::test]
async fn an_image_without_a_shell_runs_etcdctl_itself() {
    let (etcd, double) = etcdctl(|_, query| match runs(query, "ETCDCTL_API=3 etcdctl") {
        true => Ok(("", "", "exec: \"sh\": executable file not found in $PATH: unknown")),
        false if runs(query, "list") => Ok((LIST, "", "")),
        false => Ok(("", "", "")),
    });

    assert_eq!(etcd.move_leader(1, 0x2f).await, Ok(()));

    let heard = double.heard();
    let last = heard.last().unwrap();
    assert!(last.contains("&command=etcdctl&command=--cacert"), "{last}");
    assert!(
        last.contains("&command=move-leader&command=2f&command=--endpoints&command=https%3A%2F%2F10.0.0.1%3A2379"),
        "{last}"
    );
}

#[test]
fn ids_of_members_are_larger_than_numbers_of_most_programs() {
    let text = r#"{"header":{"cluster_id":1},"members":[
        {"ID":10276657743932975437,"name":"a","peerURLs":["https://10.0.0.1:2380"],"clientURLs":["https://10.0.0.1:2379"]},
        {"ID":5782640540428238474,"peerURLs":["https://10.0.0.2:2380"],"isLearner":true}]}"#;
    let listed = read_members(text).unwrap();
    assert_eq!(format!("{:x}", listed[0].id), "8e9e05c52164694d");

    let statuses = r#"[{"Endpoint":"https://10.0.0.1:2379","Status":{"header":{"member_id":10276657743932975437},"leader":10276657743932975437}}]"#;
    let members = with_statuses(listed, statuses);
    assert_eq!(
        members.iter().map(|one| (one.leader, one.healthy, one.learner)).collect::<Vec<_>>(),
        [(true, true, false), (false, false, true)]
    );
}

#[test]
fn what_a_command_complains_of_is_told() {
    let mut heard = Heard::default();
    heard.take(&Bytes::from_static(b"\x02Error: context deadline exceeded\n"));
    heard.take(&Bytes::from_static(br#"{"status":"Failure"}"#));
    heard
        .take(&Bytes::from_static(b"\x03{\"status\":\"Failure\",\"message\":\"command terminated with exit code 1\"}"));
    assert_eq!(
        heard.outcome(),
        Err("command terminated with exit code 1: Error: context deadline exceeded".to_owned())
    );
}
