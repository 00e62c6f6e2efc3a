//! Tiers, in the order in which they get their turn, and what is waited for in one.

use drover_api::rancher::machine_plan::labels;
use drover_api::rancher::provisioning_cluster::{DrainOptions, UpgradeStrategy};

use super::seen::SecretSeen;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    Bootstrap,
    Etcd,
    ControlPlane,
    Worker,
}

impl Tier {
    pub const ALL: [Tier; 4] = [Tier::Bootstrap, Tier::Etcd, Tier::ControlPlane, Tier::Worker];

    pub fn name(self) -> &'static str {
        match self {
            Tier::Bootstrap => "bootstrap",
            Tier::Etcd => "etcd",
            Tier::ControlPlane => "control plane",
            Tier::Worker => "worker",
        }
    }

    /// A machine with several roles is dealt with in the first of its tiers, and only there.
    pub fn has(self, secret: &SecretSeen) -> bool {
        let (etcd, control_plane) = (secret.has(labels::ETCD_ROLE), secret.has(labels::CONTROL_PLANE_ROLE));
        match self {
            Tier::Bootstrap => etcd && secret.is_init_node(),
            Tier::Etcd => etcd && !secret.is_init_node(),
            Tier::ControlPlane => control_plane && !etcd,
            Tier::Worker => secret.has(labels::WORKER_ROLE) && !etcd && !control_plane,
        }
    }

    pub fn options(self, strategy: &UpgradeStrategy) -> DrainOptions {
        let own = match self {
            Tier::Worker => &strategy.worker_drain_options,
            _ => &strategy.control_plane_drain_options,
        };
        own.clone().unwrap_or_default()
    }

    /// How many may be out at once; none for any number. Voters go one by one whatever is set.
    pub fn limit(self, strategy: &UpgradeStrategy, machines: usize) -> Option<usize> {
        let set = match self {
            Tier::Bootstrap | Tier::Etcd => return Some(1),
            Tier::ControlPlane => &strategy.control_plane_concurrency,
            Tier::Worker => &strategy.worker_concurrency,
        };
        limit(set.as_deref().unwrap_or_default(), machines)
    }
}

/// `2`, `25%` of the machines, rounded up, or `0` for no limit.
fn limit(text: &str, machines: usize) -> Option<usize> {
    match text.strip_suffix('%') {
        Some(percent) => Some((percent.parse::<usize>().unwrap_or(0) * machines).div_ceil(100).max(1)),
        None if text.is_empty() => Some(1),
        None => Some(text.parse().unwrap_or(1)).filter(|number| *number > 0),
    }
}

/// What machines of a tier are waited for.
#[derive(Debug, Default)]
pub struct Waits {
    draining: Vec<(String, String)>,
    configuring: Vec<(String, String)>,
    uncordoning: Vec<(String, String)>,
    paused: Vec<(String, String)>,
}

impl Waits {
    pub fn draining(&mut self, machine: &str, why: &str) {
        self.draining.push((machine.to_owned(), why.to_owned()));
    }

    pub fn configuring(&mut self, machine: &str, why: &str) {
        self.configuring.push((machine.to_owned(), why.to_owned()));
    }

    pub fn uncordoning(&mut self, machine: &str, why: &str) {
        self.uncordoning.push((machine.to_owned(), why.to_owned()));
    }

    /// Others need not wait for it.
    pub fn paused(&mut self, machine: &str, why: &str) {
        self.paused.push((machine.to_owned(), why.to_owned()));
    }

    pub fn is_done(&self) -> bool {
        !self.holds_up_others() && self.paused.is_empty()
    }

    pub fn holds_up_others(&self) -> bool {
        !(self.draining.is_empty() && self.configuring.is_empty() && self.uncordoning.is_empty())
    }

    /// One kind of wait is told at a time, in the planner's words.
    pub fn tell(&self, tier: Tier) -> Option<String> {
        let kinds = [
            ("draining", &self.draining),
            ("configuring", &self.configuring),
            ("uncordoning", &self.uncordoning),
            ("configuring", &self.paused),
        ];
        let (word, machines) = kinds.into_iter().find(|(_, machines)| !machines.is_empty())?;
        let mut names: Vec<String> = machines.iter().take(3).map(|(name, _)| name.clone()).collect();
        if machines.len() > 3 {
            names.push(format!("and {} more", machines.len() - 3));
        }
        let mut why: Vec<&str> = machines.iter().map(|(_, why)| why.as_str()).collect();
        why.dedup();
        Some(format!("{word} {} node(s) {}: {}", tier.name(), names.join(","), why.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_a_share_or_none() {
        assert_eq!([limit("", 10), limit("3", 10), limit("0", 10)], [Some(1), Some(3), None]);
        assert_eq!([limit("15%", 10), limit("1%", 10)], [Some(2), Some(1)]);
    }

    #[test]
    fn a_machine_is_of_the_first_tier_of_its_roles_and_of_no_other() {
        let tiers = |roles: &[&str]| {
            let labels: serde_json::Map<String, serde_json::Value> =
                roles.iter().map(|role| (format!("rke.cattle.io/{role}"), "true".into())).collect();
            let secret: SecretSeen =
                serde_json::from_value(serde_json::json!({ "metadata": { "name": "m", "labels": labels } })).unwrap();
            Tier::ALL.into_iter().filter(|tier| tier.has(&secret)).map(Tier::name).collect::<Vec<_>>()
        };
        assert_eq!(tiers(&["etcd-role", "init-node"]), ["bootstrap"]);
        assert_eq!(tiers(&["etcd-role", "control-plane-role", "worker-role", "init-node"]), ["bootstrap"]);
        assert_eq!(tiers(&["etcd-role"]), ["etcd"]);
        assert_eq!(tiers(&["etcd-role", "control-plane-role", "worker-role"]), ["etcd"]);
        assert_eq!(tiers(&["control-plane-role"]), ["control plane"]);
        assert_eq!(tiers(&["control-plane-role", "worker-role"]), ["control plane"]);
        assert_eq!(tiers(&["worker-role"]), ["worker"]);
        assert_eq!(tiers(&["init-node"]), [""; 0]);
        assert_eq!(tiers(&[]), [""; 0]);
    }

    #[test]
    fn at_most_three_machines_are_named() {
        let mut waits = Waits::default();
        ["a", "b", "c", "d", "e"].iter().for_each(|name| waits.configuring(name, "waiting for plan to be applied"));
        let said = "configuring worker node(s) a,b,c,and 2 more: waiting for plan to be applied";
        assert_eq!(waits.tell(Tier::Worker).as_deref(), Some(said));
    }
}
