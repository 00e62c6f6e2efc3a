//! Guest clusters as their kubeconfigs lead to them.

use std::sync::Arc;

use drover_clock::Clock;
use futures::future::BoxFuture;

use super::etcd::{EitherWay, Members, OverApiServer};
use super::etcdctl::Etcdctl;
use super::{Etcd, Guest, Guests, Keys};
use crate::connect::connect_with;

#[derive(Debug, Clone, Copy)]
pub struct RealGuests;

impl Guests for RealGuests {
    fn reach(&self, keys: Keys) -> BoxFuture<'static, Result<Guest, String>> {
        Box::pin(async move {
            let client = connect_with(&keys.kubeconfig).await.map_err(|error| error.to_string())?;
            let etcdctl = Etcdctl { client: client.clone() };
            let etcd: Arc<dyn Etcd> = match keys.etcd {
                Some(authority) => {
                    let way = Arc::new(OverApiServer(client.clone()));
                    Arc::new(EitherWay { direct: Members::new(way, authority, Clock::real()), other: etcdctl })
                }
                None => Arc::new(etcdctl),
            };
            Ok(Guest { client, etcd })
        })
    }
}
