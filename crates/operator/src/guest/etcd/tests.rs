//! Members that answer as etcd does, over TLS and HTTP/2, each with a certificate as kubeadm makes it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::*;

/// Three members and a learner that has not started; the second does not answer.
#[derive(Clone)]
struct Double {
    ca: Arc<CertifiedIssuer<'static, KeyPair>>,
    /// Which pod each was told by, and what.
    heard: Arc<Mutex<Vec<(String, String)>>>,
    /// Names that certificates of members are for, instead of their own.
    named: Option<&'static str>,
    refusal: Option<(&'static str, &'static str)>,
}

impl Debug for Double {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Double")
    }
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

impl Double {
    fn new() -> Self {
        Double { ca: Arc::new(authority("etcd-ca")), heard: Arc::default(), named: None, refusal: None }
    }

    fn members(&self) -> Members {
        let authority = Authority::new(self.ca.pem(), self.ca.key().serialize_pem());
        Members::new(Arc::new(self.clone()), authority, Clock::real())
    }

    fn heard(&self) -> Vec<(String, String)> {
        self.heard.lock().unwrap().clone()
    }

    fn tls(&self, pod: &str) -> ServerConfig {
        let name = self.named.unwrap_or_else(|| pod.strip_prefix("etcd-").unwrap());
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &*self.ca).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.der().clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        config
    }

    fn answer(&self, pod: &str, method: &str) -> Result<Vec<u8>, (&'static str, &'static str)> {
        self.heard.lock().unwrap().push((pod.to_owned(), method.to_owned()));
        if let Some(refusal) = self.refusal.filter(|_| !method.ends_with("MemberList")) {
            return Err(refusal);
        }
        let own = BTreeMap::from([("etcd-cp1", 11), ("etcd-cp2", 22), ("etcd-cp3", 33)]);
        let member = |id: u8, name: &str, learner: bool| {
            let mut member = vec![0x08, id];
            member.extend([0x12, u8::try_from(name.len()).unwrap()]);
            member.extend(name.as_bytes());
            member.extend([0x28, u8::from(learner)]);
            [&[0x12, u8::try_from(member.len()).unwrap()][..], &member].concat()
        };
        Ok(match method {
            "/etcdserverpb.Cluster/MemberList" => {
                [member(11, "cp1", false), member(22, "cp2", false), member(33, "cp3", false), member(44, "", true)]
                    .concat()
            }
            "/etcdserverpb.Maintenance/Status" => vec![0x0a, 2, 0x10, own[pod], 0x20, 33],
            _ => Vec::new(),
        })
    }

    async fn serve(self, pod: String, stream: tokio::io::DuplexStream) {
        let Ok(stream) = TlsAcceptor::from(Arc::new(self.tls(&pod))).accept(stream).await else { return };
        let service = service_fn(move |request: Request<Incoming>| {
            let (double, pod) = (self.clone(), pod.clone());
            async move {
                assert_eq!(request.uri().authority().unwrap().as_str(), pod);
                let method = request.uri().path().to_owned();
                let asked = request.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(asked.len(), 5 + usize::from(asked[4]));
                let (body, status) = match double.answer(&pod, &method) {
                    Ok(message) => {
                        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
                        ([&[0][..], &length, &message].concat(), ("0", ""))
                    }
                    Err(refusal) => (Vec::new(), refusal),
                };
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static(status.0));
                trailers.insert("grpc-message", HeaderValue::from_static(status.1));
                let body = Full::new(Bytes::from(body)).with_trailers(async move { Some(Ok(trailers)) });
                Ok::<_, Infallible>(Response::new(body))
            }
        });
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }
}

impl Way for Double {
    fn pods(&self) -> BoxFuture<'static, Result<Vec<String>, String>> {
        Box::pin(async { Ok(["cp1", "cp2", "cp3"].map(pod_of).to_vec()) })
    }

    fn open(&self, pod: &str) -> BoxFuture<'static, Result<Box<dyn Stream>, String>> {
        let (double, pod) = (self.clone(), pod.to_owned());
        Box::pin(async move {
            if pod == "etcd-cp2" {
                return Err("connection refused".to_owned());
            }
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            tokio::spawn(double.serve(pod, theirs));
            Ok(Box::new(ours) as Box<dyn Stream>)
        })
    }
}

