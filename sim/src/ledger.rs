//! What producers were told: everything acknowledged must be in the log and count, and what failed must
//! not be there.

use std::collections::{BTreeMap, BTreeSet};

use consort_kernel::{AppendError, LogEntry, Producer};
use parking_lot::Mutex;

use crate::event::Event;
use crate::fold::fresh;

/// One append, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// What is known of one append.
#[derive(Clone, Debug)]
struct Append {
    partition: u32,
    serials: Vec<u64>,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Nobody was told: it is under way, or its producer died.
    Open,
    Acknowledged(Producer, u64),
    Unknown,
    Failed,
}

/// All appends of a run.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    appends: BTreeMap<Ticket, Append>,
    next_serial: u64,
}

/// How the appends of a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    /// Nobody was told.
    pub(crate) open: u64,
    /// They are there.
    pub(crate) acknowledged: u64,
    /// They may be there.
    pub(crate) unknown: u64,
    /// They are not there.
    pub(crate) failed: u64,
}

impl Ledger {
    /// A number for a record.
    pub(crate) fn serial(&self) -> u64 {
        let mut pages = self.0.lock();
        pages.next_serial += 1;
        pages.next_serial
    }

    /// An append of these records begins.
    pub(crate) fn open(&self, partition: u32, serials: Vec<u64>) -> Ticket {
        let mut pages = self.0.lock();
        let ticket = Ticket(pages.appends.len() as u64);
        pages.appends.insert(ticket, Append { partition, serials, fate: Fate::Open });
        ticket
    }

    /// Its producer was told that it is in the log.
    pub(crate) fn acknowledge(&self, ticket: Ticket, producer: Producer, sequence: u64) {
        self.settle(ticket, Fate::Acknowledged(producer, sequence));
    }

    /// Its producer was told that it failed.
    pub(crate) fn fail(&self, ticket: Ticket, error: &AppendError) {
        self.settle(
            ticket,
            match error {
                AppendError::Unknown(_) => Fate::Unknown,
                AppendError::Engine(_) | AppendError::Refused(_) => Fate::Failed,
            },
        );
    }

    fn settle(&self, ticket: Ticket, fate: Fate) {
        if let Some(append) = self.0.lock().appends.get_mut(&ticket) {
            append.fate = fate;
        }
    }

    /// How many there are of each.
    pub(crate) fn fates(&self) -> Fates {
        let mut fates = Fates::default();
        for append in self.0.lock().appends.values() {
            *match append.fate {
                Fate::Open => &mut fates.open,
                Fate::Acknowledged(..) => &mut fates.acknowledged,
                Fate::Unknown => &mut fates.unknown,
                Fate::Failed => &mut fates.failed,
            } += 1;
        }
        fates
    }

    /// What the log holds against what producers were told; `lost` is what it lost on purpose.
    pub(crate) fn check(
        &self,
        log: &BTreeMap<u32, Vec<LogEntry>>,
        lost: &BTreeMap<u32, Vec<LogEntry>>,
    ) -> Result<(), String> {
        let counted = places(log, fresh);
        let stored = places(log, |entries| entries.iter().collect());
        let lost = places(lost, |entries| entries.iter().collect());
        let serials: BTreeSet<u64> =
            stored.values().chain(lost.values()).flatten().copied().collect();
        for append in self.0.lock().appends.values() {
            let Append { partition, serials: sent, fate } = append;
            match fate {
                Fate::Acknowledged(producer, sequence) => {
                    let place = (*partition, producer.0, *sequence);
                    let what = || format!("{producer}'s frame {sequence} of partition {partition}");
                    if lost.contains_key(&place) {
                        continue;
                    }
                    match (stored.get(&place), counted.get(&place)) {
                        (Some(_), Some(counted)) if counted == sent => {}
                        (None, _) => {
                            return Err(format!("{} was acknowledged and is not there", what()));
                        }
                        _ => return Err(format!("{} was acknowledged and does not count", what())),
                    }
                }
                Fate::Failed if sent.iter().any(|serial| serials.contains(serial)) => {
                    return Err(format!("records {sent:?} are in the log although they failed"));
                }
                Fate::Failed | Fate::Open | Fate::Unknown => {}
            }
        }
        Ok(())
    }
}

type Places = BTreeMap<(u32, u64, u64), Vec<u64>>;

/// The serials by partition, producer and sequence.
fn places(
    log: &BTreeMap<u32, Vec<LogEntry>>,
    select: impl Fn(&[LogEntry]) -> Vec<&LogEntry>,
) -> Places {
    let mut places = Places::new();
    for (&partition, entries) in log {
        for LogEntry { frame, .. } in select(entries) {
            let serials = match frame.kind {
                consort_kernel::FrameKind::Events => {
                    frame.records.iter().map(|record| Event::decode(record).serial).collect()
                }
                consort_kernel::FrameKind::Control => Vec::new(),
            };
            places.insert((partition, frame.producer.0, frame.sequence), serials);
        }
    }
    places
}
