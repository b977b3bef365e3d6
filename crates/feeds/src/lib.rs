//! Changes on their way out: sinks, to which they are delivered, and subscriptions, by which they are read.
//!
//! A part appends changes to feeds of the store and declares each feed with a [`FeedSpec`]: its path, its
//! [`Payload`], its [`Retention`] and its sinks. [`FeedsPart`] brings a role for each sink and shard, which
//! delivers the changes at least once and in order, and one for each feed, which trims it. A [`Subscription`]
//! reads the same feeds with a cursor over all shards.
//!
//! This crate knows no part and no payload: rows of views come with a `Payload` from outside. Nor does it
//! know any broker; for AMQP it is handed a [`Publisher`](consort_kernel::Publisher).

mod backoff;
mod bisect;
mod cell;
mod deliverer;
mod feed;
mod feed_cursor;
mod figures;
#[cfg(test)]
mod fixtures;
mod formats;
mod http;
mod marks;
pub mod names;
mod outlet;
pub mod parked;
pub mod parked_subject;
mod part;
mod payload;
mod resolve;
mod row;
mod says;
mod secret;
mod sink;
mod spec;
mod states;
mod subjects;
mod subscription;
mod trimmer;

pub use feed_cursor::{BadCursor, FeedCursor};
pub use figures::{Figures, SinkFigures};
pub use formats::FORMATS;
pub use http::tls;
pub use outlet::OutletError;
pub use parked_subject::{ParkedSubjectView, ReleaseError};
pub use part::{FeedsError, FeedsPart, OpenSink, Options, Timing, deliverer_role};
pub use payload::{LinePayload, Payload};
pub use secret::Secret;
pub use sink::config::{
    AmqpConfig, FileConfig, FileForm, InfluxConfig, InfluxTarget, SinkConfig, SinkKind,
    WebhookConfig, check_sink,
};
pub use sink::{Delivery, Failed, Sink, Unopened};
pub use spec::{FeedSpec, Retention};
pub use subjects::{
    CoveredChanges, SendMode, Subject, SubjectChange, SubjectPayload, SubjectRevision, SubjectState,
};
pub use subscription::{FeedPage, FeedSelection, NoSubjects, PageChange, Subscription};