#[tokio::test]
async fn each_member_says_itself_how_it_is() {
    let members = Double::new().members().members().await.unwrap();
    let read: Vec<_> =
        members.iter().map(|one| (one.id, one.name.as_str(), one.leader, one.healthy, one.learner)).collect();
    assert_eq!(
        read,
        [
            (11, "cp1", false, true, false),
            (22, "cp2", false, false, false),
            (33, "cp3", true, true, false),
            (44, "", false, false, true),
        ]
    );
}

#[tokio::test]
async fn who_leads_is_told_to_hand_over_and_others_than_who_leaves_to_remove() {
    let double = Double::new();
    double.members().move_leader(33, 11).await.unwrap();
    assert_eq!(
        double.heard().last().unwrap(),
        &("etcd-cp3".to_owned(), "/etcdserverpb.Maintenance/MoveLeader".to_owned())
    );

    double.members().remove(11).await.unwrap();
    assert_eq!(
        double.heard().last().unwrap(),
        &("etcd-cp3".to_owned(), "/etcdserverpb.Cluster/MemberRemove".to_owned())
    );

    let before = double.heard().len();
    double.members().remove(99).await.unwrap();
    assert_eq!(double.heard().len(), before + 1, "one that is no member is only looked for");
}

#[tokio::test]
async fn a_member_with_a_certificate_for_somebody_else_is_not_talked_to() {
    let localhost = Double { named: Some("localhost"), ..Double::new() };
    assert!(localhost.members().members().await.is_ok(), "kubeadm's are good for localhost, too");

    let stranger = Double { named: Some("elsewhere"), ..Double::new() };
    assert!(matches!(stranger.members().members().await, Err(CallError::Unreachable(_))));

    let other = Double::new();
    let foreign = authority("etcd-ca");
    let foreign = Authority::new(foreign.pem(), foreign.key().serialize_pem());
    let members = Members::new(Arc::new(other.clone()), foreign, Clock::real());
    assert!(matches!(members.members().await, Err(CallError::Unreachable(_))));
    assert!(other.heard().is_empty());
}

/// What is asked of etcdctl.
#[derive(Debug, Clone, Default)]
struct Etcdctl(Arc<Mutex<Vec<&'static str>>>);

impl Etcd for Etcdctl {
    fn members(&self) -> BoxFuture<'static, Result<Vec<Member>, String>> {
        self.0.lock().unwrap().push("members");
        Box::pin(async { Ok(Vec::new()) })
    }

    fn move_leader(&self, _: u64, _: u64) -> BoxFuture<'static, Result<(), String>> {
        self.0.lock().unwrap().push("move");
        Box::pin(async { Ok(()) })
    }

    fn remove(&self, _: u64) -> BoxFuture<'static, Result<(), String>> {
        self.0.lock().unwrap().push("remove");
        Box::pin(async { Err("no shell".to_owned()) })
    }
}

#[tokio::test]
async fn etcdctl_is_asked_only_where_no_member_can_be_reached() {
    let etcdctl = Etcdctl::default();
    let unhealthy = Double { refusal: Some(("14", "etcdserver: unhealthy cluster")), ..Double::new() };
    let either = EitherWay { direct: unhealthy.members(), other: etcdctl.clone() };
    assert_eq!(either.remove(11).await, Err("etcdserver: unhealthy cluster".to_owned()));
    assert_eq!(*etcdctl.0.lock().unwrap(), [""; 0]);

    let stranger = Double { named: Some("elsewhere"), ..Double::new() };
    let either = EitherWay { direct: stranger.members(), other: etcdctl.clone() };
    assert_eq!(either.members().await, Ok(Vec::new()));
    assert_eq!(either.move_leader(33, 11).await, Ok(()));
    let why = either.remove(11).await.unwrap_err();
    assert!(why.starts_with("etcd-cp") && why.ends_with("and by etcdctl in its pods: no shell"), "{why}");
    assert_eq!(*etcdctl.0.lock().unwrap(), ["members", "move", "remove"]);
}
