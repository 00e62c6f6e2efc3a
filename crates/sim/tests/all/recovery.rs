//! Certificates that were lost before anybody has kept a copy: the update stops, and goes on when they were brought back.

use std::time::Duration;

use drover_operator::guest::{Recovered, recover_certificates};
use drover_sim::{Scenario, Stage, Terms};
use k8s_openapi::api::core::v1::Secret;

const LOST: [&str; 2] = ["my-tkc-ca", "my-tkc-sa"];

#[test]
fn an_update_goes_on_once_lost_certificates_were_made_of_what_machines_were_booted_with() {
    let mut all = drover_sim::scenario::built_in().unwrap().into_iter();
    let scenario: Scenario = all.find(|scenario| scenario.name == "guest-three-machines").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let stage = Stage::open(&scenario, &Terms::calm(1));
        let secret = |name: &str| stage.user.get::<Secret>(Some("default"), name).unwrap();
        let before = LOST.map(|name| secret(name).unwrap().data);
        for name in LOST {
            stage.user.delete::<Secret>(Some("default"), name, None).unwrap();
        }
        let mut broken = secret("my-tkc-proxy").unwrap();
        broken.data = None;
        stage.user.update(&broken).unwrap();
        stage.clock.sleep(Duration::from_secs(120)).await;
        assert_eq!(stage.known().all("Machine").count(), 3, "nothing is begun");

        let recover = |dry_run: bool| {
            recover_certificates(stage.server.client("person"), stage.clock, "default", "my-tkc", dry_run)
        };
        let one = |name: &str, was_missing: bool| Recovered { secret: format!("Secret/default/{name}"), was_missing };
        let expected = [one("my-tkc-ca", true), one("my-tkc-proxy", false), one("my-tkc-sa", true)];
        assert_eq!(recover(true).await.unwrap(), expected);
        assert!(LOST.iter().all(|name| secret(name).is_none()), "asking which makes none");
        assert_eq!(recover(false).await.unwrap(), expected);
        assert_eq!(LOST.map(|name| secret(name).unwrap().data), before);
        assert_eq!(recover(false).await.unwrap(), []);

        assert!(stage.until(Duration::from_secs(7200), |_| stage.unmet_now()).await, "{:#?}", stage.violations());
    });
}
