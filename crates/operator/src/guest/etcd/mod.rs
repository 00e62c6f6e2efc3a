//! The etcd of a guest cluster, spoken to directly: over the port-forward of the guest's API server, with a certificate of the cluster's
//! own authority. Where that cannot be had, `etcdctl` in the pods of the members is asked instead.

mod certificate;
mod forward;
mod grpc;
mod messages;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use drover_clock::Clock;
use drover_core::guest::Member;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

pub use self::certificate::Authority;
pub use self::grpc::CallError;
use self::grpc::Line;
use self::messages::{Listed, Status, read_members, read_status};
use super::Etcd;

pub(super) const SYSTEM: &str = "kube-system";
pub(super) const PODS: &str = "component=etcd";
const PORT: u16 = 2379;
/// A member that does not answer within this time is not well.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes to and from a member.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// How members are reached. kubeadm calls the pod of a member after it: `etcd-<name>`.
pub trait Way: Debug + Send + Sync {
    fn pods(&self) -> BoxFuture<'static, Result<Vec<String>, String>>;
    fn open(&self, pod: &str) -> BoxFuture<'static, Result<Box<dyn Stream>, String>>;
}

/// Over the API server of the cluster.
#[derive(Clone)]
pub struct OverApiServer(pub Client);

impl Debug for OverApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OverApiServer").finish_non_exhaustive()
    }
}

