//! One consumer of a queue on one channel, from its start to its end: a session of the inlet.
//!
//! The broker numbers deliveries for each channel anew, so a number means something on its own channel
//! alone. Each consumption has a number of its own, and every [`Tag`] names both.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use consort_kernel::{Fault, Message, Tag, limits};
use futures::future::{FutureExt, try_join_all};
use futures::stream::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use super::faults::{access_refused, not_found, not_implemented, reason};
use super::queue::offset;
use super::session::{ANSWER_WITHIN, Session, retire};
use super::unsettled::Unsettled;

/// Messages that the broker may send ahead of their settling. With an append of some 10 ms it is good
/// for 100,000 messages a second; they wait in memory, so it should not be much more: a thousand of the
/// largest that can be appended are 2 GiB.
pub(super) const PREFETCH: u16 = 1_000;

/// Numbers the consumptions of all inlets of the process, so that a tag of one means nothing to another.
static CONSUMPTIONS: AtomicU64 = AtomicU64::new(1);

/// The half that settles. It is shared, since settling goes on while a take waits.
pub(super) struct Settling {
    number: u64,
    what: String,
    session: Arc<Session>,
    channel: Channel,
    unsettled: Mutex<Unsettled>,
    /// Held from the choice of acknowledgements until they are sent. A first call that has chosen 1 and
    /// not sent it, and a second that then sends "all up to 2", would make the first one's a repeat.
    sending: tokio::sync::Mutex<()>,
}

impl Settling {
    /// Whether it can still acknowledge anything.
    pub(super) fn is_open(&self) -> bool {
        self.session.usable() && self.channel.status().connected()
    }

    /// Acknowledges those that are its own and out.
    pub(super) async fn settle(&self, tags: &[Tag]) -> Result<(), Fault> {
        let own = tags.iter().filter(|tag| tag.session() == self.number).map(|tag| tag.number());
        let Ok(_alone) = timeout(ANSWER_WITHIN, self.sending.lock()).await else {
            let text = format!("{}: settling was busy for {ANSWER_WITHIN:?}", self.what);
            return Err(Fault::Retryable(text));
        };
        if !self.is_open() {
            return Ok(());
        }
        let acks = self.unsettled.lock().settle(own);
        // From here on they count as acknowledged. If they then are not, nobody would ever be given them
        // again on this connection, so it is ended.
        let guard = GiveUp { session: Some(&self.session) };
        let sending = acks
            .into_iter()
            .map(|ack| self.channel.basic_ack(ack.tag, BasicAckOptions { multiple: ack.multiple }));
        let sending = async { Ok(try_join_all(sending).await) };
        match self.session.answered(&self.what, sending).await? {
            Ok(_) => {
                guard.disarm();
                Ok(())
            }
            Err(error) => {
                Err(Fault::Retryable(format!("{}: not settled: {}", self.what, reason(&error))))
            }
        }
    }
}

impl Settling {
    /// Ends the session: what is not settled comes again, to whoever consumes next.
    pub(super) fn release(&self) {
        self.session.condemn("the queue was given up; what is not settled comes again");
    }
}

/// Ends a connection on which settling did not come to its end.
struct GiveUp<'a> {
    session: Option<&'a Session>,
}

impl GiveUp<'_> {
    fn disarm(mut self) {
        self.session = None;
    }
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            session.condemn("settling was given up; what is not settled comes again");
        }
    }
}

/// The half that takes.
pub(super) struct Consumption {
    queue: String,
    settling: Arc<Settling>,
    consumer: Consumer,
    /// Arrived, and not handed out yet.
    next: Option<Delivery>,
    /// Once the consumer came to its end: it must not be asked again.
    ended: bool,
    /// Whether the queue is known to keep what is not settled.
    keeps: bool,
}

impl Consumption {
    /// Starts to consume a queue, which has to be there. `what` is being done, in words for faults.
    pub(super) async fn start(
        session: &Arc<Session>,
        queue: &str,
        is_exclusive: bool,
        what: String,
    ) -> Result<Consumption, Fault> {
        let starting = async {
            let channel = session.channel().await?;
            channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
            // Acknowledged by hand.
            let options =
                BasicConsumeOptions { exclusive: is_exclusive, ..BasicConsumeOptions::default() };
            let arguments = FieldTable::default();
            let consumer =
                channel.basic_consume(queue.into(), "".into(), options, arguments).await?;
            Ok((channel, consumer))
        };
        let started = session.answered(&what, async { Ok(starting.await) }).await?;
        let (channel, consumer) = started.map_err(|error| fault(&what, &error))?;
        let settling = Arc::new(Settling {
            number: CONSUMPTIONS.fetch_add(1, Ordering::Relaxed),
            what,
            session: session.clone(),
            channel,
            unsettled: Mutex::default(),
            sending: tokio::sync::Mutex::default(),
        });
        let queue = queue.to_owned();
        Ok(Consumption { queue, settling, consumer, next: None, ended: false, keeps: false })
    }

