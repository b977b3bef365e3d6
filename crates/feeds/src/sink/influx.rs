//! The sink `influx`: changes are points, and a later revision overwrites an earlier one.

use std::collections::HashMap;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use consort_line::Point;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use url::Url;

use super::config::{InfluxConfig, InfluxTarget};
use super::{Delivery, Failed, Sink, write_line};
use crate::http::{Client, Post};

#[derive(Debug)]
pub(super) struct InfluxSink {
    client: Client,
    /// Without secrets.
    url: Url,
    access: Option<HeaderValue>,
}

impl InfluxSink {
    pub(super) fn new(config: &InfluxConfig) -> Result<InfluxSink, String> {
        let mut url = config.url.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        let access = match &config.target {
            InfluxTarget::V1 { database, retention, user } => {
                url.set_path(&format!("{base}/write"));
                url.query_pairs_mut().append_pair("db", database).append_pair("precision", "ns");
                if let Some(retention) = retention {
                    url.query_pairs_mut().append_pair("rp", retention);
                }
                let account = |(user, password): &(String, crate::Secret)| {
                    let account = format!("{user}:{}", password.reveal());
                    format!("Basic {}", STANDARD.encode(account))
                };
                user.as_ref().map(account)
            }
            InfluxTarget::V2 { org, bucket, token } => {
                url.set_path(&format!("{base}/api/v2/write"));
                url.query_pairs_mut()
                    .append_pair("org", org)
                    .append_pair("bucket", bucket)
                    .append_pair("precision", "ns");
                Some(format!("Token {}", token.reveal()))
            }
        };
        let access = access.map(|text| {
            let mut value = HeaderValue::try_from(text)
                .map_err(|_| "user, password or token has characters that HTTP cannot carry")?;
            value.set_sensitive(true);
            Ok::<_, &str>(value)
        });
        // The database is the operator's own choice, and mostly on a private network.
        Ok(InfluxSink { client: Client::anywhere(), url, access: access.transpose()? })
    }
}

#[async_trait]
impl Sink for InfluxSink {
    async fn deliver(&self, changes: &[Delivery]) -> Result<(), Failed> {
        let body = body(changes).map_err(Failed::refused)?;
        let mut headers =
            vec![(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))];
        headers.extend(self.access.clone().map(|access| (AUTHORIZATION, access)));
        self.client.post(Post { url: &self.url, headers, body: body.into() }).await
    }
}

/// The lines of a request. Of several points with the same measurement, tags and time only the last is
/// written: InfluxDB does not say which of two equal points in one request it keeps.
fn body(changes: &[Delivery]) -> Result<String, String> {
    let points: Result<Vec<Point<'_>>, String> = changes.iter().map(Delivery::point).collect();
    let points = points?;
    let mut last = HashMap::new();
    for (at, Point { measurement, tags, time, .. }) in points.iter().enumerate() {
        last.insert((measurement, tags, time), at);
    }
    let mut kept: Vec<usize> = last.into_values().collect();
    kept.sort_unstable();
    let mut text = String::new();
    for at in kept {
        write_line(&points[at], &mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;
    use crate::fixtures::{delivery, feed, point};

    fn sink(url: &str, target: InfluxTarget) -> InfluxSink {
        InfluxSink::new(&InfluxConfig { url: url.parse().unwrap(), target }).unwrap()
    }

    #[test]
    fn both_generations_have_their_path_and_their_way_in() {
        let v1 = |retention: Option<&str>, user| InfluxTarget::V1 {
            database: "e v".into(),
            retention: retention.map(Into::into),
            user,
        };
        let plain = sink("http://h:8086", v1(None, None));
        assert_eq!(plain.url.as_str(), "http://h:8086/write?db=e+v&precision=ns");
        assert_eq!(plain.access, None);
        let full = sink("http://h/x/", v1(Some("r"), Some(("u".into(), Secret::new("p")))));
        assert_eq!(full.url.as_str(), "http://h/x/write?db=e+v&precision=ns&rp=r");
        assert_eq!(full.access.as_ref().unwrap(), "Basic dTpw");
        assert!(!format!("{full:?}").contains("dTpw"), "{full:?}");
        let (org, bucket, token) = ("o".into(), "b".into(), Secret::new("t"));
        let v2 = sink("https://h", InfluxTarget::V2 { org, bucket, token });
        assert_eq!(v2.url.as_str(), "https://h/api/v2/write?org=o&bucket=b&precision=ns");
        assert_eq!(v2.access.as_ref().unwrap(), "Token t");
    }

    #[test]
    fn of_the_revisions_in_a_request_the_last_is_written() {
        let feed = feed("v");
        let changes = [("a", "5", 1), ("b", "7", 1), ("a", "6", 2)];
        let changes = changes.map(|(subject, value, revision)| {
            delivery(&feed, revision, point(subject, value, revision))
        });
        let expected = "v,of=b value=7 1480876740000000000\nv,of=a value=6 1480876740000000000\n";
        assert_eq!(body(&changes).unwrap(), expected);
    }

    #[test]
    fn a_point_that_no_line_can_say_is_told() {
        let feed = feed("v");
        for (subject, value, words) in [
            ("x\\ny", "1", "control characters"),
            ("x\\\\", "1", "a backslash at its end"),
            ("x", "null", "no value"),
        ] {
            let mut change = point(subject, value, 1);
            change.subject = serde_json::from_str(&format!("\"{subject}\"")).unwrap();
            let error = body(&[delivery(&feed, 1, change)]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
