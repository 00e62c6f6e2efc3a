//! That every reason is explained, and the shapes that matter most. Whole clusters are played from files, see
//! `tests/clusters`.

use std::collections::BTreeSet;

use super::reasons::meaning;
use crate::decision::Reason;

#[test]
fn every_reason_to_wait_has_an_explanation_of_its_own() {
    let all = || Reason::ALL.into_iter().chain(Reason::OF_UPGRADES);
    let meanings: BTreeSet<&str> = all().map(|reason| meaning(reason).sentence).collect();
    assert_eq!(meanings.len(), all().count());
    for reason in all() {
        let meaning = meaning(reason);
        assert!(meaning.sentence.ends_with('.') && meaning.ends.ends_with('.'), "{reason}");
    }
}
