//! A partition whose log loses frames that were applied, and grows again; and the operator who decides.

use std::collections::BTreeMap;
use std::time::Duration;

use consort_cluster::worker::{Resume, resolve};
use consort_kernel::{Frame, FrameKind, LogEntry, Producer, Store};

use crate::faults::SLOWEST;
use crate::scenario::Scenario;
use crate::world::at_once;

/// How many frames are lost below the last one that was consumed, at most.
const DEEP: u64 = 5;

/// Of a thousand losses, how many are not deep.
const SHALLOW: u32 = 250;

/// Of a thousand turns in which a partition is seen to be stopped, in how many the operator acts.
const ACTS: u32 = 100;

/// How soon a loss must be visible once nothing else goes wrong.
const VISIBLE_WITHIN: Duration = Duration::from_secs(120);

/// Where the operator's commands come from: no node of the cluster.
const OPERATOR: u32 = 99;

/// A loss, and what came of it.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) partition: u32,
    /// Whether frames were lost that the checkpoint had passed: this must be noticed. Otherwise the lost
    /// frames were applied by some shards at most, and it depends on those whether anybody can notice.
    pub(crate) deep: bool,
    /// What was lost.
    pub(crate) entries: Vec<LogEntry>,
    /// Whether the partition has begun anew.
    pub(crate) resolved: bool,
    /// Whether a frame that was sent again landed under the number it had before. Then a cursor that vouches
    /// for this very frame finds it, and nobody need notice that others are gone.
    pub(crate) hidden: bool,
    from: u64,
    resume: Resume,
    /// When the operator may act again.
    next_act: Duration,
}

impl Loss {
    /// Whether frames that came after the loss may be applied before the partition begins anew.
    pub(crate) fn must_be_noticed(&self) -> bool {
        self.deep && !self.hidden
    }

    /// What was lost, by partition.
    pub(crate) fn lost(&self) -> BTreeMap<u32, Vec<LogEntry>> {
        BTreeMap::from([(self.partition, self.entries.clone())])
    }
}

impl Scenario {
    /// Whether a tail can be lost so that it must be noticed: something was applied.
    pub(crate) fn can_lose(&self) -> bool {
        let Some(partition) = self.shape.lossy else { return false };
        self.loss.is_none() && self.checkpoint(partition).stand.last.is_some()
    }

    /// Loses some frames up to and beyond the last one that was consumed, and grows others.
    pub(crate) fn lose(&mut self) {
        let Some(partition) = self.shape.lossy else { return };
        let Some((consumed, _)) = self.checkpoint(partition).stand.last else { return };
        let at = self.shape.partition(partition);
        let entries: Vec<LogEntry> = self.world.entries(&at).unwrap_or_default();
        let ahead = entries.last().map_or(0, |last| last.offset.saturating_sub(consumed));
        let deep = ahead == 0 || !self.dice.per_mille(SHALLOW);
        let from = match deep {
            true => consumed - self.dice.below(consumed.min(DEEP) + 1),
            false => consumed + 1 + self.dice.below(ahead),
        };
        let entries: Vec<LogEntry> =
            entries.into_iter().filter(|entry| entry.offset >= from).collect();
        self.world.lose_tail(&at, from);
        self.source.tail_is_lost();
        let grown = self.dice.below(entries.len() as u64 + 3);
        let frames: Vec<Frame> = (0..grown).map(|_| self.other_frame(partition)).collect();
        self.world.regrow(&at, &frames);
        let first = self.dice.per_mille(300);
        self.loss = Some(Loss {
            partition,
            deep,
            entries,
            resolved: false,
            hidden: false,
            from,
            resume: if first { Resume::First } else { Resume::Offset(from) },
            next_act: Duration::ZERO,
        });
        self.coverage.add(if deep { "deep losses" } else { "shallow losses" }, 1);
        self.coverage
            .add("tails that grew beyond what was consumed", u64::from(from + grown > consumed));
    }

