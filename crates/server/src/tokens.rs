//! Access tokens: who may use the HTTP interface, and as which caller. They are secrets, so nothing here prints one.

use std::collections::BTreeMap;
use std::fmt;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use crate::problem::Problem;
use crate::problems;
use crate::tenants::{Caller, TenantName};

/// Shorter tokens can be guessed over a network.
const SHORTEST: usize = 16;

/// The accepted tokens: those of the operator, and those of tenants. Without any, every caller is the operator, which is
/// only allowed on a loopback address.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    operator: Vec<String>,
    tenants: BTreeMap<TenantName, Vec<String>>,
}

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
    #[error(
        "access token {number} is also a token of {other}; give each tenant and the operator tokens of their own"
    )]
    Shared { number: usize, other: String },
}

impl Tokens {
    /// The tokens of the operator. Tokens are numbered from 1 in errors.
    pub fn new(tokens: Vec<String>) -> Result<Tokens, BadToken> {
        check(&tokens)?;
        Ok(Tokens { operator: tokens, tenants: BTreeMap::new() })
    }

    /// The same with those of a tenant, which are given as an operator's. No token belongs to two callers.
    pub fn with_tenant(mut self, tenant: TenantName, tokens: &Tokens) -> Result<Tokens, BadToken> {
        for (at, token) in tokens.operator.iter().enumerate() {
            if let Some(other) = self.owner(token, &tenant) {
                return Err(BadToken::Shared { number: at + 1, other });
            }
        }
        self.tenants.entry(tenant).or_default().extend(tokens.operator.iter().cloned());
        Ok(self)
    }

    /// Who else has this token, in words.
    fn owner(&self, token: &String, tenant: &TenantName) -> Option<String> {
        if self.operator.contains(token) {
            return Some("[http]".to_owned());
        }
        let mut others = self.tenants.iter().filter(|(name, _)| *name != tenant);
        let (name, _) = others.find(|(_, tokens)| tokens.contains(token))?;
        Some(format!("[tenant.{name}]"))
    }

    pub fn is_empty(&self) -> bool {
        self.operator.is_empty() && self.tenants.values().all(Vec::is_empty)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.operator.len() + self.tenants.values().map(Vec::len).sum::<usize>()
    }

    /// Whether the operator has one.
    pub fn has_operator(&self) -> bool {
        !self.operator.is_empty()
    }

    /// The operator's first token, for a program that asks a node with the node's own config.
    pub fn first(&self) -> Option<&str> {
        self.operator.first().map(String::as_str)
    }

    /// What a node authenticates itself to other nodes with: the operator's first token.
    pub(crate) fn bearer(&self) -> Option<HeaderValue> {
        let first = self.operator.first()?;
        let mut value = HeaderValue::try_from(format!("Bearer {first}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The caller whose token an `Authorization` carries. Every token is compared in full, whatever came before, so that
    /// the time taken tells nothing about how much of a guess was right.
    pub(crate) fn admit(&self, given: Option<&[u8]>) -> Result<Caller, Refusal> {
        if self.is_empty() {
            return Ok(Caller::Operator);
        }
        let given = given.and_then(bearer).ok_or(Refusal::Missing)?;
        let is_operator = is_one_of(&self.operator, given);
        let mut found = None;
        for (tenant, tokens) in &self.tenants {
            if bool::from(is_one_of(tokens, given)) {
                found = Some(tenant);
            }
        }
        match (bool::from(is_operator), found) {
            (true, _) => Ok(Caller::Operator),
            (false, Some(tenant)) => Ok(Caller::Tenant(tenant.clone())),
            (false, None) => Err(Refusal::Wrong),
        }
    }
}

fn check(tokens: &[String]) -> Result<(), BadToken> {
    for (at, token) in tokens.iter().enumerate() {
        let number = at + 1;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadToken::NotVisible { number });
        }
        if token.len() < SHORTEST {
            return Err(BadToken::TooShort { number });
        }
    }
    Ok(())
}

fn is_one_of(tokens: &[String], given: &[u8]) -> subtle::Choice {
    let none = subtle::Choice::from(0);
    tokens.iter().fold(none, |found, token| found | token.as_bytes().ct_eq(given))
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({} redacted)", self.count())
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
                 one of the tokens of [http], or of [tenant.NAME]",
                "Bearer realm=\"consort\"",
            ),
            Refusal::Wrong => (
                "the access token is neither one of the tokens of [http] nor of [tenant.NAME]",
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
            (Some("Bearer 0123456789abcdef"), Ok(Caller::Operator)),
            (Some("bearer  0123456789abcdef"), Ok(Caller::Operator)),
            (Some("Token 0123456789abcdef"), Ok(Caller::Operator)),
            (Some("Token"), Err(Refusal::Missing)),
        ];
        for (value, expected) in cases {
            assert_eq!(tokens.admit(value.map(str::as_bytes)), expected, "{value:?}");
        }
        assert_eq!(Tokens::default().admit(None), Ok(Caller::Operator));
    }

    #[test]
    fn a_token_names_its_tenant_and_belongs_to_one_caller() {
        let name = |text: &str| text.parse::<TenantName>().unwrap();
        let own = |text: &str| Tokens::new(vec![format!("{text}-token-of-sixteen")]).unwrap();
        let tokens = own("operator").with_tenant(name("a"), &own("a")).unwrap();
        let tokens = tokens.with_tenant(name("b"), &own("b")).unwrap();
        let admit =
            |text: &str| tokens.admit(Some(format!("Bearer {text}-token-of-sixteen").as_bytes()));
        assert_eq!(admit("operator"), Ok(Caller::Operator));
        assert_eq!(admit("a"), Ok(Caller::Tenant(name("a"))));
        assert_eq!(admit("b"), Ok(Caller::Tenant(name("b"))));
        assert_eq!(admit("c"), Err(Refusal::Wrong));
        assert_eq!(tokens.admit(None), Err(Refusal::Missing));
        let shared = tokens.clone().with_tenant(name("c"), &own("operator")).unwrap_err();
        assert_eq!(shared, BadToken::Shared { number: 1, other: "[http]".into() });
        let shared = tokens.with_tenant(name("c"), &own("b")).unwrap_err();
        assert_eq!(shared, BadToken::Shared { number: 1, other: "[tenant.b]".into() });
    }

    #[test]
    fn tokens_of_tenants_alone_admit_no_operator() {
        let own = Tokens::new(vec![TOKEN.into()]).unwrap();
        let tokens = Tokens::default().with_tenant("a".parse().unwrap(), &own).unwrap();
        assert!(!tokens.is_empty() && !tokens.has_operator());
        assert_eq!(tokens.admit(None), Err(Refusal::Missing));
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
