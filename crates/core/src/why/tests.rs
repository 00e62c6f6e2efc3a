//! That every reason is explained, and the shapes that matter most. Whole clusters are played from files, see
//! `tests/clusters`.

use std::collections::BTreeSet;

use super::reasons::meaning;
use crate::decision::Reason;

#[test]
fn every_reason_to_wait_has_an_explanation_of_its_own() {
    let meanings: BTreeSet<&str> = Reason::ALL.iter().map(|reason| meaning(*reason).sentence).collect();
    assert_eq!(meanings.len(), Reason::ALL.len());
    for reason in Reason::ALL {
        let meaning = meaning(reason);
        assert!(meaning.sentence.ends_with('.') && meaning.ends.ends_with('.'), "{reason}");
    }
}
