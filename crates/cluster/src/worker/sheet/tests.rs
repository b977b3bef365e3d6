//! What becomes of updates that are written on a sheet.

use super::*;

const A: Shard = Shard(0);
const B: Shard = Shard(1);

fn key(text: &str) -> Key {
    Key::from([text])
}

fn at(offset: u64) -> Position {
    Position { era: 0, offset, record: 0 }
}

fn sheet() -> Sheet {
    Sheet::new(BTreeMap::new(), HashMap::new(), Shown::default())
}

#[test]
fn operations_on_one_cell_become_one() {
    let mut sheet = sheet();
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    for (by, text) in [(1, "b"), (2, "a"), (4, "c")] {
        sheet.add(A, key("n"), by, None);
        sheet.min(A, key("n"), bytes(text));
        sheet.max(A, key("n"), bytes(text));
        sheet.last(A, key("n"), bytes(text), bytes(text));
        sheet.insert(A, key("n"), bytes(text));
        sheet.distinct(A, key("n"), bytes(text));
        sheet.sketch(A, key("n"), bytes(text));
    }
    let taken = sheet.take(at(1));
    let key = key("n");
    let members = vec![bytes("b"), bytes("a"), bytes("c")];
    let expected = [
        Operation::Add { key: key.clone(), by: 7, on_overflow: None },
        Operation::Min { key: key.clone(), rank: bytes("a") },
        Operation::Max { key: key.clone(), rank: bytes("c") },
        Operation::Last { key: key.clone(), rank: bytes("c"), value: bytes("c") },
        Operation::Insert { key: key.clone(), members: members.clone() },
        Operation::Distinct { key: key.clone(), members: members.clone() },
        Operation::Sketch { key, members },
    ];
    assert_eq!(taken[&A].operations, expected);
}

#[test]
fn a_spot_adds_to_the_same_operation_until_it_is_taken() {
    let mut sheet = sheet();
    let (mut number, mut set, mut count) = (Spot::default(), Spot::default(), Spot::default());
    for (round, texts) in [["a", "b"], ["c", "d"]].into_iter().enumerate() {
        for text in texts {
            sheet.add_at(&mut number, A, &key("n"), 1, || None);
            sheet.insert_at(&mut set, A, &key("n"), text.into());
            sheet.distinct_at(&mut count, A, &key("n"), text.into());
        }
        sheet.add(A, key("n"), 5, None);
        let members = || texts.map(Bytes::from).to_vec();
        let expected = [
            Operation::Add { key: key("n"), by: 2, on_overflow: None },
            Operation::Insert { key: key("n"), members: members() },
            Operation::Distinct { key: key("n"), members: members() },
            Operation::Add { key: key("n"), by: 5, on_overflow: None },
        ];
        assert_eq!(sheet.take(at(round as u64))[&A].operations, expected);
    }
}

#[test]
fn a_member_is_shown_once_to_a_shard_that_takes_it() {
    let marks = BTreeMap::from([(B, at(5))]);
    let mut sheet = Sheet::new(marks.clone(), HashMap::new(), Shown::default());
    let members = |sheet: &mut Sheet, end| -> Vec<(Shard, usize)> {
        let taken = sheet.take(at(end));
        let count = |mut operation: Operation| members_of(&mut operation).map_or(0, |m| m.len());
        let sum = |sheet: ShardSheet| sheet.operations.into_iter().map(count).sum();
        taken.into_iter().map(|(shard, sheet)| (shard, sum(sheet))).collect()
    };
    let show = |sheet: &mut Sheet, shard| {
        sheet.insert(shard, key("n"), "a".into());
        sheet.distinct_at(&mut Spot::default(), shard, &key("n"), "a".into());
    };
    for offset in [4, 5, 6] {
        sheet.turn_to(at(offset));
        show(&mut sheet, A);
        show(&mut sheet, B);
    }
    assert_eq!(members(&mut sheet, 7), [(A, 2), (B, 2)]);
    sheet.turn_to(at(7));
    show(&mut sheet, A);
    assert_eq!(members(&mut sheet, 8), [], "what was committed is known");
    sheet.turn_to(at(8));
    sheet.delete(A, Cell::new(Kind::Set, key("n")));
    show(&mut sheet, A);
    assert_eq!(members(&mut sheet, 9), [(A, 2)], "a set that was removed has no members");
    let (cells, shown) = sheet.into_known();
    let mut next = Sheet::new(marks, cells, shown);
    next.turn_to(at(9));
    show(&mut next, A);
    assert_eq!(members(&mut next, 10), [], "the next batch knows them");
}

