//! What the broker or the client library says, as a [`Fault`].

use consort_kernel::Fault;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::{Error, ErrorKind};

/// `what` was being done when `error` came.
///
/// Only two errors are final: access that is refused, and a queue of this name that was declared by
/// somebody else in another way. All others may pass, such as a queue whose leader is not up yet.
pub(super) fn fault(what: &str, error: &Error) -> Fault {
    let text = format!("{what}: {}", reason(error));
    match soft(error) {
        Some(AMQPSoftError::ACCESSREFUSED | AMQPSoftError::PRECONDITIONFAILED) => {
            Fault::Fatal(text)
        }
        _ => Fault::Retryable(text),
    }
}

/// Whether the broker knows who we are and does not let us in.
pub(super) fn access_refused(error: &Error) -> bool {
    soft(error) == Some(&AMQPSoftError::ACCESSREFUSED)
}

/// Whether the broker has no queue of that name.
pub(super) fn not_found(error: &Error) -> bool {
    soft(error) == Some(&AMQPSoftError::NOTFOUND)
}

/// Whether the broker does not do that at all, or not with such a queue.
pub(super) fn not_implemented(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(error)
        if *error.kind() == AMQPErrorKind::Hard(AMQPHardError::NOTIMPLEMENTED))
}

/// The error in words. What the library and the broker say never holds a password.
pub(super) fn reason(error: &Error) -> String {
    match error.kind() {
        ErrorKind::IOError(error) => error.to_string(),
        ErrorKind::ProtocolError(error) => error.get_message().to_string(),
        _ => error.to_string(),
    }
}

fn soft(error: &Error) -> Option<&AMQPSoftError> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => match error.kind() {
            AMQPErrorKind::Soft(soft) => Some(soft),
            AMQPErrorKind::Hard(_) => None,
        },
        _ => None,
    }
}
