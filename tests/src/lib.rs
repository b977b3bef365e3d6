//! What the end-to-end tests share: the hammer, which is a process that works on an engine until it is
//! killed, and the check of what the engine holds afterwards against what the hammer told.
//!
//! [`work`] says what the hammer does, as plain functions, so that the process and whoever checks on it
//! cannot disagree. [`record`] is what it told before it died.

pub mod check;
pub mod hammer;
pub mod record;
pub mod seed;
pub mod work;
