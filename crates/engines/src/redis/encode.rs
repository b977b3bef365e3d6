//! A commit as the script's arguments: expectations, then operations in runs.
//!
//! Operations of one kind that follow each other and touch different cells become one run, which the
//! script reads and writes with one command each way. That is what makes a commit of a thousand
//! additions cheaper than a thousand commands.

use std::collections::HashSet;

use bytes::Bytes;
use consort_kernel::{Cell, Commit, Digest, Expect, Kind, Operation, Shard};

/// Cells in one run: the script passes up to three arguments for each to one command, and Lua's stack
/// holds 8000.
const RUN_CELLS: usize = 1_000;

/// The script's arguments.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    parts: Vec<Bytes>,
    run: Option<Run>,
    runs: usize,
}

/// A run that is being filled.
#[derive(Debug)]
struct Run {
    letter: char,
    /// What must be the same for all of the run: a feed's name.
    shared: Option<Bytes>,
    /// Where in the commit it began.
    place: usize,
    seen: HashSet<Bytes>,
    cells: usize,
    parts: Vec<Bytes>,
}

/// The arguments for a commit, with the channel and message that wake those who wait.
pub(super) fn arguments(commit: &Commit, shard: Shard, channel: &str) -> Vec<Bytes> {
    let mut arguments = Arguments::default();
    arguments.push(commit.expects.len().to_string());
    for expect in &commit.expects {
        arguments.expect(expect);
    }
    let at = arguments.parts.len();
    for (place, operation) in commit.operations.iter().enumerate() {
        arguments.operation(place, operation);
    }
    arguments.finish();
    arguments.parts.insert(at, arguments.runs.to_string().into());
    arguments.push(channel.to_string());
    let topics = commit.topics(shard).into_iter().flat_map(|topic| topic.0.to_le_bytes());
    arguments.push(topics.collect::<Vec<u8>>());
    arguments.parts
}

/// The letter by which scripts know a kind.
pub(super) fn kind(kind: Kind) -> Bytes {
    Bytes::copy_from_slice(&[kind.code()])
}

impl Arguments {
    fn push(&mut self, part: impl Into<Bytes>) {
        self.parts.push(part.into());
    }

    fn expect(&mut self, expect: &Expect) {
        let Cell { kind: of, key } = expect.cell();
        self.push(kind(of));
        self.push(key.to_bytes());
        let value = match expect {
            Expect::Bytes(_, value) => value.clone(),
            Expect::Counter(_, number) => number.map(|number| number.to_string().into()),
        };
        match value {
            Some(value) => {
                self.push("1");
                self.push(value);
            }
            None => self.push("0"),
        }
    }

    fn operation(&mut self, place: usize, operation: &Operation) {
        match operation {
            Operation::Put { key, value } => {
                self.cell('P', place, key.to_bytes(), [value.clone()]);
            }
            Operation::Add { key, by, on_overflow: None } => {
                self.cell('A', place, key.to_bytes(), [by.to_string().into()]);
            }
            Operation::Add { key, by, on_overflow: Some(note) } => {
                let digest = Bytes::copy_from_slice(&Digest::of(&note.entry).0);
                let feed = Bytes::copy_from_slice(note.feed.as_str().as_bytes());
                let parts = [
                    place.to_string().into(),
                    key.to_bytes(),
                    by.to_string().into(),
                    feed,
                    note.entry.clone(),
                    digest,
                ];
                self.whole('N', 1, parts);
            }
            Operation::Min { key, rank } => {
                self.cell('I', place, key.to_bytes(), [rank.clone()]);
            }
            Operation::Max { key, rank } => {
                self.cell('X', place, key.to_bytes(), [rank.clone()]);
            }
            Operation::Last { key, rank, value } => {
                self.cell('L', place, key.to_bytes(), [rank.clone(), value.clone()]);
            }
            Operation::Insert { key, members } => self.members('S', key.to_bytes(), members),
            Operation::Distinct { key, members } => self.members('U', key.to_bytes(), members),
            Operation::Sketch { key, members } => self.members('K', key.to_bytes(), members),
            Operation::Delete(cell) => {
                self.whole('D', 1, [kind(cell.kind), cell.key.to_bytes()]);
            }
            Operation::Expire { cell, at } => {
                let at = at.map_or(Bytes::new(), |at| at.0.to_string().into());
                self.whole('E', 1, [kind(cell.kind), cell.key.to_bytes(), at]);
            }
            Operation::Append(note) => {
                let digest = Bytes::copy_from_slice(&Digest::of(&note.entry).0);
                let feed = Bytes::copy_from_slice(note.feed.as_str().as_bytes());
                self.join('F', place, Some(feed));
                self.fill(None, [note.entry.clone(), digest]);
            }
        }
    }