impl Way for OverApiServer {
    fn pods(&self) -> BoxFuture<'static, Result<Vec<String>, String>> {
        let pods: Api<Pod> = Api::namespaced(self.0.clone(), SYSTEM);
        Box::pin(async move {
            let listed = pods.list(&ListParams::default().labels(PODS)).await.map_err(|error| error.to_string())?;
            Ok(listed.items.into_iter().filter_map(|pod| pod.metadata.name).collect())
        })
    }

    fn open(&self, pod: &str) -> BoxFuture<'static, Result<Box<dyn Stream>, String>> {
        let (client, pod) = (self.0.clone(), pod.to_owned());
        Box::pin(async move {
            let stream = forward::forward(&client, SYSTEM, &pod, PORT).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

/// Speaks with each member itself.
#[derive(Debug, Clone)]
pub struct Members {
    way: Arc<dyn Way>,
    authority: Authority,
    clock: Clock,
}

impl Members {
    pub fn new(way: Arc<dyn Way>, authority: Authority, clock: Clock) -> Self {
        Members { way, authority, clock }
    }

    /// All members, each as it says of itself.
    pub async fn members(&self) -> Result<Vec<Member>, CallError> {
        let listed = self.list().await?;
        Ok(join_all(listed.into_iter().map(|one| self.seen(one))).await)
    }

    async fn line_to(&self, pod: &str) -> Result<Line, CallError> {
        let unreachable = |why: String| CallError::Unreachable(format!("{pod}: {why}"));
        let connecting = async {
            let node = pod.strip_prefix("etcd-").unwrap_or(pod);
            // Certificates of kubeadm are good for the node and for localhost.
            let config = self.authority.connects(&[node, "localhost", pod], self.clock.now()).map_err(unreachable)?;
            let stream = self.way.open(pod).await.map_err(unreachable)?;
            let name = ServerName::try_from(pod.to_owned()).map_err(|error| unreachable(error.to_string()))?;
            let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
            Line::open(stream.map_err(|error| unreachable(error.to_string()))?, pod).await
        };
        tokio::time::timeout(PATIENCE, connecting).await.unwrap_or_else(|_| Err(unreachable(silence())))
    }

    async fn call(&self, pod: &str, method: &str, message: &[u8]) -> Result<bytes::Bytes, CallError> {
        let mut line = self.line_to(pod).await?;
        let silent = |_| Err(CallError::Unreachable(silence()));
        let answer = tokio::time::timeout(PATIENCE, line.call(method, message)).await.unwrap_or_else(silent);
        answer.map_err(|error| match error {
            CallError::Unreachable(why) => CallError::Unreachable(format!("{pod}: {why}")),
            refused => refused,
        })
    }

    /// The pods of etcd, this one last: one that is to go had better not be the one that is told.
    async fn pods(&self, last: Option<&str>) -> Result<Vec<String>, CallError> {
        let mut pods = self.way.pods().await.map_err(CallError::Unreachable)?;
        pods.sort_by_key(|pod| Some(pod.as_str()) == last);
        Ok(pods)
    }

    /// Asks one member after the other, until one answers.
    async fn anywhere(&self, last: Option<&str>, method: &str, message: &[u8]) -> Result<bytes::Bytes, CallError> {
        let nobody = format!("there is no pod with the label {PODS}");
        let mut failed = CallError::Unreachable(nobody);
        for pod in self.pods(last).await? {
            match self.call(&pod, method, message).await {
                Ok(answer) => return Ok(answer),
                // What a member has said counts for more than that another cannot be reached.
                Err(CallError::Unreachable(_)) if matches!(failed, CallError::Refused(_)) => {}
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn list(&self) -> Result<Vec<Listed>, CallError> {
        let answer = self.anywhere(None, "etcdserverpb.Cluster/MemberList", &messages::list_members()).await?;
        read_members(&answer).ok_or_else(|| unreadable("member list"))
    }

    async fn status(&self, member: &Listed) -> Result<Status, CallError> {
        let answer = self.call(&pod_of(&member.name), "etcdserverpb.Maintenance/Status", &[]).await?;
        read_status(&answer).ok_or_else(|| unreadable("status"))
    }

    /// How a member is, as far as it says so itself.
    async fn seen(&self, listed: Listed) -> Member {
        let status = match listed.name.is_empty() {
            // It has not started, so it has no pod of its name either.
            true => None,
            false => self.status(&listed).await.ok(),
        };
        // One that answers in its place is not it.
        let status = status.filter(|status| status.member == 0 || status.member == listed.id);
        Member {
            leader: status.as_ref().is_some_and(|status| status.leader == listed.id),
            healthy: status.is_some_and(|status| status.leader != 0 && status.errors.is_empty()),
            id: listed.id,
            name: listed.name,
            learner: listed.learner,
        }
    }

    pub async fn move_leader(&self, from: u64, to: u64) -> Result<(), CallError> {
        let listed = self.list().await?;
        let Some(leader) = listed.iter().find(|member| member.id == from) else {
            return Err(CallError::Refused("the member that leads is gone".to_owned()));
        };
        // Only who leads can hand it over.
        self.call(&pod_of(&leader.name), "etcdserverpb.Maintenance/MoveLeader", &messages::move_leader(to))
            .await
            .map(drop)
    }

    pub async fn remove(&self, id: u64) -> Result<(), CallError> {
        let listed = self.list().await?;
        let Some(leaving) = listed.iter().find(|member| member.id == id) else { return Ok(()) };
        let pod = pod_of(&leaving.name);
        match self.anywhere(Some(&pod), "etcdserverpb.Cluster/MemberRemove", &messages::remove_member(id)).await {
            Err(CallError::Refused(why)) if why.contains("member not found") => Ok(()),
            done => done.map(drop),
        }
    }
}

fn pod_of(member: &str) -> String {
    format!("etcd-{member}")
}

fn silence() -> String {
    format!("no answer within {} s", PATIENCE.as_secs())
}

fn unreadable(what: &str) -> CallError {
    CallError::Unreachable(format!("its {what} cannot be read"))
}

/// Members themselves, or else etcdctl in their pods.
#[derive(Debug, Clone)]
pub struct EitherWay<Other> {
    pub direct: Members,
    pub other: Other,
}

/// What a member has refused is refused; where none can be reached, the other way is tried.
async fn or_else<T, Answer: Future<Output = Result<T, String>>>(
    direct: Result<T, CallError>,
    other: impl FnOnce() -> Answer,
) -> Result<T, String> {
    match direct {
        Ok(done) => Ok(done),
        Err(CallError::Refused(why)) => Err(why),
        Err(CallError::Unreachable(why)) => {
            other().await.map_err(|also| format!("{why}; and by etcdctl in its pods: {also}"))
        }
    }
}

impl<Other: Etcd + Clone + 'static> Etcd for EitherWay<Other> {
    fn members(&self) -> BoxFuture<'static, Result<Vec<Member>, String>> {
        let EitherWay { direct, other } = self.clone();
        Box::pin(async move { or_else(direct.members().await, || other.members()).await })
    }

    fn move_leader(&self, from: u64, to: u64) -> BoxFuture<'static, Result<(), String>> {
        let EitherWay { direct, other } = self.clone();
        Box::pin(async move { or_else(direct.move_leader(from, to).await, || other.move_leader(from, to)).await })
    }

    fn remove(&self, id: u64) -> BoxFuture<'static, Result<(), String>> {
        let EitherWay { direct, other } = self.clone();
        Box::pin(async move { or_else(direct.remove(id).await, || other.remove(id)).await })
    }
}

#[cfg(test)]
mod tests;
