//! Routes that a config declares: a method, and a path with fields in braces.

use std::fmt;
use std::str::FromStr;

/// What a route takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Asks a view.
    Get,
    /// Sends an event.
    Post,
}

impl Method {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
        }
    }
}

/// A method and a path such as `GET /resorts/{resort}/skiers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with its braces.
    pub path: String,
    /// The fields in the path, in their order.
    pub fields: Vec<String>,
}

/// Why a text is no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Not two words.
    #[error("write a method and a path, as in \"GET /resorts/{{resort}}/skiers\"")]
    Shape,
    /// Another method than GET and POST.
    #[error("'{0}' cannot be the method of a route: use GET for views and POST for streams")]
    Method(String),
    /// A path must begin with a slash, and have no query, empty part or other odd character.
    #[error(
        "'{0}' is no path: begin with '/', and use letters, digits, '-', '_', '.', '~' and {{field}}"
    )]
    Path(String),
    /// A field that stands twice in the path.
    #[error("the field '{0}' stands twice in the path")]
    Twice(String),
}

impl FromStr for Route {
    type Err = RouteError;

    fn from_str(text: &str) -> Result<Self, RouteError> {
        let mut words = text.split_whitespace();
        let (Some(method), Some(path), None) = (words.next(), words.next(), words.next()) else {
            return Err(RouteError::Shape);
        };
        let method = match method {
            "GET" => Method::Get,
            "POST" => Method::Post,
            other => return Err(RouteError::Method(other.into())),
        };
        let no_path = || RouteError::Path(path.into());
        let parts = path.strip_prefix('/').ok_or_else(no_path)?;
        let mut fields = Vec::new();
        for part in parts.split('/') {
            let field = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            let word = field.unwrap_or(part);
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
            if word.is_empty() || !word.chars().all(plain) {
                return Err(no_path());
            }
            if let Some(field) = field {
                if fields.iter().any(|known| known == field) {
                    return Err(RouteError::Twice(field.into()));
                }
                fields.push(field.to_string());
            }
        }
        Ok(Route { method, path: path.into(), fields })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method.as_str(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_a_method_and_a_path_with_fields() {
        let route: Route = "POST /skiers/{resort}/days/{day}".parse().unwrap();
        assert_eq!(
            (route.method, &route.fields[..]),
            (Method::Post, &["resort", "day"].map(String::from)[..])
        );
        assert_eq!(route.to_string(), "POST /skiers/{resort}/days/{day}");
    }

    #[test]
    fn what_is_no_route_is_told() {
        for (text, expected) in [
            ("/skiers", "write a method and a path"),
            ("PUT /skiers", "'PUT' cannot be the method"),
            ("GET skiers", "'skiers' is no path"),
            ("GET /a//b", "'/a//b' is no path"),
            ("GET /a/", "'/a/' is no path"),
            ("GET /{a}{b}", "'/{a}{b}' is no path"),
            ("GET /{*rest}", "'/{*rest}' is no path"),
            ("GET /a?b", "'/a?b' is no path"),
            ("GET /{a}/{a}", "the field 'a' stands twice"),
        ] {
            let error = text.parse::<Route>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
