//! Each rule of the two dialects as a table: what a line means, and what a wrong line is told.

use consort_line::{Dialect, FieldValue, Point, Precision, parse, parse_into};

use FieldValue::{Boolean, Float, Integer, Unsigned};

type Tags<'a> = &'a [(&'a str, &'a str)];
type Fields<'a> = &'a [(&'a str, FieldValue<'a>)];

fn text(text: &str) -> FieldValue<'_> {
    FieldValue::Text(text.into())
}

fn point<'a>(
    measurement: Option<&'a str>,
    tags: Tags<'a>,
    fields: Fields<'a>,
    time: Option<i64>,
) -> Point<'a> {
    Point {
        measurement: measurement.map(Into::into),
        tags: tags.iter().map(|&(key, value)| (key.into(), value.into())).collect(),
        fields: fields.iter().map(|(key, value)| ((*key).into(), value.clone())).collect(),
        time,
    }
}

fn read(line: &str, dialect: Dialect) -> Point<'_> {
    match parse(line.as_bytes(), dialect, Precision::Nanoseconds) {
        Ok(Some(point)) => point,
        Ok(None) => panic!("{line:?} is no point"),
        Err(error) => panic!("{line:?}: {error}"),
    }
}

fn refusal(line: impl AsRef<[u8]>, dialect: Dialect) -> (usize, String) {
    let line = line.as_ref();
    match parse(line, dialect, Precision::Nanoseconds) {
        Err(error) => (error.column, error.fault.to_string()),
        Ok(point) => panic!("{} gives {point:?}", line.escape_ascii()),
    }
}

#[test]
fn strict_lines_mean_the_same_in_both_dialects() {
    let cases: &[(&str, &str, Tags<'_>, Fields<'_>, Option<i64>)] = &[
        ("m f=1", "m", &[], &[("f", Float(1.0))], None),
        ("m f=1 5", "m", &[], &[("f", Float(1.0))], Some(5)),
        ("m f=1 -5", "m", &[], &[("f", Float(1.0))], Some(-5)),
        ("  m   f=1   5  ", "m", &[], &[("f", Float(1.0))], Some(5)),
        ("m f=1 ", "m", &[], &[("f", Float(1.0))], None),
        ("m,a=b f=1", "m", &[("a", "b")], &[("f", Float(1.0))], None),
        ("m,b=1,a=2 f=1", "m", &[("b", "1"), ("a", "2")], &[("f", Float(1.0))], None),
        (
            "m a=1,b=-2i,c=3u,d=t,e=\"x\"",
            "m",
            &[],
            &[
                ("a", Float(1.0)),
                ("b", Integer(-2)),
                ("c", Unsigned(3)),
                ("d", Boolean(true)),
                ("e", text("x")),
            ],
            None,
        ),
        // Escapes in names; a backslash before anything else is itself.
        ("a\\ b\\,c f=1", "a b,c", &[], &[("f", Float(1.0))], None),
        ("a\\=b f=1", "a\\=b", &[], &[("f", Float(1.0))], None),
        ("a\\b\\\\c f=1", "a\\b\\\\c", &[], &[("f", Float(1.0))], None),
        ("\\#m f=1", "\\#m", &[], &[("f", Float(1.0))], None),
        ("m,a\\=\\ \\,=b\\=\\ \\, f=1", "m", &[("a= ,", "b= ,")], &[("f", Float(1.0))], None),
        ("m,a=b\\\\,c f=1", "m", &[("a", "b\\,c")], &[("f", Float(1.0))], None),
        ("m f\\=\\ \\,=1", "m", &[], &[("f= ,", Float(1.0))], None),
        // Quotes are ordinary in names, and commas, spaces and `=` are in quoted texts.
        (
            "\"m\",\"a\"=\"b\" \"f\"=1",
            "\"m\"",
            &[("\"a\"", "\"b\"")],
            &[("\"f\"", Float(1.0))],
            None,
        ),
        ("m f=\"a, b=c\" 5", "m", &[], &[("f", text("a, b=c"))], Some(5)),
        ("m f=\"\",g=\"#\"", "m", &[], &[("f", text("")), ("g", text("#"))], None),
        ("m f=\"\\\"\\\\\\n\\r\\t\\x\\,\"", "m", &[], &[("f", text("\"\\\n\r\t\\x\\,"))], None),
        ("m f=\"a\nb\r\t\u{0}\"", "m", &[], &[("f", text("a\nb\r\t\u{0}"))], None),
        ("mé,à=ü ñ=\"日本\"", "mé", &[("à", "ü")], &[("ñ", text("日本"))], None),
        // A field may come twice.
        ("m f=1,f=2i", "m", &[], &[("f", Float(1.0)), ("f", Integer(2))], None),
    ];
    for (line, measurement, tags, fields, time) in cases {
        let expected = point(Some(measurement), tags, fields, *time);
        assert_eq!(read(line, Dialect::Strict), expected, "{line:?}");
        assert_eq!(read(line, Dialect::Loose), expected, "{line:?}");
    }
}

