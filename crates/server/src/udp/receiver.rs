//! Reads one stream's socket for as long as the node runs.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use consort_kernel::{Budget, Moment, Store, Timestamp};
use consort_line::{Point, Precision, lines};
use consort_views::{Refused, Rejection, refused};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use ipnet::IpNet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::drops::Drops;
use super::inbox::Inbox;
use super::metrics::UdpMetrics;
use super::socket::Socket;
use crate::streams::{Entrance, now};

/// When there is no room, the socket is left alone for this long, so that the kernel's buffer takes what comes;
/// after it, datagrams are read and dropped: old ones would only keep new ones out.
const HOLD: Duration = Duration::from_millis(500);

/// How often the kernel is asked what it dropped, and samples are noted.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many malformed lines are noted between two looks; all are counted.
const SAMPLES_MOST: usize = 10;

/// How often the log may speak of what was dropped.
const SPEAK_EVERY: Duration = Duration::from_secs(30);

/// How long a stop reads what the kernel still holds: someone who goes on sending must not hold it up.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);

/// How long a stop waits for the last samples to be noted.
const NOTE_WITHIN: Duration = Duration::from_secs(1);

/// The pause after a socket failed, so that the loop does not spin.
const PAUSE: Duration = Duration::from_millis(100);

/// Reads a socket.
pub(super) struct Receiver {
    entrance: Arc<Entrance>,
    socket: Socket,
    allow: Vec<IpNet>,
    store: Arc<dyn Store>,
    metrics: UdpMetrics,
    inbox: Inbox,
    drops: Drops,
    samples: Vec<Refused>,
    /// Samples on their way into the stream's list: at most one lot, and nothing waits for it.
    noting: FuturesUnordered<BoxFuture<'static, ()>>,
    spoken: Option<(Instant, [(&'static str, u64); 6])>,
}

impl Receiver {
    pub(super) fn new(
        entrance: Arc<Entrance>,
        socket: Socket,
        allow: Vec<IpNet>,
        store: Arc<dyn Store>,
        metrics: UdpMetrics,
    ) -> Receiver {
        let inbox = Inbox::new(Arc::clone(&entrance), metrics.clone());
        let drops = Drops::of(socket.as_fd());
        let (samples, noting, spoken) = (Vec::new(), FuturesUnordered::new(), None);
        Receiver { entrance, socket, allow, store, metrics, inbox, drops, samples, noting, spoken }
    }

    /// The stream and where it listens.
    pub(super) fn address(&self) -> (String, SocketAddr) {
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        (self.entrance.stream.name.to_string(), self.socket.address().unwrap_or(unknown))
    }

    /// Reads until it is stopped; then what has arrived, and returns when that is appended.
    pub(super) async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Until when the socket is left alone, once there is no room.
        let mut held: Option<Instant> = None;
        loop {
            held = match self.inbox.has_room() {
                true => None,
                false => Some(held.unwrap_or_else(|| Instant::now() + HOLD)),
            };
            let waits = held.is_some_and(|until| Instant::now() < until);
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = self.inbox.settle(), if !self.inbox.is_empty() => {}
                Some(()) = self.noting.next(), if !self.noting.is_empty() => {}
                _ = look.tick() => self.look(),
                () = sleep_until(held.unwrap_or_else(Instant::now)), if waits => {}
                ready = self.socket.readable(), if !waits => {
                    if ready.is_ok() && self.receive(Socket::receive).await.is_err() {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
        self.finish().await;
    }

    /// Reads what the kernel holds, and waits for all that is on its way.
    async fn finish(mut self) {
        let deadline = Instant::now() + DRAIN_WITHIN;
        while Instant::now() < deadline {
            while !self.inbox.has_room() {
                self.inbox.settle().await;
            }
            if !self.receive(Socket::receive_last).await.unwrap_or(false) {
                break;
            }
        }
        while !self.inbox.is_empty() {
            self.inbox.settle().await;
        }
        self.look();
        let noted = async { while self.noting.next().await.is_some() {} };
        // Samples are not worth more.
        let _ = timeout(NOTE_WITHIN, noted).await;
    }

    /// Takes what has come, in bounded steps: 64 datagrams may have four million lines. `false` if nothing has.
    async fn receive(
        &mut self,
        from: fn(&mut Socket) -> std::io::Result<bool>,
    ) -> std::io::Result<bool> {
        match from(&mut self.socket) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => {
                let stream = &self.entrance.stream.name;
                tracing::warn!(%stream, %error, "a UDP socket could not be read; trying again");
                return Err(error);
            }
        }
        let received = now();
        let Receiver { entrance, socket, allow, metrics, inbox, samples, .. } = self;
        let schema = &entrance.stream.schema;
        let (mut point, mut budget) = (Point::default(), Budget::default());
        for datagram in socket.datagrams() {
            metrics.datagrams.inc();
            if !is_allowed(allow, datagram.from) {
                metrics.disallowed.inc();
                continue;
            }
            // Its last line is not whole, and nobody can tell what else was in it.
            if datagram.cut {
                metrics.oversize.inc();
                continue;
            }
            for (_, line) in lines(datagram.bytes) {
                budget.spend(line.len()).await;
                if line.is_empty() {
                    continue;
                }
                let taken = schema.take_line(line, &mut point, Precision::Nanoseconds, || received);
                if matches!(taken, Ok(None)) {
                    continue;
                }
                metrics.lines.inc();
                match taken {
                    Ok(event) => event.into_iter().for_each(|event| inbox.take(event)),
                    Err(rejection) => {
                        metrics.malformed.inc();
                        entrance.ingress.metrics().rejected.inc();
                        if samples.len() < SAMPLES_MOST {
                            samples.push(sample(line, &rejection, received));
                        }
                    }
                }
            }
        }
        inbox.send();
        Ok(true)
    }

    /// Counts what the kernel dropped, notes samples of what was malformed, and speaks of it now and then.
    fn look(&mut self) {
        self.metrics.kernel.inc_by(self.drops.since());
        if self.noting.is_empty() && !self.samples.is_empty() {
            let samples = std::mem::take(&mut self.samples);
            let (store, stream) = (Arc::clone(&self.store), self.entrance.stream.name.clone());
            self.noting.push(Box::pin(async move {
                if let Err(error) = refused::note(&*store, &stream, &samples).await {
                    tracing::debug!(%stream, %error, "samples of malformed lines could not be noted");
                }
            }));
        }
        let stream = &self.entrance.stream.name;
        let dropped = self.metrics.dropped();
        let (last, known) = self.spoken.unwrap_or_else(|| (Instant::now(), [("", 0); 6]));
        if self.spoken.is_some() && last.elapsed() < SPEAK_EVERY {
            return;
        }
        let news = dropped.iter().zip(&known).filter(|(now, before)| now.1 > before.1);
        let news: Vec<String> =
            news.map(|((reason, now), (_, before))| format!("{reason} {}", now - before)).collect();
        if !news.is_empty() {
            tracing::warn!(%stream, dropped = news.join(", "), "datagrams or lines of them were dropped");
            self.spoken = Some((Instant::now(), dropped));
        }
    }
}

fn is_allowed(allow: &[IpNet], from: Option<IpAddr>) -> bool {
    allow.is_empty() || from.is_some_and(|from| allow.iter().any(|network| network.contains(&from)))
}

fn sample(line: &[u8], rejection: &Rejection, received: Moment) -> Refused {
    let time = Timestamp(u64::try_from(received.0 / 1_000_000).unwrap_or_default());
    Refused::new(line, None, rejection.to_string(), time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_on_the_list_may_send_if_there_is_one() {
        let list: Vec<IpNet> = ["10.0.0.0/8", "fd00::/8"].map(|text| text.parse().unwrap()).into();
        let cases = [("10.1.2.3", true), ("11.0.0.1", false), ("fd00::1", true), ("::1", false)];
        for (from, expected) in cases {
            assert_eq!(is_allowed(&list, from.parse().ok()), expected, "{from}");
            assert!(is_allowed(&[], from.parse().ok()));
        }
        assert!(!is_allowed(&list, None));
    }
}
