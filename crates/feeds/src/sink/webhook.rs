//! The sink `webhook`: changes are posted as batches of CloudEvents, signed if there is a secret.

use async_trait::async_trait;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use ring::hmac;
use url::Url;

use super::config::WebhookConfig;
use super::{Delivery, Failed, Sink};
use crate::http::{Client, Post};

/// `sha256=` and the HMAC-SHA256 of the body under the secret, in hexadecimal digits.
const SIGNATURE: HeaderName = HeaderName::from_static("consort-signature");

const BATCH: HeaderValue = HeaderValue::from_static("application/cloudevents-batch+json");

pub(super) struct WebhookSink {
    client: Client,
    url: Url,
    key: Option<hmac::Key>,
}

impl WebhookSink {
    pub(super) fn new(config: &WebhookConfig) -> WebhookSink {
        let key = config
            .secret
            .as_ref()
            .map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes()));
        let client = match config.allow_private {
            true => Client::anywhere(),
            false => Client::public_only(),
        };
        WebhookSink { client, url: config.url.clone(), key }
    }
}

#[async_trait]
impl Sink for WebhookSink {
    async fn deliver(&self, changes: &[Delivery]) -> Result<(), Failed> {
        let events: Result<Vec<_>, String> = changes.iter().map(Delivery::cloud_event).collect();
        let body = events
            .and_then(|events| serde_json::to_vec(&events).map_err(|error| error.to_string()));
        let body = body.map_err(Failed::refused)?;
        let mut headers = vec![(CONTENT_TYPE, BATCH)];
        if let Some(key) = &self.key
            && let Ok(signature) = HeaderValue::try_from(signature(key, &body))
        {
            headers.push((SIGNATURE, signature));
        }
        self.client.post(Post { url: &self.url, headers, body: body.into() }).await
    }
}

fn signature(key: &hmac::Key, body: &[u8]) -> String {
    let digits = hmac::sign(key, body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    ["sha256=".to_owned(), digits].concat()
}

impl std::fmt::Debug for WebhookSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let url = super::config::origin(&self.url);
        f.debug_struct("WebhookSink").field("url", &url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_rfc_4231() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"Jefe");
        assert_eq!(
            signature(&key, b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
