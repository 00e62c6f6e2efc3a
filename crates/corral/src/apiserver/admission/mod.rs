//! Who else has a say in a write before it is committed: webhooks and policies.
//!
//! A write asks twice: [`Admission::mutate`] may change the object before it is checked, [`Admission::validate`] may
//! only refuse it afterwards. Both are asked without the store's lock, since an answer may have to come over a network;
//! what was decided on is compared with the store at the commit, and a write that was overtaken asks again.

mod call;
mod chain;
mod configuration;
mod expressions;
mod matching;
mod policies;
mod policy_rules;
mod review;
mod webhooks;

pub(crate) use self::{
    chain::Chain,
    policy_rules::{BindingRules, PolicyRules, WebhookRules},
};

use futures::future::BoxFuture;
use serde_json::Value;

use super::{ApiServer, object::Object, status::Answer, store::Store, verbs::Target, warnings::Warnings};

/// What a write does, as admission calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    /// As admission reviews and rules spell it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// One write, as it is shown to whoever has a say in it.
#[derive(Clone, Copy)]
pub(crate) struct Review<'a> {
    pub operation: Operation,
    /// The resource, the version through which it is written, the namespace and the name. The name is empty while it is
    /// still to be generated.
    pub target: &'a Target,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// What is stored now; none for a create.
    pub old: Option<&'a Object>,
    /// What would be stored, or what was sent to a subresource such as `eviction`; none for a delete.
    pub new: Option<&'a Object>,
    /// CreateOptions, UpdateOptions or DeleteOptions.
    pub options: &'a Value,
    pub user: &'a str,
    pub dry_run: bool,
    /// Sentences for the client, whatever comes of the write.
    pub warnings: &'a Warnings,
}

/// Whoever is asked about writes.
pub(crate) trait Admission: Send + Sync {
    /// Whether anybody wants to be asked about writes to this resource and subresource. Asked under the lock, for every
    /// write: if nobody does, the write is done under that one lock.
    fn concerns(&self, store: &Store, operation: Operation, target: &Target, subresource: &str) -> bool;

    /// The object as it is to be stored, if it is to be changed, or a refusal.
    fn mutate<'a>(&'a self, server: &'a ApiServer, review: Review<'a>) -> BoxFuture<'a, Answer<Option<Object>>>;

    /// Nothing, or a refusal.
    fn validate<'a>(&'a self, server: &'a ApiServer, review: Review<'a>) -> BoxFuture<'a, Answer<()>>;
}
