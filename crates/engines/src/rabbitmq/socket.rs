//! The socket under a connection, kept within reach so that it can be ended at once.
//!
//! The client library has a thread for each connection. It ends when the connection is closed in good
//! order or the socket fails, and a peer that has fallen silent lets neither happen: without this, every
//! attempt to connect to a broker that hangs would leave a thread behind.

use std::fmt;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

use parking_lot::Mutex;

/// Clones are of the same socket.
#[derive(Clone, Default)]
pub(super) struct Socket {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
enum State {
    #[default]
    NotOpen,
    Open(TcpStream),
    HungUp,
}

impl Socket {
    /// Keeps a second handle of an open socket. Refused if it was hung up before it was open.
    pub(super) fn hold(&self, open: impl AsFd) -> io::Result<()> {
        let mut state = self.state.lock();
        if matches!(*state, State::HungUp) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        *state = State::Open(open.as_fd().try_clone_to_owned()?.into());
        Ok(())
    }

    /// Ends the connection for both sides; whoever reads or writes it finds out at once.
    pub(super) fn hang_up(&self) {
        if let State::Open(socket) = std::mem::replace(&mut *self.state.lock(), State::HungUp) {
            // It fails only if the connection has ended already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Hangs up when dropped, unless [`HangUp::disarm`]ed.
    pub(super) fn guard(&self) -> HangUp {
        HangUp { socket: Some(self.clone()) }
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &*self.state.lock() {
            State::NotOpen => "Socket(not open)",
            State::Open(_) => "Socket(open)",
            State::HungUp => "Socket(hung up)",
        })
    }
}

/// Ends a connection whose making was given up.
pub(super) struct HangUp {
    socket: Option<Socket>,
}

impl HangUp {
    pub(super) fn disarm(mut self) {
        self.socket = None;
    }
}

impl Drop for HangUp {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            socket.hang_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_connection_given_up_before_it_was_made_is_not_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let socket = Socket::default();
        let guard = socket.guard();
        socket.hold(&client).expect("it is held");
        drop(guard);
        assert_eq!(client.read(&mut [0]).expect("its end"), 0);
        assert!(socket.hold(&client).is_err());
    }
}
