//! The servers that a page asks for, on their usual ports.

use consort_testbed::{InfluxServer, Port, RabbitOptions, RabbitServer, RedisOptions, RedisServer};

/// A server that a page can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Redis,
    RabbitMq,
    InfluxDb,
}

/// A server that runs until this is dropped.
#[derive(Debug)]
#[expect(
    dead_code,
    reason = "a server ends when its handle is dropped; nothing else is asked of it"
)]
pub(crate) enum RunningServer {
    Redis(RedisServer),
    RabbitMq(RabbitServer),
    InfluxDb(InfluxServer),
}

impl Server {
    /// The server of this name.
    pub(crate) fn parse(name: &str) -> Option<Server> {
        match name {
            "redis" => Some(Server::Redis),
            "rabbitmq" => Some(Server::RabbitMq),
            "influxdb" => Some(Server::InfluxDb),
            _ => None,
        }
    }

    /// Starts it on its usual port of 127.0.0.1.
    pub(crate) async fn start(self) -> RunningServer {
        match self {
            Server::Redis => {
                let port = Port::exactly(6379);
                RunningServer::Redis(RedisServer::start_on(port, RedisOptions::new()).await)
            }
            Server::RabbitMq => {
                let port = Port::exactly(5672);
                RunningServer::RabbitMq(RabbitServer::start_on(port, RabbitOptions::new()).await)
            }
            Server::InfluxDb => {
                RunningServer::InfluxDb(InfluxServer::start_on(Port::exactly(8086)).await)
            }
        }
    }
}