#[test]
fn blank_lines_and_comments_are_no_points() {
    for dialect in [Dialect::Strict, Dialect::Loose] {
        for line in ["", " ", "    ", "#", "# a comment, f=\"1", "   # m f=1"] {
            let read = parse(line.as_bytes(), dialect, Precision::Nanoseconds);
            assert_eq!(read, Ok(None), "{line:?}");
        }
        assert_eq!(parse(b"# \xff", dialect, Precision::Nanoseconds), Ok(None));
        assert_eq!(refusal(" #a\tb", dialect), (4, "a comment may not contain a tab".to_owned()));
    }
}

#[test]
fn what_is_wrong_in_both_dialects_is_said_with_its_place() {
    let cases = [
        (",a=b f=1", 1, "does not begin with a measurement, but with a comma"),
        ("\tm f=1", 1, "but with a tab"),
        ("m\u{b} f=1", 2, "a measurement may not contain the control character 0x0b"),
        ("m", 2, "the line ends after its tags"),
        ("m ", 3, "the line ends after its tags"),
        ("m,a=b", 6, "the line ends after its tags"),
        ("m, f=1", 3, "a tag is missing"),
        ("m,", 3, "here is the end of the line"),
        ("m,,a=b f=1", 3, "here is a comma"),
        ("m,a=b, f=1", 7, "a tag is missing"),
        ("m,=b f=1", 3, "here is `=`"),
        ("m,a f=1", 4, "the tag `a` has no `=`: after its key comes a space"),
        ("m,a=b,c", 8, "the tag `c` has no `=`"),
        ("m,a= f=1", 5, "the tag `a` has no value"),
        ("m,a==b f=1", 5, "the tag `a` has no value"),
        ("m,a=b=c f=1", 6, "after the value of the tag `a` comes `=`"),
        ("m,a=b\tf=1", 6, "comes a tab"),
        ("m,a=b,c=d,a=e f=1", 11, "the tag `a` is given twice"),
        ("m,a\\ =1,b=2,a\\ =3 f=1", 13, "the tag `a ` is given twice"),
        ("m =1", 3, "a field is missing"),
        ("m f=1,", 7, "here is the end of the line"),
        ("m f=1, 5", 7, "here is a space"),
        ("m f", 4, "the field `f` has no `=`"),
        ("m f g=1", 4, "after its key comes a space"),
        ("m f=", 5, "the field `f` has no value"),
        ("m f=,g=1", 5, "the field `f` has no value"),
        ("m f= 5", 5, "the field `f` has no value"),
        ("m f=\"a", 5, "the text of the field `f` has no closing quote"),
        ("m f=\"a\\\"", 5, "no closing quote"),
        ("m f=\"a\"b", 8, "after the text of the field `f` comes `b`"),
        ("m f=\"a\"é", 8, "comes `é`"),
        ("m f=1\r", 6, "may not contain a carriage return outside of quotes"),
        ("m f=1\nm f=2", 6, "a line break"),
        ("m f=9223372036854775808i", 5, "does not fit: an integer lies between"),
        ("m f=18446744073709551616u", 5, "an unsigned integer lies between"),
        ("m f=1e999", 5, "a float is at most"),
        ("m f=1 x", 7, "`x` is no timestamp"),
        ("m f=1 1.5", 7, "`1.5` is no timestamp"),
        ("m f=1 +5", 7, "`+5` is no timestamp"),
        ("m f=1 -", 7, "`-` is no timestamp"),
        ("m f=1 1-", 7, "`1-` is no timestamp"),
        ("m f=1 --1", 7, "`--1` is no timestamp"),
        ("m f=1 5\r", 7, "`5\\r` is no timestamp"),
        ("m f=1 9223372036854775808", 7, "the timestamp `9223372036854775808` does not fit"),
        ("m f=1 5 6", 9, "`6` follows the timestamp"),
        ("m f=1 5  \t", 10, "`\\t` follows the timestamp"),
    ];
    for (line, column, words) in cases {
        for dialect in [Dialect::Strict, Dialect::Loose] {
            let (at, said) = refusal(line, dialect);
            assert!(said.contains(words), "{line:?}: {said}");
            assert_eq!(at, column, "{line:?}: {said}");
        }
    }
}

