//! The InfluxDB line protocol: a body split into lines ([`lines()`]), a line read as a [`Point`]
//! ([`parse()`]), and a point written as a line ([`write()`]).
//!
//! ```
//! use consort_line::{Dialect, FieldValue, Precision, lines, parse};
//!
//! let body = b"events,product=productA value=\"ann\" 1480876707352348928\n# a comment\n";
//! for (number, line) in lines(body) {
//!     match parse(line, Dialect::Strict, Precision::Nanoseconds) {
//!         Ok(Some(point)) => {
//!             assert_eq!(point.tag("product"), Some("productA"));
//!             assert_eq!(point.field("value"), Some(&FieldValue::Text("ann".into())));
//!         }
//!         Ok(None) => assert_eq!(number, 2),
//!         Err(error) => panic!("line {number}, {error}"),
//!     }
//! }
//! ```
//!
//! # Strict
//!
//! What InfluxDB's reference decoder takes, value for value; its public cases are the test. In short:
//!
//! - `measurement[,tag=value…] field=value[,field=value…] [timestamp]`, the parts divided by one or more
//!   spaces, with spaces allowed before and after. A line of spaces, and one that begins with `#`, is
//!   no point and no error.
//! - In a measurement `\,` and `\ ` stand for comma and space; in keys and tag values `\=` also stands
//!   for `=`. Any other backslash is itself. Control characters are refused there.
//! - A field is a float (`1`, `-1.5`, `.5`, `1e-4`), an integer (`1i`), an unsigned integer (`1u`), a
//!   boolean (`t`, `T`, `true`, `True`, `TRUE` and `f` …), or a text in double quotes, within which
//!   `\"`, `\\`, `\n`, `\r` and `\t` are escapes and every other character, line breaks included,
//!   stands for itself. Numbers that do not fit are errors. Hexadecimal numbers and digits grouped by
//!   underscores are not in the grammar and are refused.
//! - A tag that is given twice is an error. A field may be given twice: both are kept in order, and
//!   [`Point::field`] answers the last, which is the one that InfluxDB stores.
//! - Tags keep the order of the line.
//!
//! # Loose
//!
//! For senders that write `event_type=http-5xx,product=productA value=ann 1480876707352348928`. It takes
//! what strict takes, and two things more:
//!
//! - **No measurement.** A first part with an unescaped `=` before its first comma or space is a list of
//!   tags, and the point has no measurement. This is the one thing that reads differently: strict takes
//!   such a part for a measurement with `=` in its name.
//! - **Bare words.** A field value that is no number, no boolean and not in quotes is a text: `ann`,
//!   `12abc`, `nan`, `http://x?q=1`. It ends at the next comma or space; `\,`, `\ ` and `\=` are escapes as
//!   in a tag value. Whatever strict reads as a number or boolean stays one: `12` is the float 12, `12i`
//!   an integer, `t` is true and `tom` a text. Who needs `12` or `t` as a text puts it in quotes. A word
//!   in the form of a number that does not fit, such as `9223372036854775808i`, is an error as in
//!   strict, so that a field does not change its type by its size.
//!
//! # What it is not
//!
//! It knows no streams, no clock and no sockets: a line without a timestamp is a point without a time,
//! and what that means is the caller's affair ([`Precision::truncate`] helps).

mod error;
mod lines;
mod number;
mod parse;
mod point;
mod precision;
mod scan;
mod write;

pub use error::{Fault, Found, LineError};
pub use lines::{Lines, first_line, lines};
pub use parse::{Dialect, parse, parse_into};
pub use point::{FieldValue, Point};
pub use precision::{Precision, UnknownPrecision};
pub use write::{WriteError, write};
