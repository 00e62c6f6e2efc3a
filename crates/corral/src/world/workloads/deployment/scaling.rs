//! How many pods each ReplicaSet of a Deployment should have now.

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::{DESIRED_REPLICAS, MAX_REPLICAS, Rollout, available, is_recreate, size};

impl Rollout<'_> {
    /// The old ReplicaSets that have pods, the oldest first.
    pub(super) fn active_old(&self) -> Vec<usize> {
        let active = |(at, set): &(usize, &ReplicaSet)| Some(*at) != self.new && size(set) > 0;
        self.sets.iter().enumerate().filter(active).map(|(at, _)| at).collect()
    }

    /// How large the new ReplicaSet may be, given all others.
    pub(super) fn new_size(&self, new: usize) -> i32 {
        let current = self.size(new);
        if is_recreate(self.spec) {
            return self.replicas();
        }
        let room = self.replicas() + self.max_surge() - self.total();
        current + room.min(self.replicas() - current).max(0)
    }

    /// Says whether anything was scaled.
    pub(super) fn grow_new(&mut self, new: usize) -> bool {
        let (current, wanted) = (self.size(new), self.replicas());
        match current.cmp(&wanted) {
            std::cmp::Ordering::Equal => false,
            std::cmp::Ordering::Greater => self.scale(new, wanted),
            std::cmp::Ordering::Less => self.scale(new, self.new_size(new)),
        }
    }

    /// Takes away old pods: those that are not available first, then as many as availability allows.
    pub(super) fn shrink_old(&mut self, new: usize) {
        let old = self.active_old();
        let least = self.replicas() - self.max_unavailable();
        let new_unavailable = self.size(new) - self.sets.get(new).map_or(0, available);
        let most = self.total() - least - new_unavailable;
        if old.is_empty() || most <= 0 {
            return;
        }
        let mut taken = 0;
        for at in &old {
            let unhealthy = self.size(*at) - self.sets.get(*at).map_or(0, available);
            let now = unhealthy.min(most - taken).max(0);
            self.scale(*at, self.size(*at) - now);
            taken += now;
        }
        let mut spare = self.sets.iter().map(available).sum::<i32>() - least;
        for at in old {
            let now = self.size(at).min(spare).max(0);
            self.scale(at, self.size(at) - now);
            spare -= now;
        }
    }

    /// The user has changed the number of replicas since the ReplicaSets were scaled last.
    pub(super) fn is_being_scaled(&self) -> bool {
        let said = |set: &ReplicaSet| set.metadata.annotations.as_ref()?.get(DESIRED_REPLICAS)?.parse::<i32>().ok();
        self.sets.iter().filter(|set| size(set) > 0).filter_map(said).any(|desired| desired != self.replicas())
    }

    /// Scales without favouring new over old, so that a rollout in between goes neither faster nor slower.
    pub(super) fn scale_in_proportion(&mut self) {
        let active: Vec<usize> = (0..self.sets.len()).filter(|at| self.size(*at) > 0).collect();
        match active.as_slice() {
            [] => {
                if let Some(latest) = self.new.or(self.sets.len().checked_sub(1)) {
                    self.resize(latest, self.replicas());
                }
            }
            [only] => self.resize(*only, self.replicas()),
            _ if self.is_saturated() => {
                for old in self.active_old() {
                    self.resize(old, 0);
                }
            }
            _ if is_recreate(self.spec) => {}
            _ => self.share_out(active),
        }
    }

    fn share_out(&mut self, mut active: Vec<usize>) {
        let allowed = if self.replicas() > 0 { self.replicas() + self.max_surge() } else { 0 };
        let to_add = allowed - self.total();
        // The largest first; of equals the newer one when there is something to get, else the older one.
        active.sort_by_key(|at| (-self.size(*at), if to_add > 0 { -(*at as i64) } else { *at as i64 }));
        let mut sizes = Vec::new();
        let mut added = 0;
        for at in &active {
            let part = self.proportion(*at, to_add, added);
            sizes.push(self.size(*at) + part);
            added += part;
        }
        if let Some(largest) = sizes.first_mut() {
            *largest = (*largest + to_add - added).max(0);
        }
        for (at, size) in active.into_iter().zip(sizes) {
            self.resize(at, size);
        }
    }

    fn proportion(&self, at: usize, to_add: i32, added: i32) -> i32 {
        let size = self.size(at);
        if size == 0 || to_add == 0 || added == to_add {
            return 0;
        }
        let wanted = self.replicas() + self.max_surge();
        let known =
            self.sets.get(at).and_then(|set| set.metadata.annotations.as_ref()?.get(MAX_REPLICAS)?.parse().ok());
        let before: f64 = known.filter(|known: &f64| *known > 0.0).unwrap_or_else(|| f64::from(self.total()));
        let part = (f64::from(size) * f64::from(wanted) / before).round() as i32 - size;
        let left = to_add - added;
        if to_add > 0 { part.min(left) } else { part.max(left) }
    }

    fn is_saturated(&self) -> bool {
        let Some(set) = self.new.and_then(|new| self.sets.get(new)) else { return false };
        let desired = set.metadata.annotations.as_ref().and_then(|all| all.get(DESIRED_REPLICAS)?.parse().ok());
        let wanted = self.replicas();
        size(set) == wanted && desired == Some(wanted) && available(set) == wanted
    }

    fn total(&self) -> i32 {
        self.sets.iter().map(size).sum()
    }

    fn size(&self, at: usize) -> i32 {
        self.sets.get(at).map_or(0, size)
    }

    /// Scales if the size is another one; says whether it was.
    pub(super) fn scale(&mut self, at: usize, to: i32) -> bool {
        if self.size(at) == to {
            return false;
        }
        self.resize(at, to);
        true
    }

    /// Sets the size and what the ReplicaSet says about the Deployment's.
    fn resize(&mut self, at: usize, to: i32) {
        let from = self.size(at);
        let Some(mut set) = self.sets.get(at).cloned() else { return };
        set.spec.get_or_insert_default().replicas = Some(to);
        self.note_size(&mut set);
        self.replace(at, set);
        if from != to {
            let way = if from < to { "up" } else { "down" };
            let name = self.name(at).to_string();
            self.say(format!("Scaled {way} replica set {name} from {from} to {to}"));
        }
    }
}