#[test]
fn invalid_utf8_is_an_error_of_its_line() {
    for dialect in [Dialect::Strict, Dialect::Loose] {
        let cases: [(&[u8], usize); 6] = [
            (b"\xff f=1", 1),
            (b"m,\xc3=b f=1", 3),
            (b"m,a=\xc3\\,\xa9 f=1", 5),
            (b"m \xe6\x97=1", 3),
            (b"m f=\"\xf5\"", 6),
            (b"m f=\xff", 5),
        ];
        for (line, column) in cases {
            assert_eq!(refusal(line, dialect), (column, "the line is not valid UTF-8".to_owned()));
        }
    }
}

#[test]
fn bare_words_are_texts_in_the_loose_dialect_only() {
    let words = [
        ("ann", "ann"),
        ("12abc", "12abc"),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
        ("tom", "tom"),
        ("False!", "False!"),
        ("nan", "nan"),
        ("-inf", "-inf"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("http://x?q=1&r=2", "http://x?q=1&r=2"),
        ("a\"b\"", "a\"b\""),
        ("a\\ b\\,c\\=d\\e", "a b,c=d\\e"),
        ("é", "é"),
    ];
    for (word, expected) in words {
        let line = format!("m f={word},g=1 5");
        let fields = [("f", text(expected)), ("g", Float(1.0))];
        assert_eq!(read(&line, Dialect::Loose), point(Some("m"), &[], &fields, Some(5)));
        let (column, said) = refusal(&line, Dialect::Strict);
        assert_eq!(column, 5, "{said}");
        assert!(
            said.contains("is no number and no boolean; put a text in double quotes"),
            "{said}"
        );
    }
    let (column, said) = refusal("m f=a\u{1}b", Dialect::Loose);
    assert!(said.contains("may not contain the control character 0x01"), "{said}");
    assert_eq!(column, 6);
}

#[test]
fn words_that_strict_understands_are_no_texts_in_the_loose_dialect() {
    let words = [
        ("12", Float(12.0)),
        ("007", Float(7.0)),
        ("1e3", Float(1000.0)),
        ("12i", Integer(12)),
        ("12u", Unsigned(12)),
        ("t", Boolean(true)),
        ("FALSE", Boolean(false)),
        ("\"12\"", text("12")),
        ("\"t\"", text("t")),
    ];
    for (word, value) in words {
        let line = format!("a=b f={word}");
        assert_eq!(read(&line, Dialect::Loose), point(None, &[("a", "b")], &[("f", value)], None));
    }
}

#[test]
fn a_loose_line_may_begin_with_its_tags() {
    let line = "event_type=http-5xx,product=productA value=testusername1 1480876707352348928";
    assert_eq!(
        read(line, Dialect::Loose),
        point(
            None,
            &[("event_type", "http-5xx"), ("product", "productA")],
            &[("value", text("testusername1"))],
            Some(1_480_876_707_352_348_928),
        )
    );
    let said = refusal(line, Dialect::Strict).1;
    assert!(said.contains("the value `testusername1` of the field `value`"), "{said}");

    // What strict takes for a measurement with `=` in its name.
    let line = "a=b,c=d f=1";
    let fields = [("f", Float(1.0))];
    assert_eq!(read(line, Dialect::Strict), point(Some("a=b"), &[("c", "d")], &fields, None));
    assert_eq!(read(line, Dialect::Loose), point(None, &[("a", "b"), ("c", "d")], &fields, None));

    let line = " a\\,b\\ =c f=1";
    assert_eq!(read(line, Dialect::Loose), point(None, &[("a,b ", "c")], &fields, None));
    // An escaped `=`, or one behind the first comma, makes no list of tags.
    assert_eq!(read("a\\=b f=1", Dialect::Loose), point(Some("a\\=b"), &[], &fields, None));
    assert_eq!(read("a,b=c f=1", Dialect::Loose), point(Some("a"), &[("b", "c")], &fields, None));
}

#[test]
fn a_list_of_tags_must_be_well_formed() {
    let cases = [
        ("=b f=1", 1, "a tag is missing"),
        ("a= f=1", 3, "the tag `a` has no value"),
        ("a=b,c f=1", 6, "the tag `c` has no `=`"),
        ("a=b, f=1", 5, "a tag is missing"),
        ("a=b,a=c f=1", 5, "the tag `a` is given twice"),
        ("a=b", 4, "the line ends after its tags"),
    ];
    for (line, column, words) in cases {
        let (at, said) = refusal(line, Dialect::Loose);
        assert!(said.contains(words), "{line:?}: {said}");
        assert_eq!(at, column, "{line:?}: {said}");
    }
}

#[test]
fn timestamps_are_nanoseconds_whatever_their_precision() {
    let time = |line: &'static str, precision| {
        parse(line.as_bytes(), Dialect::Strict, precision).map(|point| point.and_then(|p| p.time))
    };
    assert_eq!(time("m f=1 5", Precision::Microseconds), Ok(Some(5_000)));
    assert_eq!(time("m f=1 -5", Precision::Hours), Ok(Some(-18_000_000_000_000)));
    assert_eq!(time("m f=1", Precision::Hours), Ok(None));
    assert_eq!(time("m f=1 9223372036854775807", Precision::Nanoseconds), Ok(Some(i64::MAX)));
    assert_eq!(time("m f=1 -9223372036854775808", Precision::Nanoseconds), Ok(Some(i64::MIN)));
    let error = time("m f=1 1480876707352348928", Precision::Seconds).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column 7: the timestamp `1480876707352348928` does not fit; is the precision of the request right?"
    );
}