    /// One cell of a run in which every cell is another.
    fn cell<const N: usize>(&mut self, letter: char, place: usize, key: Bytes, parts: [Bytes; N]) {
        if self.run.as_ref().is_some_and(|run| run.seen.contains(&key)) {
            self.finish();
        }
        self.join(letter, place, None);
        self.fill(Some(key), parts);
    }

    /// Makes sure that a run of this kind is being filled.
    fn join(&mut self, letter: char, place: usize, shared: Option<Bytes>) {
        let fits = self.run.as_ref().is_some_and(|run| {
            let next = run.place + run.cells == place;
            next && run.letter == letter && run.shared == shared && run.cells < RUN_CELLS
        });
        if !fits {
            self.finish();
            let (seen, parts) = (HashSet::new(), Vec::new());
            self.run = Some(Run { letter, shared, place, seen, cells: 0, parts });
        }
    }

    fn fill<const N: usize>(&mut self, key: Option<Bytes>, parts: [Bytes; N]) {
        if let Some(run) = &mut self.run {
            if let Some(key) = key {
                run.seen.insert(key.clone());
                run.parts.push(key);
            }
            run.parts.extend(parts);
            run.cells += 1;
        }
    }

    /// A run that is complete as it is.
    fn whole<const N: usize>(&mut self, letter: char, count: usize, parts: [Bytes; N]) {
        self.finish();
        self.push(letter.to_string());
        self.push(count.to_string());
        self.parts.extend(parts);
        self.runs += 1;
    }

    fn members(&mut self, letter: char, key: Bytes, members: &[Bytes]) {
        for chunk in members.chunks(RUN_CELLS) {
            self.whole(letter, chunk.len(), [key.clone()]);
            self.parts.extend(chunk.iter().cloned());
        }
    }

    fn finish(&mut self) {
        if let Some(run) = self.run.take() {
            self.push(run.letter.to_string());
            self.push(run.cells.to_string());
            if run.letter == 'A' {
                // What was left out is told by its place in the commit.
                self.push(run.place.to_string());
            }
            self.parts.extend(run.shared);
            self.parts.extend(run.parts);
            self.runs += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kernel::{Key, Name, Note};

    fn add(text: &str, by: i64) -> Operation {
        Operation::Add { key: Key::from([text]), by, on_overflow: None }
    }

    fn letters(operations: Vec<Operation>) -> Vec<String> {
        let parts = arguments(&Commit::of(operations), Shard(0), "channel");
        let text = |part: &Bytes| String::from_utf8_lossy(part).into_owned();
        let runs = parts.iter().map(text).zip(parts.iter().skip(1).map(text));
        let letter = |text: &String| text.len() == 1 && text.as_bytes()[0].is_ascii_uppercase();
        runs.filter(|(part, _)| letter(part)).map(|(a, b)| format!("{a}{b}")).collect()
    }

    #[test]
    fn neighbours_of_a_kind_become_one_run() {
        let put = Operation::Put { key: Key::from(["p"]), value: Bytes::new() };
        let note = |feed: &str| {
            Operation::Append(Note { feed: Name::new(feed).unwrap(), entry: Bytes::new() })
        };
        let operations = vec![
            add("a", 1),
            add("b", 1),
            add("a", 1),
            put.clone(),
            add("a", 1),
            note("f"),
            note("f"),
            note("g"),
        ];
        assert_eq!(letters(operations), ["A2", "A1", "P1", "A1", "F2", "F1"]);
    }

    #[test]
    fn a_run_has_no_holes() {
        let nothing = Operation::Insert { key: Key::from(["s"]), members: vec![] };
        assert_eq!(letters(vec![add("a", 1), nothing, add("b", 1)]), ["A1", "A1"]);
    }

    #[test]
    fn a_run_is_bounded() {
        let many = (0..RUN_CELLS + 1).map(|n| add(&n.to_string(), 1)).collect();
        assert_eq!(letters(many), ["A1000", "A1"]);
        let members = vec![Bytes::from_static(b"m"); 2 * RUN_CELLS + 1];
        let insert = Operation::Insert { key: Key::from(["s"]), members };
        assert_eq!(letters(vec![insert]), ["S1000", "S1000", "S1"]);
    }
}
