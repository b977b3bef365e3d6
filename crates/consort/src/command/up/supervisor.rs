//! The loop of `consort up`: asks a child how many nodes are wanted, and starts and retires children.

use std::process::ExitCode;
use std::time::Duration;

use consort_client::Cluster;
use rustix::process::Signal;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::children::Children;
use super::decisions::Decision;
use super::slots::{Action, DEATHS_MOST, End, Slots};
use crate::command::signals::{self, Signals};
use crate::command::{FAILED, fail};

/// How often a child is asked.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How long a child may take to answer. It may be starting, or its store may be slow; then another is asked.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How many children are asked in one turn.
const ASKED_MOST: usize = 3;

/// What it runs by.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) children: Children,
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) json: bool,
}

struct Run {
    supervisor: Supervisor,
    slots: Slots,
    decision: Decision,
    since: Instant,
}

impl Supervisor {
    /// Runs until a signal, or until children die again and again.
    pub(super) async fn run(self, mut signals: Signals) -> ExitCode {
        let decision = Decision::initial(self.min);
        if let Err(reason) = decision.tell(0, self.json) {
            return fail(FAILED, &reason);
        }
        let slots = Slots::new(self.max);
        let mut run = Run { supervisor: self, slots, decision, since: Instant::now() };
        let failed = tokio::select! {
            _ = signals.next() => None,
            reason = run.until_given_up() => Some(reason),
        };
        eprintln!(
            "consort: stopping: one node stays until all others have handed their roles over"
        );
        tokio::select! {
            () = run.stop() => {}
            number = signals.next() => {
                eprintln!("consort: a second signal: ends all nodes at once");
                return signals::ended_by(number);
            }
        }
        failed.map_or(ExitCode::SUCCESS, |reason| fail(FAILED, &reason))
    }
}

impl Run {
    /// Follows the decisions; gives the reason when it cannot.
    async fn until_given_up(&mut self) -> String {
        let mut ticks = interval(ASK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(reason) = self.turn().await {
                return reason;
            }
        }
    }

    async fn turn(&mut self) -> Result<(), String> {
        self.reap()?;
        let (min, max) = (self.supervisor.min, self.supervisor.max);
        if let Some(cluster) = self.ask().await
            && let Some(next) = Decision::new(&cluster, min, max)
        {
            if next.is_news(&self.decision) {
                next.tell(self.decision.nodes, self.supervisor.json)?;
            }
            self.decision = next;
        }
        let actions = self.slots.step(self.since.elapsed(), self.decision.nodes);
        self.carry_out(actions).await
    }

    /// Takes note of children that have ended.
    fn reap(&mut self) -> Result<(), String> {
        for (number, how) in self.supervisor.children.ended() {
            let id = self.supervisor.children.id(number);
            match self.slots.ended(number, self.since.elapsed()) {
                End::Retired => eprintln!("consort: node '{id}' has left"),
                End::Died(pause) => eprintln!(
                    "consort: node '{id}' ended by itself ({how}); it is started again in {pause:?}"
                ),
                End::GivenUp => {
                    return Err(format!(
                        "node '{id}' ended by itself ({how}), and nodes have done so {DEATHS_MOST} times within a \
                         minute; the lines above say why: mend it and start `consort up` again"
                    ));
                }
            }
        }
        Ok(())
    }

    /// What the first child says that answers.
    async fn ask(&self) -> Option<Cluster> {
        for number in self.slots.running().into_iter().take(ASKED_MOST) {
            let Some(client) = self.supervisor.children.client(number) else { continue };
            if let Ok(Ok(cluster)) = timeout(ANSWER_WITHIN, client.cluster()).await {
                return Some(cluster);
            }
        }
        None
    }

    async fn carry_out(&mut self, actions: Vec<Action>) -> Result<(), String> {
        for action in actions {
            match action {
                Action::Start(number) => self.supervisor.children.start(number)?,
                Action::Drain(number) => self.drain(number).await,
                Action::Terminate(number) => {
                    self.supervisor.children.signal(number, Signal::TERM);
                }
                Action::Kill(number) => self.supervisor.children.signal(number, Signal::KILL),
            }
        }
        Ok(())
    }

    /// Asks the cluster to retire a child. It is asked again in the next turn if it has not taken that.
    async fn drain(&mut self, number: usize) {
        let children = &self.supervisor.children;
        let id = children.id(number);
        for other in self.slots.running().into_iter().chain([number]).take(ASKED_MOST) {
            let Some(client) = children.client(other) else { continue };
            if let Ok(Ok(())) = timeout(ANSWER_WITHIN, client.drain(&id)).await {
                eprintln!("consort: node '{id}' hands its roles over and leaves");
                self.slots.drains(number);
                return;
            }
        }
    }

    /// Retires all children but the first that runs, and then ends that one. Each step is bounded by the time that a
    /// child has to leave.
    async fn stop(&mut self) {
        let mut last = false;
        let mut ticks = interval(ASK_EVERY / 4);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Why a child ends no longer matters.
            for (number, _) in self.supervisor.children.ended() {
                self.slots.ended(number, self.since.elapsed());
            }
            let now = self.since.elapsed();
            let mut actions = self.slots.step_down(now);
            if !last && self.slots.is_alone() {
                last = true;
                actions.extend(self.slots.end_last(now));
            }
            // Nothing is started any more, so nothing can fail.
            let _ = self.carry_out(actions).await;
            if self.slots.is_empty() {
                return;
            }
        }
    }
}
