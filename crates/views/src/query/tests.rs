//! Queries on a store whose cells were put there by hand.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use consort_kernel::{
    Commit, ManualClock, Moment, Operation, Timestamp, memory, memory::MemoryStore,
};

use futures::poll;

use super::windows::WINDOWS_MOST;
use super::*;
use crate::expression::Expression;
use crate::schema::{Field, Schema, Unknown};
use crate::stream::Stream;
use crate::view::{Answer, GroupField, Shown};
use crate::window::{Late, WindowState, Windows};

fn view(aggregate: impl FnOnce(&dyn Fn(&str) -> Expression) -> Aggregate) -> Arc<View> {
    let fields = [("season", "text"), ("skier", "int"), ("lift", "int"), ("paid", "decimal(2)")];
    let field = |(name, ty): (&str, &str)| Field { name: name.into(), ty: ty.parse().unwrap() };
    let schema = Arc::new(Schema::new(fields.map(field).into(), Unknown::Reject));
    let expression = |text: &str| Expression::parse(text, &schema).unwrap();
    let group = |name: &str| GroupField { name: name.into(), expression: expression(name) };
    let stream = Stream {
        name: "rides".parse().unwrap(),
        schema: Arc::clone(&schema),
        key: Vec::new(),
        id: None,
        ids_for: Duration::ZERO,
        time: None,
        partitions: 1,
        retain: Duration::ZERO,
        route: None,
    };
    Arc::new(View {
        name: "v".parse().unwrap(),
        number: 3,
        from: Arc::new(stream),
        by: vec![group("season"), group("skier")],
        aggregate: aggregate(&expression),
        condition: None,
        windows: None,
        sinks: Vec::new(),
        routes: Vec::new(),
        answer: None,
    })
}

fn store() -> MemoryStore {
    memory::open(4, Arc::new(ManualClock::at(Timestamp(1)))).1
}

fn key(view: &View, season: &str, skier: i64) -> Key {
    let values = [Value::Text(season.into()), Value::Int(skier)];
    keys::group(&keys::groups(view), &values)
}

async fn commit(store: &MemoryStore, key: &Key, operation: Operation) {
    let shard = keys::shard(key, store.shards());
    store.commit(shard, Commit::of([operation])).await.unwrap();
}

async fn counted(store: &MemoryStore, view: &View, season: &str, skier: i64, by: i64) {
    let key = key(view, season, skier);
    let add = Operation::Add { key: key.clone(), by, on_overflow: None };
    commit(store, &key, add).await;
}

/// The length of the windows of [`windowed`], in nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// The view with windows of a second.
fn windowed(view: &View) -> Arc<View> {
    let windows = Windows {
        length: Duration::from_secs(1),
        grace: Duration::ZERO,
        keep: Duration::from_secs(3_600),
        late: Late::Amend,
    };
    Arc::new(View { windows: Some(windows), ..View::clone(view) })
}

/// A group of the season "a" in one of the windows.
fn key_in(view: &View, window: i64, skier: i64) -> Key {
    let groups = keys::window_groups(view, Moment(window * SECOND));
    keys::group(&groups, &[Value::Text("a".into()), Value::Int(skier)])
}

async fn open_windows(store: &MemoryStore, view: &View, many: i64) {
    for number in 0..many {
        let key = keys::window(view, Moment(number * SECOND));
        let value = WindowState::opened(Timestamp(1)).encode();
        commit(store, &key, Operation::Put { key: key.clone(), value }).await;
    }
}

/// A set as long as a list shows one, with members of a thousand bytes.
async fn large_set(store: &MemoryStore, key: Key) {
    let text = |n: usize| Key::from([format!("{n:0>1000}").as_str()]).to_bytes();
    let members = (0..MEMBERS_LISTED).map(text).collect();
    commit(store, &key, Operation::Insert { key: key.clone(), members }).await;
}

/// Asks for all groups. The memory engine answers at once, so the query yields only where it says so.
async fn counting_yields(store: &MemoryStore, view: &Arc<View>) -> (Page, usize) {
    let query = Query::new(view, [("limit", "1000")]).unwrap();
    let (mut answering, mut yields) = (pin!(query.answer(store)), 0);
    loop {
        match poll!(&mut answering) {
            Poll::Ready(page) => return (page.unwrap(), yields),
            Poll::Pending => yields += 1,
        }
    }
}

