//! Rows of views as the payload of a feed. Views know no feeds, and feeds know no views: the two meet here.

use std::sync::Arc;

use consort_feeds::{FeedSpec, LinePayload, Payload, Retention};
use consort_kernel::{Change, ChangeError, NameError};
use consort_line::Point;
use consort_views::WindowRow;

/// The payload of feeds with rows of views.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows;

/// The feed of a view with windows, which goes to these sinks.
pub(crate) fn feed(view: &str, sinks: &[String]) -> Result<FeedSpec, NameError> {
    Ok(FeedSpec {
        path: format!("views/{view}"),
        feed: WindowRow::feed(view)?,
        payload: Arc::new(Rows),
        retention: Retention::default(),
        sinks: sinks.to_vec(),
    })
}

impl Payload for Rows {
    fn name(&self) -> &'static str {
        "row"
    }

    fn decode(&self, entry: &[u8]) -> Result<Change, ChangeError> {
        WindowRow::decode_change(entry)
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        WindowRow::from_change(change).map(|row| row.id()).map_err(|error| error.to_string())
    }

    fn points(&self) -> Option<&dyn LinePayload> {
        Some(self)
    }
}

impl LinePayload for Rows {
    fn point(&self, change: &Change) -> Result<Point<'static>, String> {
        WindowRow::from_change(change).map_err(|error| error.to_string())?.point()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_feeds::Delivery;

    const DATA: &str = concat!(
        r#"{"view":"v","group":{"a":1},"window":{"start":"2016-12-04T18:38:00Z","#,
        r#""end":"2016-12-04T18:39:00Z"},"value":2,"revision":3}"#
    );

    /// A row as an earlier release stored it, and as this one does.
    fn stored() -> [String; 2] {
        let bare = concat!(
            "\x01{\"name\":\"v\",\"group\":{\"a\":1},\"start\":1480876680000000000,",
            "\"end\":1480876740000000000,\"value\":2,\"revision\":3}"
        );
        let head = "{\"subject\":\"v\",\"time\":1480876740000000000,\"revision\":3,\"payload\":";
        [bare.to_owned(), format!("\x02{head}{DATA}}}")]
    }

    #[test]
    fn rows_leave_a_node_as_the_same_bytes_in_every_release() {
        let feed = Arc::new(feed("v", &[]).unwrap());
        for entry in stored() {
            let change = Rows.decode(entry.as_bytes()).unwrap();
            assert_eq!(change.payload_line(), DATA);
            let mut line = String::new();
            consort_line::write(&Rows.point(&change).unwrap(), &mut line).unwrap();
            assert_eq!(line, "v,a=1 value=2 1480876680000000000");
            let event = concat!(
                r#"{"specversion":"1.0","id":"d48c506c19b1aea51777f3624791a887","#,
                r#""source":"/consort/views/v","type":"consort.row.v1","subject":"v","#,
                r#""time":"2016-12-04T18:39:00Z","datacontenttype":"application/json","data":DATA}"#
            );
            let delivery = Delivery { feed: Arc::clone(&feed), number: 7, change };
            assert_eq!(delivery.cloud_event().unwrap().get(), event.replace("DATA", DATA));
        }
    }
}
