//! Bodies that come compressed: inflated in steps, so that a small body cannot become a large piece of memory.

use std::io::Write as _;

use axum::http::{HeaderMap, header};
use bytes::{Buf as _, Bytes};
use consort_kernel::budget::STEP_COST;
use flate2::write::MultiGzDecoder;

use crate::problem::Problem;
use crate::problems;

/// How much of a compressed body is inflated at once. Deflate makes at most 1,032 bytes of one, so a step is at
/// most 1 MiB large, and gone before the next.
const STEP_BYTES: usize = 1024;

/// What a step costs beside the bytes that come out of it. It may hold fifty members of a few bytes or none, and to
/// begin a member costs some microseconds.
const STEP_PRICE: usize = STEP_COST / 8;

/// How much a compressed body may become: thirty-two of the largest bodies that are kept whole by default. A client
/// pays for each byte of a plain body, so that one may be of any length; for an inflated byte it pays as little as a
/// thousandth. Agents that write lines send far less at once.
pub(crate) const INFLATED_MOST: u64 = 256 * 1024 * 1024;

/// How a body is written on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
}

impl Coding {
    /// By the header `Content-Encoding`.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Coding, Problem> {
        let Some(given) = headers.get(header::CONTENT_ENCODING) else {
            return Ok(Coding::Identity);
        };
        let given = given.to_str().unwrap_or_default().trim();
        if given.eq_ignore_ascii_case("gzip") || given.eq_ignore_ascii_case("x-gzip") {
            Ok(Coding::Gzip)
        } else if given.is_empty() || given.eq_ignore_ascii_case("identity") {
            Ok(Coding::Identity)
        } else {
            let detail = "the 'Content-Encoding' of lines is gzip, or none";
            Err(Problem::new(problems::CONTENT_ENCODING, detail))
        }
    }
}

/// The pieces of a body, inflated.
#[derive(Debug)]
pub(crate) struct Inflate {
    decoder: Option<MultiGzDecoder<Vec<u8>>>,
    piece: Bytes,
    begun: bool,
    /// How many bytes may still come out of it.
    left: u64,
}

impl Inflate {
    pub(crate) fn new(coding: Coding) -> Inflate {
        let decoder = (coding == Coding::Gzip).then(|| MultiGzDecoder::new(Vec::new()));
        Inflate { decoder, piece: Bytes::new(), begun: false, left: INFLATED_MOST }
    }

    /// Takes the next piece, when [`next`](Inflate::next) has no more of the last.
    pub(crate) fn feed(&mut self, piece: Bytes) {
        self.begun |= !piece.is_empty();
        self.piece = piece;
    }

    /// What a step costs beside its bytes.
    pub(crate) fn step_price(&self) -> usize {
        if self.decoder.is_some() { STEP_PRICE } else { 0 }
    }

    /// The next step of what was fed. It is empty where compressed bytes became nothing.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        if self.piece.is_empty() {
            return Ok(None);
        }
        let Some(decoder) = &mut self.decoder else {
            return Ok(Some(std::mem::take(&mut self.piece)));
        };
        let step = &self.piece[..self.piece.len().min(STEP_BYTES)];
        let taken = decoder.write(step).map_err(|_| not_gzip())?;
        if taken == 0 {
            return Err(not_gzip());
        }
        self.piece.advance(taken);
        let inflated = std::mem::take(decoder.get_mut());
        counted(&mut self.left, inflated).map(Some)
    }

    /// What is left when the body has ended, which must be where the compressed data does.
    pub(crate) fn end(&mut self) -> Result<Option<Bytes>, Problem> {
        let Some(decoder) = self.decoder.as_mut().filter(|_| self.begun) else { return Ok(None) };
        decoder.try_finish().map_err(|_| not_gzip())?;
        let inflated = std::mem::take(decoder.get_mut());
        match inflated.is_empty() {
            true => Ok(None),
            false => counted(&mut self.left, inflated).map(Some),
        }
    }
}

