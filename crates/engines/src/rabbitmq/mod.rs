//! The RabbitMQ engine: `Log` on stream queues, over AMQP 0.9.1.
//!
//! A partition is a stream queue; a frame is one message in it, and its offset is the broker's. It is no
//! `Store`: that is Redis's part beside it.
//!
//! Appends and reads have a connection each. A broker that runs short of memory or disk blocks the
//! connections that publish, and nothing passes on them any more; reading must go on then, since it is
//! what makes room.
//!
//! Beside it, an [`intake`], which is an `Inlet` on a queue of somebody else, and an [`outgo`], which is a
//! `Publisher` to an exchange of somebody else.

mod anchor;
mod consumption;
mod faults;
mod intake;
mod kept;
mod link;
mod outgo;
mod publisher;
mod publishers;
mod queue;
mod reader;
mod session;
mod socket;
mod target;
mod unsettled;

use std::cmp::Ordering::{Equal, Greater, Less};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_kernel::{
    AppendError, Cursor, Fault, Frame, Log, LogEntry, Most, Partition, ReadError,
};
use tokio::time::Instant;

use crate::open::OpenError;
pub use intake::RabbitInlet;
use link::Link;
pub use outgo::RabbitPublisher;
use publisher::Outcome;
use queue::Queues;
use reader::{From, Reader, Stop};
use session::{ANSWER_WITHIN, Declaring, Session};
use target::Target;

/// What a new reader gives the broker to deliver something, even to a caller who does not want to wait:
/// before the first delivery nothing tells an empty partition from one whose entries are on their way.
/// It takes some 10 ms on an idle broker.
const FIRST_DELIVERY_WITHIN: Duration = Duration::from_millis(500);

/// The same for a reader that has been attached for a while: the way of one delivery, for an entry that
/// was confirmed just before the read.
const DELIVERY_WITHIN: Duration = Duration::from_millis(50);

/// How long the entry that a cursor vouches for may take to arrive before its absence is suspected, and
/// looked into at the price of an [`anchor`].
const VOUCHED_WITHIN: Duration = Duration::from_millis(500);

/// Streams in stream queues.
#[derive(Clone)]
pub struct RabbitLog {
    inner: Arc<Inner>,
}

struct Inner {
    queues: Queues,
    target: Arc<Target>,
    appends: Link,
    reads: Link,
}

impl RabbitLog {
    /// Connects to the broker at `url`, `amqp://…` or `amqps://…`. With `amqps`, the authority in the
    /// file `tls_ca` (PEM) is trusted beside those that the system trusts.
    pub async fn open(
        url: &str,
        namespace: &str,
        tls_ca: Option<&Path>,
    ) -> Result<RabbitLog, OpenError> {
        let target = Arc::new(Target::parse(url, tls_ca).await?);
        let queues = Queues::new(namespace).map_err(|reason| target.unusable(reason))?;
        let declaring = Declaring::default();
        let link = |purpose: &str| {
            let name = format!("consort {namespace}: {purpose}");
            Link::new(target.clone(), name, declaring.clone())
        };
        let (appends, reads) = (link("appends"), link("reads"));
        for link in [&appends, &reads] {
            link.connected().await.map_err(|fault| target.unreachable(fault))?;
        }
        Ok(RabbitLog { inner: Arc::new(Inner { queues, target, appends, reads }) })
    }

    /// A reader that will deliver what follows the cursor, with the entry that the cursor vouches for
    /// found again and compared.
    async fn attach(
        &self,
        session: &Arc<Session>,
        at: &Partition,
        after: &Cursor,
    ) -> Result<Reader, ReadError> {
        let queue = self.inner.queues.name(at);
        let from = after.last.map_or(after.next, |(number, _)| number);
        let mut reader = Reader::attach(session, &queue, From::Offset(from)).await?;
        let Some((number, _)) = after.last else { return Ok(reader) };

        let mut found = reader.next(Instant::now() + VOUCHED_WITHIN).await?;
        if found.is_none() {
            if self.end_of(session, at, number).await? <= number {
                after.verify(number, None)?;
            }
            found = reader.next(Instant::now() + ANSWER_WITHIN).await?;
        }
        let Some(found) = found else {
            return Err(Fault::Retryable(format!(
                "entry {number} of stream partition {at} was not delivered within {ANSWER_WITHIN:?}"
            ))
            .into());
        };
        match found.offset.cmp(&number) {
            Equal => after.verify(number, found.digest())?,
            // The reader was attached at the end of a log that had not come so far.
            Less => after.verify(number, None)?,
            // It was attached at the oldest entry there is, and the one asked for is older.
            Greater => {
                let oldest = found.offset;
                reader.put_back(found);
                let first = reader.first_frame().await?;
                after.verify(first.unwrap_or(oldest), None)?;
            }
        }
        reader.expect(number + 1);
        Ok(reader)
    }
}

#[async_trait]
impl Log for RabbitLog {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        let body = frame.encode()?;
        let queue = self.inner.queues.name(at);
        let session = self.inner.appends.session().await.map_err(AppendError::Engine)?;
        match session.publish(&queue, body, queue::frame_properties()).await {
            Outcome::Stored => Ok(()),
            Outcome::NotSent(fault) => Err(AppendError::Engine(fault)),
            Outcome::Unknown(fault) => Err(AppendError::Unknown(fault)),
        }
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        let waited = Instant::now() + wait;
        let session = self.inner.reads.session().await?;
        let mut kept = session.kept.take(at, after);
        loop {
            let (mut reader, least, fresh) = match kept.take() {
                Some(reader) => (reader, DELIVERY_WITHIN, false),
                None => (self.attach(&session, at, after).await?, FIRST_DELIVERY_WITHIN, true),
            };
            let until = waited.max(Instant::now() + least);
            match reader.page(at, after, most, until).await {
                Ok(page) => {
                    let behind = page.last().map_or(*after, LogEntry::cursor);
                    session.kept.keep(at, behind, reader);
                    return Ok(page);
                }
                // Its queue was deleted, or moved to another leader, since it was last used: what is
                // there now has to be looked at afresh, from the vouched entry on.
                Err(Stop::Ended(_)) if !fresh && session.usable() => {}
                Err(Stop::Ended(fault)) => return Err(fault.into()),
                Err(Stop::Refused(error)) => return Err(error),
            }
        }
    }

    async fn first(&self, at: &Partition) -> Result<u64, Fault> {
        let session = self.inner.reads.session().await?;
        let queue = self.inner.queues.name(at);
        let mut reader = Reader::attach(&session, &queue, From::First).await?;
        Ok(reader.first_frame().await?.unwrap_or(0))
    }

    /// Does nothing: a stream queue lets go of entries by its retention alone.
    async fn trim(&self, _: &Partition, _: u64) -> Result<(), Fault> {
        Ok(())
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.inner.appends.session().await?.ping().await?;
        self.inner.reads.session().await?.ping().await
    }
}

impl fmt::Debug for RabbitLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitLog")
            .field("target", &self.inner.target)
            .field("queues", &self.inner.queues)
            .finish_non_exhaustive()
    }
}
