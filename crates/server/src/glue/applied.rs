//! Waits until what a client wrote before is applied, where it asks for that with `Consort-After`.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::HeaderMap;
use consort_cluster::Place;
use consort_views::Position;
use tokio::time::Instant;

use super::AFTER;
use super::faults::store_failed;
use super::open::OpenCollection;
use crate::problem::Problem;
use crate::problems;

/// How long a reader waits for its position, as queries of views do.
const AFTER_WITHIN: Duration = Duration::from_secs(10);

/// When a reader whose position was not reached should ask again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl OpenCollection {
    /// Waits, within a bound, until the position in `Consort-After` is applied.
    pub(super) async fn wait_for(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(given) = headers.get(AFTER) else { return Ok(()) };
        let given = given.to_str().map_err(|_| bad("'Consort-After' is not ASCII text"))?;
        let position: Position =
            given.parse().map_err(|error| bad(format!("'Consort-After': {error}")))?;
        let deadline = Instant::now() + AFTER_WITHIN;
        for (partition, places) in self.by_partition(position.places())? {
            let within = deadline.saturating_duration_since(Instant::now());
            let (reader, pipeline) = (&self.reader, &self.pipeline);
            let reached =
                reader.reached(pipeline, partition, &places, &*self.runtime, within).await;
            let reached = reached
                .map_err(|error| store_failed(format!("the position is not known: {error}")))?;
            if !reached {
                let detail = format!(
                    "the collection was not applied up to the position within {AFTER_WITHIN:?}; ask again"
                );
                return Err(Problem::new(problems::NOT_REACHED, detail).retry_after(RETRY_AFTER));
            }
        }
        Ok(())
    }

    fn by_partition<'a>(
        &self,
        places: &'a [Place],
    ) -> Result<BTreeMap<u32, Vec<&'a Place>>, Problem> {
        let mut by_partition: BTreeMap<u32, Vec<&Place>> = BTreeMap::new();
        for place in places {
            let at = &place.partition;
            if at.stream != *self.ingress.stream() || at.index >= self.definition.partitions {
                let name = &self.definition.name;
                return Err(bad(format!(
                    "'Consort-After': the collection '{name}' has no partition '{at}'"
                )));
            }
            by_partition.entry(at.index).or_default().push(place);
        }
        Ok(by_partition)
    }
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(problems::POSITION, detail)
}