#[test]
fn spots_of_one_cell_that_are_near_add_to_one_operation() {
    let mut sheet = sheet();
    let (mut one, mut other) = (Spot::default(), Spot::default());
    for round in 0..2 {
        for spot in [&mut one, &mut other] {
            sheet.add_near(spot, A, &key("n"), 1);
            sheet.add_near(spot, A, &key("n"), 1);
        }
        let expected = [Operation::Add { key: key("n"), by: 4, on_overflow: None }];
        assert_eq!(sheet.take(at(round))[&A].operations, expected);
    }
}

#[test]
fn a_spot_does_not_reach_over_a_deletion_nor_below_a_mark() {
    let mut sheet = Sheet::new(BTreeMap::from([(A, at(5))]), HashMap::new(), Shown::default());
    let mut spot = Spot::default();
    sheet.add_at(&mut spot, A, &key("n"), 1, || None);
    assert!(!sheet.takes(A));
    sheet.turn_to(at(5));
    assert!(sheet.takes(A));
    sheet.add_at(&mut spot, A, &key("n"), 2, || None);
    sheet.delete(A, Cell::new(Kind::Counter, key("n")));
    sheet.add_at(&mut spot, A, &key("n"), 4, || None);
    sheet.add_at(&mut spot, A, &key("n"), i64::MAX, || None);
    let sums: Vec<_> = sheet.take(at(6))[&A]
        .operations
        .iter()
        .filter_map(|operation| match operation {
            Operation::Add { by, .. } => Some(*by),
            _ => None,
        })
        .collect();
    assert_eq!(sums, [2, 4, i64::MAX]);
}

#[test]
fn what_follows_a_deletion_stays_behind_it() {
    let mut sheet = sheet();
    sheet.add(A, key("n"), 1, None);
    sheet.delete(A, Cell::new(Kind::Counter, key("n")));
    sheet.add(A, key("n"), 2, None);
    assert_eq!(sheet.take(at(1))[&A].operations.len(), 3);
}

#[test]
fn sums_that_would_overflow_are_not_merged() {
    let mut sheet = sheet();
    sheet.add(A, key("n"), i64::MAX, None);
    sheet.add(A, key("n"), 1, None);
    sheet.add(A, key("n"), 2, None);
    assert_eq!(sheet.take(at(1))[&A].operations.len(), 2);
}

#[test]
fn a_shard_past_the_record_is_left_alone() {
    let mut sheet = Sheet::new(BTreeMap::from([(A, at(5))]), HashMap::new(), Shown::default());
    for offset in 3..7 {
        sheet.turn_to(at(offset));
        sheet.add(A, key("n"), 1, None);
        sheet.add(B, key("n"), 1, None);
    }
    let taken = sheet.take(at(7));
    let sum = |shard| match &taken[&shard].operations[..] {
        [Operation::Add { by, .. }] => *by,
        other => panic!("{other:?}"),
    };
    assert_eq!((sum(A), sum(B)), (2, 4));
}

#[test]
fn a_cell_is_expected_once_and_read_through_what_was_planned() {
    let old = Some(Bytes::from_static(b"old"));
    let cells = HashMap::from([((A, key("c")), old.clone()), ((B, key("c")), None)]);
    let mut sheet = Sheet::new(BTreeMap::from([(B, at(9))]), cells, Shown::default());
    assert_eq!(sheet.read(A, &key("c")), old);
    assert_eq!(sheet.read(A, &key("c")), old);
    sheet.put(A, key("c"), Bytes::from_static(b"new"));
    assert_eq!(sheet.read(A, &key("c")).as_deref(), Some(&b"new"[..]));
    assert_eq!(sheet.read(B, &key("c")), None);
    let taken = sheet.take(at(1));
    assert_eq!(taken[&A].expects, [Expect::Bytes(key("c"), old)]);
    assert!(!taken.contains_key(&B));
    // A later commit expects what the earlier one left.
    sheet.turn_to(at(2));
    sheet.read(A, &key("c"));
    let new = Some(Bytes::from_static(b"new"));
    assert_eq!(sheet.take(at(3))[&A].expects, [Expect::Bytes(key("c"), new)]);
}

