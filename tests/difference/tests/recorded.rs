//! Corral answers every script as the real server did when it was recorded.

use drover_difference::{Corral, Folder, Result, Side, compare, recording};

#[test]
fn corral_answers_as_the_real_server_did() -> Result<()> {
    let folder = Folder::here();
    let known = folder.known()?;
    let mut report = String::new();
    for script in folder.scripts()? {
        let recorded = recording::read(&folder.recording(&script.name), &script)?;
        let found = compare::differences(&script.name, &recorded, &Corral.answers(&script)?);
        let unexcused = found.into_iter().filter_map(|difference| known.unexcused(difference));
        report.extend(unexcused.map(|difference| format!("{difference}\n")));
    }
    assert!(report.is_empty(), "Corral differs from the recorded answers of the real server:\n\n{report}");
    let unmet = known.unmet();
    assert!(
        unmet.is_empty(),
        "these known differences occur no more; take them out of known.yaml:\n{}",
        unmet.join("\n")
    );
    Ok(())
}
