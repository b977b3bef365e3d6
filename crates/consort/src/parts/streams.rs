//! The part of streams and views: events come in by HTTP, datagrams and queues; workers fold them; queries read
//! the views.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use consort_kernel::Inlet;
use consort_server::GateKind;
use consort_server::streams::{self, Streams as StreamsHttp};
use consort_server::udp::{self, Receiving};
use consort_server::views::{self, Paths, Views};
use consort_views::StreamsPart;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::{OpenPart, Opening, Part, PartError, Running, StopPhase};
use crate::config::{Config, Gate, UdpSource};
use crate::services::Services;

/// Streams and views.
#[derive(Debug)]
pub(super) struct Streams;

#[async_trait]
impl Part for Streams {
    fn name(&self) -> &'static str {
        "streams"
    }

    async fn open(&self, opening: Opening<'_>) -> Result<OpenPart, PartError> {
        let Opening { config, services, definitions, metrics } = opening;
        let roles = StreamsPart::new(definitions, role_options(services, inlets(config).await?));
        let streams = StreamsHttp::new(streams::Options {
            definitions,
            gates: gates(config),
            collector: services.collector.clone(),
            entropy: Arc::clone(&services.entropy),
            metrics,
        });
        let views = Views::new(views::Options {
            definitions: Arc::clone(definitions),
            store: Arc::clone(&services.store),
            runtime: Arc::clone(&services.runtime),
            cluster: services.cluster.clone(),
            streams: streams.clone(),
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
        let running = Datagrams {
            addresses: datagrams.addresses(),
            state: Mutex::new(State::Bound(datagrams)),
        };
        Ok(OpenPart {
            workloads: vec![Arc::new(roles)],
            resolver: None,
            routes,
            express,
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

fn kind_of(gate: Gate) -> GateKind {
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