#[test]
fn of_many_tags_the_one_given_twice_is_found() {
    let tags: Vec<String> = (0..1_000).map(|n| format!("t{n}=v")).collect();
    let good = format!("m,{} f=1", tags.join(","));
    assert_eq!(read(&good, Dialect::Strict).tags.len(), 1_000);
    let bad = format!("m,{},t500=w,t400=w f=1", tags.join(","));
    let (column, said) = refusal(&bad, Dialect::Strict);
    assert_eq!(said, "the tag `t500` is given twice");
    assert_eq!(column, bad.find("t500=w").unwrap() + 1);
}

#[test]
fn a_point_that_is_used_again_keeps_nothing_of_the_line_before() {
    let mut reused = Point::default();
    let mut read = |line: &'static str| {
        let read =
            parse_into(&mut reused, line.as_bytes(), Dialect::Strict, Precision::Nanoseconds);
        (read.ok(), reused.clone())
    };
    assert_eq!(read("m,a=b f=1 5").0, Some(true));
    assert_eq!(read("n g=2").1, point(Some("n"), &[], &[("g", Float(2.0))], None));
    assert_eq!(read("m,a=b f=1 x"), (None, Point::default()));
    assert_eq!(read("m,a=b f=1 5").0, Some(true));
    assert_eq!(read("# comment"), (Some(false), Point::default()));
}
