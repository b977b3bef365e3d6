//! What the sample upstream is told to do with one request.

use std::time::Duration;

use consort_server::axum::http::StatusCode;
use url::form_urlencoded;

use crate::config;

/// The largest answer that can be asked for.
const SIZE_MOST: u64 = 1 << 30;

/// How a request is to be answered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Switches {
    pub(super) delay: Duration,
    pub(super) status: Option<StatusCode>,
    /// So many calls of the path fail before one succeeds.
    pub(super) fail: u64,
    pub(super) size: Option<u64>,
    pub(super) empty: bool,
    pub(super) object: bool,
    pub(super) redirect: Option<String>,
    pub(super) broken: bool,
    pub(super) cache: Option<String>,
    pub(super) tag: Option<String>,
    pub(super) cookie: Option<String>,
    pub(super) r#type: Option<String>,
    pub(super) echo: bool,
}

impl Switches {
    /// Reads a query. Parameters that are no switches are the caller's own.
    pub(super) fn read(query: &str) -> Result<Switches, String> {
        let mut switches = Switches::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let wrong = |wanted: &str| format!("'{name}' {wanted}, not '{value}'");
            let text = || Some(value.to_string());
            match &*name {
                "delay" => switches.delay = config::duration(&value).map_err(|w| wrong(&w))?,
                "size" => {
                    switches.size = Some(config::size(&value, SIZE_MOST).map_err(|w| wrong(&w))?)
                }
                "status" => {
                    let status =
                        value.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
                    switches.status = Some(status.ok_or_else(|| wrong("must be a status"))?);
                }
                "fail" => {
                    switches.fail =
                        value.parse().map_err(|_| wrong("must be a number of calls"))?;
                }
                "empty" => switches.empty = true,
                "object" => switches.object = true,
                "broken" => switches.broken = true,
                "echo" => switches.echo = true,
                "redirect" => switches.redirect = text(),
                "cache" => switches.cache = text(),
                "tag" => switches.tag = text(),
                "cookie" => switches.cookie = text(),
                "type" => switches.r#type = text(),
                _ => {}
            }
        }
        Ok(switches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_read_and_other_parameters_left_alone() {
        let read =
            Switches::read("delay=5s&status=404&fail=2&size=2MiB&empty&cache=max-age%3D1&page=3");
        let expected = Switches {
            delay: Duration::from_secs(5),
            status: Some(StatusCode::NOT_FOUND),
            fail: 2,
            size: Some(2 << 20),
            empty: true,
            cache: Some("max-age=1".into()),
            ..Switches::default()
        };
        assert_eq!(read, Ok(expected));
        assert_eq!(Switches::read(""), Ok(Switches::default()));
        for wrong in ["delay=5", "status=9", "status=x", "fail=-1", "size=1"] {
            assert!(Switches::read(wrong).is_err(), "{wrong}");
        }
    }
}
