//! The etcd of a guest cluster through `etcdctl` in the pods of its members, over the guest's own API server.

use std::fmt::Debug;

use bytes::Bytes;
use drover_core::guest::Member;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::client::Body;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::Etcd;
use super::etcd::{PODS, SYSTEM};
use crate::api::escaped;

const CERTIFICATES: &str = "--cacert /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/peer.crt --key \
                            /etc/kubernetes/pki/etcd/peer.key";
const PROTOCOLS: &str = "v5.channel.k8s.io, v4.channel.k8s.io";
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;

/// Whichever member answers.
#[derive(Clone)]
pub struct Etcdctl {
    pub client: Client,
}

impl Debug for Etcdctl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Etcdctl").finish_non_exhaustive()
    }
}

impl Etcd for Etcdctl {
    fn members(&self) -> BoxFuture<'static, Result<Vec<Member>, String>> {
        let etcd = self.clone();
        Box::pin(async move {
            let listed = read_members(&etcd.anywhere("member list -w json").await?)?;
            let endpoints: Vec<&str> = listed.iter().flat_map(|one| &one.client_urls).map(String::as_str).collect();
            // Ends with an error if one of them does not answer, and tells of the others all the same.
            let statuses = etcd.anywhere(&format!("endpoint status --endpoints {} -w json", endpoints.join(","))).await;
            Ok(with_statuses(listed, &statuses.unwrap_or_default()))
        })
    }

    fn move_leader(&self, from: u64, to: u64) -> BoxFuture<'static, Result<(), String>> {
        let etcd = self.clone();
        Box::pin(async move {
            let listed = read_members(&etcd.anywhere("member list -w json").await?)?;
            let leader = listed.iter().find(|member| member.id == from).and_then(|member| member.client_urls.first());
            let leader = leader.ok_or("the member that leads is gone")?;
            etcd.anywhere(&format!("move-leader {to:x} --endpoints {leader}")).await.map(drop)
        })
    }

    fn remove(&self, id: u64) -> BoxFuture<'static, Result<(), String>> {
        let etcd = self.clone();
        Box::pin(async move {
            match etcd.anywhere(&format!("member remove {id:x}")).await {
                Err(why) if !why.contains("Member not found") && !why.contains("member not found") => Err(why),
                _ => Ok(()),
            }
        })
    }
}

#[derive(Debug, PartialEq, Deserialize)]
struct Listed {
    #[serde(rename = "ID")]
    id: u64,
    #[serde(default)]
    name: String,
    #[serde(default, rename = "clientURLs")]
    client_urls: Vec<String>,
    #[serde(default, rename = "isLearner")]
    learner: bool,
}

fn read_members(text: &str) -> Result<Vec<Listed>, String> {
    #[derive(Deserialize)]
    struct List {
        members: Vec<Listed>,
    }
    let list: List = serde_json::from_str(text.trim()).map_err(|error| format!("member list: {error}"))?;
    Ok(list.members)
}

/// A member is well if it answers and knows who leads.
fn with_statuses(listed: Vec<Listed>, statuses: &str) -> Vec<Member> {
    let statuses: Vec<Value> = serde_json::from_str(statuses.trim()).unwrap_or_default();
    let status = |id: u64| {
        let mut all = statuses.iter().map(|one| &one["Status"]);
        all.find(|status| status["header"]["member_id"].as_u64() == Some(id))
    };
    let read = |one: Listed| {
        let leader = status(one.id).and_then(|status| status["leader"].as_u64()).filter(|leader| *leader != 0);
        Member {
            id: one.id,
            name: one.name,
            learner: one.learner,
            leader: leader == Some(one.id),
            healthy: leader.is_some(),
        }
    };
    listed.into_iter().map(read).collect()
}

impl Etcdctl {
    /// Runs etcdctl in one pod of etcd after the other, until one can.
    async fn anywhere(&self, args: &str) -> Result<String, String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SYSTEM);
        let pods = pods.list(&ListParams::default().labels(PODS)).await.map_err(|error| error.to_string())?;
        let mut why = Vec::new();
        for pod in pods.items {
            let ip =
                pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).filter(|ip| ip.contains(['.', ':']));
            let ip = ip.unwrap_or("127.0.0.1");
            let ip = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
            let own =
                if args.contains("--endpoints") { String::new() } else { format!(" --endpoints https://{ip}:2379") };
            let name = pod.metadata.name.unwrap_or_default();
            match self.in_pod(&name, &format!("{CERTIFICATES}{own} {args}")).await {
                Ok(text) => return Ok(text),
                Err(cause) => why.push(format!("{name}: {cause}")),
            }
        }
        match why.as_slice() {
            [] => Err(format!("there is no pod with the label {PODS}")),
            // What one member knows, such as that another is gone, others that cannot be asked do not take back.
            why => Err(why.join("; ")),
        }
    }

    /// Old releases need to be told which API to speak; images of new ones have no shell.
    async fn in_pod(&self, pod: &str, args: &str) -> Result<String, String> {
        let shell = ["sh".to_owned(), "-c".to_owned(), format!("ETCDCTL_API=3 etcdctl {args}")];
        match exec(&self.client, pod, &shell).await {
            Err(why) if why.contains("executable file not found") || why.contains("no such file") => {
                let plain: Vec<String> =
                    std::iter::once("etcdctl").chain(args.split_whitespace()).map(str::to_owned).collect();
                exec(&self.client, pod, &plain).await
            }
            answer => answer,
        }
    }
}

/// Runs a command in the container `etcd` of a pod; gives back what it prints, or what it complains of.
async fn exec(client: &Client, pod: &str, command: &[String]) -> Result<String, String> {
    let command: String = command.iter().map(|word| format!("&command={}", escaped(word))).collect();
    let path = format!("/api/v1/namespaces/{SYSTEM}/pods/{pod}/exec?container=etcd&stdout=true&stderr=true{command}");
    let request = Request::get(path)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, generate_key())
        .header(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOLS)
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(format!("the API server does not let a command run: {}", response.status()));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(|error| error.to_string())?;
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await;
    let mut heard = Heard::default();
    while let Some(message) = socket.next().await {
        match message.map_err(|error| error.to_string())? {
            Message::Binary(bytes) => heard.take(&bytes),
            Message::Close(_) => break,
            _ => {}
        }
    }
    heard.outcome()
}

/// What a command has said, by channel.
#[derive(Default)]
struct Heard {
    out: Vec<u8>,
    err: Vec<u8>,
    status: Vec<u8>,
}

impl Heard {
    fn take(&mut self, message: &Bytes) {
        match message.split_first() {
            Some((&STDOUT, text)) => self.out.extend(text),
            Some((&STDERR, text)) => self.err.extend(text),
            Some((&STATUS, text)) => self.status.extend(text),
            _ => {}
        }
    }

    fn outcome(self) -> Result<String, String> {
        let status: Value = serde_json::from_slice(&self.status).unwrap_or_default();
        let out = String::from_utf8_lossy(&self.out).into_owned();
        // What it prints for programs is whole although a member does not answer.
        if status["status"] == "Success" || out.trim_start().starts_with('[') {
            return Ok(out);
        }
        let said = String::from_utf8_lossy(&self.err).trim().to_owned();
        let message = status["message"].as_str().unwrap_or("the command ended without a word").to_owned();
        Err(if said.is_empty() { message } else { format!("{message}: {said}") })
    }
}

#[cfg(test)]
mod tests;
