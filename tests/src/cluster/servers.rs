//! The servers under the cluster, and how they are hurt: each goes down for a while in a task of its own,
//! so that other things happen meanwhile.

use std::fmt;
use std::time::Duration;

use consort_engines::{Durability, Options};
use consort_testbed::{Fsync, RabbitOptions, RabbitServer, RedisOptions, RedisServer};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::tally::SHARDS;

/// What keeps this Consort apart on its servers.
pub const NAMESPACE: &str = "tally";

/// How a server goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Stop,
}

/// Which server goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// The store, and without a broker the log.
    Redis,
    /// The log.
    Rabbit,
}

/// A server that can be taken down and brought back with its data.
trait Server: Send + fmt::Debug + 'static {
    fn down(&mut self, blow: Blow) -> impl Future<Output = ()> + Send;
    fn up(&mut self) -> impl Future<Output = ()> + Send;
}

impl Server for RedisServer {
    async fn down(&mut self, blow: Blow) {
        match blow {
            Blow::Kill => self.kill().await,
            Blow::Stop => self.stop().await,
        }
    }

    async fn up(&mut self) {
        self.restart().await;
    }
}

impl Server for RabbitServer {
    async fn down(&mut self, blow: Blow) {
        match blow {
            Blow::Kill => self.kill().await,
            Blow::Stop => self.stop().await,
        }
    }

    async fn up(&mut self) {
        self.restart().await;
    }
}

/// A server in its place.
#[derive(Debug)]
enum Slot<S> {
    Up(S),
    /// The task gives the server back when it answers again.
    Down(JoinHandle<S>),
    /// For the moment in which one becomes the other.
    Empty,
}

impl<S: Server> Slot<S> {
    fn is_up(&self) -> bool {
        matches!(self, Slot::Up(_))
    }

    fn hurt(&mut self, blow: Blow, down_for: Duration) {
        *self = match std::mem::replace(self, Slot::Empty) {
            Slot::Up(mut server) => Slot::Down(tokio::spawn(async move {
                server.down(blow).await;
                tokio::time::sleep(down_for).await;
                server.up().await;
                server
            })),
            down => down,
        };
    }

    /// Takes the server back if it is up again, or waits until it is.
    async fn tend(&mut self, wait: bool) {
        *self = match std::mem::replace(self, Slot::Empty) {
            Slot::Down(task) if wait || task.is_finished() => {
                Slot::Up(task.await.expect("the server comes back"))
            }
            same => same,
        };
    }
}

/// Redis, and perhaps RabbitMQ.
#[derive(Debug)]
pub struct Servers {
    redis: Slot<RedisServer>,
    rabbit: Option<Slot<RabbitServer>>,
    url: String,
    broker: Option<String>,
    /// When something was last seen to be down.
    hurt_at: Option<Instant>,
}

impl Servers {
    /// Starts them. Redis flushes its file before each answer: nothing acknowledged may be lost, however
    /// it ends.
    pub async fn start(with_broker: bool) -> Self {
        let redis = RedisServer::start(RedisOptions::new().fsync(Fsync::Always)).await;
        let rabbit = match with_broker {
            true => Some(RabbitServer::start(RabbitOptions::new()).await),
            false => None,
        };
        Servers {
            url: redis.url(),
            broker: rabbit.as_ref().map(RabbitServer::url),
            redis: Slot::Up(redis),
            rabbit: rabbit.map(Slot::Up),
            hurt_at: None,
        }
    }

    /// What opens an engine on them.
    pub fn options(&self) -> Options {
        Options {
            url: self.url.clone(),
            broker: self.broker.clone(),
            namespace: NAMESPACE.into(),
            shards: SHARDS,
            durability: Durability::Fsync,
            allow_volatile: false,
            tls_ca: None,
        }
    }

    /// Whether it is there and up.
    pub fn is_up(&self, victim: Victim) -> bool {
        match victim {
            Victim::Redis => self.redis.is_up(),
            Victim::Rabbit => self.rabbit.as_ref().is_some_and(Slot::is_up),
        }
    }

    /// Takes one down for `down_for` and the time it needs to start. Returns at once.
    pub fn hurt(&mut self, victim: Victim, blow: Blow, down_for: Duration) {
        self.hurt_at = Some(Instant::now());
        match (victim, &mut self.rabbit) {
            (Victim::Redis, _) => self.redis.hurt(blow, down_for),
            (Victim::Rabbit, Some(rabbit)) => rabbit.hurt(blow, down_for),
            (Victim::Rabbit, None) => panic!("there is no broker to hurt"),
        }
    }

    /// Takes note of those that are up again.
    pub async fn tend(&mut self) {
        self.settle(false).await;
    }

    /// Waits until all are up.
    pub async fn all_up(&mut self) {
        self.settle(true).await;
    }

    async fn settle(&mut self, wait: bool) {
        if self.any_down() {
            self.hurt_at = Some(Instant::now());
        }
        self.redis.tend(wait).await;
        if let Some(rabbit) = &mut self.rabbit {
            rabbit.tend(wait).await;
        }
    }

    /// What the servers that should be up have printed since their start.
    pub fn output(&self) -> String {
        let mut said = Vec::new();
        if let Slot::Up(redis) = &self.redis {
            said.push(redis.output());
        }
        if let Some(Slot::Up(rabbit)) = &self.rabbit {
            said.push(rabbit.output());
        }
        said.join("\n")
    }

    /// Whether something was down at `moment` or later. What is down now counts, although nobody has looked
    /// since: a node may start and end between two looks.
    pub fn were_hurt_since(&self, moment: Instant) -> bool {
        self.any_down() || self.hurt_at.is_some_and(|hurt| hurt >= moment)
    }

    fn any_down(&self) -> bool {
        !self.redis.is_up() || self.rabbit.as_ref().is_some_and(|rabbit| !rabbit.is_up())
    }
}
