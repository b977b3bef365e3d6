//! A target that takes datagrams: lines are packed into them, and never split.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::{UdpSocket, lookup_host};
use tokio::time::Instant;

use super::Outlet;

/// What one look at the queue takes.
const TAKE_BYTES: usize = 64 * 1024;

/// The longest datagram that IP carries.
const DATAGRAM_MOST: usize = 65_507;

/// How long an address that was looked up is used: targets move, with their names.
const KNOWN_FOR: Duration = Duration::from_secs(30);

/// How often the log may speak of a target that cannot be reached.
const SPEAK_EVERY: Duration = Duration::from_secs(30);

/// A target's socket.
struct Aim {
    name: String,
    host: String,
    socket: Option<(UdpSocket, Instant)>,
    spoken: Option<Instant>,
}

/// Sends what waits until the queue is closed and empty.
pub(super) async fn deliver(name: String, host: String, datagram: usize, outlet: Outlet) {
    let mut aim = Aim { name, host, socket: None, spoken: None };
    while let Some(lines) = outlet.queue.take(TAKE_BYTES).await {
        for (datagram, lines) in pack(&lines, datagram) {
            match aim.send(&datagram).await {
                Ok(()) => outlet.metrics.sent.inc_by(lines),
                Err(error) => {
                    aim.speak(&error);
                    outlet.metrics.failed.inc_by(lines)
                }
            };
        }
    }
}

/// Datagrams with the number of lines in each. A line that is longer than `most` goes alone.
fn pack(lines: &[Bytes], most: usize) -> Vec<(Vec<u8>, u64)> {
    let mut datagrams: Vec<(Vec<u8>, u64)> = Vec::new();
    for line in lines {
        match datagrams.last_mut() {
            Some((datagram, count)) if datagram.len() + 1 + line.len() <= most => {
                datagram.push(b'\n');
                datagram.extend_from_slice(line);
                *count += 1;
            }
            _ => datagrams.push((line.to_vec(), 1)),
        }
    }
    datagrams
}

impl Aim {
    async fn send(&mut self, datagram: &[u8]) -> Result<(), String> {
        if datagram.len() > DATAGRAM_MOST {
            return Err(format!("a line of {} bytes fits no datagram", datagram.len()));
        }
        let (socket, _) = match self.socket.take().filter(|(_, since)| since.elapsed() < KNOWN_FOR)
        {
            Some(known) => self.socket.insert(known),
            None => {
                let socket = connect(&self.host).await?;
                self.socket.insert((socket, Instant::now()))
            }
        };
        // The first send after nobody listened fails with what the kernel heard about the one before.
        let sent = match socket.send(datagram).await {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                socket.send(datagram).await
            }
            sent => sent,
        };
        sent.map(drop).map_err(|error| error.to_string())
    }

    fn speak(&mut self, error: &str) {
        if self.spoken.is_none_or(|spoken| spoken.elapsed() >= SPEAK_EVERY) {
            tracing::warn!(target = self.name, error, "datagrams could not be sent");
            self.spoken = Some(Instant::now());
        }
    }
}

/// A socket that sends to a host.
async fn connect(host: &str) -> Result<UdpSocket, String> {
    let address = lookup_host(host).await.map_err(|error| error.to_string())?.next();
    let address = address.ok_or_else(|| "its name has no address".to_owned())?;
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await.map_err(|error| error.to_string())?;
    socket.connect(address).await.map_err(|error| error.to_string())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_packed_and_never_split() {
        let lines = ["aaa", "bbb", "cc", "dddddddddddd", "e"]
            .map(|text| Bytes::from_static(text.as_bytes()));
        let packed = pack(&lines, 8);
        let shown: Vec<(&str, u64)> = packed
            .iter()
            .map(|(bytes, count)| (std::str::from_utf8(bytes).unwrap(), *count))
            .collect();
        assert_eq!(shown, [("aaa\nbbb", 2), ("cc", 1), ("dddddddddddd", 1), ("e", 1)]);
        assert!(pack(&[], 8).is_empty());
    }
}
