//! What Prometheus reads of a captured cluster, line by line.

use std::path::Path;

use drover_core::metrics;
use drover_core::status::overview;
use drover_core::why::explain_all;

use super::captured::cases::differs;
use super::captured::{cluster_of, documents};

#[test]
fn the_page_of_a_cluster_is_as_it_is_written_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut page = String::new();
    for case in ["node-not-ready-network", "drover-drain-held-up"] {
        let cluster = cluster_of(documents(&root.join("../../tests/clusters").join(case)));
        page.push_str(&format!("==== {case}\n{}", metrics::text(&overview(&cluster), &explain_all(&cluster))));
    }
    let wrong = differs(&root.join("tests/stories/metrics.txt"), &page);
    assert_eq!(wrong, None);
}
