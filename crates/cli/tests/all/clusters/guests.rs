//! Guest clusters, many at once: those that are well raise no alarm, and a table tells first what needs somebody.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::why::drover;

fn objects(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clusters").join(case).join("objects")
}

fn json(args: &[&str], objects: &Path) -> Value {
    serde_json::from_str(&drover(&[args, &["-o", "json"]].concat(), objects)).unwrap()
}

#[test]
fn guest_clusters_that_are_well_raise_no_alarm() {
    for (case, object) in [("guest-healthy", "tkc/team/web"), ("cluster-healthy", "cluster/team/web")] {
        let said = json(&["why", object], &objects(case));
        let causes = said["causes"].as_array().unwrap();
        assert!(causes.iter().all(|cause| cause["alarm"] == false), "{case}: {said}");
        let status = json(&["status", object], &objects(case));
        assert_eq!(status["needsSomebody"], false, "{case}: {status}");
    }
}

/// Sixty clusters, each in a namespace of its own: `cases` and healthy ones.
fn sixty(file: &str, cases: &[&str]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let mut all = Vec::new();
    for index in 0..60 {
        let case = cases.get(index).copied().unwrap_or("cluster-healthy");
        let text = std::fs::read_to_string(objects(case).join("objects.yaml")).unwrap();
        all.push(
            text.replace("namespace: team", &format!("namespace: team-{index:02}"))
                .replace("/team/", &format!("/team-{index:02}/")),
        );
    }
    std::fs::write(&path, all.join("---\n")).unwrap();
    path
}

#[test]
fn sixty_clusters_are_one_table_with_what_needs_somebody_first() {
    let path =
        sixty("sixty.yaml", &["cluster-etcd-sick", "cluster-paused", "cluster-drain-blocked", "guest-minor-skipped"]);

    let text = drover(&["status", "clusters"], &path);

    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 62, "a heading, a line for each, and what the numbers mean:\n{text}");
    assert!(lines[0].contains("CLUSTER") && lines[0].contains("CONTROL PLANE") && lines[0].contains("WAITS FOR"));
    let names: Vec<&str> = lines[1..5].iter().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(names, ["cluster/team-01/web", "tkc/team-03/web", "cluster/team-00/web", "cluster/team-02/web"]);
    assert!(
        lines[1..5].iter().all(|line| line.starts_with('!')) && !text[text.find("team-04").unwrap()..].contains("\n!")
    );
    assert!(
        lines[4].contains("4/1/3") && lines[4].contains("The disruption budget cart needs 2 healthy pods"),
        "{}",
        lines[4]
    );

    let all = json(&["status", "clusters"], &path);
    assert_eq!(all["clusters"].as_array().unwrap().len(), 60);
    let first = &all["clusters"][0];
    assert_eq!((&first["needsSomebody"], &first["paused"]), (&Value::Bool(true), &Value::Bool(true)), "{first}");
    assert_eq!((&first["from"], &first["to"]), (&Value::from("v1.33.4"), &Value::from("v1.34.1")), "{first}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn everything_that_waits_includes_guest_clusters() {
    let all = json(&["why", "--all"], &objects("cluster-drain-blocked"));
    assert_eq!(all[0]["object"]["kind"], "Cluster", "{all}");
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
    let machine = json(&["why", "machine/team/web-md-old-w1"], &objects("cluster-drain-blocked"));
    assert_eq!(machine["causes"][0]["object"]["name"], "web-md-old-w1", "{machine}");
    assert_eq!(machine["causes"][0]["owner"]["name"], "web-md", "{machine}");
}
