//! HTTP, as all processes speak it: the server with its limits, the client, and the form of answers.

mod body;
mod client;
mod fields;
mod long_paths;
mod methods;
mod problem;
mod segment;
mod server;
mod service_url;

pub(crate) use body::read_body;
pub(crate) use client::{HttpClient, HttpFailure};
pub(crate) use fields::JsonFields;
pub(crate) use methods::{not_found, only};
pub(crate) use problem::Problem;
pub(crate) use segment::PathSegment;
pub(crate) use server::HttpServer;
pub(crate) use service_url::ServiceUrl;
