//! Why a process cannot start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use consort_client::AddressError;

/// Why a process cannot start, or had to end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("cannot listen on {address}: {source}; choose another address with --listen")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Node(#[from] AddressError),
    #[error("cannot read the access token in {}: {source}", path.display())]
    TokenFile { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "there is no {}; build it with `cargo build --release -p consort`, or name it with --consort-binary",
        path.display()
    )]
    NoConsort { path: PathBuf },
    #[error("cannot start {name}: {source}")]
    Child { name: String, source: io::Error },
    #[error("{name} ended by itself ({how}); the lines above say why")]
    ChildEnded { name: String, how: String },
    #[error("{name} is not healthy after {seconds} s: {reason}")]
    NotHealthy { name: String, seconds: u64, reason: String },
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    #[error("port {first} is too high: {count} ports in a row are needed")]
    Ports { first: u16, count: u32 },
}