/// A step, if the body may become as large as that.
fn counted(left: &mut u64, inflated: Vec<u8>) -> Result<Bytes, Problem> {
    *left = left.checked_sub(inflated.len() as u64).ok_or_else(too_much)?;
    Ok(inflated.into())
}

fn too_much() -> Problem {
    let detail = format!(
        "the compressed body has more than {INFLATED_MOST} bytes of lines; send it in smaller parts, or not \
         compressed"
    );
    Problem::new(problems::INFLATED_TOO_LARGE, detail).closing()
}

fn not_gzip() -> Problem {
    let detail = "the body is not what its 'Content-Encoding: gzip' says, or it is cut off; what could be read \
                  of it was taken";
    Problem::new(problems::BROKEN_ENCODING, detail).closing()
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn inflate(coding: Coding, pieces: &[&[u8]]) -> Result<(Vec<u8>, usize), Problem> {
        let mut inflate = Inflate::new(coding);
        let (mut all, mut largest) = (Vec::new(), 0);
        for piece in pieces {
            inflate.feed(Bytes::copy_from_slice(piece));
            while let Some(step) = inflate.next()? {
                largest = largest.max(step.len());
                all.extend_from_slice(&step);
            }
        }
        all.extend_from_slice(&inflate.end()?.unwrap_or_default());
        Ok((all, largest))
    }

    #[test]
    fn a_body_is_the_same_however_it_is_cut() {
        let text = b"m f=1\nm f=2\n".repeat(100);
        let body = gzip(&text);
        for size in [1, 7, body.len()] {
            let pieces: Vec<&[u8]> = body.chunks(size).collect();
            assert_eq!(inflate(Coding::Gzip, &pieces).unwrap().0, text);
        }
        let twice = [body.clone(), body].concat();
        assert_eq!(inflate(Coding::Gzip, &[&twice]).unwrap().0, text.repeat(2));
        assert_eq!(inflate(Coding::Identity, &[b"a", b"b"]).unwrap().0, b"ab");
        assert_eq!(inflate(Coding::Gzip, &[]).unwrap().0, b"");
    }

    #[test]
    fn a_body_that_grows_a_thousandfold_does_so_in_steps() {
        let body = gzip(&vec![0; 64 << 20]);
        let (all, largest) = inflate(Coding::Gzip, &[&body]).unwrap();
        assert_eq!(all.len(), 64 << 20);
        assert!(largest <= 1032 * STEP_BYTES, "{largest}");
    }

    #[test]
    fn a_body_that_becomes_too_large_is_refused_where_it_does() {
        const MEMBER: usize = 8 << 20;
        let members = INFLATED_MOST as usize / MEMBER;
        let most = gzip(&vec![0; MEMBER]).repeat(members);
        assert!(inflated_bytes(&most).is_ok_and(|bytes| bytes == INFLATED_MOST));
        let beyond = [most, gzip(b"x")].concat();
        let problem = inflated_bytes(&beyond).unwrap_err();
        assert_eq!(problem.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert!(problem.detail().contains(&INFLATED_MOST.to_string()), "{}", problem.detail());
    }

    /// How large a body becomes.
    fn inflated_bytes(body: &[u8]) -> Result<u64, Problem> {
        let mut inflate = Inflate::new(Coding::Gzip);
        inflate.feed(Bytes::copy_from_slice(body));
        let mut bytes = 0;
        while let Some(step) = inflate.next()? {
            bytes += step.len() as u64;
        }
        Ok(bytes + inflate.end()?.map_or(0, |step| step.len() as u64))
    }

    #[test]
    fn what_is_not_gzip_or_ends_early_is_told() {
        let body = gzip(b"m f=1\n");
        for wrong in [&b"m f=1\n"[..], &body[..body.len() - 1], &[&body[..], b"more"].concat()] {
            let problem = inflate(Coding::Gzip, &[wrong]).unwrap_err();
            assert!(problem.detail().contains("gzip"), "{}", problem.detail());
        }
    }
}
