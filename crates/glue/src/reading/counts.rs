//! The counters of a collection, by tenant.

use std::collections::BTreeMap;

use consort_kernel::{Kind, Value};

use super::{CollectionReader, PAGE_ITEMS, ReadingError};
use crate::TenantCounter;

/// The counters of one tenant. Received pieces are exactly the sum of applied, repeated, rejected, held and queued ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantCounts(BTreeMap<TenantCounter, i64>);

impl TenantCounts {
    /// A counter.
    pub fn get(&self, counter: TenantCounter) -> i64 {
        self.0.get(&counter).copied().unwrap_or_default()
    }

    /// Adds the counters of another tenant or shard.
    pub fn add(&mut self, other: &TenantCounts) {
        for (counter, number) in &other.0 {
            self.count(*counter, *number);
        }
    }

    fn count(&mut self, counter: TenantCounter, number: i64) {
        *self.0.entry(counter).or_default() += number;
    }
}

impl CollectionReader {
    /// The counters of all tenants. The counters of a shard are of one moment, as long as they fit a page.
    pub async fn counts(&self) -> Result<BTreeMap<String, TenantCounts>, ReadingError> {
        let mut counts: BTreeMap<String, TenantCounts> = BTreeMap::new();
        for shard in self.shards() {
            let mut after = None;
            loop {
                let prefix = self.cells().counts();
                let scan =
                    self.store.scan(shard, Kind::Counter, prefix, after.as_ref(), PAGE_ITEMS);
                let rows = scan.await?;
                let Some((last, _)) = rows.last() else { break };
                after = Some(last.clone());
                for (key, value) in rows {
                    if let (Some((tenant, counter)), Value::Counter(number)) =
                        (self.cells().count_subject(&key), value)
                    {
                        counts.entry(tenant).or_default().count(counter, number);
                    }
                }
            }
        }
        Ok(counts)
    }
}
