//! Rows on their way out: sinks, to which they are delivered, and subscriptions, by which they are read.
//!
//! Whoever emits rows appends them to a feed of the store ([`Row::feed`](consort_kernel::Row::feed)), in the shard of their group.
//! [`FeedsPart`] brings a role for each sink and shard, which delivers what stands in those feeds at least
//! once and in order, and one for each feed that lets go of what nobody needs any more. A
//! [`Subscription`] reads the same feeds with a cursor over all shards.
//!
//! It knows no views: a row is all it sees. Nor does it know any broker; for AMQP it is handed a
//! [`Publisher`](consort_kernel::Publisher).

mod backoff;
mod bisect;
mod cell;
mod deliverer;
mod feed;
mod figures;
mod http;
pub mod names;
mod outlet;
pub mod parked;
mod part;
mod resolve;
mod says;
mod secret;
mod shown;
mod sink;
mod subscription;
mod trimmer;

pub use figures::{Figures, SinkFigures};
pub use http::tls;
pub use outlet::{Outlet, UnknownSink, outlets};
pub use part::{FeedsPart, Options, Timing, deliverer_role};
pub use secret::Secret;
pub use shown::row_json;
pub use sink::config::{
    AmqpConfig, FileConfig, FileForm, InfluxConfig, InfluxTarget, SinkConfig, SinkKind,
    WebhookConfig,
};
pub use sink::{Delivery, Failed, Sink, Unopened};
pub use subscription::{BadCursor, Page, Place, Subscription};
