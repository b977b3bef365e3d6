//! The settings of a view's windows: `window`, `grace`, `keep` and `late`.

use std::ops::RangeInclusive;
use std::time::Duration;

use consort_views::window::LENGTHS;
use consort_views::{Late, Windows};

use crate::config::read;
use crate::config::reader::Reader;
use crate::config::suggest::nearest;

const GRACE: Duration = Duration::from_secs(5);
const KEEP: Duration = Duration::from_secs(3_600);

/// A grace longer than a day is a mistake: nothing would be told for so long.
const GRACES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);

/// What is kept is in the store, and counts there.
const KEEPS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(366 * 86_400);

/// The windows of a view, if it has any; the other settings mean nothing without them.
pub(super) fn read_windows(reader: &mut Reader<'_>) -> Option<Windows> {
    let length = reader.read("window", |raw| read::duration(raw, LENGTHS));
    let grace = reader.read("grace", |raw| read::duration(raw, GRACES));
    let keep = reader.read("keep", |raw| read::duration(raw, KEEPS));
    let late = read_late(reader);
    if reader.get("window").is_none() && !reader.may_have("window") {
        for setting in ["grace", "keep", "late", "sink"] {
            if let Some(entry) = reader.entry(setting) {
                let reason = "it is for windows, and there is no 'window', as in window = \"1m\"";
                reader.explain(setting, &entry.span, reason);
            }
        }
    }
    Some(Windows {
        length: length?,
        grace: grace.unwrap_or(GRACE),
        keep: keep.unwrap_or(KEEP),
        late: late.unwrap_or_default(),
    })
}

fn read_late(reader: &mut Reader<'_>) -> Option<Late> {
    let given = reader.text("late")?;
    let known = [Late::Amend, Late::List];
    let found = known.into_iter().find(|late| late.name() == given.text);
    if found.is_none() {
        let hint = match nearest(given.text, known.iter().map(|late| late.name())) {
            Some(near) => format!("; did you mean \"{near}\"?"),
            None => String::new(),
        };
        let wrong = format!("must be \"amend\" or \"list\", not \"{}\"{hint}", given.text);
        reader.wrong("late", given.span, wrong);
    }
    found
}
