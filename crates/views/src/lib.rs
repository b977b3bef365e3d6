//! Streams of typed events, and the views that are kept of them: exact, live, and the same on every node.
//!
//! A [`Stream`] says what an event is, a [`View`] what is kept of its events. Both are checked when they
//! are declared. [`StreamPlan`] is the pure fold from records to operations; the cluster's worker runs it.
//! [`Query`] reads what has been folded.
//!
//! Nothing here serves HTTP. Streams and views declare their [`Route`]s as data, a method and a path;
//! `consort-server` matches requests with them.

pub mod definitions;
mod evaluate;
pub mod event;
pub mod expression;
pub mod form;
mod formats;
mod hex;
mod keys;
pub mod language;
pub mod part;
pub mod plan;
mod point;
pub mod position;
pub mod query;
pub mod refused;
pub mod rejects;
pub mod route;
pub mod row;
pub mod schema;
pub mod stream;
pub mod tallies;
pub mod value;
pub mod view;
pub mod window;

pub use definitions::Definitions;
pub use event::Event;
pub use expression::{Expression, ExpressionError};
pub use form::Form;
pub use formats::FORMATS;
pub use keys::NAME_MOST;
pub use part::StreamsPart;
pub use plan::StreamPlan;
pub use position::{Position, PositionError, text_of};
pub use query::{Page, Parts, Query, QueryRefusal};
pub use refused::Refused;
pub use rejects::Rejected;
pub use route::{Method, Route, RouteError};
pub use row::{GroupFields, WindowRow};
pub use schema::{Field, Rejection, Schema, Unknown};
pub use stream::Stream;
pub use tallies::{Tallies, ViewTallies};
pub use value::{FieldType, Kind, TypeError, Value};
pub use view::{Aggregate, Answer, GroupField, View};
pub use window::{Late, Windows};
