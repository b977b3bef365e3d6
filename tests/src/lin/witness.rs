//! The check with a witness: the feed of the database has every write with its index and in its order, and every answer
//! must agree with it.
//!
//! Writes add a row to a history table, because writes of one group share an index and a changeset keeps only the
//! final values of a row.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::feed::FeedRows;
use super::history::{CallAction, ClientCall, ClientRead, ReadLevel, Row, RowCell, ToldOutcome};

/// The names and bounds that a history is checked by.
#[derive(Clone, Copy, Debug)]
pub struct WitnessRules {
    /// The name of the history table. Its columns are an id, the stamp of the write, and the note of the write.
    pub history: &'static str,
    /// The age that no default read may exceed.
    pub max_stale: Duration,
}

/// The calls of a history that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WitnessCounts {
    /// Writes that were acknowledged, and are in the feed.
    pub stored: usize,
    /// Writes with an unknown outcome that are in the feed.
    pub settled: usize,
    /// Writes with an unknown outcome that are not.
    pub vanished: usize,
    /// Writes that were refused, and are not in the feed.
    pub refused: usize,
    /// Reads.
    pub reads: usize,
}

/// A broken rule, with the calls and rows that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessViolation {
    /// The rule, as a sentence.
    pub rule: &'static str,
    /// The lines that show it.
    pub part: Vec<String>,
}

impl fmt::Display for WitnessViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {}\n  {}", self.rule, self.part.join("\n  "))
    }
}

/// Compares a history with the feed.
pub fn check(
    calls: &[ClientCall],
    feed: &FeedRows,
    rules: &WitnessRules,
) -> Result<WitnessCounts, WitnessViolation> {
    let written = written(feed, rules.history)?;
    let mut counts = WitnessCounts::default();
    let mut placed = Vec::new();
    let mut sent = BTreeMap::new();
    for call in calls {
        let index = match &call.action {
            CallAction::Write(write) => {
                if let Some(other) = sent.insert(write.stamp, call) {
                    let part = vec![other.to_string(), call.to_string()];
                    return Err(broken("each write has a stamp of its own", part));
                }
                place(call, written.get(&write.stamp), &mut counts)?
            }
            CallAction::Read(read) => {
                check_read(call, read, feed)?;
                counts.reads += 1;
                Some(read.index)
            }
        };
        placed.extend(index.map(|index| Placed { call, index }));
    }
    if let Some((stamp, at)) = written.iter().find(|(stamp, _)| !sent.contains_key(stamp)) {
        let part = vec![format!("{stamp} at index {}: {:?}", at.index, at.row)];
        return Err(broken("every write in the feed was sent by a client", part));
    }
    check_order(&placed)?;
    check_age(&placed, rules.max_stale)?;
    Ok(counts)
}

/// A call, and the index at which it took place.
#[derive(Clone, Copy)]
struct Placed<'a> {
    call: &'a ClientCall,
    index: u64,
}

/// A row of the history table.
struct Written<'a> {
    index: u64,
    row: &'a Row,
}

/// The writes in the feed, by stamp.
fn written<'a>(
    feed: &'a FeedRows,
    history: &str,
) -> Result<BTreeMap<i64, Written<'a>>, WitnessViolation> {
    let mut written: BTreeMap<i64, Written<'a>> = BTreeMap::new();
    for (index, row) in feed.added(history) {
        let Some(RowCell::Integer(stamp)) = row.get(1) else {
            let part = vec![format!("index {index}: {row:?}")];
            return Err(broken("a row of the history has an id and a stamp", part));
        };
        if let Some(before) = written.insert(*stamp, Written { index, row }) {
            let part = vec![
                format!("{stamp} at index {}: {:?}", before.index, before.row),
                format!("{stamp} at index {index}: {row:?}"),
            ];
            return Err(broken("a write takes effect at most once", part));
        }
    }
    Ok(written)
}

/// The index at which a write took effect, if it did: as its client was told.
fn place(
    call: &ClientCall,
    written: Option<&Written<'_>>,
    counts: &mut WitnessCounts,
) -> Result<Option<u64>, WitnessViolation> {
    let CallAction::Write(write) = &call.action else { return Ok(None) };
    let fail = |rule| Err(broken(rule, vec![call.to_string(), shown(written)]));
    match (write.outcome, written) {
        (ToldOutcome::Stored { .. }, None) => {
            return fail("an acknowledged write is in the feed");
        }
        (ToldOutcome::Stored { index: Some(index) }, Some(written)) if index != written.index => {
            return fail("an acknowledged write is in the feed at the index of its answer");
        }
        (ToldOutcome::NotStored | ToldOutcome::Unmet, Some(_)) => {
            return fail("a refused write is nowhere in the feed");
        }
        (ToldOutcome::Stored { .. }, _) => counts.stored += 1,
        (ToldOutcome::Unknown, Some(_)) => counts.settled += 1,
        (ToldOutcome::Unknown, None) => counts.vanished += 1,
        (ToldOutcome::NotStored | ToldOutcome::Unmet, None) => counts.refused += 1,
    }
    match written {
        Some(written) if written.row[2..] != write.note => {
            fail("a write is in the feed as it was sent")
        }
        Some(written) => Ok(Some(written.index)),
        None => Ok(None),
    }
}

