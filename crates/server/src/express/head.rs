//! Heads of plain posts, as they stand at the beginning of what a connection has read. Pure.
//!
//! Whatever is not plain in every respect is left to hyper: it knows all that HTTP allows, and what to say of what
//! it does not.

use axum::http::{HeaderMap, HeaderName, header};

/// A head beyond this is not plain.
const HEAD_MOST: usize = 4 * 1024;
/// Nor is one with more headers.
const HEADERS_MOST: usize = 32;

/// What a post's headers say to whom it is posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said<'a> {
    pub(crate) authorization: Option<&'a [u8]>,
    pub(crate) content_type: Option<&'a [u8]>,
    pub(crate) idempotency_key: Option<&'a [u8]>,
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

impl<'a> Said<'a> {
    /// What these headers say.
    pub(crate) fn by(headers: &'a HeaderMap) -> Said<'a> {
        let of = |name: &HeaderName| headers.get(name).map(|value| value.as_bytes());
        Said {
            authorization: of(&header::AUTHORIZATION),
            content_type: of(&header::CONTENT_TYPE),
            idempotency_key: of(&IDEMPOTENCY_KEY),
        }
    }
}

/// The head of a plain post.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) path: &'a str,
    pub(super) host: &'a [u8],
    pub(super) said: Said<'a>,
    /// Where its body begins, and how long that is.
    pub(super) body_at: usize,
    pub(super) body_length: usize,
}

/// What a connection has read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read<'a> {
    /// Less than a head.
    More,
    Plain(Head<'a>),
    /// A head with both a length and a transfer coding.
    TwoLengths,
    /// What hyper should look at.
    Other,
}

/// Looks at what a connection has read.
pub(super) fn read(bytes: &[u8]) -> Read<'_> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MOST];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(body_at)) => match plain(&request, body_at) {
            Some(head) => Read::Plain(head),
            None if has_two_lengths(&request) => Read::TwoLengths,
            None => Read::Other,
        },
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_MOST => Read::More,
        Ok(httparse::Status::Partial) | Err(_) => Read::Other,
    }
}

fn plain<'a>(request: &httparse::Request<'_, 'a>, body_at: usize) -> Option<Head<'a>> {
    let path = request.path.filter(|path| path.starts_with('/') && path.bytes().all(is_plain))?;
    if request.method != Some("POST") || request.version != Some(1) {
        return None;
    }
    let (mut said, mut host, mut length) = (Said::default(), None, None);
    for header in request.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let once = |place: &mut Option<&'a [u8]>| place.replace(header.value).is_none();
        let fits = match header.name.len() {
            2 if is("te") => false,
            4 if is("host") => once(&mut host),
            6 if is("expect") || is("origin") => false,
            7 if is("upgrade") || is("trailer") => false,
            10 if is("connection") => header.value.eq_ignore_ascii_case(b"keep-alive"),
            12 if is("content-type") => once(&mut said.content_type),
            13 if is("authorization") => once(&mut said.authorization),
            14 if is("content-length") => once(&mut length),
            15 if is("idempotency-key") => once(&mut said.idempotency_key),
            16 if is("content-encoding") => false,
            17 if is("transfer-encoding") => false,
            // A browser sends it for a page; the door has the rules on pages.
            _ => !begins(header.name, "sec-fetch-"),
        };
        if !fits {
            return None;
        }
    }
    let length = length.filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let body_length = std::str::from_utf8(length).ok()?.parse().ok()?;
    Some(Head { path, host: host?, said, body_at, body_length })
}

/// hyper drops the length of such a request before anyone can see it, answers by the transfer coding, and ends the
/// connection, as RFC 9112 §6.3 allows. The first request that is hyper's is refused here; a later one on the same
/// connection is left to that rule.
fn has_two_lengths(request: &httparse::Request<'_, '_>) -> bool {
    let has = |name: &str| request.headers.iter().any(|it| it.name.eq_ignore_ascii_case(name));
    has("transfer-encoding") && has("content-length")
}

fn begins(name: &str, with: &str) -> bool {
    name.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with))
}

