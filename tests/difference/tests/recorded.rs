//! Corral answers as the real server did when it was recorded.

use drover_difference::{Proof, Result};

#[test]
fn corral_answers_as_the_real_server_did() -> Result<()> {
    let proof = Proof::of(&[])?;
    let known = proof.known()?;

    let found = proof.corral_against_recordings(&known)?;

    let report: String = found.iter().take(20).map(|difference| format!("{difference}\n")).collect();
    assert!(found.is_empty(), "Corral differs from the real server in {} answers, first:\n\n{report}", found.len());
    let unmet = known.unmet().join("\n");
    assert!(unmet.is_empty(), "these known differences occur no more; take them out of known.yaml:\n{unmet}");
    Ok(())
}
