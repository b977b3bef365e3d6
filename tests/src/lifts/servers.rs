//! What the nodes stand on, and how it is restarted under them.

use std::time::Duration;

use consort_testbed::{RabbitOptions, RabbitServer, RedisCluster, RedisOptions, RedisServer};
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
        let redis = RedisOptions::new();
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
            Servers::RabbitMq(_, rabbit) => {
                rabbit.stop().await;
                tokio::time::sleep(down_for).await;
                rabbit.restart().await;
            }
        }
    }
}
