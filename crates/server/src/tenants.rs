//! Tenants: who a request comes from, and for which tenant it speaks.
//!
//! A tenant's access token fixes the tenant. The operator names one with `Consort-Tenant`, or reads all of them. The door
//! admits tenants to the routes that declare themselves open to them; all others are the operator's.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::http::{Extensions, HeaderMap, HeaderName};

use crate::problem::Problem;
use crate::problems;

/// Names the tenant, where the caller may choose one.
pub const TENANT: HeaderName = HeaderName::from_static("consort-tenant");

/// The longest name of a tenant: it is part of the keys of cells.
const NAME_MOST: usize = 64;

/// The tenant of an operator's request that names none.
const DEFAULT: &str = "default";

/// The name of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantName(Arc<str>);

/// A text is no name of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {NAME_MOST} of a-z, A-Z, 0-9, '_', '-' and '.'")]
pub struct BadTenantName;

/// Who sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// With one of the tokens of `[http]`, or without any on loopback.
    Operator,
    /// With a token of this tenant.
    Tenant(TenantName),
}

/// The tenants whose data a request may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantScope {
    /// All of them: an operator's `*`.
    All,
    /// This one.
    One(TenantName),
}

/// The routes of a node that tenants may use, by their paths with the fields in braces.
#[derive(Clone, Debug, Default)]
pub struct TenantRoutes(BTreeSet<String>);

impl TenantName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TenantName {
    type Err = BadTenantName;

    fn from_str(text: &str) -> Result<TenantName, BadTenantName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        match (1..=NAME_MOST).contains(&text.len()) && text.bytes().all(allowed) {
            true => Ok(TenantName(text.into())),
            false => Err(BadTenantName),
        }
    }
}

impl Default for TenantName {
    fn default() -> TenantName {
        TenantName(DEFAULT.into())
    }
}

impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Caller {
    /// The caller of a request that the door admitted.
    pub fn from_extensions(extensions: &Extensions) -> Caller {
        extensions.get::<Caller>().cloned().unwrap_or(Caller::Operator)
    }

    /// The one tenant that a request is about.
    pub fn tenant(&self, headers: &HeaderMap) -> Result<TenantName, Problem> {
        match self.scope(headers)? {
            TenantScope::One(tenant) => Ok(tenant),
            TenantScope::All => Err(Problem::new(
                problems::TENANT,
                "'Consort-Tenant: *' reads lists and feeds; a piece or a document belongs to one tenant: name it",
            )),
        }
    }

    /// The tenants that a list or a feed is asked of.
    pub fn scope(&self, headers: &HeaderMap) -> Result<TenantScope, Problem> {
        let mut given = headers.get_all(TENANT).iter();
        let named = match (given.next(), given.next()) {
            (None, _) => None,
            (Some(name), None) => Some(name.to_str().map_err(|_| malformed())?.trim()),
            (Some(_), Some(_)) => return Err(malformed()),
        };
        match (self, named) {
            (Caller::Operator, None) => Ok(TenantScope::One(TenantName::default())),
            (Caller::Operator, Some("*")) => Ok(TenantScope::All),
            (Caller::Operator, Some(name)) => {
                name.parse().map(TenantScope::One).map_err(|_| malformed())
            }
            (Caller::Tenant(own), None) => Ok(TenantScope::One(own.clone())),
            (Caller::Tenant(own), Some(name)) if name == own.as_str() => {
                Ok(TenantScope::One(own.clone()))
            }
            (Caller::Tenant(own), Some(_)) => Err(other_tenant(own)),
        }
    }
}

impl TenantScope {
    /// Whether this tenant's data is in it.
    pub fn contains(&self, tenant: &str) -> bool {
        match self {
            TenantScope::All => true,
            TenantScope::One(one) => one.as_str() == tenant,
        }
    }
}

impl TenantRoutes {
    /// The same with one more route. Its handler must keep each tenant to its own data.
    pub fn with(mut self, path: impl Into<String>) -> TenantRoutes {
        self.0.insert(path.into());
        self
    }

    /// Adds the routes of another part.
    pub fn merge(&mut self, other: TenantRoutes) {
        self.0.extend(other.0);
    }

    /// Refuses a tenant's request on a route that is the operator's.
    pub(crate) fn admit(&self, caller: &Caller, route: &str) -> Result<(), Problem> {
        match caller {
            Caller::Tenant(tenant) if !self.0.contains(route) => Err(operators_alone(tenant)),
            _ => Ok(()),
        }
    }
}

fn malformed() -> Problem {
    let detail = format!("'Consort-Tenant' {BadTenantName}, or '*' where all tenants are read");
    Problem::new(problems::TENANT, detail)
}

fn other_tenant(own: &TenantName) -> Problem {
    let detail = format!(
        "the access token is of the tenant '{own}', and 'Consort-Tenant' names another; leave the header out, or send \
         an operator's token"
    );
    Problem::new(problems::OTHER_TENANT, detail)
}

fn operators_alone(tenant: &TenantName) -> Problem {
    let detail = format!(
        "the access token is of the tenant '{tenant}', and this path is the operator's: it takes one of the tokens of \
         [http]. Tenants use /glue and /feeds/glue"
    );
    Problem::new(problems::OPERATOR_ONLY, detail)
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    fn headers(tenant: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !tenant.is_empty() {
            headers.insert(TENANT, tenant.parse().unwrap());
        }
        headers
    }

    fn one(name: &str) -> Result<TenantScope, StatusCode> {
        Ok(TenantScope::One(name.parse().unwrap()))
    }

    #[test]
    fn a_token_fixes_the_tenant_and_the_operator_chooses() {
        let a = Caller::Tenant("a".parse().unwrap());
        let refused = |status: u16| Err(StatusCode::from_u16(status).unwrap());
        for (caller, named, expected) in [
            (&Caller::Operator, "", one("default")),
            (&Caller::Operator, "b", one("b")),
            (&Caller::Operator, "*", Ok(TenantScope::All)),
            (&Caller::Operator, "b/c", refused(400)),
            (&a, "", one("a")),
            (&a, "a", one("a")),
            (&a, "b", refused(403)),
            (&a, "*", refused(403)),
        ] {
            let scope = caller.scope(&headers(named)).map_err(|problem| problem.status());
            assert_eq!(scope, expected, "{caller:?} names '{named}'");
        }
        let mut twice = headers("b");
        twice.append(TENANT, "c".parse().unwrap());
        assert_eq!(Caller::Operator.scope(&twice).unwrap_err().status(), 400);
        let all = Caller::Operator.tenant(&headers("*")).unwrap_err();
        assert_eq!(all.status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn names_are_short_and_plain() {
        for good in ["a", "A-1_b.c", &"x".repeat(NAME_MOST)] {
            assert!(good.parse::<TenantName>().is_ok(), "{good}");
        }
        for bad in ["", "*", "a b", "a/b", "é", &"x".repeat(NAME_MOST + 1)] {
            assert!(bad.parse::<TenantName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn tenants_use_the_routes_that_are_open_to_them_and_no_others() {
        let routes = TenantRoutes::default().with("/glue/{collection}");
        let a = Caller::Tenant("a".parse().unwrap());
        assert!(routes.admit(&a, "/glue/{collection}").is_ok());
        assert_eq!(routes.admit(&a, "/cluster").unwrap_err().status(), StatusCode::FORBIDDEN);
        assert!(routes.admit(&Caller::Operator, "/cluster").is_ok());
    }
}