    /// A frame of a producer that nobody knows.
    fn other_frame(&self, partition: u32) -> Frame {
        let time = at_once(self.world.store.now()).unwrap_or_default();
        let (records, serials) = self.source.events(&self.dice, partition, time);
        let (producer, sequence) = (Producer(self.dice.below(u64::MAX)), 0);
        let ticket = self.source.ledger.open(partition, serials);
        self.source.ledger.acknowledge(ticket, producer, sequence);
        Frame { kind: FrameKind::Events, producer, sequence, time, records: records.into() }
    }

    /// Takes note of a lost frame that stands again where it stood.
    pub(crate) fn look_for_hidden(&mut self) -> Result<(), String> {
        let Some(loss) = self.loss.as_ref().filter(|loss| !loss.hidden) else { return Ok(()) };
        let now = self.entries_of(loss.partition)?;
        let stands = |lost: &LogEntry| {
            let there = now.iter().find(|entry| entry.offset == lost.offset);
            there.is_some_and(|entry| entry.digest == lost.digest)
        };
        if loss.entries.iter().any(stands)
            && let Some(loss) = &mut self.loss
        {
            loss.hidden = true;
            self.coverage.add("losses hidden by a repeat", 1);
        }
        Ok(())
    }

    /// Lets the operator act on a partition that is seen to be stopped, with an engine that may fail.
    pub(crate) fn decide_sometimes(&mut self) {
        let now = self.world.handle().now();
        let Some(loss) = self.loss.as_ref().filter(|loss| !loss.resolved) else { return };
        if self.has_begun_anew(loss.partition) {
            return self.resolved();
        }
        if now < loss.next_act || !self.is_stopped(loss.partition) || !self.dice.per_mille(ACTS) {
            return;
        }
        self.act();
    }

    /// The operator acts until it is done, with an engine that does not fail any more.
    pub(crate) fn resolve_for_certain(&mut self) -> Result<(), String> {
        let until = self.world.handle().now() + VISIBLE_WITHIN;
        while let Some(loss) = self.loss.as_ref().filter(|loss| !loss.resolved) {
            let partition = loss.partition;
            if self.has_begun_anew(partition) {
                self.resolved();
                break;
            }
            if self.world.handle().now() >= until {
                return Err(format!(
                    "the loss of partition {partition} was not noticed or resolved"
                ));
            }
            self.look_for_hidden()?;
            if self.is_stopped(partition) {
                self.check_marks()?;
                // One act at a time: an answer comes at once now that nothing fails.
                self.act();
            } else if !self.loss.as_ref().is_some_and(Loss::must_be_noticed)
                && self.ends()?[&partition] <= self.checkpoint(partition).stand.next
            {
                // What was lost had not been applied, or is hidden, and nobody can notice.
                break;
            }
            self.run_for(Duration::from_secs(1))?;
            self.check_always()?;
            self.fill()?;
        }
        Ok(())
    }

    fn act(&mut self) {
        let now = self.world.handle().now();
        let Some(loss) = &mut self.loss else { return };
        // A call of the last act may still be under way.
        loss.next_act = now + 3 * SLOWEST;
        let (store, log) = (self.world.node_store(OPERATOR), self.world.node_log(OPERATOR));
        let (partition, pipeline) = (self.shape.partition(loss.partition), self.shape.pipeline());
        // Where nothing seems to be lost any more, only a number is taken for an answer.
        let resume = if loss.hidden { Resume::Offset(loss.from) } else { loss.resume };
        let handle = self.world.handle().clone();
        self.coverage.add("decisions", 1);
        self.world.runtime(OPERATOR).spawn("operator", async move {
            let decided = resolve(&*store, &*log, &partition, &pipeline, resume).await;
            match decided {
                Ok(_) => handle.note(format_args!("the operator decided on {partition}")),
                Err(error) => handle.note(format_args!("the operator did not decide: {error}")),
            }
        });
    }

    fn resolved(&mut self) {
        if let Some(loss) = &mut self.loss {
            loss.resolved = true;
            self.world.handle().note(format_args!("partition {} begins anew", loss.partition));
            self.coverage.add("losses resolved", 1);
        }
    }

    /// Whether the last decision was carried out.
    fn has_begun_anew(&self, partition: u32) -> bool {
        self.checkpoint(partition).stand.era > 0
    }
}
