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
mod figures;
#[cfg(test)]
mod fixtures;
mod formats;
mod http;
mod marks;
pub mod names;
mod outlet;
pub mod parked;
mod part;
mod payload;
mod resolve;
mod says;
mod secret;
mod sink;
mod spec;
mod subscription;
mod trimmer;

pub use figures::{Figures, SinkFigures};
pub use formats::FORMATS;
pub use http::tls;
pub use outlet::OutletError;
pub use part::{FeedsError, FeedsPart, Options, Timing, deliverer_role};
pub use payload::{LinePayload, Payload};
pub use secret::Secret;
pub use sink::config::{
    AmqpConfig, FileConfig, FileForm, InfluxConfig, InfluxTarget, SinkConfig, SinkKind,
    WebhookConfig, check_sink,
};
pub use sink::{Delivery, Failed, Sink, Unopened};
pub use spec::{FeedSpec, Retention};
pub use subscription::{BadCursor, Page, Place, Subscription};
