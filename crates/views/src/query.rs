//! Asking a view: one group by all of its fields, or an ordered page of groups by a leading part of them.

mod merge;
mod page;
mod windows;

use std::sync::Arc;

use bytes::Bytes;
use consort_kernel::budget::ITEM_COST;
use consort_kernel::limits::{PAGE_BYTES, PAGE_ROWS};
use consort_kernel::{Budget, Key, QueryError, Store, Value as Held};
use futures::future::try_join_all;

use crate::hex::{hex, unhex};
use crate::keys;
use crate::value::{Kind, Value, parse};
use crate::view::{Aggregate, View};
use merge::Merge;
pub use page::{InWindow, Outcome, Page, Parts, Row, group_json};
pub(crate) use page::{group_fields, json_of};
use windows::Between;

/// Groups, or members of one set, in an answer where the query does not say.
pub const LIMIT: usize = 100;

/// The most that a query may ask for.
pub const LIMIT_MOST: usize = PAGE_ROWS;

/// Members shown of each set where several groups are listed; the rest is asked for by the group alone.
pub const MEMBERS_LISTED: usize = 100;

/// Rows that are read and put together at once: those of sets have a hundred members each.
const ROWS_AT_ONCE: usize = 64;

/// What to ask of a view.
#[derive(Clone, Debug)]
pub struct Query {
    view: Arc<View>,
    /// The values of the first fields of `by`, perhaps of all.
    given: Vec<Value>,
    between: Between,
    after: Option<Bytes>,
    limit: usize,
}

/// Why a view cannot be asked this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryRefusal {
    /// Not a field of the group.
    #[error("the view '{view}' has no field '{field}'; its fields are {known}, beside {words}")]
    UnknownField {
        /// The view.
        view: String,
        /// What was given.
        field: String,
        /// Those there are.
        known: String,
        /// The other parameters.
        words: &'static str,
    },
    /// A value of another type.
    #[error("'{field}' must be {wanted}, not '{given}'")]
    Wrong {
        /// The field.
        field: String,
        /// What it takes.
        wanted: String,
        /// What was given.
        given: String,
    },
    /// A field that comes twice.
    #[error("'{0}' is given twice")]
    Twice(String),
    /// A field without those before it.
    #[error(
        "'{given}' is given without '{missing}': groups are ordered by {known}, so give the first of them, or all"
    )]
    Gap {
        /// The field that was given.
        given: String,
        /// The one before it that was not.
        missing: String,
        /// All fields.
        known: String,
    },
    /// A cursor of another query, or none at all.
    #[error("'after' is no cursor of this query: use the 'next' of an answer to the same query")]
    Cursor,
}

impl Query {
    /// Reads a query from its parameters: fields of the group, `limit` and `after`.
    pub fn new<'a>(
        view: &Arc<View>,
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, QueryRefusal> {
        let mut values: Vec<Option<Value>> = vec![None; view.by.len()];
        let (mut after, mut limit) = (None, None);
        let mut between = Between::default();
        for (name, text) in parameters {
            // A field of the group wins over the words of paging.
            if let Some(at) = view.by.iter().position(|field| field.name == name) {
                let value = value_of(view, at, text)?;
                if values[at].replace(value).is_some() {
                    return Err(QueryRefusal::Twice(name.into()));
                }
                continue;
            }
            if view.windows.is_some()
                && let Some(twice) = between.take(name, text)
            {
                match twice? {
                    true => return Err(QueryRefusal::Twice(name.into())),
                    false => continue,
                }
            }
            let twice = match name {
                "after" => after.replace(unhex(text).ok_or(QueryRefusal::Cursor)?).is_some(),
                "limit" => limit.replace(limit_of(text)?).is_some(),
                _ => return Err(unknown_field(view, name)),
            };
            if twice {
                return Err(QueryRefusal::Twice(name.into()));
            }
        }
        let given = leading(view, values)?;
        let (view, limit) = (Arc::clone(view), limit.unwrap_or(LIMIT));
        let query = Query { view, given, between, after, limit };
        query.check_cursor()?;
        Ok(query)
    }

