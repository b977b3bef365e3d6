//! Whole clusters on the memory engine, in virtual time: who works on what, and what becomes of it when
//! nodes join, leave and die, and when the store does not answer.

mod agreement;
mod apart;
mod appends;
mod busy;
mod faults;
mod handover;
mod joining;
mod lags;
mod player;
mod refusals;
mod stage;
mod unsound;
