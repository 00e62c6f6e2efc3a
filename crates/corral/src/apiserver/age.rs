//! What a server of an older version of Kubernetes does not know yet, as far as clients that upgrade it meet it.
//!
//! Everything else is as in the version that this server is held to: older kinds and older rules are not brought back.

use kube::core::Status;

use super::{
    ApiServer, Direct,
    object::{Object, text},
    status::{Answer, bad_request},
};

/// The minor version of Kubernetes that a server is of, as the objects on it tell; none if they do not.
pub type Age = fn(&Direct) -> Option<u32>;

/// Server-side apply is off before it, and nobody notes who manages which field.
const SERVER_SIDE_APPLY: u32 = 16;
/// It brought the Eviction of `policy/v1`.
const EVICTION: u32 = 22;

impl ApiServer {
    /// From now on it is of the version that `age` tells, whenever it is asked for something newer. The first who says so is heard.
    pub fn grow_as_old_as(&self, age: Age) {
        let _ = self.shared.age.set(age);
    }

    fn is_before(&self, minor: u32) -> bool {
        let age = self.shared.age.get().and_then(|age| age(&self.direct("apiserver")));
        age.is_some_and(|age| age < minor)
    }

    pub(super) fn applies(&self) -> bool {
        !self.is_before(SERVER_SIDE_APPLY)
    }

    pub(super) fn check_eviction(&self, eviction: &Object) -> Answer<()> {
        let version = text(eviction, &["apiVersion"]);
        if version == "policy/v1" && self.is_before(EVICTION) { Err(unknown_eviction()) } else { Ok(()) }
    }
}

/// As it was said where `policy/v1` held no Eviction yet.
fn unknown_eviction() -> Box<Status> {
    bad_request(
        "Eviction in version \"v1\" cannot be handled as a Eviction: no kind \"Eviction\" is registered for version \
         \"policy/v1\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
    )
}