#[test]
fn what_a_view_does_not_have_is_refused_with_what_there_is() {
    let view = view(|_| Aggregate::Count);
    let cases: [(&[(&str, &str)], &str); 9] = [
        (&[("skeir", "1")], "the view 'v' has no field 'skeir'; its fields are 'season', 'skier'"),
        (&[("skier", "1")], "'skier' is given without 'season'"),
        (
            &[("season", "x"), ("skier", "one")],
            "'skier' must be a whole number of 64 bits, not 'one'",
        ),
        (&[("season", "x"), ("season", "y")], "'season' is given twice"),
        (&[("limit", "0")], "'limit' must be a whole number from 1 to 1000, not '0'"),
        (&[("limit", "1001")], "'limit' must be a whole number from 1 to 1000"),
        (&[("after", "zz")], "'after' is no cursor of this query"),
        (&[("after", "0200")], "'after' is no cursor of this query"),
        (&[("season", "x"), ("skier", "1"), ("after", "00")], "'after' is no cursor of this query"),
    ];
    for (parameters, expected) in cases {
        let refused = Query::new(&view, parameters.iter().copied()).unwrap_err().to_string();
        assert!(refused.starts_with(expected), "{parameters:?}: {refused}");
    }
}

#[tokio::test]
async fn one_group_has_its_value_or_the_aggregates_zero() {
    let (store, counts) = (store(), view(|_| Aggregate::Count));
    counted(&store, &counts, "2020", 45, 12).await;
    let ask = async |view: &Arc<View>, skier: &str| {
        let query = Query::new(view, [("season", "2020"), ("skier", skier)]).unwrap();
        query.answer(&store).await.unwrap().json(view).collect::<String>()
    };
    let expected = r#"{"view":"v","group":{"season":"2020","skier":45},"value":12}"#;
    assert_eq!(ask(&counts, "45").await, expected);
    let zeros = [
        (counts.clone(), "0"),
        (view(|e| Aggregate::Sum(e("paid"))), "0.00"),
        (view(|e| Aggregate::Min(e("lift"))), "null"),
        (view(|e| Aggregate::Last(e("season"))), "null"),
        (view(|e| Aggregate::Distinct(vec![e("lift")])), "0"),
        (view(|e| Aggregate::Set(e("lift"))), "[]"),
        (view(|e| Aggregate::DistinctApprox(vec![e("lift")])), "0"),
    ];
    for (view, zero) in zeros {
        let answer = ask(&view, "7").await;
        assert!(answer.ends_with(&format!("\"value\":{zero}}}")), "{answer}");
    }
}

