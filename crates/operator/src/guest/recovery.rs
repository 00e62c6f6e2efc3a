//! Brings back certificate Secrets of a guest cluster that were lost or broken.

use std::time::Duration;

use drover_clock::{Clock, later};
use drover_core::decision::Act;
use drover_core::guest::recover;
use kube::Client;

use super::books::Books;
use super::hands::Hands;
use super::{UpdateError, dialect};
use crate::api::Api;

/// The management cluster has to tell what it has within this time.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error("{0}")]
    Update(#[from] UpdateError),
    #[error("the management cluster does not tell what it has")]
    Silent,
    #[error("{0}")]
    Impossible(String),
    #[error("cannot bring {secret} back: {cause}")]
    Refused { secret: String, cause: String },
}

/// A Secret that is whole again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// `Secret/NAMESPACE/NAME`
    pub secret: String,
    /// It was not there at all; otherwise it could not be used.
    pub was_missing: bool,
}

/// Makes the Secrets that are missing and puts right those that cannot be used, unless it is only asked which.
pub async fn recover_certificates(
    client: Client,
    clock: Clock,
    namespace: &str,
    cluster: &str,
    dry_run: bool,
) -> Result<Vec<Recovered>, RecoveryError> {
    let api = Api::new(client, clock);
    let dialect = dialect(&api, clock).await?;
    let mut books = Books::open(api.clone(), clock, namespace, cluster, dialect);
    let end = later(clock.now(), PATIENCE);
    while !books.management_is_whole() {
        if let Some((what, cause)) = books.forbidden() {
            return Err(UpdateError::Forbidden { what, cause }.into());
        }
        if clock.now() >= end {
            return Err(RecoveryError::Silent);
        }
        books.hear_until(end).await;
    }
    let writes = recover(books.seen(), dialect, namespace, cluster).map_err(RecoveryError::Impossible)?;
    let hands = Hands { api, guest: None, clock };
    let mut recovered = Vec::new();
    for write in writes {
        let secret = write.object.to_string();
        if !dry_run {
            let refused = |cause| RecoveryError::Refused { secret: secret.clone(), cause };
            hands.write(&write, &mut books).await.map_err(refused)?;
        }
        recovered.push(Recovered { secret, was_missing: matches!(write.act, Act::Create(_)) });
    }
    Ok(recovered)
}
