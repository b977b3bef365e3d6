//! `consort relay`: copies lines to several targets until a signal ends it.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use consort::config::relay::{RelayConfig, RelayFlags};
use consort::config::{ConfigFile, LogConfig, LogFormat};
use consort::relay::Relay;

use super::signals::{self, Signals};
use super::{FAILED, fail};
use crate::logging::{self, announce};

pub(super) const EXAMPLES: &str = "\
Examples:
  consort relay --udp 127.0.0.1:8090 --to node-a:8089 --to node-b:8089    every line to two nodes
  consort relay -c relay.toml

A sender that knows one address reaches several: each line is copied to every target. A line without a
timestamp gets one here, once, so that its copies are the same event wherever they are counted. A target that
is down costs the others nothing: each has a queue of its own, which lets go of its oldest lines.

relay.toml:
  [relay]
  udp = \"127.0.0.1:8090\"                  # datagrams of lines
  tcp = \"127.0.0.1:8090\"                  # connections that send lines
  allow = [\"10.0.0.0/8\"]                  # who may send; needed where other machines can reach the addresses
  form = \"line\"                           # or \"line-loose\", for bare words and lines without a measurement
  default = [\"influx\"]                    # lines that fit no route; without it they are dropped, and counted
  http = \"127.0.0.1:7401\"                 # GET /metrics: what came in, and what each target got and did not
  datagram = 1400                         # lines are packed into datagrams up to this size, and never split
  udp_buffer = \"8MiB\"                     # what the kernel may hold of a burst

  [target.node-a]
  udp = \"10.0.0.1:8089\"                   # a stream's 'udp' there
  [target.node-b]
  udp = \"10.0.0.2:8089\"
  [target.influx]
  http = \"http://influx:8086/write?db=x\"  # batches, sent again until they are taken; token = \"...\" for version 2
  queue = \"16MiB\"                         # what may wait for it; then the oldest lines go

  [[route]]                               # in this order; the first that fits decides
  tag = \"event_type\"                      # or \"name=value\", and measurement = \"...\"
  to = [\"node-a\", \"node-b\"]

Flags win over the file; --to adds targets of all lines that fit no route. It keeps nothing: what waits in its
queues dies with it. SIGTERM or SIGINT stops it: what has arrived is delivered within some seconds.";

#[derive(Args)]
pub(crate) struct RelayArgs {
    /// The relay's config file
    #[arg(short, long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where datagrams of lines come in
    #[arg(long, value_name = "ADDRESS")]
    udp: Option<String>,
    /// Where lines come in over connections
    #[arg(long, value_name = "ADDRESS")]
    tcp: Option<String>,
    /// Where the counters are shown, on loopback
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// A network that may send, such as 10.0.0.0/8; may be repeated
    #[arg(long, value_name = "NETWORK")]
    allow: Vec<String>,
    /// How lines are written: line or line-loose
    #[arg(long, value_name = "FORM")]
    form: Option<String>,
    /// A target of all lines: HOST:PORT for datagrams, or http://HOST:PORT/write?db=NAME; may be repeated
    #[arg(long, value_name = "TARGET")]
    to: Vec<String>,
}

pub(super) fn run(arguments: &RelayArgs) -> ExitCode {
    let config = match resolve(arguments) {
        Ok(config) => config,
        Err(problems) => return fail(FAILED, &problems),
    };
    logging::start(&LogConfig::default());
    match tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("relay").build() {
        Ok(runtime) => runtime.block_on(relay(config)),
        Err(error) => fail(FAILED, &format!("cannot start threads: {error}")),
    }
}

fn resolve(arguments: &RelayArgs) -> Result<RelayConfig, String> {
    let file = match &arguments.config {
        Some(path) => {
            let name = path.display().to_string();
            let text = fs::read_to_string(path).map_err(|error| {
                format!(
                    "cannot read the config file {name}: {error}; `consort relay --help` shows one"
                )
            })?;
            Some(ConfigFile { name, text })
        }
        None => None,
    };
    let flags = RelayFlags {
        udp: arguments.udp.clone(),
        tcp: arguments.tcp.clone(),
        http: arguments.http.clone(),
        allow: arguments.allow.clone(),
        form: arguments.form.clone(),
        to: arguments.to.clone(),
    };
    RelayConfig::resolve(file.as_ref(), &flags).map_err(|problems| {
        format!("the relay cannot start like this; mend it and try again\n{problems}")
    })
}

async fn relay(config: RelayConfig) -> ExitCode {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(FAILED, &format!("cannot listen for signals: {error}")),
    };
    let targets = config.targets.len();
    let relay = match Relay::bind(config).await {
        Ok(relay) => relay,
        Err(error) => return fail(FAILED, &error.to_string()),
    };
    let say = |line: String| announce(LogFormat::Text, &line);
    for (what, address) in [("udp", relay.udp()), ("tcp", relay.tcp())] {
        if let Some(address) = address {
            say(format!("the relay takes lines on {what}://{address}"));
        }
    }
    say(format!(
        "it has {targets} targets, and its counters are at http://{}/metrics",
        relay.http()
    ));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut running = std::pin::pin!(relay.run(async { drop(stopped.await) }));
    tokio::select! {
        () = &mut running => return ExitCode::SUCCESS,
        _ = signals.next() => {}
    }
    say("stopping: delivering what has arrived; a second signal stops at once".to_owned());
    // An error means that it has ended already.
    let _ = stop.send(());
    tokio::select! {
        () = &mut running => ExitCode::SUCCESS,
        number = signals.next() => signals::ended_by(number),
    }
}
