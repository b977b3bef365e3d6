//! `[once.NAME]`: answers that are asked of an upstream once, for all nodes.

use std::ops::RangeInclusive;
use std::time::Duration;

use consort_kernel::Name;
use consort_server::axum::http::HeaderName;
use consort_server::once::{HEADERS_MOST, OnError, Space, Template, passable};

use super::OnceConfig;
use crate::config::declared::Declaration;
use crate::config::part::Context;
use crate::config::read;
use crate::config::reader::Reader;

/// As those of the cluster: what a busy machine may pause for, and what nobody waits for.
const LEASES: RangeInclusive<Duration> = Duration::from_millis(300)..=Duration::from_secs(300);

const YEAR: Duration = Duration::from_secs(365 * 86_400);

const LIFETIMES: RangeInclusive<Duration> = Duration::ZERO..=YEAR;

/// An error that is kept for longer would outlive its cause.
const ERRORS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);

const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(600);

/// An answer is one cell of the store, with its headers.
const SIZES: RangeInclusive<u64> = 1 << 10..=3 << 20;

/// Reads a `[once.NAME]`.
pub(super) fn read_declaration(
    reader: &mut Reader<'_>,
    declaration: &Declaration,
    context: &mut Context<'_>,
) {
    let space = read_space(reader, declaration);
    context.config.part_mut::<OnceConfig>().spaces.extend(space);
}

/// None if there is a mistake in it.
fn read_space(reader: &mut Reader<'_>, declaration: &Declaration) -> Option<Space> {
    let example = "\"http://127.0.0.1:9000/items/{path}?{query}\"";
    if reader.get("upstream").is_none() {
        let needs = format!("'upstream': the address that is asked, such as {example}");
        reader.missing(&["upstream"], needs);
    }
    let upstream = reader.read("upstream", |raw| Template::parse(read::text(raw)?));
    // A space of another name stands in for one that cannot be read, so that all its mistakes are told.
    let stand_in = || Template::parse("http://127.0.0.1/").ok();
    let mut space =
        Space::new(Name::new(&declaration.name).ok()?, upstream.clone().or_else(stand_in)?);
    let terms = &mut space.terms;
    let mut time = |setting: &str, range: RangeInclusive<Duration>, into: &mut Duration| {
        if let Some(time) = reader.read(setting, |raw| read::duration(raw, range)) {
            *into = time;
        }
    };
    time("lease", LEASES, &mut terms.lease);
    time("fresh_for", LIFETIMES, &mut terms.fresh_for);
    time("stale_for", LIFETIMES, &mut terms.stale_for);
    time("stale_if_error", LIFETIMES, &mut terms.stale_if_error);
    time("errors_for", ERRORS, &mut terms.errors_for);
    time("wait", TIMEOUTS, &mut terms.wait);
    time("timeout", TIMEOUTS, &mut space.timeout);
    time("connect_timeout", TIMEOUTS, &mut space.connect_timeout);
    if let Some(size) = reader.read("max_value", |raw| read::size(raw, SIZES)) {
        terms.max_value = usize::try_from(size).unwrap_or(terms.max_value);
    }
    let words = [("keep", OnError::Keep), ("reelect", OnError::Reelect)];
    if let Some(on_error) = reader.read("on_error", |raw| read::one_of(raw, words)) {
        terms.on_error = on_error;
    }
    if let Some(early) = reader.read("refresh_early", read::flag) {
        terms.refresh_early = early;
    }
    if let Some(honour) = reader.read("honour", read::flag) {
        space.honour = honour;
    }
    space.headers = read_headers(reader);
    (upstream.is_some() && !reader.is_flawed()).then_some(space)
}

/// The headers that are passed on, in one order: they are part of keys.
fn read_headers(reader: &mut Reader<'_>) -> Vec<HeaderName> {
    let Some(names) = reader.texts("headers", "header") else { return Vec::new() };
    if names.len() > HEADERS_MOST
        && let Some(entry) = reader.entry("headers")
    {
        let wrong = format!("must have at most {HEADERS_MOST} headers: each splits the answers");
        reader.wrong("headers", &entry.value.span, wrong);
    }
    let mut headers: Vec<HeaderName> = Vec::new();
    for name in names {
        match passable(name.text) {
            Ok(header) => headers.push(header),
            Err(reason) => reader.wrong("headers", name.span, reason),
        }
    }
    headers.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    headers.dedup();
    headers
}
