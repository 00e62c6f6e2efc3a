//! The order in which everybody is asked: mutating webhooks; then, once the object is settled, policies and validating
//! webhooks.

use futures::future::BoxFuture;

use super::{Admission, Operation, Review, matching::Request, policies, webhooks};
use crate::apiserver::{ApiServer, object::Object, status::Answer, store::Store, verbs::Target};

pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// The kinds that say who wants to be asked.
const KINDS: [&str; 3] =
    ["mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicybindings"];

/// Webhooks and policies, as they are stored.
pub(crate) struct Chain;

impl Admission for Chain {
    fn concerns(&self, store: &Store, operation: Operation, target: &Target, subresource: &str) -> bool {
        let is_used = |plural: &&str| store.find(GROUP, plural).is_some_and(|found| !found.objects.is_empty());
        // Nobody decides about who decides.
        if target.resource.id.group == GROUP || !KINDS.iter().any(is_used) {
            return false;
        }
        let request = Request { operation, target, subresource };
        webhooks::any_concerned(store, &request) || policies::any_concerned(store, &request)
    }

    fn mutate<'a>(&'a self, server: &'a ApiServer, review: Review<'a>) -> BoxFuture<'a, Answer<Option<Object>>> {
        Box::pin(webhooks::mutate(server, review))
    }

    fn validate<'a>(&'a self, server: &'a ApiServer, review: Review<'a>) -> BoxFuture<'a, Answer<()>> {
        Box::pin(async move {
            policies::validate(server, &review)?;
            webhooks::validate(server, &review).await
        })
    }
}