fn shown(written: Option<&Written<'_>>) -> String {
    match written {
        Some(written) => format!("in the feed at index {}: {:?}", written.index, written.row),
        None => "not in the feed".to_owned(),
    }
}

/// A read has the rows of its index, which is as late as the client asked for.
fn check_read(
    call: &ClientCall,
    read: &ClientRead,
    feed: &FeedRows,
) -> Result<(), WitnessViolation> {
    let shown = |line: String| vec![call.to_string(), line];
    if read.index > feed.end() {
        let part = shown(format!("the feed ends at index {}", feed.end()));
        return Err(broken("a read names an index that the feed has", part));
    }
    if let ReadLevel::After(position) = read.level
        && read.index < position
    {
        let part = shown(format!("it is behind index {position}"));
        return Err(broken("a read with Consort-After has that index or a later one", part));
    }
    let expected = feed.rows(read.table, read.key, read.index);
    if !expected.iter().copied().eq(&read.rows) {
        let part = shown(format!("the feed has {expected:?}"));
        return Err(broken("a read has the rows of its index", part));
    }
    Ok(())
}

/// Calls that follow one another in time follow one another in the feed: a write comes behind all that ended before
/// it began, a strong read has all of it.
fn check_order(placed: &[Placed<'_>]) -> Result<(), WitnessViolation> {
    let mut ended = Latest::new(placed);
    for later in by_begin(placed) {
        let Some(earlier) = ended.before(later.call.span.began) else { continue };
        let rule = match &later.call.action {
            CallAction::Write(_) if later.index <= earlier.index => {
                "a write comes behind all calls that ended before it began"
            }
            CallAction::Read(ClientRead { level: ReadLevel::Strong, .. })
                if later.index < earlier.index =>
            {
                "a strong read is not older than a call that ended before it began"
            }
            _ => continue,
        };
        return Err(pair(rule, earlier, later));
    }
    Ok(())
}

/// A default read is not older than `max_stale`.
fn check_age(placed: &[Placed<'_>], max_stale: Duration) -> Result<(), WitnessViolation> {
    let max_stale = u64::try_from(max_stale.as_nanos()).unwrap_or(u64::MAX);
    let mut ended = Latest::new(placed);
    for later in by_begin(placed) {
        let CallAction::Read(ClientRead { level: ReadLevel::Any, .. }) = later.call.action else {
            continue;
        };
        let fresh_from = later.call.span.began.saturating_sub(max_stale);
        if let Some(earlier) = ended.before(fresh_from)
            && later.index < earlier.index
        {
            return Err(pair("a default read is not older than max_stale", earlier, later));
        }
    }
    Ok(())
}

fn by_begin<'a>(placed: &[Placed<'a>]) -> Vec<Placed<'a>> {
    let mut sorted = placed.to_vec();
    sorted.sort_by_key(|placed| placed.call.span.began);
    sorted
}

fn pair(rule: &'static str, earlier: Placed<'_>, later: Placed<'_>) -> WitnessViolation {
    let line = |placed: Placed<'_>| format!("index {}: {}", placed.index, placed.call);
    broken(rule, vec![line(earlier), line(later)])
}

fn broken(rule: &'static str, part: Vec<String>) -> WitnessViolation {
    WitnessViolation { rule, part }
}

/// The call with the highest index among those that ended before a moment, for moments that only grow.
struct Latest<'a> {
    /// Calls with an end, the last one first.
    waiting: Vec<(u64, Placed<'a>)>,
    highest: Option<Placed<'a>>,
}

impl<'a> Latest<'a> {
    fn new(placed: &[Placed<'a>]) -> Latest<'a> {
        let ended = placed.iter().filter_map(|one| Some((one.call.span.ended?, *one)));
        let mut waiting: Vec<_> = ended.collect();
        waiting.sort_by_key(|(ended, _)| std::cmp::Reverse(*ended));
        Latest { waiting, highest: None }
    }

    fn before(&mut self, moment: u64) -> Option<Placed<'a>> {
        while let Some((_, placed)) = self.waiting.pop_if(|(ended, _)| *ended < moment) {
            if self.highest.is_none_or(|highest| highest.index < placed.index) {
                self.highest = Some(placed);
            }
        }
        self.highest
    }
}

#[cfg(test)]
mod tests;
