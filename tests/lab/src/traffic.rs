//! Requests to a service of the lab, without a pause, sent where its EndpointSlices say. Each that fails is counted.
//!
//! It stands in for kube-proxy and for those who use the service, both. Nothing is tried twice: a client that hides a
//! failure would hide what these tests look for.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::lab::Lab;
use crate::network::Network;

const CLIENTS: usize = 4;
const BETWEEN_REQUESTS: Duration = Duration::from_millis(30);
const PATIENCE: Duration = Duration::from_secs(5);
const FAILURES_KEPT: usize = 20;

/// Clients that send requests until they are dropped.
#[derive(Debug)]
pub struct Traffic {
    shared: Arc<Shared>,
    watch: Arc<Mutex<Option<Child>>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    answered: AtomicUsize,
    failures: AtomicUsize,
    first_failures: Mutex<Vec<String>>,
    endpoints: Mutex<BTreeMap<String, Vec<SocketAddr>>>,
}

/// How it went so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    pub answered: usize,
    pub failed: usize,
    /// The first of those that failed, and why.
    pub failures: Vec<String>,
}

impl Traffic {
    /// Starts to send requests to port `port` of a service's pods, once it has some that are ready.
    pub fn start(lab: &Lab, service: &str, port: u16) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let watch = Arc::new(Mutex::new(None));
        let follower = Follower {
            kubectl: lab.kubectl.program.clone(),
            kubeconfig: lab.kubeconfig().to_owned(),
            network: lab.site.network.clone(),
            service: service.to_owned(),
            port,
        };
        let mut traffic = Self { shared: Arc::clone(&shared), watch: Arc::clone(&watch), threads: Vec::new() };
        traffic.threads.push(std::thread::spawn(move || follower.follow(&shared, &watch)));
        traffic.wait_for_endpoints(lab.options.patience, service)?;
        for client in 0..CLIENTS {
            let (shared, network) = (Arc::clone(&traffic.shared), lab.site.network.clone());
            traffic.threads.push(std::thread::spawn(move || send_requests(client, &shared, &network)));
        }
        Ok(traffic)
    }

    pub fn tally(&self) -> Tally {
        Tally {
            answered: self.shared.answered.load(Ordering::Relaxed),
            failed: self.shared.failures.load(Ordering::Relaxed),
            failures: lock(&self.shared.first_failures).clone(),
        }
    }

    fn wait_for_endpoints(&self, patience: Duration, service: &str) -> Result<()> {
        let started = Instant::now();
        while self.shared.ready().is_empty() {
            if started.elapsed() > patience {
                return Err(Error::NoEndpoints { service: service.into(), seconds: patience.as_secs() });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        if let Some(watch) = lock(&self.watch).as_mut() {
            // It has ended already or ends now; either is what is wanted.
            let _ = watch.kill();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn runs(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
    }

    fn ready(&self) -> Vec<SocketAddr> {
        lock(&self.endpoints).values().flatten().copied().collect()
    }

    fn failed(&self, why: String) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut first = lock(&self.first_failures);
        if first.len() < FAILURES_KEPT {
            first.push(why);
        }
    }
}

/// Keeps the endpoints up to date, as a kube-proxy does.
struct Follower {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    network: Network,
    service: String,
    port: u16,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

impl Follower {
    fn follow(&self, shared: &Shared, watch: &Mutex<Option<Child>>) {
        while shared.runs() {
            let Ok(mut child) = self.watch().spawn() else { return };
            let stream = child.stdout.take();
            *lock(watch) = Some(child);
            let events = stream.map(|stream| serde_json::Deserializer::from_reader(stream).into_iter::<Event>());
            for event in events.into_iter().flatten().map_while(std::result::Result::ok) {
                let name = event.object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                match event.kind.as_str() {
                    "DELETED" => lock(&shared.endpoints).remove(&name),
                    _ => lock(&shared.endpoints).insert(name, ready(&event.object, self.port)),
                };
            }
            if let Some(mut child) = lock(watch).take() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    fn watch(&self) -> Command {
        let mut command = self.network.command(&self.kubectl);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["get", "endpointslices", "--watch", "--output-watch-events", "--output=json"])
            .arg(format!("--selector=kubernetes.io/service-name={}", self.service))
            .env("KUBERC", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }
}

/// Those that are ready: one that is about to end is not.
fn ready(slice: &Value, port: u16) -> Vec<SocketAddr> {
    let endpoints = slice["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = endpoints.iter().filter(|endpoint| endpoint["conditions"]["ready"] == true);
    let addresses = ready.filter_map(|endpoint| endpoint["addresses"][0].as_str()?.parse::<Ipv4Addr>().ok());
    addresses.map(|address| SocketAddr::from((address, port))).collect()
}

fn send_requests(client: usize, shared: &Shared, network: &Network) {
    if let Err(error) = network.enter() {
        return shared.failed(error.to_string());
    }
    // Each begins with another server, and then takes one after the other.
    for turn in client.. {
        if !shared.runs() {
            return;
        }
        let endpoints = shared.ready();
        match endpoints.get(turn % endpoints.len().max(1)) {
            None => shared.failed("no endpoint is ready".into()),
            Some(endpoint) => match request(endpoint) {
                Ok(()) => drop(shared.answered.fetch_add(1, Ordering::Relaxed)),
                Err(error) => shared.failed(format!("{endpoint}: {error}")),
            },
        }
        std::thread::sleep(BETWEEN_REQUESTS);
    }
}

fn request(server: &SocketAddr) -> std::io::Result<()> {
    let mut connection = TcpStream::connect_timeout(server, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.write_all(format!("GET / HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let complete = answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hello\n");
    if complete { Ok(()) } else { Err(std::io::Error::other(format!("it answered {answer:?}"))) }
}

/// A thread that panicked has not left anything half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;

    /// A server that says this to its only client.
    fn server(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 1024]).unwrap();
            connection.write_all(answer.as_bytes()).unwrap();
        });
        address
    }

    #[test]
    fn only_endpoints_that_are_ready_get_requests() {
        let slice = json!({ "endpoints": [
            { "addresses": ["10.244.1.2"], "conditions": { "ready": true } },
            { "addresses": ["10.244.2.2"], "conditions": { "ready": false, "serving": true, "terminating": true } },
            { "addresses": ["10.244.3.2"], "conditions": { "ready": true } },
        ]});

        assert_eq!(
            ready(&slice, 8080),
            [SocketAddr::from(([10, 244, 1, 2], 8080)), SocketAddr::from(([10, 244, 3, 2], 8080))]
        );
        assert_eq!(ready(&json!({ "endpoints": null }), 8080), []);
    }

    #[test]
    fn an_answer_counts_only_if_it_is_whole_and_good() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";

        assert!(request(&server(whole)).is_ok());
        assert!(request(&server("HTTP/1.1 503 Service Unavailable\r\n\r\nhello\n")).is_err());
        assert!(request(&server("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhel")).is_err());
        assert!(request(&server("")).is_err());
    }

    #[test]
    fn a_server_that_is_not_there_is_a_failure_and_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = listener.local_addr().unwrap();
        drop(listener);
        let shared = Shared::default();
        lock(&shared.endpoints).insert("web".into(), vec![gone]);

        std::thread::scope(|scope| {
            scope.spawn(|| send_requests(0, &shared, &Network::Loopback));
            while shared.failures.load(Ordering::Relaxed) == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            shared.stopped.store(true, Ordering::Relaxed);
        });

        assert!(lock(&shared.first_failures)[0].starts_with(&gone.to_string()));
        assert_eq!(shared.answered.load(Ordering::Relaxed), 0);
    }
}
