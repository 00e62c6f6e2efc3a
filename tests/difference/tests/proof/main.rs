//! Corral answers as a real kube-apiserver does: as it was recorded, and live.

use drover_difference::{Proof, Result, compare::Difference};

mod coverage;

#[test]
fn corral_answers_as_the_real_server_did() -> Result<()> {
    let proof = Proof::of(&[])?;
    let known = proof.known()?;

    let tally = proof.against_recordings(&known)?;

    assert!(tally.differing.is_empty(), "{tally}; first:\n\n{}", shown(&tally.differing));
    let unmet = known.unmet().join("\n");
    assert!(unmet.is_empty(), "these known differences occur no more; take them out of known.yaml:\n{unmet}");
    Ok(())
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn corral_answers_as_a_real_server_does() -> Result<()> {
    let proof = Proof::of(&[])?;

    let live = proof.live(&proof.known()?)?;

    println!("{}", live.corral);
    assert!(live.corral.differing.is_empty(), "{}; first:\n\n{}", live.corral, shown(&live.corral.differing));
    let outdated = shown(&live.outdated);
    assert!(outdated.is_empty(), "a real server (real) differs from the recordings (Corral):\n\n{outdated}");
    Ok(())
}

fn shown(found: &[Difference]) -> String {
    found.iter().take(20).map(|difference| format!("{difference}\n")).collect()
}
