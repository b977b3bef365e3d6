//! The sink `influx`: rows are points, and a later revision of a row overwrites it.

use std::collections::HashMap;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use url::Url;

use super::config::{InfluxConfig, InfluxTarget};
use super::{Delivery, Failed, Sink, line};
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
    async fn deliver(&self, rows: &[Delivery]) -> Result<(), Failed> {
        let body = body(rows).map_err(Failed::refused)?;
        let mut headers =
            vec![(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))];
        headers.extend(self.access.clone().map(|access| (AUTHORIZATION, access)));
        self.client.post(Post { url: &self.url, headers, body: body.into() }).await
    }
}

/// The lines of a request. Of several revisions of a row only the last is written: InfluxDB does not say
/// which of two equal points in one request it keeps.
fn body(rows: &[Delivery]) -> Result<String, String> {
    let mut last = HashMap::new();
    for (at, Delivery { row, .. }) in rows.iter().enumerate() {
        let group = row.group.0.iter().map(|(name, value)| (name.as_str(), value.get()));
        last.insert((row.name.as_str(), group.collect::<Vec<_>>(), row.start), at);
    }
    let mut kept: Vec<usize> = last.into_values().collect();
    kept.sort_unstable();
    let mut text = String::new();
    for at in kept {
        line::write(&rows[at].row, &mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;
    use crate::shown::tests::row;

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
        let delivery = |group, value, revision| Delivery {
            feed: "rows.v".parse().unwrap(),
            number: revision,
            row: row("v", &[("a", group)], value, revision),
        };
        let rows = [delivery("1", "5", 1), delivery("2", "7", 1), delivery("1", "6", 2)];
        let expected = "v,a=2 value=7 1480876680000000000\nv,a=1 value=6 1480876680000000000\n";
        assert_eq!(body(&rows).unwrap(), expected);
    }
}
