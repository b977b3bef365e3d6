//! Events as lines, and what the views must say of them.

use std::collections::{BTreeMap, BTreeSet};

use super::databases::Rows;

/// The views of the example, as the databases call them.
pub const VIEWS: [&str; 2] = ["unique_user_event", "cumulative_user_event"];

const MINUTE: i64 = 60_000_000_000;

/// An event.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its type.
    pub event_type: String,
    /// Its product.
    pub product: String,
    /// Who saw it.
    pub user: String,
    /// When, in nanoseconds.
    pub time: i64,
}

impl Line {
    /// As it is sent.
    pub fn text(&self) -> String {
        let Line { event_type, product, user, time } = self;
        format!("event_type={event_type},product={product} value={user} {time}")
    }
}

/// The five events that everybody knows.
pub fn well_known() -> Vec<Line> {
    let line = |event_type: &str, product: &str, user: u32, time| Line {
        event_type: event_type.into(),
        product: product.into(),
        user: format!("testusername{user}"),
        time,
    };
    let time = 1_480_876_707_352_348_928;
    vec![
        line("http-5xx", "productA", 1, time),
        line("os_error", "productA", 2, time),
        line("browser_error", "productB", 3, time),
        line("browser_error", "productB", 4, time),
        line("http-5xx", "productA", 1, time + 2),
    ]
}

/// Who saw what when: users and times, of an event type and a product in a minute.
type Seen<'a> = BTreeMap<(String, String, i64), BTreeSet<(&'a str, i64)>>;

/// What the databases must hold of these, however often each was sent.
pub fn expected<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Rows {
    let mut users = Seen::new();
    for line in lines {
        let start = line.time.div_euclid(MINUTE) * MINUTE;
        let group = (line.event_type.clone(), line.product.clone(), start);
        users.entry(group).or_default().insert((&line.user, line.time));
    }
    let mut rows = Rows::new();
    for ((event_type, product, start), seen) in users {
        let distinct: BTreeSet<&str> = seen.iter().map(|(user, _)| *user).collect();
        for (view, value) in VIEWS.into_iter().zip([distinct.len(), seen.len()]) {
            let place = (view.to_owned(), event_type.clone(), product.clone(), start);
            rows.insert(place, value as i64);
        }
    }
    rows
}
