//! From the first write to the summary.

use std::pin::Pin;
use std::time::Duration;

use anyhow::bail;
use drover_clock::{between, later};
use drover_sim::Scenario;
use jiff::Timestamp;

use super::picture::{Picture, Sight};
use super::scene::Scene;
use super::screen::{Layout, clock_time};
use super::show::Show;
use super::summary::Summary;
use super::{DemoArgs, Pace, expected};
use crate::args::Format;
use crate::output::{print, print_document};
use crate::scenarios;

/// How often the display is drawn, on the wall clock.
const FRAME: Duration = Duration::from_millis(100);
/// How often it is looked whether it is over, if nothing is to be seen.
const LOOK: Duration = Duration::from_secs(1);
/// What an upgrade may take beyond twice the time that it should.
const PATIENCE: Duration = Duration::from_secs(300);
/// In virtual time nobody waits: no scenario takes longer.
const LONGEST: Duration = Duration::from_secs(12 * 3600);

pub async fn play(
    args: &DemoArgs,
    scenario: &Scenario,
    pace: Pace,
    format: Option<Format>,
    stopped: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut stopped = std::pin::pin!(stopped);
    let is_text = matches!(format, None | Some(Format::Table));
    let mut scene = Scene::set(scenario, pace.clock(), pace.latency())?;
    let serving = args.serving.start_if_wanted(&scene.server).await?;
    if is_text {
        let advice = serving.as_ref().map(|serving| serving.advice() + "\n").unwrap_or_default();
        print(&format!("{}\n{advice}", heading(scenario, pace)))?;
    }

    let goes_on = serving.is_some() && !args.exit;
    let limit = match pace {
        Pace::Virtual => LONGEST,
        Pace::Scaled(_) => expected(scenario).saturating_mul(2).saturating_add(PATIENCE),
    };
    let limit = if goes_on { Timestamp::MAX } else { later(scene.started, limit) };
    let mut audience = Audience::of(&scene, scenario, pace, format);
    let end = audience.watch(&mut scene, |scene| scene.stage.unmet_now().is_empty(), limit, stopped.as_mut()).await?;
    let ended = scene.clock.now();
    let passed = clock_time(between(scene.started, ended));
    if matches!(end, End::Stopped) {
        audience.show.leave();
        bail!("interrupted after {passed} on the cluster's clock");
    }
    audience.show.close(&audience.picture, ended);
    let mut summary = Summary::of(scenario, &audience.picture, scene.writes(), scene.started, ended);
    if matches!(end, End::TooLate) {
        summary.unmet = scene.stage.unmet_now();
    } else if pace == Pace::Virtual {
        // Nobody waits for it: that all stays as it is, and that all that was said is true.
        scene.stage.stay().await;
    }
    summary.violations = scene.stage.violations().into_iter().map(|violation| violation.sentence).collect();
    if matches!(end, End::TooLate) && is_text {
        bail!("the upgrade has not ended after {passed}: {}", audience.why_not(&scene));
    }
    match format.unwrap_or(Format::Table) {
        Format::Table => print(&format!("\n{}", summary.text()))?,
        format => print_document(format, summary.served_as(serving.as_ref()))?,
    }
    if let Some(wrong) = summary.violations.first().or(summary.unmet.first()) {
        bail!("the scenario {} did not go as it must: {wrong}", scenario.name);
    }
    if goes_on {
        if is_text {
            print("\nThe cluster and its operator go on: change the Plan and look on. Ctrl-C ends them.\n\n")?;
        }
        audience.watch(&mut scene, |_| false, Timestamp::MAX, stopped).await?;
    }
    Ok(())
}

fn heading(scenario: &Scenario, pace: Pace) -> String {
    let speed = match pace {
        Pace::Virtual => "in virtual time".to_owned(),
        Pace::Scaled(speed) if speed < 10.0 => format!("at {speed:.1} times its real speed"),
        Pace::Scaled(speed) => format!("at {speed:.0} times its real speed"),
    };
    format!("An upgrade of {}, {speed}.\n", scenarios::describe(scenario))
}

/// Why nobody looks on any more.
enum End {
    Over,
    Stopped,
    TooLate,
}

/// Whoever looks on: what they have seen, and how it is shown to them.
struct Audience {
    picture: Picture,
    show: Show,
}

impl Audience {
    fn of(scene: &Scene, scenario: &Scenario, pace: Pace, format: Option<Format>) -> Self {
        let width = scenario.node_names().iter().map(String::len).max().unwrap_or(0);
        let layout = Layout { started: scene.started, nodes: scenario.nodes, target: scenario.to.clone(), width };
        let plan = scenario.plan_names().into_iter().next().unwrap_or_default();
        Audience { picture: Picture::of_plan(&plan), show: Show::choose(format, pace, layout) }
    }

    async fn watch(
        &mut self,
        scene: &mut Scene,
        over: impl Fn(&Scene) -> bool,
        limit: Timestamp,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> anyhow::Result<End> {
        let clock = scene.clock;
        let mut frames = tokio::time::interval(FRAME);
        loop {
            tokio::select! {
                biased;
                () = &mut stopped => return Ok(End::Stopped),
                Some(sight) = scene.sights.recv() => {
                    self.see(&sight)?;
                    if scene.sights.is_empty() && over(scene) {
                        return Ok(End::Over);
                    }
                }
                Some(report) = scene.reports.recv() => {
                    if report.plan != self.picture.plan_name {
                        continue;
                    }
                    for wait in self.picture.hear(report.at, &report.decision.waits) {
                        self.show.wait(report.at, &wait)?;
                    }
                }
                _ = frames.tick(), if self.show.is_live() => self.show.draw(&self.picture, clock.now()),
                () = clock.sleep_until(limit.min(later(clock.now(), LOOK))) => {
                    if over(scene) {
                        return Ok(End::Over);
                    }
                    if clock.now() >= limit {
                        return Ok(End::TooLate);
                    }
                }
            }
        }
    }

    fn see(&mut self, sight: &Sight) -> anyhow::Result<()> {
        for transition in self.picture.see(sight) {
            self.show.transition(&transition)?;
        }
        Ok(())
    }

    /// What it waits for or, if it says nothing, what is still to be done.
    fn why_not(&self, scene: &Scene) -> String {
        let waits: Vec<&str> = self.picture.open_waits().map(|wait| wait.sentence.as_str()).collect();
        if waits.is_empty() { scene.stage.unmet_now().join("; ") } else { waits.join("; ") }
    }
}
