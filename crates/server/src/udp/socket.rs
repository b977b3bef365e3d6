//! A UDP socket with a large buffer, read many datagrams at a time.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket as StdSocket};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use nix::sys::socket::{
    MsgFlags, MultiHeaders, SockaddrStorage, getsockopt, recvmmsg, setsockopt, sockopt,
};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::Source;

/// The longest datagram that IP carries.
const DATAGRAM_BYTES: usize = 64 * 1024;

/// How many datagrams one call takes: with 64, what a call costs is lost beside what the lines in them do.
const AT_ONCE: usize = 64;

/// A socket, and room for what it receives next.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    buffers: Vec<Box<[u8]>>,
    received: Vec<Header>,
}

/// What is known of a datagram beside its bytes.
#[derive(Clone, Copy, Debug)]
struct Header {
    from: Option<IpAddr>,
    bytes: usize,
    cut: bool,
}

/// A datagram.
#[derive(Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    pub from: Option<IpAddr>,
    pub bytes: &'a [u8],
    /// Whether it was longer than that.
    pub cut: bool,
}

impl Socket {
    /// Opens the socket of a stream. Must be called within a tokio runtime.
    pub fn bind(stream: &str, source: &Source) -> io::Result<Socket> {
        let socket = StdSocket::bind(source.listen)?;
        let asked = usize::try_from(source.buffer).unwrap_or(usize::MAX);
        setsockopt(&socket, sockopt::RcvBuf, &asked)?;
        // The kernel doubles what it grants, for its own bookkeeping.
        let granted = getsockopt(&socket, sockopt::RcvBuf)? / 2;
        if granted < asked {
            tracing::warn!(
                stream,
                asked,
                granted,
                "the kernel gives a smaller buffer than 'udp_buffer' asks for, so it drops bursts sooner; raise \
                 net.core.rmem_max with sysctl"
            );
        }
        socket.set_nonblocking(true)?;
        Ok(Socket::of(UdpSocket::from_std(socket)?, AT_ONCE, DATAGRAM_BYTES))
    }

    fn of(socket: UdpSocket, datagrams: usize, bytes: usize) -> Socket {
        let buffers = (0..datagrams).map(|_| vec![0; bytes].into_boxed_slice()).collect();
        Socket { socket, buffers, received: Vec::with_capacity(datagrams) }
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Waits until something has come.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Takes what has come, as far as the runtime has heard of it; `false` if that is nothing.
    pub fn receive(&mut self) -> io::Result<bool> {
        let Socket { socket, buffers, received } = self;
        received.clear();
        let taken = socket.try_io(Interest::READABLE, || receive(socket, buffers, received));
        self.taken(taken)
    }

    /// Takes what the kernel holds. The runtime hears of it a moment later, which for the last look is too late.
    pub fn receive_last(&mut self) -> io::Result<bool> {
        let Socket { socket, buffers, received } = self;
        received.clear();
        let taken = receive(socket, buffers, received);
        self.taken(taken)
    }

    fn taken(&self, taken: io::Result<()>) -> io::Result<bool> {
        match taken {
            Ok(()) => Ok(!self.received.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What was taken last.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.received.iter().zip(&self.buffers).map(|(header, buffer)| Datagram {
            from: header.from,
            bytes: &buffer[..header.bytes.min(buffer.len())],
            cut: header.cut,
        })
    }
}

fn receive(
    socket: &UdpSocket,
    buffers: &mut [Box<[u8]>],
    received: &mut Vec<Header>,
) -> io::Result<()> {
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(buffers.len(), None);
    let mut slices: Vec<[IoSliceMut<'_>; 1]> =
        buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
    let flags = MsgFlags::MSG_DONTWAIT;
    let taken = recvmmsg(socket.as_raw_fd(), &mut headers, slices.iter_mut(), flags, None)?;
    received.extend(taken.map(|message| Header {
        from: message.address.as_ref().and_then(address),
        bytes: message.bytes,
        cut: message.flags.contains(MsgFlags::MSG_TRUNC),
    }));
    Ok(())
}

/// The sender; one of IPv4 as such, whatever the socket is.
fn address(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    let v6 = || address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip()).to_canonical());
    v4.or_else(v6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_look_finds_what_the_runtime_has_not_heard_of() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut socket = Socket::of(socket, 4, 16);
        let sender = StdSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"one", socket.address().unwrap()).unwrap();
        // Nothing was awaited since.
        assert!(!socket.receive().unwrap());
        assert!(socket.receive_last().unwrap());
        assert_eq!(socket.datagrams().map(|one| one.bytes).collect::<Vec<_>>(), [b"one"]);
        assert!(!socket.receive_last().unwrap());
    }

    #[tokio::test]
    async fn datagrams_come_in_batches_and_long_ones_are_marked() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut socket = Socket::of(socket, 4, 16);
        assert!(!socket.receive().unwrap(), "nothing has come");
        let sender = StdSocket::bind("127.0.0.1:0").unwrap();
        let long = [b'x'; 17];
        let sent: [&[u8]; 6] = [b"one", b"", &long[..16], &long, b"five", b"six"];
        for datagram in sent {
            sender.send_to(datagram, socket.address().unwrap()).unwrap();
        }
        let mut all = Vec::new();
        while all.len() < sent.len() {
            socket.readable().await.unwrap();
            if socket.receive().unwrap() {
                assert!(socket.datagrams().count() <= 4);
                assert!(socket.datagrams().all(|one| one.from == "127.0.0.1".parse().ok()));
                all.extend(socket.datagrams().map(|one| (one.bytes.to_vec(), one.cut)));
            }
        }
        let expected = sent.map(|one| (one[..one.len().min(16)].to_vec(), one.len() > 16));
        assert_eq!(all, expected);
    }
}