#[test]
fn a_cell_that_is_put_again_is_written_once() {
    let mut sheet = sheet();
    for text in ["one", "two", "three"] {
        sheet.put(A, key("c"), text.into());
        sheet.append(A, Note { feed: "f".parse().unwrap(), entry: text.into() });
    }
    let taken = sheet.take(at(1));
    let put = Operation::Put { key: key("c"), value: "three".into() };
    assert_eq!((taken[&A].operations.len(), &taken[&A].operations[0]), (4, &put));
    assert_eq!(taken[&A].bytes, 4 * CELL_BYTES + 5 + 11);
    // A later commit writes it again, and a deletion in between stays in between.
    sheet.turn_to(at(1));
    sheet.put(A, key("c"), "four".into());
    sheet.delete(A, Cell::new(Kind::Bytes, key("c")));
    sheet.put(A, key("c"), "five".into());
    assert_eq!(sheet.take(at(2))[&A].operations.len(), 3);
}

#[test]
fn an_owned_cell_is_read_through_what_was_planned_and_not_expected() {
    let old = Some(Bytes::from_static(b"old"));
    let cells = HashMap::from([((A, key("c")), old.clone())]);
    let mut sheet = Sheet::new(BTreeMap::new(), cells, Shown::default());
    assert_eq!(sheet.read_owned(A, &key("c")), old);
    sheet.put(A, key("c"), "new".into());
    assert_eq!(sheet.read_owned(A, &key("c")), Some("new".into()));
    assert_eq!(sheet.take(at(1))[&A].expects, []);
}

#[test]
#[should_panic(expected = "was not named by `reads`")]
fn a_cell_that_was_not_named_is_not_read() {
    sheet().read_owned(A, &key("c"));
}

#[test]
#[should_panic(expected = "the plan named")]
fn a_shard_that_was_not_named_is_not_touched() {
    let mut sheet = sheet().of_tenure(7, Some(vec![A]));
    assert_eq!(sheet.epoch(), 7);
    sheet.put(A, key("c"), "x".into());
    sheet.put(B, key("c"), "x".into());
}

#[test]
fn expectations_and_reserved_room_fill_a_sheet() {
    let large = Some(Bytes::from(vec![0; FULL_BYTES]));
    let cells = HashMap::from([((A, key("c")), large)]);
    let mut sheet = Sheet::new(BTreeMap::new(), cells, Shown::default());
    sheet.read(A, &key("c"));
    assert!(sheet.is_full(), "an expectation travels as a value does");
    sheet.take(at(1));
    sheet.turn_to(at(1));
    sheet.reserve(A, FULL_BYTES / 2);
    assert!(!sheet.is_full());
    sheet.reserve(A, FULL_BYTES / 2);
    assert!(sheet.is_full());
    sheet.take(at(2));
    assert!(!sheet.is_full(), "what was reserved is written by then");
    let mut sheet = Sheet::default().with_full_steps(2);
    sheet.add(A, key("a"), 1, None);
    assert!(!sheet.is_full());
    sheet.add(A, key("b"), 1, None);
    assert!(sheet.is_full());
}

#[test]
fn a_sheet_is_full_before_a_commit_is_refused() {
    let mut sheet = sheet();
    let mut members = 0u32;
    while !sheet.is_full() {
        sheet.insert(A, key("s"), Bytes::copy_from_slice(&members.to_be_bytes()));
        members += 1;
    }
    assert_eq!(members as usize, FULL_STEPS);
    sheet.take(at(1));
    assert!(!sheet.is_full());
    sheet.turn_to(at(1));
    sheet.put(A, key("v"), vec![0; FULL_BYTES].into());
    assert!(sheet.is_full());
}
