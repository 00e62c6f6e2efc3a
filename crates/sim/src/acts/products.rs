//! What goes wrong with virtual machines and servers in the middle of an upgrade.

use drover_api::harvester::upgrade::Upgrade;
use drover_api::kubevirt::virtual_machine_instance::VirtualMachineInstance;
use drover_api::rancher::machine_plan::labels::{CONTROL_PLANE_ROLE, ETCD_ROLE, NODE_NAME};
use drover_api::rancher::rke_control_plane::RKEControlPlane;
use drover_corral::apiserver::Direct;
use drover_corral::world::annotations::MIGRATION_FAILS;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::ResourceExt;

use super::{AWHILE, LOOK, User, told};

const ACCEPT: &str = "drover.dev/accept";
const ETCD: &str = "node-role.kubernetes.io/etcd";
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

pub fn fail_migrations(user: &User) {
    user.change::<VirtualMachineInstance>(|instance| told(&mut instance.metadata, MIGRATION_FAILS, "true"));
    let user = user.clone();
    tokio::spawn(async move {
        user.clock.sleep(AWHILE).await;
        user.change::<VirtualMachineInstance>(|instance| drop(instance.annotations_mut().remove(MIGRATION_FAILS)));
    });
}

/// Deletes every Upgrade, and makes each again once it is gone, with what its user has accepted.
pub fn replace_upgrades(user: &User) {
    let all = user.all::<Upgrade>();
    user.delete_all::<Upgrade>(|_| true);
    for old in all {
        let mut new = Upgrade::new(&old.name_any(), old.spec.clone());
        new.metadata.namespace = old.namespace();
        new.metadata.annotations =
            old.annotations().get(ACCEPT).map(|codes| [(ACCEPT.to_owned(), codes.clone())].into());
        let user = user.clone();
        tokio::spawn(async move {
            while user.direct.get::<Upgrade>(old.namespace().as_deref(), &old.name_any()).is_ok_and(|it| it.is_some()) {
                user.clock.sleep(LOOK).await;
            }
            if let Err(status) = user.direct.create(&new) {
                tracing::warn!("the user cannot make {} again: {}", new.name_any(), status.message);
            }
        });
    }
}

pub fn refuse_tunnels(user: &User) {
    let connected = |user: &User, connected: bool| {
        let tell = |plane: &mut RKEControlPlane| {
            plane.status.get_or_insert_default().agent_connected = Some(connected);
        };
        user.each::<RKEControlPlane>(tell, Direct::update_status);
    };
    connected(user, false);
    let user = user.clone();
    tokio::spawn(async move {
        user.clock.sleep(AWHILE).await;
        connected(&user, true);
    });
}

/// The roles of a machine stand on its plan Secret and on its Node.
pub fn promote(user: &User) {
    let nodes = user.all::<Node>();
    let Some(worker) = nodes.iter().find(|node| !node.labels().contains_key(ETCD)).map(Node::name_any) else { return };
    user.change::<Secret>(|secret| {
        if secret.labels().get(NODE_NAME) == Some(&worker) {
            secret
                .labels_mut()
                .extend([ETCD_ROLE, CONTROL_PLANE_ROLE].map(|role| (role.to_owned(), "true".to_owned())));
        }
    });
    user.change::<Node>(|node| {
        if node.name_any() == worker {
            node.labels_mut().extend([ETCD, CONTROL_PLANE].map(|role| (role.to_owned(), "true".to_owned())));
        }
    });
}

pub fn lose_member(user: &User) {
    let servers: Vec<String> =
        user.all::<Node>().iter().filter(|node| node.labels().contains_key(ETCD)).map(Node::name_any).collect();
    let lost = servers.last().cloned().unwrap_or_default();
    let tell = |node: &mut Node| {
        let conditions = node.status.iter_mut().filter_map(|status| status.conditions.as_mut()).flatten();
        for condition in conditions.filter(|condition| condition.type_ == "EtcdIsVoter") {
            condition.status = "False".to_owned();
            condition.reason = Some("NotAMember".to_owned());
            condition.message = Some("Node is not a member of the etcd cluster".to_owned());
        }
    };
    user.each::<Node>(
        |node| {
            if node.name_any() == lost {
                tell(node);
            }
        },
        Direct::update_status,
    );
}
