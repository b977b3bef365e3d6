//! One connection for as long as it lasts, with what depends on it: its publishers, and the readers that
//! are kept.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::Fault;
use lapin::{BasicProperties, Channel, Connection};
use tokio::time::timeout;

use super::faults::fault;
use super::kept::{IDLE_FOR, Kept};
use super::publisher::Outcome;
use super::publishers::Publishers;
use super::queue::{declare_arguments, declare_options};
use super::socket::Socket;

/// For the broker to answer one request. Declaring a stream is the slowest: some 20 ms, and one after
/// another.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// For a close in good order, before the socket is simply ended.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

const OK: u16 = 200;

/// Held while a queue is declared, by all sessions of a log.
///
/// The broker tells a second declarer that the queue is there while it still makes the stream behind it
/// for the first, and ends the connection of whoever then uses it. Between processes that can still
/// happen, at the first use of a partition; it is a passing fault as any other.
pub(super) type Declaring = Arc<tokio::sync::Mutex<()>>;

#[derive(Debug)]
pub(super) struct Session {
    connection: Arc<Connection>,
    socket: Socket,
    condemned: AtomicBool,
    declaring: Declaring,
    publishers: Publishers,
    pub(super) kept: Kept,
}

impl Session {
    pub(super) fn start(
        connection: Connection,
        socket: Socket,
        declaring: Declaring,
    ) -> Arc<Session> {
        let session = Arc::new(Session {
            connection: Arc::new(connection),
            socket,
            condemned: AtomicBool::new(false),
            declaring,
            publishers: Publishers::default(),
            kept: Kept::default(),
        });
        tokio::spawn(sweep(Arc::downgrade(&session)));
        session
    }

    /// Whether it is worth trying.
    pub(super) fn usable(&self) -> bool {
        !self.condemned.load(Ordering::Acquire) && self.connection.status().connected()
    }

    /// Gives the connection up: it no longer answers, or no longer tells the truth. All calls that are
    /// under way on it fail at once.
    pub(super) fn condemn(&self, why: &str) {
        if !self.condemned.swap(true, Ordering::AcqRel) {
            tracing::warn!("a connection to RabbitMQ is given up: {why}");
            self.socket.hang_up();
        }
    }

    /// Waits for the broker's answer to `call`, within bounds.
    pub(super) async fn answered<T>(
        &self,
        what: &str,
        call: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T, Fault> {
        match timeout(ANSWER_WITHIN, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(fault(what, &error)),
            Err(_) => {
                let text = format!("{what}: RabbitMQ did not answer within {ANSWER_WITHIN:?}");
                self.condemn(&text);
                Err(Fault::Retryable(text))
            }
        }
    }

    /// Opens a channel. An error on one ends it, and with it whatever else goes on there.
    pub(super) async fn channel(&self) -> lapin::Result<Channel> {
        self.connection.create_channel().await
    }

    /// Makes sure that the queue is there now.
    pub(super) async fn declare_on(&self, channel: &Channel, queue: &str) -> lapin::Result<()> {
        let _alone = self.declaring.lock().await;
        channel.queue_declare(queue.into(), declare_options(), declare_arguments()).await?;
        Ok(())
    }

    /// Puts a message into a queue.
    pub(super) async fn publish(
        &self,
        queue: &str,
        body: Bytes,
        properties: BasicProperties,
    ) -> Outcome {
        self.publishers.publish(self, queue, body, properties).await
    }

    /// Whether the broker answers on this connection.
    pub(super) async fn ping(&self) -> Result<(), Fault> {
        let asking = async { self.channel().await?.close(OK, "ping".into()).await };
        self.answered("a ping", asking).await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let (connection, socket) = (self.connection.clone(), self.socket.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return socket.hang_up();
        };
        runtime.spawn(async move {
            if connection.status().connected() {
                let _ = timeout(CLOSE_WITHIN, connection.close(OK, "done".into())).await;
            }
            socket.hang_up();
        });
    }
}

/// Closes a channel that is done with.
///
/// The library would do it when the channel is dropped, but it takes an error in that for an error of
/// the connection, and there is one if the broker closes the channel at the same moment.
pub(super) fn retire<T: Send + 'static>(channel: Channel, until_closed: T) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current()
        && channel.status().connected()
    {
        runtime.spawn(async move {
            let _ = timeout(CLOSE_WITHIN, channel.close(OK, "done".into())).await;
            drop(until_closed);
        });
    }
}

/// Lets idle readers go, for as long as the session lives.
async fn sweep(session: Weak<Session>) {
    loop {
        tokio::time::sleep(IDLE_FOR / 2).await;
        match session.upgrade() {
            Some(session) => session.kept.sweep(),
            None => return,
        }
    }
}
