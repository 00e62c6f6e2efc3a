//! A dry run answers as the write would, and changes nothing.

use serde_json::json;

use super::support::*;

#[tokio::test(start_paused = true)]
async fn a_dry_create_shows_the_object_with_everything_but_a_resource_version() {
    let server = server();
    let mut object = config_map("");
    object["metadata"] = json!({ "generateName": "a-" });
    let before = server.digest();

    let shown = server.make(&format!("{CONFIG_MAPS}?dryRun=All"), object).await;

    assert_eq!(shown.code, 201);
    assert!(shown.body["metadata"]["name"].as_str().unwrap().starts_with("a-"));
    assert_eq!(shown.body["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert!(shown.body["metadata"].get("resourceVersion").is_none());
    assert_eq!(server.digest(), before);
}

#[tokio::test(start_paused = true)]
async fn a_dry_update_and_a_dry_delete_leave_the_object_as_it_is() {
    let server = server();
    let made = server.make(CONFIG_MAPS, config_map("a")).await.ok();
    let path = format!("{CONFIG_MAPS}/a?dryRun=All");

    let patched = server.merge(&path, json!({ "data": { "key": "other" } })).await.ok();
    assert_eq!(patched["data"]["key"], "other");
    assert_eq!(patched["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);

    assert_eq!(server.remove(&path).await.ok()["status"], "Success");
    assert_eq!(server.remove_with(&format!("{CONFIG_MAPS}/a"), json!({ "dryRun": ["All"] })).await.code, 200);
    assert_eq!(server.read(&format!("{CONFIG_MAPS}/a")).await.ok(), made);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_refused_as_the_write_would_be_and_has_one_right_value() {
    let server = server();
    server.make(CONFIG_MAPS, config_map("a")).await.ok();

    assert_eq!(server.make(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("a")).await.code, 409);
    let wrong = server.make(&format!("{CONFIG_MAPS}?dryRun=yes"), config_map("b")).await;
    assert_eq!(wrong.code, 422);
    assert_eq!(
        wrong.message(),
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"yes\"]: supported values: \"All\""
    );
}
