//! The commands of a guide, typed as they stand there while a scenario runs, until they show what they should.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use drover_clock::{Clock, later};
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::serve::serve;
use drover_sim::{Scenario, Stage, Terms};
use tokio::sync::oneshot;

/// A phase that has not come after this time does not come.
const PATIENCE: Duration = Duration::from_secs(180);
const BETWEEN: Duration = Duration::from_millis(300);

/// What a person types, and lines that it shows: words of one line, in this order. A star ends a word of which only the beginning is known.
pub struct Row {
    pub types: &'static str,
    pub sees: &'static [&'static str],
}

pub const fn row(types: &'static str, sees: &'static [&'static str]) -> Row {
    Row { types, sees }
}

async fn play(
    (scenario, speed): (Scenario, f64),
    kubeconfig: PathBuf,
    ready: Sender<()>,
    ends: oneshot::Receiver<()>,
) -> Result<()> {
    let clock = Clock::scaled(Clock::real().now(), speed);
    let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::ZERO, watch_window: 10_000 });
    let served = serve(server.clone(), ([127, 0, 0, 1], 0).into()).await?;
    served.write_kubeconfig(&kubeconfig)?;
    let _stage = Stage::on(server, &scenario, &Terms::calm(1), None);
    ready.send(())?;
    // Whoever waits for it has gone.
    let _ = ends.await;
    Ok(())
}

/// A scenario that runs, so many times as fast as the wall clock.
pub struct Ground {
    dir: tempfile::TempDir,
    /// It runs on a thread of its own, which waiting for kubectl does not hold up, and ends when this goes.
    _ends: oneshot::Sender<()>,
}

impl Ground {
    pub fn up(scenario: Scenario, speed: f64) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let (ends, ended) = oneshot::channel();
        let (ready, is_ready) = channel();
        let kubeconfig = dir.path().join("kubeconfig");
        std::thread::spawn(move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(play((scenario, speed), kubeconfig, ready, ended))
        });
        is_ready.recv().context("the cluster does not come up")?;
        Ok(Ground { dir, _ends: ends })
    }

    /// What the editor of kubectl does to the file that it is given.
    pub fn edits_by(&self, script: &str) -> Result<()> {
        Ok(std::fs::write(self.dir.path().join("edit.sh"), script)?)
    }

    /// Types it until it shows what it should, for as long as the upgrade may still come to that.
    pub fn shows(&self, kubectl: &Path, row: &Row) -> Result<()> {
        let clock = Clock::real();
        let ends = later(clock.now(), PATIENCE);
        loop {
            let Typed { succeeds, shows, complains } = self.types(kubectl, row.types)?;
            let missing = row.sees.iter().find(|line| !shows.lines().any(|one| reads(one, line)));
            if succeeds && missing.is_none() {
                return Ok(());
            }
            if clock.now() > ends {
                let missing = missing.copied().unwrap_or("that it succeeds");
                bail!("{}: `{}` does not show `{missing}`:\n{shows}\n{complains}", kubectl.display(), row.types);
            }
            std::thread::sleep(BETWEEN);
        }
    }

    fn types(&self, kubectl: &Path, line: &str) -> Result<Typed> {
        let dir = self.dir.path();
        let bin = dir.join(format!("{}.bin", kubectl.file_name().unwrap_or_default().display()));
        if !bin.exists() {
            std::fs::create_dir(&bin)?;
            symlink(kubectl, bin.join("kubectl"))?;
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).env("PATH", path).env("KUBECONFIG", dir.join("kubeconfig"));
        shell.env("KUBE_EDITOR", format!("sh {}", dir.join("edit.sh").display()));
        // Neither reads nor leaves anything in the home of whoever runs this.
        shell.env("HOME", dir).stdin(Stdio::null());
        let output = shell.output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Typed { succeeds: output.status.success(), shows: text(&output.stdout), complains: text(&output.stderr) })
    }
}

/// What comes of a line: an error that happens to hold the right words is none of what it shows.
struct Typed {
    succeeds: bool,
    shows: String,
    complains: String,
}

/// Whether the words of a line are among those of another, in their order.
fn reads(line: &str, wanted: &str) -> bool {
    let mut words = line.split_whitespace();
    wanted.split_whitespace().all(|wanted| {
        words.any(|word| match (wanted.strip_prefix('*'), wanted.strip_suffix('*')) {
            (_, Some(start)) => word.starts_with(start),
            (Some(end), None) => word.ends_with(end),
            (None, None) => word == wanted,
        })
    })
}

#[test]
fn words_are_looked_for_in_their_order() {
    assert!(reads("a-7  1/1   3s", "a-* 1/1 *"));
    assert!(reads("a  Complete  0/1  3s", "a */1"));
    assert!(!reads("a  1/1", "1/1 a"));
    assert!(!reads("", "*"));
}
