use serde_json::{Value, json};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_268_800 + seconds).unwrap()
}

/// A Deployment with its ReplicaSets, whose pods become available or not as it is told.
struct Story {
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
    wake: Option<Timestamp>,
    now: Timestamp,
}

impl Story {
    fn of(replicas: i32, strategy: Value) -> Story {
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "ns", "uid": "d", "generation": 1},
            "spec": {
                "replicas": replicas, "strategy": strategy, "selector": {"matchLabels": {"app": "web"}},
                "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}},
            },
        }))
        .unwrap();
        Story { deployment, sets: Vec::new(), wake: None, now: at(0) }
    }

    fn spec(&mut self) -> &mut DeploymentSpec {
        self.deployment.spec.as_mut().unwrap()
    }

    fn image(&mut self, image: &str) {
        self.spec().template.spec.as_mut().unwrap().containers[0].image = Some(image.into());
    }

    /// One look; answers with the events.
    fn look(&mut self) -> Vec<String> {
        let pods_of = self.sets.iter().map(|set| {
            let pods = set.status.as_ref().map_or(0, |status| status.replicas);
            (pods::uid(&set.metadata).to_string(), usize::try_from(pods).unwrap())
        });
        let pods_of = pods_of.collect();
        let outcome = reconcile(&self.deployment, self.sets.clone(), &pods_of, self.now);
        self.wake = outcome.wake;
        let mut said = Vec::new();
        for action in outcome.actions {
            match action {
                Action::CreateReplicaSet(mut set) => {
                    set.metadata.uid = Some(format!("r{}", self.sets.len()));
                    set.metadata.creation_timestamp =
                        Some(crate::world::outcome::stamp(at(i64::try_from(self.sets.len()).unwrap())));
                    self.sets.push(*set);
                }
                Action::UpdateReplicaSet(set) => {
                    let known = self.sets.iter_mut().find(|known| known.metadata.uid == set.metadata.uid).unwrap();
                    *known = *set;
                }
                Action::DeleteReplicaSet { uid, .. } => {
                    self.sets.retain(|set| set.metadata.uid.as_deref() != Some(uid.as_str()));
                }
                Action::DeploymentStatus(deployment) => self.deployment = *deployment,
                Action::Note(note) => said.push(note.reason().to_string()),
                other => panic!("a Deployment controller does no such thing: {other:?}"),
            }
        }
        said
    }

    /// Every ReplicaSet gets the pods that it should have; only those of good images become available.
    fn pods_follow(&mut self) {
        for set in &mut self.sets {
            let spec = set.spec.as_ref().unwrap();
            let image = spec.template.as_ref().unwrap().spec.as_ref().unwrap().containers[0].image.clone().unwrap();
            let size = spec.replicas.unwrap();
            let well = if image.ends_with("bad") { 0 } else { size };
            set.status =
                serde_json::from_value(json!({"replicas": size, "availableReplicas": well, "readyReplicas": well}))
                    .unwrap();
        }
    }

    /// The sizes of all ReplicaSets from look to look until nothing changes.
    fn sizes(&mut self) -> Vec<String> {
        let mut story: Vec<String> = Vec::new();
        for _ in 0..100 {
            self.look();
            let sizes: Vec<String> = self.sets.iter().map(|set| size(set).to_string()).collect();
            let line = sizes.join(" ");
            if story.last() == Some(&line)
                && self.sets.iter().all(|set| set.status.as_ref().map(|status| status.replicas) == Some(size(set)))
            {
                return story;
            }
            if story.last() != Some(&line) {
                story.push(line);
            }
            self.pods_follow();
        }
        panic!("it never ends: {story:?}");
    }

    fn condition(&self, kind: &str) -> (String, String) {
        let conditions = self.deployment.status.as_ref().unwrap().conditions.as_ref().unwrap();
        let condition = conditions.iter().find(|condition| condition.type_ == kind).unwrap();
        (condition.status.clone(), condition.reason.clone().unwrap())
    }
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

