//! The part of streams and views: events come in by HTTP, datagrams and queues; workers fold them; queries read
//! the views.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use consort_cluster::Agreement;
use consort_feeds::FeedSpec;
use consort_kernel::Inlet;
use consort_server::streams::{self, OtherWays, Streams as StreamsHttp};
use consort_server::udp::{self, Receiving};
use consort_server::views::{self, Paths, Views};
use consort_server::{GateKind, TenantRoutes};
use consort_views::{StreamsPart, View};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::{OpenPart, Opening, Part, PartError, Running, StopPhase, link};
use crate::config::{self, Config, Gate, PartConfig, StreamSettings, UdpSource};
use crate::rows;
use crate::services::Services;

/// Streams and views.
#[derive(Debug)]
pub(super) struct Streams;

#[async_trait]
impl Part for Streams {
    fn config(&self) -> &'static PartConfig {
        &config::streams::PART
    }

    fn define(&self, config: &Config, agreement: Agreement) -> Agreement {
        config.definitions().declare(agreement)
    }

    /// Every view with windows emits rows.
    fn feeds(&self, config: &Config) -> Result<Vec<FeedSpec>, PartError> {
        let views = &config.definitions().views;
        let windowed = views.iter().filter(|view| view.windows.is_some());
        let feed = |view: &Arc<View>| {
            rows::feed(view.name.as_str(), &view.sinks).map_err(PartError::failed)
        };
        windowed.map(feed).collect()
    }

    async fn open(&self, opening: Opening<'_>) -> Result<OpenPart, PartError> {
        let Opening { config, services, agreed, metrics, .. } = opening;
        let definitions = config.definitions().numbered(agreed).map_err(PartError::failed)?;
        let definitions = Arc::new(definitions);
        let roles = StreamsPart::new(&definitions, role_options(services, inlets(config).await?));
        let streams = StreamsHttp::new(streams::Options {
            definitions: &definitions,
            gates: gates(config),
            ingresses: &services.ingresses,
            intake: Arc::clone(&services.intake),
        });
        let views = Views::new(views::Options {
            definitions: Arc::clone(&definitions),
            store: Arc::clone(&services.store),
            runtime: Arc::clone(&services.runtime),
            ingresses: services.ingresses.clone(),
            metrics,
        });
        let datagrams = udp::Bound::open(udp::Options {
            streams: &streams,
            sources: datagram_sources(config),
            store: Arc::clone(&services.store),
            metrics,
        })
        .map_err(PartError::failed)?;
        let mut paths = Paths::default();
        let routes = streams.routes(&mut paths).merge(views.routes(&mut paths));
        // The express way must know the paths of the views as well.
        let express = streams.express(&mut paths);
        let others = other_ways(config, &datagrams.addresses());
        let routes = routes.merge(streams::list_routes(&streams, others));
        let running = Datagrams {
            addresses: datagrams.addresses(),
            state: Mutex::new(State::Bound(datagrams)),
        };
        Ok(OpenPart {
            workloads: vec![Arc::new(roles)],
            resolver: None,
            routes,
            express,
            long_bodies: streams.long_bodies(),
            tenant_routes: TenantRoutes::default(),
            links: vec![
                link("/streams", "the streams: their fields, and how events come in"),
                link(
                    "/views",
                    "the views: what is kept of the events, and the routes to ask for it",
                ),
            ],
            running: Box::new(running),
        })
    }
}

/// The sockets for datagrams.
#[derive(Debug)]
struct Datagrams {
    addresses: BTreeMap<String, SocketAddr>,
    /// Locked to be shared between threads; only its owner ever touches it.
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Open and not yet read: the kernel keeps what arrives.
    Bound(udp::Bound),
    Receiving(Receiving),
    Stopped,
}

impl Running for Datagrams {
    fn joined(&mut self) {
        *self.state.get_mut() = match std::mem::replace(self.state.get_mut(), State::Stopped) {
            State::Bound(bound) => State::Receiving(bound.run()),
            other => other,
        };
    }

    fn stop(&mut self, phase: StopPhase) -> BoxFuture<'_, ()> {
        async move {
            if phase == StopPhase::Sources
                && let State::Receiving(receiving) =
                    std::mem::replace(self.state.get_mut(), State::Stopped)
            {
                receiving.stop().await;
            }
        }
        .boxed()
    }

    fn report(&self) -> Vec<String> {
        let line =
            |(stream, address)| format!("stream '{stream}' takes datagrams on udp://{address}");
        self.addresses.iter().map(line).collect()
    }
}

