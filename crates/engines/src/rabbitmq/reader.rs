//! A consumer of one stream queue, at one place in it.
//!
//! It delivers every offset from its start on, one after another, anchors included; if the place that it
//! was attached at is older than all there is, it begins at the oldest, and if it is newer, at that
//! place, whenever something comes to stand there.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{Cursor, Digest, Fault, LogEntry, Most, Partition, ReadError};
use futures::future::FutureExt;
use futures::stream::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{AMQPValue, DeliveryTag, FieldTable};
use lapin::{Channel, Consumer};
use tokio::time::{Instant, timeout_at};

use super::faults::fault;
use super::queue::{anchor_id, offset};
use super::session::{Session, retire};

/// Messages that the broker may send ahead. They wait in memory, so with the largest frames a reader
/// that nobody reads from holds 64 MiB.
const PREFETCH: u16 = 16;

/// Messages between two acknowledgements. Half of what may be sent ahead, so that the broker always has
/// leave to send the other half.
const ACKNOWLEDGE_EVERY: u16 = PREFETCH / 2;

/// How long a page that has come this far waits for its next entry. The broker sends a page's worth in
/// several goes, and a reader that is behind is better off with full pages.
const LINGER: Duration = Duration::from_millis(2);

/// For the oldest entry of a partition to arrive. Nothing arrives if there is none.
const OLDEST_WITHIN: Duration = Duration::from_secs(1);

/// Where to begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    /// At this offset.
    Offset(u64),
    /// At the oldest entry.
    First,
    /// Some way before the end: with the batch of messages that the broker wrote last.
    Last,
}

impl From {
    fn argument(self) -> AMQPValue {
        match self {
            From::Offset(offset) => AMQPValue::LongLongInt(offset.try_into().unwrap_or(i64::MAX)),
            From::First => AMQPValue::LongString("first".into()),
            From::Last => AMQPValue::LongString("last".into()),
        }
    }
}

/// A message as it stands in the queue.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) offset: u64,
    /// The id, if it is an anchor.
    pub(super) anchor: Option<String>,
    body: Bytes,
}

impl Stored {
    /// Of the frame; an anchor is no entry, and has none.
    pub(super) fn digest(&self) -> Option<Digest> {
        self.anchor.is_none().then(|| Digest::of(&self.body))
    }
}

/// Why there is no page.
#[derive(Debug)]
pub(super) enum Stop {
    /// The reader came to its end, not the log: with its queue, channel or connection.
    Ended(Fault),
    /// What stands there cannot be returned.
    Refused(ReadError),
}

pub(super) struct Reader {
    /// Weak, since the session keeps idle readers.
    session: Weak<Session>,
    queue: String,
    /// Taken out when it is closed.
    open: Option<(Channel, Consumer)>,
    /// The next offset, where it is known.
    expects: Option<u64>,
    put_back: Option<Stored>,
    last_tag: DeliveryTag,
    unacknowledged: u16,
}

impl Reader {
    /// Attaches to a queue, which is declared if it is not there.
    pub(super) async fn attach(
        session: &Arc<Session>,
        queue: &str,
        from: From,
    ) -> Result<Reader, Fault> {
        let attaching = async {
            let channel = session.channel().await?;
            session.declare_on(&channel, queue).await?;
            channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
            let mut arguments = FieldTable::default();
            arguments.insert("x-stream-offset".into(), from.argument());
            let options = BasicConsumeOptions::default();
            let consumer =
                channel.basic_consume(queue.into(), "".into(), options, arguments).await?;
            Ok((channel, consumer))
        };
        let open = session.answered(&format!("reading queue {queue}"), attaching).await?;
        Ok(Reader {
            session: Arc::downgrade(session),
            queue: queue.into(),
            open: Some(open),
            expects: match from {
                From::Offset(offset) => Some(offset),
                From::First | From::Last => None,
            },
            put_back: None,
            last_tag: 0,
            unacknowledged: 0,
        })
    }

    /// The next message, waited for.
    pub(super) async fn next(&mut self, until: Instant) -> Result<Option<Stored>, Fault> {
        if let Some(stored) = self.put_back.take() {
            return Ok(Some(stored));
        }
        if self.unacknowledged >= ACKNOWLEDGE_EVERY {
            self.acknowledge().await?;
        }
        let Some((_, consumer)) = &mut self.open else { return Err(self.ended()) };
        let delivered = match consumer.next().now_or_never() {
            Some(delivered) => delivered,
            None if Instant::now() >= until => return Ok(None),
            None => match timeout_at(until, consumer.next()).await {
                Ok(delivered) => delivered,
                Err(_) => return Ok(None),
            },
        };
        match delivered {
            Some(Ok(delivery)) => self.stored(delivery).map(Some),
            Some(Err(error)) => Err(fault(&format!("reading queue {}", self.queue), &error)),
            None => Err(self.ended()),
        }
    }

    /// The next [`next`](Self::next).
    pub(super) fn put_back(&mut self, stored: Stored) {
        self.put_back = Some(stored);
    }