    /// The view that is asked.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether it asks for one group.
    pub fn is_single(&self) -> bool {
        self.given.len() == self.view.by.len()
            && (self.view.windows.is_none() || self.between.is_one())
    }

    /// The answer as it stands.
    pub async fn answer(&self, store: &dyn Store) -> Result<Page, QueryError> {
        if let Some(windows) = &self.view.windows {
            return self.answer_windows(store, windows).await;
        }
        match self.is_single() {
            true => self.one_at(store, self.prefix()).await,
            false => self.several(store).await,
        }
    }

    fn check_cursor(&self) -> Result<(), QueryRefusal> {
        let Some(after) = &self.after else { return Ok(()) };
        if self.is_single() {
            // The cursor is a member; only sets have those.
            return match self.view.aggregate {
                Aggregate::Set(_) => Ok(()),
                _ => Err(QueryRefusal::Cursor),
            };
        }
        let key = Key::from_stored(after.clone());
        let prefix = match self.view.windows {
            Some(_) => keys::groups(&self.view),
            None => self.prefix(),
        };
        // A query that found little stopped at the beginning of a window.
        let begins_window = || {
            let start = self.view.windows.as_ref().and_then(|_| keys::window_of(&key));
            start.is_some_and(|start| key == self.beginning_of(start))
        };
        let fits = key.starts_with(&prefix)
            && (keys::group_values(&self.view, &key).is_some() || begins_window());
        if fits { Ok(()) } else { Err(QueryRefusal::Cursor) }
    }

    fn prefix(&self) -> Key {
        keys::group(&keys::groups(&self.view), &self.given)
    }

    async fn several(&self, store: &dyn Store) -> Result<Page, QueryError> {
        let after = self.after.clone().map(Key::from_stored);
        let kind = self.view.aggregate.cells();
        let mut merge = Merge::new(store, kind, self.prefix(), after, self.limit + 1);
        let mut found: Vec<(Key, Held)> = Vec::new();
        while found.len() <= self.limit
            && let Some(row) = merge.next().await?
        {
            found.push(row);
        }
        let mut more = found.len() > self.limit;
        found.truncate(self.limit);
        let (mut rows, mut bytes, mut last) = (Vec::with_capacity(found.len()), 0, None);
        let (mut left, mut budget) = (found.into_iter(), Budget::default());
        while left.len() > 0 {
            // A thousand sets may show a hundred members of several KiB each.
            if bytes >= PAGE_BYTES {
                more = true;
                break;
            }
            let some: Vec<(Key, Held)> = left.by_ref().take(ROWS_AT_ONCE).collect();
            last = some.last().map(|(key, _)| hex(key.as_bytes()));
            let read = some.into_iter().map(|(key, held)| self.row(store, key, held));
            for row in try_join_all(read).await?.into_iter().flatten() {
                bytes += row.bytes();
                rows.push(row);
            }
            budget.spend(ROWS_AT_ONCE * ITEM_COST).await;
        }
        Ok(Page { single: false, rows, next: last.filter(|_| more) })
    }

    async fn row(
        &self,
        store: &dyn Store,
        key: Key,
        held: Held,
    ) -> Result<Option<Row>, QueryError> {
        let Some(group) = keys::group_values(&self.view, &key) else { return Ok(None) };
        let (outcome, more) = match &self.view.aggregate {
            Aggregate::Set(_) => {
                let (members, next) =
                    members(store, &self.view, &key, None, MEMBERS_LISTED).await?;
                (Outcome::Members(members), next.is_some())
            }
            _ => (outcome(&self.view, Some(held)), false),
        };
        Ok(Some(Row { group, window: None, outcome, more }))
    }
}

