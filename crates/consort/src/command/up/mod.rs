//! `consort up`: as many nodes on this machine as the cluster wants.

mod children;
mod decisions;
mod slots;
mod supervisor;

use std::process::ExitCode;

use clap::Args;
use consort::Config;
use consort::config::StreamsConfig;

use super::settings::SettingArgs;
use super::signals::Signals;
use super::{FAILED, fail};
use children::Children;
use supervisor::Supervisor;

pub(super) const HELP: &str = "\
Examples:
  consort up -c consort.toml --engine redis://127.0.0.1:6379/0     from 1 node to [scale] max
  consort up --min 2 --max 8 -c consort.toml                        never fewer than 2, never more than 8
  consort up --max 4 --json -c consort.toml | tee decisions.ndjson  one JSON object for each decision

The cluster decides how many nodes it wants, and `up` follows: it starts and retires processes of `consort serve`.
Each decision is one line with its reason, such as
  nodes 1 → 2: gate of lift_rides refuses 3,100/s; offered 2.1 × applied; 88% of the cores in use
`consort status` shows the same reason, and [scale] in the config sets the bounds.

Nodes      are named HOST-up-1, HOST-up-2 and so on, and listen on the port of --listen and those behind it.
More       when input lags or is refused for ten seconds and another node can help.
Fewer      one at a time, when the load has fit one node less for [scale] down_after. A node hands its roles over
           before it ends, and nothing is lost. The first node stays until the end.
A death    is made good: the node is started again, later each time. After five deaths in a minute `up` ends.
SIGTERM    retires all nodes but one, then stops that one; a second signal ends all at once. If `up` itself is killed,
           its nodes notice, hand over what they can and end.

An embedded engine belongs to one process, so `up` needs Redis, Redis Cluster, or RabbitMQ with Redis.
On several machines let the autoscaler of your platform read the number: examples/keda.yaml.";

#[derive(Args)]
pub(crate) struct UpArgs {
    /// The fewest nodes ([scale] min)
    #[arg(long, value_name = "NODES")]
    min: Option<u64>,
    /// The most nodes ([scale] max)
    #[arg(long, value_name = "NODES")]
    max: Option<u64>,
    /// Print each decision as a JSON object on a line of its own
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingArgs,
}

pub(super) fn run(arguments: &UpArgs) -> ExitCode {
    let supervisor = match supervisor(arguments) {
        Ok(supervisor) => supervisor,
        Err(reason) => return fail(FAILED, &reason),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(FAILED, &format!("cannot start: {error}")),
    };
    runtime.block_on(async {
        match Signals::new() {
            Ok(signals) => supervisor.run(signals).await,
            Err(error) => fail(FAILED, &format!("cannot listen for signals: {error}")),
        }
    })
}

fn supervisor(arguments: &UpArgs) -> Result<Supervisor, String> {
    if arguments.settings.config.is_none() {
        return Err("`consort up` needs a config file (-c FILE): without one Consort runs its tour, which has one node; \
                    `consort config --defaults > consort.toml` writes a file to start from"
            .to_owned());
    }
    let config = arguments.settings.resolve()?;
    let min = arguments.min.unwrap_or(config.scale.min);
    let max = arguments.max.unwrap_or(config.scale.max);
    check(&config, min, max)?;
    let (min, max) = (min as usize, max as usize);
    let children = Children::new(&arguments.settings, &config, (min, max))?;
    Ok(Supervisor { children, min, max, json: arguments.json })
}

/// Refuses what several nodes on one machine cannot be.
fn check(config: &Config, min: u64, max: u64) -> Result<(), String> {
    let scheme = config.engine.url.scheme();
    if matches!(scheme, "embedded" | "memory") {
        return Err(format!(
            "the engine is {}, which belongs to one process, so there can be no second node; set [engine] url to \
             redis://HOST:PORT/DB, or run one node with `consort serve`",
            config.engine.url
        ));
    }
    if min == 0 || min > max || max > 1024 {
        return Err(format!(
            "--min must be from 1 to --max and --max up to 1024, but --min is {min} and --max is {max}"
        ));
    }
    let port = config.http.listen.port();
    if port == 0 || u64::from(port) + max - 1 > u64::from(u16::MAX) {
        return Err(format!(
            "node N listens on the port of --listen plus N - 1, so with --max {max} it must be from 1 to {}, not {port}",
            u64::from(u16::MAX) + 1 - max
        ));
    }
    let streams = config.part::<StreamsConfig>().streams.iter();
    match streams.map(|(name, stream)| (name, &stream.udp)).find(|(_, udp)| udp.is_some()) {
        Some((name, Some(udp))) if max > 1 && udp.listen.port() != 0 => Err(format!(
            "stream '{name}' takes datagrams on port {}, which only one node of a machine can have; leave out 'udp' \
             and let `consort relay` or another node take them, or give --max 1",
            udp.listen.port()
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(change: impl FnOnce(&mut Config)) -> Config {
        let mut config = Config::default();
        config.engine.url = consort::config::SecretUrl::new("redis://127.0.0.1:6379/0");
        change(&mut config);
        config
    }

    #[test]
    fn several_nodes_need_an_engine_bounds_and_ports_of_their_own() {
        assert_eq!(check(&config(|_| {}), 1, 8), Ok(()));
        let embedded = |config: &mut Config| {
            config.engine.url = consort::config::SecretUrl::new("embedded:./data");
        };
        let refused = check(&config(embedded), 1, 8).unwrap_err();
        assert!(refused.contains("belongs to one process") && refused.contains("redis://"));
        for (min, max) in [(0, 1), (3, 2), (1, 2000)] {
            assert!(check(&config(|_| {}), min, max).is_err_and(|said| said.contains("--min")));
        }
        for port in [0, 65_530] {
            let refused = check(&config(|config| config.http.listen.set_port(port)), 1, 8);
            assert!(refused.is_err_and(|said| said.contains("from 1 to 65528")), "{port}");
        }
    }
}
