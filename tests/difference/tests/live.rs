//! The recordings are what a real kube-apiserver says today.

use drover_difference::{Proof, Result};

#[test]
#[ignore = "needs the lab: make test-real"]
fn the_real_server_still_says_what_was_recorded() -> Result<()> {
    let found = Proof::of(&[])?.recordings_against_real()?;

    let report: String = found.iter().take(20).map(|difference| format!("{difference}\n")).collect();
    assert!(found.is_empty(), "a real server (real) differs from the recordings (Corral):\n\n{report}");
    Ok(())
}
