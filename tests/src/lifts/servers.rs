//! What the nodes stand on, and how it is restarted under them.

use std::time::Duration;

use consort_testbed::{
    Fsync, RabbitOptions, RabbitServer, RedisCluster, RedisOptions, RedisServer,
};
use rand::Rng;

/// Kinds of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upon {
    /// Log and store on one Redis.
    Redis,
    /// Both on a Redis Cluster.
    RedisCluster,
    /// The log on RabbitMQ, the store on Redis.
    RabbitMq,
}

/// The servers, private to the trial. Redis flushes its file once a second, as it does by default; here it is
/// only ever stopped in order, and loses nothing.
#[derive(Debug)]
pub enum Servers {
    /// One Redis.
    Redis(RedisServer),
    /// A Redis Cluster.
    RedisCluster(RedisCluster),
    /// Redis and RabbitMQ.
    RabbitMq(RedisServer, RabbitServer),
}

/// Where the engine of a node is.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The store, and without a broker the log.
    pub url: String,
    /// The log.
    pub broker: Option<String>,
}

impl Servers {
    /// Starts them.
    pub async fn start(upon: Upon) -> Servers {
        Servers::start_with(upon, RedisOptions::new()).await
    }

    /// The same, where Redis flushes its file before each answer: a server that is killed has forgotten nothing.
    pub async fn start_to_be_killed(upon: Upon) -> Servers {
        Servers::start_with(upon, RedisOptions::new().fsync(Fsync::Always)).await
    }

    async fn start_with(upon: Upon, redis: RedisOptions) -> Servers {
        match upon {
            Upon::Redis => Servers::Redis(RedisServer::start(redis).await),
            Upon::RedisCluster => Servers::RedisCluster(RedisCluster::start(redis).await),
            Upon::RabbitMq => {
                let rabbit = RabbitServer::start(RabbitOptions::new());
                let (redis, rabbit) = tokio::join!(RedisServer::start(redis), rabbit);
                Servers::RabbitMq(redis, rabbit)
            }
        }
    }

    /// Where they are.
    pub fn engine(&self) -> Engine {
        match self {
            Servers::Redis(redis) => Engine { url: redis.url(), broker: None },
            Servers::RedisCluster(cluster) => Engine { url: cluster.url(), broker: None },
            Servers::RabbitMq(redis, rabbit) => {
                Engine { url: redis.url(), broker: Some(rabbit.url()) }
            }
        }
    }

    /// Stops one of them in order, and starts it again after `down_for`; returns when it serves.
    pub async fn restart(&mut self, random: &mut impl Rng, down_for: Duration) {
        match self {
            Servers::Redis(redis) => {
                redis.stop().await;
                tokio::time::sleep(down_for).await;
                redis.restart().await;
            }
            Servers::RedisCluster(cluster) => {
                let index = random.random_range(0..cluster.nodes().len());
                cluster.node(index).stop().await;
                tokio::time::sleep(down_for).await;
                cluster.node(index).restart().await;
                cluster.settled().await;
            }
            Servers::RabbitMq(redis, _) if random.random_bool(0.5) => {
                redis.stop().await;
                tokio::time::sleep(down_for).await;
                redis.restart().await;
            }
            Servers::RabbitMq(_, rabbit) => {
                rabbit.stop().await;
                tokio::time::sleep(down_for).await;
                rabbit.restart().await;
            }
        }
    }

    /// Kills one of them, and starts it again after `down_for`; returns when it serves.
    ///
    /// # Panics
    ///
    /// On a Redis Cluster: its replicas would take over, which is another trial.
    pub async fn kill(&mut self, random: &mut impl Rng, down_for: Duration) {
        match self {
            Servers::RabbitMq(_, rabbit) if random.random_bool(0.5) => {
                rabbit.kill().await;
                tokio::time::sleep(down_for).await;
                rabbit.restart().await;
            }
            Servers::Redis(redis) | Servers::RabbitMq(redis, _) => {
                redis.kill().await;
                tokio::time::sleep(down_for).await;
                redis.restart().await;
            }
            Servers::RedisCluster(_) => panic!("a server of a Redis Cluster is not killed here"),
        }
    }
}