#[tokio::test]
async fn groups_come_in_order_page_by_page_from_all_shards() {
    let (store, view) = (store(), view(|_| Aggregate::Count));
    for skier in -30..30 {
        counted(&store, &view, "a", skier, skier + 100).await;
        counted(&store, &view, "b", skier, 1).await;
    }
    let (mut found, mut after, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let cursor = after.as_deref().map(|after| ("after", after));
        let parameters = [("season", "a"), ("limit", "7")].into_iter().chain(cursor);
        let page = Query::new(&view, parameters).unwrap().answer(&store).await.unwrap();
        pages += 1;
        found.extend(page.rows.iter().map(|row| (row.group[1].clone(), row.outcome.clone())));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let value = |number| Outcome::Value(Some(Value::Int(number)));
    let expected: Vec<_> = (-30..30).map(|skier| (Value::Int(skier), value(skier + 100))).collect();
    assert_eq!((found, pages), (expected, 9));
    let none = Query::new(&view, [("season", "c")]).unwrap().answer(&store).await.unwrap();
    assert_eq!(none.json(&view).collect::<String>(), r#"{"view":"v","groups":[],"next":null}"#);
}

#[tokio::test]
async fn a_large_set_is_shown_in_pages_and_shortened_in_lists() {
    let (store, view) = (store(), view(|e| Aggregate::Set(e("lift"))));
    let key = key(&view, "a", 1);
    let members: Vec<Bytes> = (0..250).map(|n: i64| Key::of([n.into()]).to_bytes()).collect();
    commit(&store, &key, Operation::Insert { key: key.clone(), members }).await;
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let cursor = after.as_deref().map(|after| ("after", after));
        let parameters = [("season", "a"), ("skier", "1"), ("limit", "120")];
        let query = Query::new(&view, parameters.into_iter().chain(cursor)).unwrap();
        let mut page = query.answer(&store).await.unwrap();
        let Some(Row { outcome: Outcome::Members(members), .. }) = page.rows.pop() else {
            panic!()
        };
        found.extend(members);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, (0..250).map(Value::Int).collect::<Vec<_>>());
    let listed = Query::new(&view, []).unwrap().answer(&store).await.unwrap();
    assert!(
        listed.rows[0].more
            && listed.json(&view).collect::<String>().contains("99],\"more\":true}")
    );
}

#[tokio::test]
async fn a_page_of_large_sets_ends_early_and_says_how_to_go_on() {
    const GROUPS: i64 = 3 * ROWS_AT_ONCE as i64;
    let (store, view) = (store(), view(|e| Aggregate::Set(e("season"))));
    for skier in 0..GROUPS {
        large_set(&store, key(&view, "a", skier)).await;
    }
    let all = [("season", "a"), ("limit", "1000")];
    let first = Query::new(&view, all).unwrap().answer(&store).await.unwrap();
    let bytes: usize = first.rows.iter().map(Row::bytes).sum();
    assert!((PAGE_BYTES..2 * PAGE_BYTES).contains(&bytes), "{bytes}");
    let next = first.next.as_deref().expect("there is more");
    let query = Query::new(&view, all.into_iter().chain([("after", next)])).unwrap();
    let second = query.answer(&store).await.unwrap();
    assert_eq!(second.next, None);
    let rows = first.rows.iter().chain(&second.rows);
    let skiers: Vec<_> = rows.map(|row| row.group[1].clone()).collect();
    assert_eq!(skiers, (0..GROUPS).map(Value::Int).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_page_looks_through_a_bounded_number_of_windows_and_the_next_goes_on() {
    const WINDOWS: i64 = WINDOWS_MOST as i64 + 500;
    let (store, view) = (store(), windowed(&view(|_| Aggregate::Count)));
    open_windows(&store, &view, WINDOWS).await;
    let group = |number: i64, skier: i64| key_in(&view, number, skier);
    // The last window of the first page has groups, and so has one of the second.
    let kept = [(WINDOWS_MOST as i64 - 1, 1), (WINDOWS_MOST as i64 - 1, 2), (WINDOWS - 100, 1)];
    for (number, skier) in kept {
        let key = group(number, skier);
        let add = Operation::Add { key: key.clone(), by: 1, on_overflow: None };
        commit(&store, &key, add).await;
    }
    for (given, expected) in [
        (&[("season", "a"), ("skier", "1")][..], &[1, 1][..]),
        (&[("season", "a")][..], &[1, 2, 1][..]),
        (&[("season", "a"), ("skier", "3")][..], &[][..]),
        (&[][..], &[1, 2, 1][..]),
    ] {
        let (mut skiers, mut after, mut pages) = (Vec::new(), None::<String>, 0);
        loop {
            let cursor = after.as_deref().map(|after| ("after", after));
            let parameters = given.iter().copied().chain(cursor);
            let page = Query::new(&view, parameters).unwrap().answer(&store).await.unwrap();
            skiers.extend(page.rows.iter().map(|row| row.group[1].clone()));
            pages += 1;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let expected: Vec<_> = expected.iter().copied().map(Value::Int).collect();
        assert_eq!((skiers, pages), (expected, 2), "{given:?}");
    }
}

#[tokio::test]
async fn a_page_of_many_groups_is_put_together_in_steps() {
    let (store, view) = (store(), view(|_| Aggregate::Count));
    for skier in 0..1_000 {
        counted(&store, &view, "a", skier, 1).await;
    }
    let (page, yields) = counting_yields(&store, &view).await;
    assert_eq!((page.rows.len(), yields), (1_000, 2));
}

#[tokio::test]
async fn a_page_of_many_windows_is_looked_through_in_steps() {
    let (store, view) = (store(), windowed(&view(|_| Aggregate::Count)));
    open_windows(&store, &view, WINDOWS_MOST as i64).await;
    let (page, yields) = counting_yields(&store, &view).await;
    assert_eq!((page.rows.len(), yields), (0, 1));
}

#[tokio::test]
async fn large_sets_of_a_window_are_put_together_in_steps() {
    let (store, view) = (store(), windowed(&view(|e| Aggregate::Set(e("season")))));
    open_windows(&store, &view, 1).await;
    for skier in 0..20 {
        large_set(&store, key_in(&view, 0, skier)).await;
    }
    let (page, yields) = counting_yields(&store, &view).await;
    assert_eq!((page.rows.len(), yields), (20, 20), "each set is larger than a step");
}

#[tokio::test]
async fn answers_have_the_shape_that_was_asked_for() {
    let (store, view) = (store(), view(|e| Aggregate::Sum(e("paid"))));
    counted(&store, &view, "so \"1\",2", 7, 1250).await;
    let query = Query::new(&view, [("season", "so \"1\",2"), ("skier", "7")]).unwrap();
    let page = query.answer(&store).await.unwrap();
    assert_eq!(page.shaped(&view, &Answer::Bare).collect::<String>(), "12.50");
    let shape = [("sum", Shown::Value), ("who", Shown::Group(1))];
    let shape = Answer::Object(shape.map(|(name, shown)| (name.into(), shown)).into());
    assert_eq!(page.shaped(&view, &shape).collect::<String>(), r#"{"sum":12.50,"who":7}"#);
    let csv = "season,skier,value\r\n\"so \"\"1\"\",2\",7,12.50\r\n";
    assert_eq!(page.csv(&view).collect::<String>(), csv);
    let all = Query::new(&view, []).unwrap().answer(&store).await.unwrap();
    assert_eq!(all.csv(&view).collect::<String>(), csv);
    let listed = all.shaped(&view, &shape).collect::<String>();
    assert!(
        listed.starts_with(r#"{"view":"v","groups":[{"group":{"season":"so \"1\",2""#),
        "{listed}"
    );
}
