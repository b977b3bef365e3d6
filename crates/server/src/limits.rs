//! Every bound of the HTTP side, each with its reason. The settings of `[http]` are a few of these;
//! the others are constants, because nobody has needed to turn them yet.

use std::time::Duration;

/// The largest request head (request line and headers). Browsers and proxies stop at 8 to 16 KiB;
/// 32 KiB leaves room for long query strings. Beyond it hyper answers 431. The number of headers is
/// hyper's own bound, 100.
pub const MAX_HEADER_BYTES: usize = 32 * 1024;

/// How much of a connection hyper may hold in its buffers. Above [`MAX_HEADER_BYTES`], so that
/// bodies are read in larger steps; 1,000 connections cost 128 MiB at the very worst.
pub(crate) const MAX_BUFFER_BYTES: usize = 128 * 1024;

/// How long a kept-alive connection may stay silent between two requests: longer than the 60 s
/// after which most load balancers drop theirs, so that they close first and never write into a
/// connection we have just closed.
pub const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(75);

/// How long a client may refuse to take bytes of an answer before its connection is dropped.
pub const WRITE_STALL: Duration = Duration::from_secs(30);

/// How long a stop waits for running requests: less than the 30 s that container platforms wait
/// before they kill.
pub const STOP_WITHIN: Duration = Duration::from_secs(20);

/// How long, and for how many bytes, a closing connection still reads and discards. Closing a
/// socket with unread input makes the kernel send a reset, which can destroy an answer (413, 408)
/// before the client has read it.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
pub(crate) const LINGER_BYTES: usize = 1024 * 1024;

/// How many connections beyond the bound are being told 503 at one time; further ones are closed
/// without a word.
pub(crate) const REFUSALS_AT_ONCE: usize = 64;

/// The pause after a failed `accept` (usually: out of file descriptors), so that the loop does not
/// spin.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the bodies under way in a node may take of its memory. Thirty-two of the largest that are taken by default:
/// a node that keeps more has clients that send faster than its log writes.
pub(crate) const MAX_BODIES: usize = 256 * 1024 * 1024;

/// The bounds a server is started with.
#[derive(Debug, Clone)]
pub struct Limits {
    /// From the accepted connection to its first byte. Beyond it the connection is closed.
    pub first_byte: Duration,
    /// From the first byte of a request to the end of its headers. Beyond it: 408.
    pub header: Duration,
    /// How long a request may make us wait for its body, all waits together. Beyond it: 408.
    pub body: Duration,
    /// Silence between two requests of one connection. Beyond it the connection is closed.
    pub keep_alive_idle: Duration,
    /// How long a client may leave an answer unread. Beyond it the connection is closed.
    pub write_stall: Duration,
    /// How long [`Server::run`](crate::Server::run) waits for running requests after its shutdown
    /// was asked for.
    pub stop_within: Duration,
    /// The largest request body. Beyond it: 413.
    pub max_body: u64,
    /// What the bodies under way may take of the memory together, at least one of `max_body`. Beyond it: 503.
    pub max_bodies: usize,
    /// Connections served at one time. Beyond it: 503 at once, before anything is read.
    pub max_connections: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            first_byte: Duration::from_secs(10),
            header: Duration::from_secs(10),
            body: Duration::from_secs(30),
            keep_alive_idle: KEEP_ALIVE_IDLE,
            write_stall: WRITE_STALL,
            stop_within: STOP_WITHIN,
            max_body: 8 * 1024 * 1024,
            max_bodies: MAX_BODIES,
            max_connections: 1024,
        }
    }
}
