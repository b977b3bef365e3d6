//! How long a request is must be beyond doubt: a proxy that sees its end elsewhere would let one client
//! write the beginning of another's request (RFC 9112 §11.2).
//!
//! hyper refuses most of what is ambiguous: lengths that differ or are no numbers, folded lines, a space
//! before a colon, a transfer coding that does not end in `chunked`. This is the rest.

use axum::http::{HeaderMap, header};

use crate::problem::Problem;
use crate::problems;

/// Refuses every transfer coding but one `chunked`. hyper would take `gzip, chunked`, undo the second, and
/// hand out the first as if it were the body.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => {
            let detail = "this node takes no transfer coding but one 'Transfer-Encoding: chunked'; \
                          compress the content and say so by 'Content-Encoding' instead";
            Err(Problem::new(problems::TRANSFER_ENCODING, detail).closing())
        }
    }
}

/// The answer to a request with both a length and a transfer coding.
pub(crate) fn two_lengths() -> Problem {
    let detail = "the request has both 'Content-Length' and 'Transfer-Encoding'; send one of them";
    Problem::new(problems::TWO_LENGTHS, detail).closing()
}
