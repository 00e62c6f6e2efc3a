//! The engine of control planes speaks with a real etcd itself: over TLS, with a certificate that it makes of the authority's key.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use drover_clock::Clock;
use drover_core::guest::Member;
use drover_lab::Members;
use drover_operator::guest::etcd::{Authority, CallError, Members as Etcd, OverApiServer, Stream, Way};
use futures::future::BoxFuture;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(60);

/// To each member by its port: there are no pods here, and no API server that leads to one.
#[derive(Debug)]
struct Ports(BTreeMap<String, u16>);

impl Way for Ports {
    fn pods(&self) -> BoxFuture<'static, Result<Vec<String>, String>> {
        let pods = self.0.keys().cloned().collect();
        Box::pin(async move { Ok(pods) })
    }

    fn open(&self, pod: &str) -> BoxFuture<'static, Result<Box<dyn Stream>, String>> {
        let port = self.0.get(pod).copied().unwrap_or(0);
        Box::pin(async move {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.map_err(|error| error.to_string())?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

fn etcd(members: &Members, (certificate, key): (String, String)) -> Etcd {
    let ports = members.ports().into_iter().map(|(name, port)| (format!("etcd-{name}"), port)).collect();
    Etcd::new(Arc::new(Ports(ports)), Authority::new(certificate, key), Clock::real())
}

/// The members, as soon as they are as they should be.
async fn once(etcd: &Etcd, is_so: impl Fn(&[Member]) -> bool) -> Result<Vec<Member>> {
    let started = Instant::now();
    loop {
        let members = etcd.members().await;
        match members {
            Ok(members) if is_so(&members) => return Ok(members),
            other => ensure!(started.elapsed() < PATIENCE, "it is still so: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn leader(members: &[Member]) -> Result<&Member> {
    members.iter().find(|member| member.leader).context("nobody leads")
}

#[tokio::test]
#[ignore = "needs the lab: make test-real"]
async fn members_of_a_real_etcd_are_asked_led_and_removed() -> Result<()> {
    let mut members = Members::up(&["cp1", "cp2", "cp3"], PATIENCE)?;
    let three = etcd(&members, members.authority()?);
    let is_well = |members: &[Member]| members.iter().all(|member| member.healthy && !member.learner);
    let seen = once(&three, |seen| seen.len() == 3 && is_well(seen) && leader(seen).is_ok()).await?;
    ensure!(seen.iter().filter(|member| member.leader).count() == 1, "{seen:?}");

    let from = leader(&seen)?;
    let to = seen.iter().find(|member| !member.leader).context("all lead")?;
    three.move_leader(from.id, to.id).await?;
    once(&three, |seen| leader(seen).is_ok_and(|leads| leads.id == to.id)).await?;
    let refused = three.move_leader(from.id, to.id).await;
    ensure!(matches!(refused, Err(CallError::Refused(_))), "only who leads hands it over: {refused:?}");

    // A real one refuses learners before it has been in touch with all voters for some seconds.
    let announced = Instant::now();
    while let Err(error) = members.announce_learner("cp4") {
        ensure!(announced.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let four = etcd(&members, members.authority()?);
    let seen = once(&four, |seen| seen.len() == 4).await?;
    let new = seen.iter().find(|member| member.learner).context("nobody learns")?;
    ensure!(new.name.is_empty() && !new.healthy, "it has not started: {new:?}");
    members.start_announced(PATIENCE)?;
    let seen = once(&four, |seen| seen.iter().any(|member| member.name == "cp4" && member.healthy)).await?;
    let new = seen.iter().find(|member| member.name == "cp4").context("it is not there")?;
    ensure!(new.learner && !new.leader, "it does not vote yet: {new:?}");
    let refused = four.move_leader(to.id, new.id).await;
    ensure!(matches!(refused, Err(CallError::Refused(_))), "a learner cannot lead: {refused:?}");

    four.remove(new.id).await?;
    four.remove(new.id).await?;
    once(&four, |seen| seen.len() == 3).await?;

    let gone = seen.iter().find(|member| member.id == from.id).context("it is not there")?;
    members.kill(&gone.name)?;
    let seen = once(&three, |seen| seen.iter().any(|member| !member.healthy)).await?;
    let unwell: Vec<&str> = seen.iter().filter(|member| !member.healthy).map(|member| member.name.as_str()).collect();
    ensure!(unwell == [gone.name.as_str()], "{seen:?}");
    three.remove(gone.id).await?;
    let seen = once(&three, |seen| seen.len() == 2).await?;
    ensure!(is_well(&seen), "{seen:?}");

    let others = Members::up(&["cp1"], PATIENCE)?;
    let stranger = etcd(&members, others.authority()?).members().await;
    ensure!(matches!(stranger, Err(CallError::Unreachable(_))), "another authority lets nobody in: {stranger:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the lab: make test-real"]
async fn members_are_reached_as_a_kubelet_forwards_ports() -> Result<()> {
    let mut members = Members::up(&["cp1", "cp2", "cp3"], PATIENCE)?;
    let url = members.forward(PATIENCE)?;
    let client = kube::Client::try_from(kube::Config::new(url.parse()?))?;
    let (certificate, key) = members.authority()?;
    let way = Arc::new(OverApiServer(client));
    let etcd = Etcd::new(way.clone(), Authority::new(certificate, key), Clock::real());

    let seen = once(&etcd, |seen| seen.len() == 3 && seen.iter().all(|member| member.healthy)).await?;
    let from = leader(&seen)?;
    let to = seen.iter().find(|member| !member.leader).context("all lead")?;
    etcd.move_leader(from.id, to.id).await?;
    once(&etcd, |seen| leader(seen).is_ok_and(|leads| leads.id == to.id)).await?;
    // It lets nobody go before all have been in touch for five seconds.
    let asked = Instant::now();
    while let Err(error) = etcd.remove(from.id).await {
        ensure!(error == CallError::Refused("etcdserver: unhealthy cluster".to_owned()), "{error}");
        ensure!(asked.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    once(&etcd, |seen| seen.len() == 2 && seen.iter().all(|member| member.healthy)).await?;

    let mut stream = way.open("etcd-nobody").await.map_err(anyhow::Error::msg)?;
    let why = stream.read_u8().await.err().context("nobody has answered")?.to_string();
    ensure!(why.contains("pod etcd-nobody: connection refused"), "what a kubelet complains of is told: {why}");
    Ok(())
}
