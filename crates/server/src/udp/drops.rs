//! How many datagrams the kernel dropped because a socket's buffer was full, as `/proc/net/udp` tells.

use std::fs;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;

/// The drops of one socket, as they were seen last.
#[derive(Debug)]
pub struct Drops {
    inode: Option<u64>,
    seen: u32,
}

impl Drops {
    pub fn of(socket: BorrowedFd<'_>) -> Drops {
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        Drops { inode: fs::metadata(path).ok().map(|metadata| metadata.ino()), seen: 0 }
    }

    /// How many there were since the last look. None where there is no such file: it cannot be known there.
    pub fn since(&mut self) -> u64 {
        let Some(inode) = self.inode else { return 0 };
        let tables = ["/proc/net/udp", "/proc/net/udp6"];
        let found =
            tables.iter().find_map(|table| drops_in(&fs::read_to_string(table).ok()?, inode));
        let Some(now) = found else { return 0 };
        let since = now.wrapping_sub(self.seen);
        self.seen = now;
        since.into()
    }
}

/// The last column of the socket's line.
fn drops_in(table: &str, inode: u64) -> Option<u32> {
    const INODE: usize = 9;
    let columns = table.lines().skip(1).map(|line| line.split_whitespace());
    columns.into_iter().find_map(|mut columns| {
        let of_this = columns.nth(INODE)?.parse() == Ok(inode);
        columns.last().filter(|_| of_this)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_found_by_the_socket_s_number() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
                     5434: 0100007F:1F99 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 12\n\
                     5435: 0100007F:1F9A 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 0\n";
        assert_eq!(drops_in(table, 4711), Some(12));
        assert_eq!(drops_in(table, 4712), Some(0));
        assert_eq!(drops_in(table, 12), None);
        assert_eq!(drops_in("", 4711), None);
    }
}
