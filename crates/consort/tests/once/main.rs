//! Once end to end: the real binary on the embedded engine, before the sample upstream.

mod answers;
mod bed;
mod example;
mod failures;
mod freshness;
mod hostile;
mod keys;
mod metrics;
mod purges;
mod sample;
mod several;
mod tls;
