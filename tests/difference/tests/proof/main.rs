//! Corral answers as a real kube-apiserver does: as it was recorded, and live.

use std::collections::BTreeSet;

use drover_difference::{Body, Folder, Proof, Result, Script, Step, compare::Difference};
use serde_json::Value;

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

/// Two names of one prefix would stand in a list in the order of their letters, which are others on each side.
#[test]
fn no_letters_of_a_generated_name_decide_the_order_of_a_list() -> Result<()> {
    let folder = Folder::here();
    let generator = folder.generator()?;
    let scripts = folder.scripts()?.into_iter().chain((1..=20).flat_map(|seed| generator.episodes(seed, 500)));

    let shared: Vec<String> = scripts.filter(generates_twice_from_one_prefix).map(|script| script.name).collect();

    assert_eq!(shared, [""; 0]);
    Ok(())
}

fn generates_twice_from_one_prefix(script: &Script) -> bool {
    let mut seen = BTreeSet::new();
    let prefixes = script.steps.iter().filter_map(|step| match step {
        Step::Ask(ask) => match &ask.body {
            Body::Json(body) if body.pointer("/metadata/name").is_none() => body.pointer("/metadata/generateName"),
            _ => None,
        },
        _ => None,
    });
    !prefixes.filter_map(Value::as_str).all(|prefix| seen.insert(prefix.to_owned()))
}

fn shown(found: &[Difference]) -> String {
    found.iter().take(20).map(|difference| format!("{difference}\n")).collect()
}
