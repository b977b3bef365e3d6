//! What holds for every line: nothing makes the reader fall over, what is written is read back, and the
//! loose dialect reads strict lines as strict does.

use std::borrow::Cow;
use std::collections::HashSet;

use consort_line::{Dialect, FieldValue, Point, Precision, lines, parse, write};
use proptest::collection::vec;
use proptest::prelude::*;

/// Lines that between them have every part and escape, as seeds of broken ones.
const SEEDS: [&str; 10] = [
    "events,event_type=http-5xx,product=productA value=\"user123\" 1480876707352348928",
    "event_type=http-5xx,product=productA value=testusername1 1480876707352348928",
    "m\\ \\,\\=x,a\\=\\ b=c\\,d f\\ =1i,g=2u,h=-1.5e-3,i=t,j=FALSE -5",
    "  m   f=\"a\\\"b\\\\c\\n,d =\"   5  ",
    "# a comment\nm f=1\r\n\r\nm f=\"a\nb\",g=2\n",
    "m f=9223372036854775807i,g=18446744073709551615u,h=1.7976931348623157e308",
    "é,à=ü ñ=\"日本\",w=日本 1",
    "m f=\"never closed\nm f=1\n",
    "m,a=b,c=d,e=f,a=g f=1",
    "\\,\\ \\=\"\\",
];

/// The bytes that mean something, more likely than others.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        4 => prop::sample::select(b" ,=\\\"#\n\r\t-.0159eituTfnr".to_vec()),
        1 => any::<u8>(),
    ]
}

/// Reads a body in every way, and checks what must hold for any.
fn read_everything(body: &[u8]) {
    let mut expected_number = 1;
    for (number, line) in lines(body) {
        assert_eq!(number, expected_number, "{}", body.escape_ascii());
        expected_number += 1 + line.iter().filter(|&&byte| byte == b'\n').count();
        read_line(line);
    }
    read_line(body);
}

fn read_line(line: &[u8]) {
    let [strict, loose] = [Dialect::Strict, Dialect::Loose].map(|dialect| {
        let read = parse(line, dialect, Precision::Seconds);
        match &read {
            Ok(Some(point)) => assert!(!point.fields.is_empty()),
            Ok(None) => {}
            Err(error) => {
                assert!((1..=line.len() + 1).contains(&error.column), "{error}");
                assert!(error.to_string().len() < 1_000, "{error}");
            }
        }
        read
    });
    if let Ok(Some(point)) = &strict
        && point.measurement.as_ref().is_some_and(|name| !name.contains('='))
    {
        assert_eq!(loose, strict, "{}", line.escape_ascii());
    }
}

/// Text that a name can be: no control characters, and no backslash at its end.
fn name() -> impl Strategy<Value = Cow<'static, str>> {
    prop_oneof!["[a-z]{1,8}", "[ ,=\\\\\"a#é]{1,6}", "\\PC{1,6}"].prop_map(|mut name: String| {
        if name.ends_with('\\') {
            name.push('x');
        }
        Cow::Owned(name)
    })
}

fn value() -> impl Strategy<Value = FieldValue<'static>> {
    prop_oneof![
        any::<f64>().prop_filter_map("not finite", |float| {
            float.is_finite().then_some(FieldValue::Float(float))
        }),
        any::<i32>().prop_map(|whole| FieldValue::Float(f64::from(whole))),
        any::<i64>().prop_map(FieldValue::Integer),
        any::<u64>().prop_map(FieldValue::Unsigned),
        any::<bool>().prop_map(FieldValue::Boolean),
        prop_oneof!["[ ,=\\\\\"nrt\n\r\té]{0,8}", any::<String>()]
            .prop_map(|text: String| FieldValue::Text(text.into())),
    ]
}

