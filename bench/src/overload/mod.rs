//! A node under attack: how long `/healthz` and single posts take while sixteen bodies arrive that cost much more to
//! take than to send, beside a node at rest in the same run, in turn with it. On Redis, whether any role was lost.

mod attack;
mod node;
mod probe;

use std::time::Duration;

use anyhow::Result;
use consort_testbed::{Fsync, RedisOptions, RedisServer};

use crate::measure::median;
use crate::report::{Report, Results, Time};
use attack::Attack;
use node::{Ground, Node};
use probe::Latencies;

/// The most that we promise ourselves of the p99 under attack, in milliseconds.
const WANTED: f64 = 50.0;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Rounds of both nodes, one more to warm up.
    rounds: usize,
    /// How long each of them is asked in a round.
    each: Duration,
    /// How long the node on Redis is attacked: several leases.
    on_redis: Duration,
}

impl Pace {
    /// For figures.
    pub(crate) const FULL: Pace =
        Pace { rounds: 6, each: Duration::from_secs(6), on_redis: Duration::from_secs(40) };
    /// To see that it works.
    pub(crate) const QUICK: Pace =
        Pace { rounds: 1, each: Duration::from_secs(2), on_redis: Duration::from_secs(6) };
}

/// What the node was asked.
#[derive(Default)]
struct Asked {
    health: Vec<Latencies>,
    posts: Vec<Latencies>,
}

impl Asked {
    /// Asks a node both for so long.
    async fn ask(&mut self, node: &Node, time: Duration) -> Result<()> {
        let (health, posts) =
            tokio::try_join!(probe::health(node, time), probe::posts(node, time))?;
        eprintln!("    /healthz {health}; posts {posts}");
        self.health.push(health);
        self.posts.push(posts);
        Ok(())
    }

    fn report(self, at: &str, wanted: Option<f64>, report: &mut Report) {
        let sides = [("`/healthz`", self.health), ("single posts", self.posts)];
        for (what, rounds) in sides {
            report.note(format!(
                "{what}, {at}: {} answers, the slowest after {:.1} ms.",
                rounds.iter().map(Latencies::count).sum::<usize>(),
                rounds.iter().map(|round| round.rank(1.0)).fold(0.0, f64::max)
            ));
            report.add_time(Time {
                name: format!("{what}, {at}"),
                p50: median(rounds.iter().map(|round| round.rank(0.5))),
                p99: median(rounds.iter().map(|round| round.rank(0.99))),
                worst: rounds.iter().map(|round| round.rank(0.99)).fold(0.0, f64::max),
                wanted,
            });
        }
    }
}

/// Measures all of it.
pub(crate) async fn run(pace: Pace) -> Result<Results> {
    let mut report = Report::new("overload");
    embedded(pace, &mut report).await?;
    on_redis(pace, &mut report).await?;
    report.results()
}

async fn embedded(pace: Pace, report: &mut Report) -> Result<()> {
    eprintln!("embedded");
    let (idle, attacked) =
        (Node::start(Ground::Embedded).await?, Node::start(Ground::Embedded).await?);
    let (mut at_rest, mut under_attack) = (Asked::default(), Asked::default());
    let (mut taken, mut refused) = (0, 0);
    for round in 0..=pace.rounds {
        eprintln!("  round {round}");
        let mut rest = Asked::default();
        rest.ask(&idle, pace.each).await?;
        let attack = Attack::begin(&attacked).await?;
        let mut meanwhile = Asked::default();
        meanwhile.ask(&attacked, pace.each).await?;
        let end = attack.end().await;
        attacked.until_quiet().await?;
        if round == 0 {
            continue;
        }
        at_rest.health.append(&mut rest.health);
        at_rest.posts.append(&mut rest.posts);
        under_attack.health.append(&mut meanwhile.health);
        under_attack.posts.append(&mut meanwhile.posts);
        taken += end.taken;
        refused += end.refused;
    }
    at_rest.report("a node at rest", None, report);
    under_attack.report("under attack", Some(WANTED), report);
    report.note(format!(
        "Embedded engine, fsync; {} rounds of {} s for each node, in turn. Sixteen connections attack at once, each \
         with one body after another: eight with 130 kB of gzip for `/write`, which are 128 MiB of line breaks, and \
         eight with 7.8 MB of `[0,0,0,…]`. They were answered {taken} times, and {refused} times that there is no \
         room. p50 and p99 are those of the median round.",
        pace.rounds,
        pace.each.as_secs()
    ));
    Ok(())
}

async fn on_redis(pace: Pace, report: &mut Report) -> Result<()> {
    eprintln!("Redis");
    let redis = RedisServer::start(RedisOptions::new().fsync(Fsync::Everysec)).await;
    let node = Node::start(Ground::Redis(&redis.url())).await?;
    let before = node.epochs().await?;
    let attack = Attack::begin(&node).await?;
    let mut meanwhile = Asked::default();
    let asked = meanwhile.ask(&node, pace.on_redis).await;
    let end = attack.end().await;
    asked?;
    let after = node.epochs().await?;
    let lost = before.iter().filter(|(role, epoch)| after.get(*role) != Some(*epoch)).count();
    meanwhile.report("under attack, on Redis", Some(WANTED), report);
    report.note(format!(
        "Redis, the default lease of 3 s, {} s under the same attack ({} bodies answered): {lost} of {} roles were \
         lost, by their epochs before and after.",
        pace.on_redis.as_secs(),
        end.taken + end.refused,
        before.len()
    ));
    Ok(())
}
