//! What the store has counted of each stream, the same on every node.

use std::sync::Arc;

use consort_kernel::Store;
use consort_views::{Definitions, Tallies};
use futures::FutureExt as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::atomic::AtomicU64;

use crate::ingress::Ingresses;
use crate::metrics::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    stream: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ViewLabel {
    view: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StreamLabel {
    stream: String,
}

type Seconds = Gauge<f64, AtomicU64>;

/// Registers the figures, which are read anew for each scrape.
pub(super) fn register(
    metrics: &mut Metrics,
    definitions: &Arc<Definitions>,
    store: &Arc<dyn Store>,
    ingresses: &Ingresses,
) {
    let events: Family<OutcomeLabel, Gauge> = Family::default();
    let of_views: Family<ViewLabel, Gauge> = Family::default();
    let behind: Family<StreamLabel, Seconds> = Family::default();
    metrics.registry().register(
        "stream_events",
        "Events that the views have taken, by outcome, in the whole cluster",
        events.clone(),
    );
    metrics.registry().register(
        "view_events",
        "Events of each view, by outcome, in the whole cluster: received is the sum of the others",
        of_views.clone(),
    );
    metrics.registry().register(
        "stream_lag_seconds",
        "Age of the oldest event that is not applied, in the whole cluster",
        behind.clone(),
    );
    let (definitions, store, ingresses) =
        (Arc::clone(definitions), Arc::clone(store), ingresses.clone());
    metrics.refresh_by(move || {
        let (definitions, store, ingresses) =
            (Arc::clone(&definitions), Arc::clone(&store), ingresses.clone());
        let (events, of_views, behind) = (events.clone(), of_views.clone(), behind.clone());
        async move {
            for stream in &definitions.streams {
                let name = stream.name.to_string();
                if let Ok(tallies) = Tallies::read(&*store, stream).await {
                    for (outcome, count) in tallies.all() {
                        let label = OutcomeLabel { stream: name.clone(), outcome };
                        events.get_or_create(&label).set(count);
                    }
                    for view in
                        definitions.views.iter().filter(|view| view.from.name == stream.name)
                    {
                        let Ok(tallies) = tallies.of_view(&*store, view).await else { continue };
                        for (outcome, count) in tallies.all() {
                            let label = ViewLabel { view: view.name.to_string(), outcome };
                            of_views.get_or_create(&label).set(count);
                        }
                    }
                }
                if let Some(lag) = ingresses.lag(&stream.name) {
                    let label = StreamLabel { stream: name };
                    behind.get_or_create(&label).set(lag.behind.as_secs_f64());
                }
            }
        }
        .boxed()
    });
}