/// What stands for itself in every part of a path.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(headers: &str) -> String {
        format!("POST /lifts/7 HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n{{}}")
    }

    fn is_other(text: &str) -> bool {
        read(text.as_bytes()) == Read::Other
    }

    #[test]
    fn a_plain_post_is_read_and_nothing_of_it_is_lost() {
        let text = post(
            "Content-Type: application/json\r\ncontent-length: 2\r\nAUTHORIZATION: Bearer x\r\n\
             idempotency-key: k\r\naccept: */*\r\nconnection: Keep-Alive\r\n",
        );
        let Read::Plain(head) = read(text.as_bytes()) else { panic!("{text}") };
        assert_eq!(head.path, "/lifts/7");
        assert_eq!(head.host, b"localhost");
        assert_eq!(&text[head.body_at..], "{}");
        assert_eq!(head.body_length, 2);
        let said = Said {
            authorization: Some(b"Bearer x"),
            content_type: Some(b"application/json"),
            idempotency_key: Some(b"k"),
        };
        assert_eq!(head.said, said);
    }

    #[test]
    fn part_of_a_head_wants_more_as_long_as_it_is_short() {
        let text = post("content-length: 2\r\n");
        let head = text.len() - 2;
        for end in 0..head {
            assert_eq!(read(&text.as_bytes()[..end]), Read::More, "{end}");
        }
        let long = format!("POST /lifts/7 HTTP/1.1\r\nx: {}", "y".repeat(HEAD_MOST));
        assert!(is_other(&long));
    }

    #[test]
    fn a_head_with_a_length_and_a_transfer_coding_is_told_apart() {
        for headers in [
            "content-length: 2\r\ntransfer-encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nx: y\r\nContent-Length: 2\r\n",
        ] {
            assert_eq!(read(post(headers).as_bytes()), Read::TwoLengths, "{headers}");
        }
    }

    #[test]
    fn whatever_else_http_allows_is_left_to_hyper() {
        for headers in [
            "",
            "content-length: 2\r\ncontent-length: 2\r\n",
            "content-length: +2\r\n",
            "content-length: \r\n",
            "content-length: 99999999999999999999\r\n",
            "transfer-encoding: chunked\r\n",
            "content-length: 2\r\nexpect: 100-continue\r\n",
            "content-length: 2\r\nupgrade: h2c\r\n",
            "content-length: 2\r\ntrailer: x\r\n",
            "content-length: 2\r\nte: trailers\r\n",
            "content-length: 2\r\ncontent-encoding: gzip\r\n",
            "content-length: 2\r\nconnection: close\r\n",
            "content-length: 2\r\nconnection: keep-alive, upgrade\r\n",
            "content-length: 2\r\nauthorization: a\r\nauthorization: b\r\n",
            "content-length: 2\r\ncontent-type: a\r\ncontent-type: b\r\n",
            "content-length: 2\r\nidempotency-key: a\r\nidempotency-key: b\r\n",
            "content-length: 2\r\nno colon\r\n",
            "content-length: 2\r\nhost: localhost\r\n",
            "content-length: 2\r\norigin: http://t\r\n",
            "content-length: 2\r\nOrigin: null\r\n",
            "content-length: 2\r\nsec-fetch-site: same-origin\r\n",
            "content-length: 2\r\nSec-Fetch-Dest: empty\r\n",
        ] {
            assert!(is_other(&post(headers)), "{headers}");
        }
        assert!(is_other("POST /lifts/7 HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"));
        let with =
            |line: &str| format!("{line}\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{{}}");
        for line in [
            "GET /lifts/7 HTTP/1.1",
            "PUT /lifts/7 HTTP/1.1",
            "POST /lifts/7 HTTP/1.0",
            "POST /lifts/%37 HTTP/1.1",
            "POST /lifts/7?x=y HTTP/1.1",
            "POST /lifts/7;x HTTP/1.1",
            "POST http://localhost/lifts/7 HTTP/1.1",
            "POST * HTTP/1.1",
            "POST  /lifts/7 HTTP/1.1",
        ] {
            assert!(is_other(&with(line)), "{line}");
        }
        assert!(is_other(&with(&format!("POST /lifts/7 HTTP/1.1{}", "\r\nx: y".repeat(40)))));
    }
}
