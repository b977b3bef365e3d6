//! The highest rate of datagrams that a receiver takes without a loss: rates are tried one after another, each
//! with a receiver of its own, until something is dropped.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bytes::Bytes;

/// Events of a datagram: some 1.4 kB of lines.
const DATAGRAM: usize = 15;

/// The rates that are tried, in events a second; the first at which something is dropped ends it.
const RATES: [usize; 11] = [
    50_000, 100_000, 150_000, 200_000, 300_000, 400_000, 500_000, 600_000, 800_000, 1_000_000,
    1_200_000,
];

/// How much the socket of a receiver holds.
pub(super) const BUFFER: usize = 32 << 20;

/// Somebody who takes datagrams and counts what they bring.
pub(super) trait Receiver {
    /// The port at which it takes them.
    fn port(&self) -> u16;
    /// Waits until so many events are counted; false once something is known to be dropped.
    async fn came_through(&self, events: usize) -> Result<bool>;
}

/// What is sent.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) text: Bytes,
    /// Lines of an event, and how many events there are.
    pub(super) lines: usize,
    pub(super) events: usize,
    /// Seconds at each rate, if there are events for them.
    pub(super) seconds: u64,
}

/// The highest of the rates, in events a second, at which nothing is dropped and the counts keep up.
pub(super) async fn highest_rate<R: Receiver>(
    load: &Load,
    start: impl AsyncFn() -> Result<R>,
) -> Result<f64> {
    let mut best = 0.0;
    for rate in RATES {
        let receiver = start().await?;
        let wanted = (rate * load.seconds as usize).min(load.events);
        let (load, to) = (load.clone(), receiver.port());
        let sent = tokio::task::spawn_blocking(move || send(&load, wanted, rate, to));
        let took = sent.await??;
        let began = Instant::now();
        if !receiver.came_through(wanted).await? {
            break;
        }
        best = wanted as f64 / (took + began.elapsed().as_secs_f64());
    }
    if best == 0.0 {
        bail!("datagrams are dropped even at {} events a second", RATES[0]);
    }
    Ok(best)
}

/// Sends so many events at a rate; says in how many seconds.
fn send(load: &Load, wanted: usize, rate: usize, to: u16) -> Result<f64> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(("127.0.0.1", to))?;
    let lines = load.text.split_inclusive(|byte| *byte == b'\n').take(wanted * load.lines);
    let lines: Vec<&[u8]> = lines.collect();
    let began = Instant::now();
    let mut sent = 0;
    for some in lines.chunks(DATAGRAM * load.lines) {
        let due = Duration::from_secs_f64(sent as f64 / rate as f64);
        if let Some(early) = due.checked_sub(began.elapsed())
            && early > Duration::from_millis(1)
        {
            std::thread::sleep(early);
        }
        socket.send(&some.concat())?;
        sent += some.len() / load.lines;
    }
    Ok(began.elapsed().as_secs_f64())
}
