//! Changes as CloudEvents 1.0.

use serde::Serialize;
use serde_json::value::RawValue;

use super::Delivery;

#[derive(Serialize)]
struct Event<'a> {
    specversion: &'static str,
    id: String,
    source: String,
    r#type: String,
    subject: &'a str,
    time: String,
    datacontenttype: &'static str,
    data: Box<RawValue>,
}

impl Delivery {
    /// The change as an event, in JSON. The source is the feed, and the type is that of its payload.
    pub fn cloud_event(&self) -> Result<Box<RawValue>, String> {
        let Delivery { feed, change, .. } = self;
        let data = change.payload_line().into_owned();
        let event = Event {
            specversion: "1.0",
            id: self.id()?,
            source: format!("/consort/{}", feed.path),
            r#type: format!("consort.{}.v1", feed.payload.name()),
            subject: &change.subject,
            time: change.time.to_string(),
            datacontenttype: "application/json",
            data: RawValue::from_string(data).map_err(|error| error.to_string())?,
        };
        serde_json::value::to_raw_value(&event).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{delivery, feed, point};

    #[test]
    fn an_event_says_what_it_is_and_which() {
        let expected = concat!(
            r#"{"specversion":"1.0","id":"a/3","source":"/consort/test/v","#,
            r#""type":"consort.point.v1","subject":"a","time":"2016-12-04T18:39:00Z","#,
            r#""datacontenttype":"application/json","data":{"of": "a","value":2}}"#
        );
        let mut delivery = delivery(&feed("v"), 7, point("a", "2", 3));
        let payload = "{\"of\":\n\"a\",\"value\":2}".to_owned();
        delivery.change.payload = RawValue::from_string(payload).unwrap();
        assert_eq!(delivery.cloud_event().unwrap().get(), expected);
    }
}
