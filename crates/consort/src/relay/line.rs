//! What is done with one line: its time, and its targets.

use bytes::{BufMut as _, Bytes, BytesMut};
use consort_kernel::Moment;
use consort_line::Point;

use crate::config::relay::{RelayConfig, Rule};

/// The targets of a line, by their places: those of the first route that it fits, or the default.
pub(super) fn targets<'a>(config: &'a RelayConfig, point: &Point<'_>) -> &'a [usize] {
    config.routes.iter().find(|rule| fits(rule, point)).map_or(&config.default, |rule| &rule.to)
}

fn fits(rule: &Rule, point: &Point<'_>) -> bool {
    let measurement = rule.measurement.as_deref();
    let tag = rule.tag.as_ref().is_none_or(|(name, wanted)| match (point.tag(name), wanted) {
        (Some(value), Some(wanted)) => value == wanted,
        (found, None) => found.is_some(),
        (None, Some(_)) => false,
    });
    tag && measurement.is_none_or(|name| point.measurement.as_deref() == Some(name))
}

/// The line with a time: its own, or the moment at which it was received. Nothing else of it is changed.
pub(super) fn timed(line: &[u8], point: &Point<'_>, received: Moment) -> Bytes {
    if point.time.is_some() {
        return Bytes::copy_from_slice(line);
    }
    let line = line.trim_ascii_end();
    let time = received.0.to_string();
    let mut timed = BytesMut::with_capacity(line.len() + 1 + time.len());
    timed.put_slice(line);
    timed.put_u8(b' ');
    timed.put_slice(time.as_bytes());
    timed.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;
    use consort_line::{Dialect, Precision, parse};

    const CONFIG: &str = r#"
[relay]
udp = "127.0.0.1:0"
form = "line-loose"
default = ["rest"]
[target.a]
udp = "127.0.0.1:1"
[target.b]
udp = "127.0.0.1:2"
[target.rest]
udp = "127.0.0.1:3"
[[route]]
measurement = "cpu"
tag = "host=x"
to = ["a"]
[[route]]
tag = "event_type"
to = ["a", "b"]
[[route]]
measurement = "cpu"
to = ["b"]
"#;

    fn point(line: &str) -> Point<'_> {
        parse(line.as_bytes(), Dialect::Loose, Precision::Nanoseconds).unwrap().unwrap()
    }

    #[test]
    fn the_first_route_that_fits_decides() {
        let file = ConfigFile { name: "relay.toml".into(), text: CONFIG.into() };
        let config = RelayConfig::resolve(Some(&file), &Default::default()).unwrap();
        let cases: [(&str, &[usize]); 6] = [
            ("cpu,host=x v=1", &[0]),
            ("cpu,host=y v=1", &[1]),
            ("cpu,host=y,event_type=e v=1", &[0, 1]),
            ("event_type=e v=1", &[0, 1]),
            ("mem,host=x v=1", &[2]),
            ("host=x v=1", &[2]),
        ];
        for (line, expected) in cases {
            assert_eq!(targets(&config, &point(line)), expected, "{line}");
        }
    }

    #[test]
    fn a_line_gets_a_time_only_if_it_has_none() {
        let cases = [
            ("m v=1 5", "m v=1 5"),
            ("m v=1", "m v=1 77"),
            ("m v=1  ", "m v=1 77"),
            ("m v=\"a \n\"", "m v=\"a \n\" 77"),
        ];
        for (line, expected) in cases {
            let timed = timed(line.as_bytes(), &point(line), Moment(77));
            assert_eq!(std::str::from_utf8(&timed).unwrap(), expected);
            assert!(point(expected).time.is_some());
        }
    }
}
