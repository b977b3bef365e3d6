//! Making rows of groups: their values are read and written down as JSON.

use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{Cell, Key, Moment, Name, Note, Operation, QueryError, Shard, Store};

use crate::keys;
use crate::query::{Outcome, group_fields, json_of, members, outcome};
use crate::row::{GroupFields, WindowRow};
use crate::view::{Aggregate, View};

/// Bytes of rows in one commit, which may have 16 MiB.
const ROWS_BYTES: usize = 2 << 20;

/// Members of a set that are shown in its row.
const MEMBERS_MOST: usize = 1_000;

/// What is needed to make rows.
pub(super) struct Emission<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) view: &'a View,
    pub(super) shard: Shard,
}

/// A row whose revision is not known yet.
pub(super) struct Draft {
    feed: Name,
    row: WindowRow,
}

impl Draft {
    /// The entry of the view's feed.
    pub(super) fn note(mut self, revision: u64) -> Operation {
        self.row.revision = revision;
        Operation::Append(Note { feed: self.feed, entry: self.row.encode() })
    }
}

impl Emission<'_> {
    /// Rows of the first of `groups`, as many as fit one commit, and of how many groups they are.
    pub(super) async fn rows(
        &self,
        groups: &[Key],
        start: Moment,
        end: Moment,
    ) -> Result<(Vec<Draft>, usize), QueryError> {
        let (mut rows, mut bytes, mut taken) = (Vec::new(), 0, 0);
        let feed = keys::rows(&self.view.name);
        for some in groups.chunks(PAGE_ROWS) {
            let kind = self.view.aggregate.cells();
            let cells: Vec<Cell> = some.iter().map(|key| Cell::new(kind, key.clone())).collect();
            let held = self.store.get_all(self.shard, &cells).await?;
            for (key, held) in some.iter().zip(held) {
                let outcome = match &self.view.aggregate {
                    Aggregate::Set(_) => {
                        let members = members(self.store, self.view, key, None, MEMBERS_MOST);
                        Outcome::Members(members.await?.0)
                    }
                    _ => outcome(self.view, held),
                };
                taken += 1;
                let Some(values) = keys::group_values(self.view, key) else { continue };
                let value = json_of(outcome.json(self.view.aggregate.kind()));
                bytes += value.get().len() + key.as_bytes().len();
                let view = self.view.name.to_string();
                let group = GroupFields(group_fields(self.view, &values).collect());
                let row = WindowRow { view, group, start, end, value, revision: 0 };
                rows.push(Draft { feed: feed.clone(), row });
                if bytes >= ROWS_BYTES {
                    return Ok((rows, taken));
                }
            }
        }
        Ok((rows, taken))
    }
}