    pub(super) fn settling(&self) -> Arc<Settling> {
        self.settling.clone()
    }

    /// Whether more may come.
    pub(super) fn is_open(&self) -> bool {
        !self.ended && self.settling.is_open()
    }

    /// What has arrived, up to `most` or as many as make a page; waits for the first until `until`.
    ///
    /// A fault is the end of it. Nothing is handed out before the last await, so a caller who goes away
    /// takes nothing along.
    pub(super) async fn page(
        &mut self,
        most: usize,
        until: Instant,
    ) -> Result<Vec<Message>, Fault> {
        if self.next.is_none() {
            let Ok(delivered) = timeout_at(until, self.consumer.next()).await else {
                return Ok(Vec::new());
            };
            self.arrived(delivered)?;
        }
        self.check().await?;
        let (mut page, mut bytes) = (Vec::new(), 0);
        while page.len() < most && bytes < limits::PAGE_BYTES {
            let Some(delivery) = self.next.take() else { break };
            bytes += delivery.data.len();
            page.push(self.hand_out(delivery));
            if let Some(delivered) = self.consumer.next().now_or_never() {
                match self.arrived(delivered) {
                    Ok(()) => {}
                    // The queue was deleted: what it had sent before is nowhere else any more.
                    Err(_) if self.settling.is_open() => break,
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(page)
    }

    fn arrived(&mut self, delivered: Option<lapin::Result<Delivery>>) -> Result<(), Fault> {
        let what = &self.settling.what;
        match delivered {
            Some(Ok(delivery)) => {
                self.next = Some(delivery);
                Ok(())
            }
            Some(Err(error)) => {
                self.ended = true;
                Err(fault(what, &error))
            }
            None => {
                self.ended = true;
                Err(Fault::Retryable(format!("{what}: RabbitMQ ended it")))
            }
        }
    }

    /// Refuses a stream: it delivers what comes from now on, and never again what was not settled. The
    /// protocol has no question for it, so the one request is made that streams alone do not know. It is
    /// made only if the first message has an offset; one that came out of a stream on its way may have
    /// that in any queue.
    async fn check(&mut self) -> Result<(), Fault> {
        let first = self.next.as_ref();
        if self.keeps || first.is_none_or(|first| offset(&first.properties).is_none()) {
            self.keeps |= first.is_some();
            return Ok(());
        }
        let Settling { session, what, .. } = &*self.settling;
        let asking = async {
            let channel = session.channel().await?;
            let got =
                channel.basic_get(self.queue.as_str().into(), BasicGetOptions::default()).await;
            // The message, if there is one, goes back to its place with the channel.
            retire(channel, ());
            Ok(got.map(drop))
        };
        match session.answered(what, asking).await? {
            Err(error) if not_implemented(&error) => {
                session.condemn("its queue is a stream");
                Err(Fault::Fatal(format!(
                    "{what}: it is a stream, which does not keep what was not settled: take from a \
                     classic or a quorum queue"
                )))
            }
            Ok(()) | Err(_) => {
                self.keeps = true;
                Ok(())
            }
        }
    }

    fn hand_out(&self, delivery: Delivery) -> Message {
        self.settling.unsettled.lock().hand_out(delivery.delivery_tag);
        Message {
            id: delivery.properties.message_id().as_ref().map(ShortString::to_string),
            tag: Tag::new(self.settling.number, delivery.delivery_tag),
            redelivered: delivery.redelivered,
            body: delivery.data.into(),
        }
    }
}

impl Drop for Consumption {
    fn drop(&mut self) {
        // A clone is of the same consumer, which is cancelled with its last.
        retire(self.settling.channel.clone(), self.consumer.clone());
    }
}

impl fmt::Debug for Consumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumption")
            .field("queue", &self.queue)
            .field("number", &self.settling.number)
            .finish_non_exhaustive()
    }
}

/// Only access that is refused is final. A queue may come to be, another consumer's exclusive use ends,
/// and a channel that was closed for what it did is replaced.
fn fault(what: &str, error: &lapin::Error) -> Fault {
    let reason = reason(error);
    if not_found(error) {
        return Fault::Retryable(format!(
            "{what}: there is no such queue: declare it there, or correct its name ({reason})"
        ));
    }
    let text = format!("{what}: {reason}");
    match access_refused(error) && !reason.contains("exclusive use") {
        true => Fault::Fatal(text),
        false => Fault::Retryable(text),
    }
}
