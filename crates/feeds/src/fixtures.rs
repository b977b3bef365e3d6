//! Payloads of the tests' own: the crate knows no part.

use std::sync::Arc;

use consort_kernel::{Change, Moment};
use consort_line::{FieldValue, Point};
use serde_json::value::RawValue;

use crate::payload::{LinePayload, Payload};
use crate::sink::Delivery;
use crate::spec::{FeedSpec, Retention};

/// Values of subjects, which have a form in line protocol.
#[derive(Debug)]
pub(crate) struct Points;

impl Payload for Points {
    fn name(&self) -> &'static str {
        "point"
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        Ok(format!("{}/{}", change.subject, change.revision))
    }

    fn points(&self) -> Option<&dyn LinePayload> {
        Some(self)
    }
}

impl LinePayload for Points {
    fn point(&self, change: &Change) -> Result<Point<'static>, String> {
        let payload = serde_json::from_str(change.payload.get());
        let payload: serde_json::Value = payload.map_err(|error| error.to_string())?;
        let value = payload["value"].as_f64().ok_or("there is no value")?;
        Ok(Point {
            measurement: Some("v".into()),
            tags: vec![("of".into(), change.subject.clone().into())],
            fields: vec![("value".into(), FieldValue::Float(value))],
            time: Some(change.time.0),
        })
    }
}

/// Notes, which have none.
#[derive(Debug)]
pub(crate) struct Notes;

impl Payload for Notes {
    fn name(&self) -> &'static str {
        "note"
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        Points.id(change)
    }
}

/// A change of [`Points`].
pub(crate) fn point(subject: &str, value: &str, revision: u64) -> Change {
    let payload = format!("{{\"of\":\"{subject}\",\"value\":{value}}}");
    Change {
        subject: subject.into(),
        time: Moment(1_480_876_740_000_000_000),
        revision,
        payload: RawValue::from_string(payload).unwrap(),
    }
}

/// A feed of [`Points`].
pub(crate) fn feed(name: &str) -> Arc<FeedSpec> {
    Arc::new(FeedSpec {
        path: format!("test/{name}"),
        feed: format!("test.{name}").parse().unwrap(),
        payload: Arc::new(Points),
        retention: Retention::default(),
        sinks: Vec::new(),
    })
}

pub(crate) fn delivery(feed: &Arc<FeedSpec>, number: u64, change: Change) -> Delivery {
    Delivery { feed: Arc::clone(feed), number, change }
}
