//! Access tokens: who may use the HTTP interface. They are secrets, so nothing here prints one.

use std::fmt;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use crate::problem::Problem;
use crate::problems;

/// Shorter tokens can be guessed over a network.
const SHORTEST: usize = 16;

/// The accepted tokens. Empty: everybody may, which is only allowed on a loopback address.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tokens(Vec<String>);

/// Why a token cannot be used. It never repeats the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    #[error(
        "access token {number} is shorter than {SHORTEST} characters; make one with `openssl rand -hex 32`"
    )]
    TooShort { number: usize },
    #[error(
        "access token {number} has a character other than visible ASCII; use letters, digits and '-._~+/='"
    )]
    NotVisible { number: usize },
}

impl Tokens {
    /// Tokens are numbered from 1 in errors.
    pub fn new(tokens: Vec<String>) -> Result<Tokens, BadToken> {
        for (at, token) in tokens.iter().enumerate() {
            let number = at + 1;
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(BadToken::NotVisible { number });
            }
            if token.len() < SHORTEST {
                return Err(BadToken::TooShort { number });
            }
        }
        Ok(Tokens(tokens))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first token, for a program that asks a node with the node's own config.
    pub fn first(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    /// What a node authenticates itself to other nodes with: the first token.
    pub(crate) fn bearer(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.0.first()?)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Whether an `Authorization` carries one of the tokens. Every token is compared in full, whatever
    /// came before, so that the time taken tells nothing about how much of a guess was right.
    pub(crate) fn admit(&self, given: Option<&[u8]>) -> Result<(), Refusal> {
        if self.is_empty() {
            return Ok(());
        }
        let given = given.and_then(bearer).ok_or(Refusal::Missing)?;
        let mut found = subtle::Choice::from(0);
        for token in &self.0 {
            found |= token.as_bytes().ct_eq(given);
        }
        if bool::from(found) { Ok(()) } else { Err(Refusal::Wrong) }
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({} redacted)", self.0.len())
    }
}

/// Why a request was not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Missing,
    Wrong,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (detail, challenge) = match self {
            Refusal::Missing => (
                "this node asks for an access token: send 'Authorization: Bearer <token>' with \
                 one of the tokens of [http]",
                "Bearer realm=\"consort\"",
            ),
            Refusal::Wrong => (
                "the access token is not one of the tokens of [http]",
                "Bearer realm=\"consort\", error=\"invalid_token\"",
            ),
        };
        let mut response = Problem::new(problems::NO_ACCESS, detail).into_response();
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        response
    }
}

/// `Token` is what clients of InfluxDB call it.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let of = |scheme: &str| {
        let (given, token) = value.split_at_checked(scheme.len())?;
        given.eq_ignore_ascii_case(scheme.as_bytes()).then(|| token.trim_ascii())
    };
    of("Bearer ").or_else(|| of("Token "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn only_a_bearer_of_one_of_the_tokens_is_admitted() {
        let tokens = Tokens::new(vec!["another-token-of-ours".into(), TOKEN.into()]).unwrap();
        let cases = [
            (None, Err(Refusal::Missing)),
            (Some("Basic Zm9v"), Err(Refusal::Missing)),
            (Some("Bearer"), Err(Refusal::Missing)),
            (Some("Bearer "), Err(Refusal::Wrong)),
            (Some("Bearer 0123456789abcde"), Err(Refusal::Wrong)),
            (Some("Bearer 0123456789abcdeff"), Err(Refusal::Wrong)),
            (Some("Bearer 0123456789abcdef"), Ok(())),
            (Some("bearer  0123456789abcdef"), Ok(())),
            (Some("Token 0123456789abcdef"), Ok(())),
            (Some("Token"), Err(Refusal::Missing)),
        ];
        for (value, expected) in cases {
            assert_eq!(tokens.admit(value.map(str::as_bytes)), expected, "{value:?}");
        }
        assert_eq!(Tokens::default().admit(None), Ok(()));
    }

    #[test]
    fn weak_tokens_are_refused_and_none_is_ever_printed() {
        let short = Tokens::new(vec![TOKEN.into(), "hunter2".into()]).unwrap_err();
        assert_eq!(short, BadToken::TooShort { number: 2 });
        let spaced = Tokens::new(vec!["has a space in the middle".into()]).unwrap_err();
        assert_eq!(spaced, BadToken::NotVisible { number: 1 });
        let tokens = Tokens::new(vec![TOKEN.into()]).unwrap();
        let shown = format!("{tokens:?} {short} {spaced}");
        assert!(!shown.contains(TOKEN) && !shown.contains("hunter2"), "{shown}");
    }
}
