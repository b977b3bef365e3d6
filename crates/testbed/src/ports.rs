//! Ports of this machine, each claimed by one test bed at a time.
//!
//! Asking the kernel for a free port and releasing it is not enough where many test processes run
//! at once: while a server is down between `kill` and `restart`, the kernel may hand its port to
//! somebody's outgoing connection. So ports are taken from below the range that Linux hands out by
//! itself, and a lock on a small file keeps every other test bed off them until the claim is
//! dropped or its process dies. The files themselves stay: removing them would let two processes
//! lock two files of one name.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Above the ports of well-known services, below the kernel's own range (32768 to 60999 by
/// default).
const RANGE: std::ops::Range<u16> = 12_000..32_000;

/// A port of 127.0.0.1 that no other test bed takes while this claim lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Claims a port that nothing listens on.
    ///
    /// A program outside the test bed may still take it before it is used; whoever starts a server
    /// retries with another port then.
    pub fn claim() -> Port {
        Port::claim_row(1).remove(0)
    }

    /// Claims so many neighbouring ports, lowest first.
    pub fn claim_row(count: u16) -> Vec<Port> {
        let folder = lock_folder();
        let size = RANGE.end - RANGE.start - count + 1;
        let start = (RandomState::new().hash_one(std::process::id()) % u64::from(size)) as u16;
        (0..size)
            .map(|step| RANGE.start + (start + step) % size)
            .find_map(|first| (first..first + count).map(|at| try_claim(&folder, at)).collect())
            .expect("some of 20,000 ports are free")
    }

    /// Claims this very port, for a server whose clients know its usual one.
    ///
    /// # Panics
    ///
    /// If another test bed has claimed the port, or a program listens on it.
    pub fn exactly(number: u16) -> Port {
        try_claim(&lock_folder(), number).unwrap_or_else(|| {
            panic!("port {number} is in use; end the program that listens on it")
        })
    }

    /// The number to listen on.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// Claims hold within a network namespace: the same port of two of them is two ports.
fn lock_folder() -> PathBuf {
    let network = fs::metadata("/proc/self/ns/net").map_or(0, |namespace| namespace.ino());
    let user = rustix::process::getuid().as_raw();
    let folder = std::env::temp_dir().join(format!("consort-testbed-ports-{user}-{network}"));
    fs::create_dir_all(&folder).expect("the folder of port locks can be made");
    folder
}

/// The claim, unless the port is claimed or in use.
fn try_claim(folder: &Path, number: u16) -> Option<Port> {
    let lock =
        File::create(folder.join(number.to_string())).expect("a port's lock file can be made");
    lock.try_lock().ok()?;
    TcpListener::bind(("127.0.0.1", number)).ok()?;
    Some(Port { number, _lock: lock })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn claims_that_live_at_once_differ() {
        let claims: Vec<Port> = (0..200).map(|_| Port::claim()).collect();
        let numbers: HashSet<u16> = claims.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), claims.len());
    }

    #[test]
    fn ports_of_a_row_are_neighbours() {
        let row: Vec<u16> = Port::claim_row(5).iter().map(Port::number).collect();
        assert!(row.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{row:?}");
        assert_eq!(row.len(), 5);
    }

    #[test]
    #[should_panic(expected = "is in use; end the program that listens on it")]
    fn a_claimed_port_cannot_be_claimed_by_its_number() {
        let claimed = Port::claim();
        Port::exactly(claimed.number());
    }
}