    /// What is to be delivered next.
    pub(super) fn expect(&mut self, offset: u64) {
        self.expects = Some(offset);
    }

    /// The offset of the first frame from here on, if there are any messages; where they are all
    /// anchors, the offset behind them.
    pub(super) async fn first_frame(&mut self) -> Result<Option<u64>, Fault> {
        let until = Instant::now() + OLDEST_WITHIN;
        let mut first = None;
        while let Some(stored) = self.next(until).await? {
            if stored.anchor.is_none() {
                return Ok(Some(stored.offset));
            }
            first = Some(stored.offset + 1);
        }
        Ok(first)
    }

    /// The entries from `after.next` on; waits for the first until `until`.
    pub(super) async fn page(
        &mut self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        until: Instant,
    ) -> Result<Vec<LogEntry>, Stop> {
        let mut page = Vec::new();
        let mut bytes = 0;
        while !most.reached(page.len(), bytes) {
            let until = match page.len() {
                0 => until,
                few if few < usize::from(ACKNOWLEDGE_EVERY) => Instant::now(),
                _ => Instant::now() + LINGER,
            };
            match self.next(until).await {
                Ok(None) => break,
                Err(fault) if page.is_empty() => return Err(Stop::Ended(fault)),
                Err(_) => {
                    self.close();
                    return Ok(page);
                }
                Ok(Some(stored)) => match self.entry(at, after, &stored, page.is_empty()).await? {
                    Taken::Entry(entry) => {
                        bytes += stored.body.len();
                        page.push(entry);
                    }
                    Taken::Skipped => {}
                    Taken::NotYet => {
                        self.put_back(stored);
                        break;
                    }
                },
            }
        }
        match self.acknowledge().await {
            Err(fault) if page.is_empty() => Err(Stop::Ended(fault)),
            Err(_) => {
                self.close();
                Ok(page)
            }
            Ok(()) => Ok(page),
        }
    }

    /// Whether it can go on.
    pub(super) fn is_open(&self) -> bool {
        self.open.as_ref().is_some_and(|(channel, _)| channel.status().connected())
    }

    /// What a message is to the reader; an error only if it would be the `first` of a page.
    async fn entry(
        &mut self,
        at: &Partition,
        after: &Cursor,
        stored: &Stored,
        first: bool,
    ) -> Result<Taken, Stop> {
        let expected = self.expects.unwrap_or(stored.offset);
        if stored.offset != expected && !first {
            return Ok(Taken::NotYet);
        }
        if stored.offset < expected {
            // The log was replaced by one that had not come so far, without a word.
            let text = format!("queue {} went back to offset {}", self.queue, stored.offset);
            return Err(Stop::Ended(Fault::Retryable(text)));
        }
        if stored.offset > expected {
            // Retention took what was to come next.
            let oldest = match stored.anchor {
                None => stored.offset,
                Some(_) => {
                    let next = self.first_frame().await.map_err(Stop::Ended)?;
                    next.unwrap_or(stored.offset + 1)
                }
            };
            after.verify(oldest, None).map_err(Stop::Refused)?;
        }
        let taken = if stored.offset < after.next || stored.anchor.is_some() {
            Taken::Skipped
        } else {
            match LogEntry::from_stored(at, stored.offset, &stored.body) {
                Ok(entry) => Taken::Entry(entry),
                Err(error) if first => return Err(Stop::Refused(error)),
                Err(_) => return Ok(Taken::NotYet),
            }
        };
        self.expect(stored.offset + 1);
        Ok(taken)
    }

    fn stored(&mut self, delivery: Delivery) -> Result<Stored, Fault> {
        self.last_tag = delivery.delivery_tag;
        self.unacknowledged += 1;
        let Some(offset) = offset(&delivery.properties) else {
            let text = format!("queue {} is no stream: its messages have no offset", self.queue);
            return Err(Fault::Fatal(text));
        };
        let anchor = anchor_id(&delivery.properties);
        Ok(Stored { offset, anchor, body: delivery.data.into() })
    }

    /// Gives the broker leave to send more. It keeps what was acknowledged.
    async fn acknowledge(&mut self) -> Result<(), Fault> {
        if std::mem::take(&mut self.unacknowledged) == 0 {
            return Ok(());
        }
        let (Some((channel, _)), Some(session)) = (&self.open, self.session.upgrade()) else {
            return Err(self.ended());
        };
        let acknowledging = channel.basic_ack(self.last_tag, BasicAckOptions { multiple: true });
        session.answered("acknowledging what was read", acknowledging).await
    }

    fn ended(&self) -> Fault {
        Fault::Retryable(format!("RabbitMQ ended the reading of queue {}", self.queue))
    }

    fn close(&mut self) {
        if let Some((channel, consumer)) = self.open.take() {
            retire(channel, consumer);
        }
    }
}

enum Taken {
    Entry(LogEntry),
    /// Not for this cursor, or no entry.
    Skipped,
    /// To be looked at again by the next page, as its first.
    NotYet,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("queue", &self.queue)
            .field("expects", &self.expects)
            .finish_non_exhaustive()
    }
}