#[test]
fn a_rolling_update_keeps_within_surge_and_unavailability() {
    let mut story = Story::of(4, rolling(json!(1), json!(1)));
    assert_eq!(story.sizes(), ["4"]);
    assert_eq!(story.condition("Progressing"), ("True".into(), "NewReplicaSetAvailable".into()));
    assert_eq!(story.deployment.metadata.annotations.as_ref().unwrap()[REVISION], "1");

    story.image("web:2");
    assert_eq!(story.sizes(), ["3 1", "3 2", "1 2", "1 4", "0 4"]);
    assert_eq!(story.deployment.metadata.annotations.as_ref().unwrap()[REVISION], "2");
}

#[test]
fn percentages_round_so_that_it_always_goes_on() {
    let mut story = Story::of(1, rolling(json!("25%"), json!("25%")));
    story.sizes();
    story.image("web:2");
    assert_eq!(story.sizes(), ["1 1", "0 1"], "one more first, none less");
}

#[test]
fn a_bad_template_stops_the_rollout_and_times_out() {
    let mut story = Story::of(4, rolling(json!(1), json!(1)));
    story.sizes();
    story.image("web:bad");
    assert_eq!(story.sizes(), ["3 1", "3 2"]);
    let (deadline, said) = (story.wake.unwrap(), story.condition("Available"));
    assert_eq!(said, ("True".into(), "MinimumReplicasAvailable".into()), "three of four are enough");

    story.now = deadline;
    story.look();
    assert_eq!(story.condition("Progressing"), ("False".into(), "ProgressDeadlineExceeded".into()));
}

#[test]
fn recreate_waits_until_the_old_pods_are_gone() {
    let mut story = Story::of(2, json!({"type": "Recreate"}));
    story.sizes();
    story.image("web:2");

    story.look();
    assert_eq!(story.sets.iter().map(size).collect::<Vec<_>>(), [0]);
    story.look();
    assert_eq!(story.sets.len(), 1, "the old pods are still there");
    story.pods_follow();
    story.look();
    assert_eq!(story.sets.iter().map(size).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn going_back_to_an_old_template_takes_its_replica_set_again() {
    let mut story = Story::of(1, rolling(json!(1), json!(0)));
    story.sizes();
    story.image("web:2");
    story.sizes();
    story.image("web:1");

    assert_eq!(story.sizes(), ["1 1", "1 0"]);
    let annotations = story.sets[0].metadata.annotations.as_ref().unwrap();
    assert_eq!((annotations[REVISION].as_str(), annotations[REVISION_HISTORY].as_str()), ("3", "1"));
}

#[test]
fn a_paused_deployment_is_scaled_and_not_rolled() {
    let mut story = Story::of(2, rolling(json!(1), json!(0)));
    story.sizes();
    story.image("web:2");
    story.spec().paused = Some(true);
    story.spec().replicas = Some(5);

    assert_eq!(story.sizes(), ["5"]);
    assert_eq!(story.condition("Progressing"), ("Unknown".into(), "DeploymentPaused".into()));
    story.spec().paused = None;
    story.sizes();
    assert_eq!(story.sets.iter().map(size).collect::<Vec<_>>(), [0, 5]);
}

#[test]
fn scaling_during_a_rollout_favours_neither_side() {
    let mut story = Story::of(10, rolling(json!(5), json!(0)));
    story.sizes();
    story.image("web:bad");
    assert_eq!(story.sizes(), ["10 5"]);
    story.spec().replicas = Some(20);

    story.look();
    assert_eq!(story.sets.iter().map(size).collect::<Vec<_>>(), [17, 8]);
}

#[test]
fn old_replica_sets_are_forgotten_beyond_the_limit() {
    let mut story = Story::of(1, rolling(json!(1), json!(0)));
    story.spec().revision_history_limit = Some(1);
    for image in ["web:1", "web:2", "web:3", "web:4"] {
        story.image(image);
        story.sizes();
    }
    story.look();
    assert_eq!(story.sets.len(), 2);
}

#[test]
fn scaling_is_said() {
    let mut story = Story::of(2, rolling(json!(1), json!(0)));
    assert_eq!(story.look(), ["ScalingReplicaSet"]);
}
