//! The recordings are what a real kube-apiserver says today.

use drover_difference::{Folder, Real, Result, Side, compare, recording};

#[test]
#[ignore = "needs the lab: make test-real"]
fn the_real_server_still_says_what_was_recorded() -> Result<()> {
    let folder = Folder::here();
    let real = Real::start()?;
    let mut report = String::new();
    for script in folder.scripts()? {
        let recorded = recording::read(&folder.recording(&script.name), &script)?;
        let found = compare::differences(&script.name, &real.answers(&script)?, &recorded);
        report.extend(found.iter().map(|difference| format!("{difference}\n")));
    }
    assert!(report.is_empty(), "a real server (real) differs from the recordings (Corral):\n\n{report}");
    Ok(())
}