/// Members of a set, and the last of them if there may be more.
pub(crate) async fn members(
    store: &dyn Store,
    view: &View,
    key: &Key,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<(Vec<Value>, Option<Bytes>), QueryError> {
    let shard = keys::shard(key, store.shards());
    let mut found: Vec<Bytes> = Vec::new();
    // Only an empty page is the end.
    while found.len() <= limit {
        let after = found.last().map(|last| &last[..]).or(after);
        let wanted = (limit + 1 - found.len()).min(PAGE_ROWS);
        let page = store.members(shard, key, after, wanted).await?;
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).cloned();
    let kind = view.aggregate.kind();
    let values = found.into_iter().filter_map(|member| stored_value(kind, member)).collect();
    Ok((values, next))
}

/// What a cell says; the aggregate's zero if there is none.
pub(crate) fn outcome(view: &View, held: Option<Held>) -> Outcome {
    let kind = view.aggregate.kind();
    let number = |number: i64| match kind {
        Kind::Decimal(_) => Value::Decimal(number),
        _ => Value::Int(number),
    };
    let many = |many: u64| Some(Value::Int(i64::try_from(many).unwrap_or(i64::MAX)));
    Outcome::Value(match held {
        Some(Held::Counter(sum)) => Some(number(sum)),
        Some(Held::Set(members) | Held::Distinct(members) | Held::Sketch(members)) => many(members),
        Some(Held::Min(rank) | Held::Max(rank)) => stored_value(kind, rank),
        Some(Held::Last { value, .. }) => stored_value(kind, value),
        Some(Held::Bytes(_)) => None,
        None => match view.aggregate {
            Aggregate::Min(_) | Aggregate::Max(_) | Aggregate::Last(_) => None,
            _ => Some(number(0)),
        },
    })
}

/// A value that is stored as a key of one element.
fn stored_value(kind: Kind, stored: Bytes) -> Option<Value> {
    let elements = Key::from_stored(stored).elements().ok()?;
    Value::from_element(kind, elements.first()?)
}

fn value_of(view: &View, at: usize, text: &str) -> Result<Value, QueryRefusal> {
    let field = &view.by[at];
    let kind = field.expression.kind();
    parse(kind, text).ok_or_else(|| QueryRefusal::Wrong {
        field: field.name.clone(),
        wanted: match kind {
            Kind::Bool => "true or false".into(),
            Kind::Int => "a whole number of 64 bits".into(),
            Kind::Decimal(scale) => {
                format!("a number with at most {scale} digits behind the point")
            }
            Kind::Text => "a text".into(),
        },
        given: text.chars().take(100).collect(),
    })
}

fn limit_of(text: &str) -> Result<usize, QueryRefusal> {
    let limit = text.parse().ok().filter(|limit| (1..=LIMIT_MOST).contains(limit));
    limit.ok_or_else(|| QueryRefusal::Wrong {
        field: "limit".into(),
        wanted: format!("a whole number from 1 to {LIMIT_MOST}"),
        given: text.chars().take(100).collect(),
    })
}

fn unknown_field(view: &View, field: &str) -> QueryRefusal {
    QueryRefusal::UnknownField {
        view: view.name.to_string(),
        field: field.chars().take(100).collect(),
        known: known(view),
        words: match view.windows {
            Some(_) => "'start', 'end', 'limit' and 'after'",
            None => "'limit' and 'after'",
        },
    }
}

fn known(view: &View) -> String {
    let names: Vec<String> = view.by.iter().map(|field| format!("'{}'", field.name)).collect();
    names.join(", ")
}

/// The values up to the first that is absent; those behind it must be absent, too.
fn leading(view: &View, values: Vec<Option<Value>>) -> Result<Vec<Value>, QueryRefusal> {
    let first_absent = values.iter().position(Option::is_none).unwrap_or(values.len());
    if let Some(beyond) = values[first_absent..].iter().position(Option::is_some) {
        return Err(QueryRefusal::Gap {
            given: view.by[first_absent + beyond].name.clone(),
            missing: view.by[first_absent].name.clone(),
            known: known(view),
        });
    }
    Ok(values.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests;
