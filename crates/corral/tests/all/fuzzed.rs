//! What the fuzz targets hold (`fuzz`), for their seeds and for what random changes make of them.

use std::path::Path;

use proptest::prelude::*;

#[path = "../../../../fuzz/src/expressions.rs"]
mod expressions;
#[path = "../../../../fuzz/src/requests.rs"]
mod requests;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// A seed with some pieces of it taken out, doubled, or replaced by other bytes.
fn changed(target: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let place = any::<prop::sample::Index>();
    let other = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..4),
        prop::sample::select(vec!["null", "-1", "9e99", "\"\"", "[]", "{}", "\u{fffd}", "((((", "\n---\n"])
            .prop_map(|text| text.as_bytes().to_vec()),
    ];
    let change = (place.clone(), 0_usize..12, any::<bool>(), other);
    (prop::sample::select(seeds(target)), prop::collection::vec(change, 1..6)).prop_map(|(mut seed, changes)| {
        for (place, length, doubles, other) in changes {
            let start = place.index(seed.len() + 1);
            let end = (start + length).min(seed.len());
            let piece = if doubles { seed[start..end].repeat(2) } else { other };
            seed.splice(start..end, piece);
        }
        seed
    })
}

#[test]
fn every_seed_is_played_to_its_end() {
    seeds("requests").iter().for_each(|seed| requests::play(seed));
    seeds("expressions").iter().for_each(|seed| expressions::play(std::str::from_utf8(seed).unwrap()));
}

/// As many cases as `PROPTEST_CASES` says, or else few enough for every test run.
fn config(usual: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { config.cases } else { usual };
    ProptestConfig { cases, ..config }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn no_changed_request_panics_or_is_refused_half_done(input in changed("requests")) {
        requests::play(&input);
    }

    #[test]
    fn no_changed_expression_panics(input in changed("expressions")) {
        expressions::play(&String::from_utf8_lossy(&input));
    }
}
