//! Scaling: a load that steps up and down, and `consort up` that follows it. What was offered, applied, behind, wanted
//! and live is plotted over time.
//!
//! Two cores cannot show that three nodes do more than one. So each record costs a node a wait, as a slow sink would:
//! one node folds so many records a second, whatever the machine.

mod plot;
mod samples;
mod summary;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use consort_tests::lifts::servers::{Servers, Upon};
use consort_tests::scaling::load::{PostLoad, PostSender, Rides};
use consort_tests::scaling::pauses::{LOG_PAUSES, Pauses};
use consort_tests::scaling::up::Up;
use tokio::time::Instant;

use crate::report::Results;
use samples::{Course, Sample};
use summary::Summary;

/// The most nodes.
const NODES: usize = 3;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A node less is wanted after so long: short, so that a run takes minutes.
const SETTINGS: [&str; 2] = ["scale.down_after=30s", LOG_PAUSES];

/// How long a phase may take at most: three steps, each of them half a minute apart, and a hand-over.
const PHASE_WITHIN: Duration = Duration::from_secs(300);

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// What a record costs a node.
    cost: Duration,
    /// Records a second before the step, behind it, and at the end.
    rates: [f64; 3],
    /// How long the load stays at its peak after the lag is gone.
    peak: Duration,
}

impl Pace {
    /// For figures: about six minutes.
    pub(crate) const FULL: Pace = Pace {
        cost: Duration::from_micros(2500),
        rates: [200.0, 950.0, 20.0],
        peak: Duration::from_secs(60),
    };
    /// To see that it works.
    pub(crate) const QUICK: Pace = Pace {
        cost: Duration::from_millis(5),
        rates: [100.0, 430.0, 5.0],
        peak: Duration::from_secs(5),
    };
}

/// Measures it.
pub(crate) async fn run(pace: Pace) -> Result<Results> {
    let program = std::env::current_exe()?.with_file_name("capped-consort");
    ensure!(
        program.is_file(),
        "{} is not built: use `cargo xtask bench scaling`",
        program.display()
    );
    let program = program.to_str().context("the target folder has a plain name")?;
    let servers = Servers::start(Upon::Redis).await;
    let prefix = format!("bench-{}", std::process::id());
    let up = Up::start(program, &prefix, &servers.engine(), NODES, pace.cost, &SETTINGS, "");
    let mut run = Run {
        up,
        rides: Arc::new(Rides::default()),
        pauses: Pauses::default(),
        course: Course::default(),
        began: Instant::now(),
        offered: 0.0,
    };
    let summary = run.through(pace).await?;
    run.up.terminate().await;
    Ok(summary.results(&run.course))
}

struct Run {
    up: Up,
    rides: Arc<Rides>,
    pauses: Pauses,
    course: Course,
    began: Instant,
    offered: f64,
}

impl Run {
    async fn through(&mut self, pace: Pace) -> Result<Summary> {
        let [low, high, end] = pace.rates;
        self.until("one node works", |sample| sample.owning == 1 && sample.wanted == Some(1))
            .await?;
        let senders: Vec<Arc<dyn PostSender>> = vec![Arc::clone(&self.rides) as _];
        let load = PostLoad::start(senders, self.up.ports(), low, 7);
        self.offered = low;
        self.during(Duration::from_secs(10)).await;

        eprintln!("the load steps up from {low} to {high} records a second");
        (self.offered, self.course.stepped_up) = (high, self.began.elapsed().as_secs_f64());
        load.set_rate(high);
        self.until("three nodes own partitions", |sample| sample.owning == NODES).await?;
        self.until("the lag is gone", |sample| sample.lag.is_some_and(|lag| lag < 2.0)).await?;
        self.during(pace.peak).await;

        eprintln!("the load steps down to {end} records a second");
        (self.offered, self.course.stepped_down) = (end, self.began.elapsed().as_secs_f64());
        load.set_rate(end);
        self.until("one node is left", |sample| sample.live == 1 && sample.owning == 1).await?;
        drop(load.stop().await);
        self.pauses.read(&self.up.output());
        Ok(Summary::new(pace.cost, pace.rates, &self.course, &self.pauses))
    }

    async fn until(&mut self, what: &str, fits: impl Fn(&Sample) -> bool) -> Result<()> {
        let deadline = Instant::now() + PHASE_WITHIN;
        loop {
            if self.look().await.is_some_and(|sample| fits(&sample)) {
                eprintln!("{:6.1} s: {what}", self.began.elapsed().as_secs_f64());
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{what}: never;\n{}", self.up.output());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn during(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.look().await;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// One look; none while no node answers.
    async fn look(&mut self) -> Option<Sample> {
        let cluster = self.up.cluster().await?;
        self.pauses.note(&cluster);
        let (at, accepted) = (self.began.elapsed().as_secs_f64(), self.rides.count() as u64);
        let sample = self.course.note(at, self.offered, accepted, &cluster);
        Some(sample)
    }
}