fn role_options(
    services: &Services,
    inlets: BTreeMap<String, Arc<dyn Inlet>>,
) -> consort_views::part::Options {
    consort_views::part::Options {
        log: Arc::clone(&services.log),
        store: Arc::clone(&services.store),
        runtime: Arc::clone(&services.runtime),
        entropy: Arc::clone(&services.entropy),
        appender: Arc::clone(&services.appender),
        collector: services.collector.clone(),
        inlets,
        rules: consort_views::part::Rules::default(),
    }
}

fn gates(config: &Config) -> BTreeMap<String, GateKind> {
    config.streams().iter().map(|(name, stream)| (name.clone(), kind_of(stream.gate))).collect()
}

pub(super) fn kind_of(gate: Gate) -> GateKind {
    match gate {
        Gate::Adaptive => GateKind::Adaptive,
        Gate::Breaker => GateKind::Breaker,
        Gate::Off => GateKind::Off,
    }
}

fn datagram_sources(config: &Config) -> BTreeMap<String, udp::Source> {
    let source = |UdpSource { listen, allow, buffer }: &UdpSource| udp::Source {
        listen: *listen,
        allow: allow.clone(),
        buffer: *buffer,
    };
    let sources = config
        .streams()
        .iter()
        .filter_map(|(name, stream)| stream.udp.as_ref().map(|udp| (name.clone(), source(udp))));
    sources.collect()
}

/// The queues that streams read.
async fn inlets(config: &Config) -> Result<BTreeMap<String, Arc<dyn Inlet>>, PartError> {
    let mut inlets = BTreeMap::new();
    for (name, stream) in config.streams() {
        let Some(source) = &stream.amqp else { continue };
        let opened = consort_engines::open_inlet(
            source.url.reveal(),
            &source.queue,
            config.engine.tls_ca.as_deref(),
        );
        let inlet = opened
            .await
            .map_err(|error| PartError::Engine { url: source.url.clone(), source: error })?;
        inlets.insert(name.clone(), inlet);
    }
    Ok(inlets)
}

/// The ways into streams besides HTTP, for `GET /streams`; `udp` are the open sockets.
fn other_ways(config: &Config, udp: &BTreeMap<String, SocketAddr>) -> BTreeMap<String, OtherWays> {
    let ways = |(name, stream): (&String, &StreamSettings)| {
        let udp = udp.get(name).copied();
        let amqp_queue = stream.amqp.as_ref().map(|source| source.queue.clone());
        (name.clone(), OtherWays { udp, amqp_queue })
    };
    config.streams().iter().map(ways).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigFile, Sources};

    fn config(text: &str) -> Config {
        let file = ConfigFile { name: "test".into(), text: text.into() };
        let config = Config::resolve(&Sources { file: Some(file), ..Sources::default() });
        config.unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn views_with_windows_emit_rows_and_other_views_none() {
        let text = "[sink.f]\nkind = 'file'\npath = 'rows'\n[stream.s]\nform = 'line'\n\
            [view.total]\nfrom = 's'\ncount = true\n\
            [view.minutes]\nfrom = 's'\ncount = true\nwindow = '1m'\nsink = 'f'\n\
            [view.hours]\nfrom = 's'\ncount = true\nwindow = '1h'\n";
        let feeds = Streams.feeds(&config(text)).unwrap();
        let shown: Vec<_> = feeds.iter().map(|feed| (&*feed.path, &feed.sinks[..])).collect();
        assert_eq!(shown, [("views/minutes", &["f".to_owned()][..]), ("views/hours", &[][..])]);
    }

    #[test]
    fn a_queue_is_shown_without_its_broker() {
        let text = "[stream.rides]\nfields = { skier = \"int\" }\n\
            amqp = { url = \"amqp://user:s3cret@h/v\", queue = \"rides-in\" }\n";
        let config = config(text);
        let address: SocketAddr = "127.0.0.1:8089".parse().unwrap();
        let ways = other_ways(&config, &BTreeMap::from([("rides".to_owned(), address)]));
        let expected = OtherWays { udp: Some(address), amqp_queue: Some("rides-in".into()) };
        assert_eq!(ways["rides"], expected);
        assert!(!format!("{ways:?}").contains("s3cret"));
    }
}