fn point() -> impl Strategy<Value = Point<'static>> {
    let parts = (
        prop::option::of(name()),
        vec((name(), name()), 0..20),
        vec((name(), value()), 1..5),
        prop::option::of(any::<i64>()),
    );
    parts.prop_filter_map("begins as a comment, or not at all", |parts| {
        let (measurement, mut tags, fields, time) = parts;
        let mut seen = HashSet::new();
        tags.retain(|(key, _)| seen.insert(key.clone()));
        let first = measurement.as_ref().or(tags.first().map(|(key, _)| key))?;
        (!first.starts_with('#')).then_some(Point { measurement, tags, fields, time })
    })
}

/// A line that strict accepts, but for tags given twice and numbers without digits. Its measurement has
/// no `=` but after a backslash, and no name ends with a backslash, which would escape what follows.
fn strict_line() -> impl Strategy<Value = String> {
    let name = prop_oneof!["[a-z]{1,3}", "([a-z\"]|\\\\{1,3}[ ,=a])([a-z]|\\\\[ ,=])?"];
    let value = prop_oneof![
        "-?[0-9]{1,3}[iu]?",
        "-?[0-9]{0,2}\\.[0-9]{0,2}([eE][+-]?[0-9]{1,3})?",
        "[tTfF]|true|True|TRUE|false|False|FALSE",
        "\"([a-z ,=\n]|\\\\[nrt\"\\\\x]){0,4}\"",
    ];
    let tags = vec((name.clone(), name.clone()), 0..3);
    let fields = vec((name.clone(), value), 1..3);
    (name, tags, fields, " {0,2}", "( -?[0-9]{1,4})?").prop_map(
        |(measurement, tags, fields, spaces, time)| {
            let tags: String = tags.iter().map(|(key, value)| format!(",{key}={value}")).collect();
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("{spaces}{measurement}{tags} {}{time}{spaces}", fields.join(","))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_bytes_make_it_fall_over(body in vec(byte(), 0..80)) {
        read_everything(&body);
    }

    #[test]
    fn no_broken_line_makes_it_fall_over(
        seed in prop::sample::select(SEEDS.to_vec()),
        changes in vec((any::<prop::sample::Index>(), byte(), 0..3), 1..6),
    ) {
        let mut body = seed.as_bytes().to_vec();
        for (place, byte, change) in changes {
            let at = place.index(body.len() + 1);
            match change {
                0 => body.insert(at, byte),
                1 if at < body.len() => body[at] = byte,
                _ => body.truncate(at),
            }
        }
        read_everything(&body);
    }

    #[test]
    fn a_written_point_is_read_back(point in point()) {
        let mut line = String::new();
        write(&point, &mut line).unwrap();
        prop_assert!(!line.contains('\n'));
        // A measurement with `=` is one only in strict, and no measurement is possible only in loose.
        let dialect =
            if point.measurement.is_some() { Dialect::Strict } else { Dialect::Loose };
        let read = parse(line.as_bytes(), dialect, Precision::Nanoseconds);
        prop_assert_eq!(read, Ok(Some(point)), "{}", line);
    }

    #[test]
    fn the_lines_of_a_body_are_those_that_were_joined(
        joined in vec((strict_line(), prop::sample::select(vec!["\n", "\r\n", "\n\n"])), 1..6),
    ) {
        let body: String = joined.iter().flat_map(|(line, end)| [line.as_str(), end]).collect();
        let split: Vec<&[u8]> =
            lines(body.as_bytes()).map(|(_, line)| line).filter(|line| !line.is_empty()).collect();
        let expected: Vec<&[u8]> = joined.iter().map(|(line, _)| line.as_bytes()).collect();
        prop_assert_eq!(split, expected);
    }

    #[test]
    fn loose_reads_a_strict_line_as_strict_does(line in strict_line()) {
        let strict = parse(line.as_bytes(), Dialect::Strict, Precision::Nanoseconds);
        if let Ok(Some(point)) = strict {
            let loose = parse(line.as_bytes(), Dialect::Loose, Precision::Nanoseconds);
            prop_assert_eq!(loose, Ok(Some(point)));
        }
    }
}
