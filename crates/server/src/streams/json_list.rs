//! A JSON list of events. Its items are found one by one in the body, so that neither the time between two yields nor
//! the memory beside the body grows with their number.
//!
//! A list that is not JSON is refused whole. So it is read twice: first to its end, and then for its events.

use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use consort_kernel::Budget;
use consort_views::Value;
use serde::Deserialize as _;
use serde_json::value::RawValue;

use super::Entrance;
use super::answers::Bulk;
use super::bulk::Intake;
use crate::memory::BodyShare;
use crate::problem::Problem;
use crate::problems;

/// The most blanks between two items that are read without a yield.
const BLANKS_MOST: usize = 64 * 1024;

/// A list is checked event by event, as lines are.
pub(super) async fn list(
    entrance: &Entrance,
    body: &Bytes,
    preset: &[Option<Value>],
    share: &BodyShare,
) -> Result<Response, Problem> {
    let mut budget = Budget::default();
    check(body, &mut budget).await.map_err(|error| {
        entrance.ingress.metrics().rejected.inc();
        let detail = format!("the list of events is not JSON: {error}");
        Problem::new(problems::INVALID_EVENT, detail)
    })?;
    let mut intake = Intake::new(entrance);
    let mut bulk = Bulk::new("event");
    let mut items = Items::new(body);
    // It was read to its end without an error.
    while let Ok(found) = items.next() {
        let item = match found {
            Found::End => break,
            Found::Blanks(bytes) => {
                budget.spend(bytes).await;
                continue;
            }
            Found::Item(item) => item,
        };
        bulk.begin();
        take(item, preset, &mut intake, &mut bulk);
        budget.spend(item.len()).await;
        if intake.is_full() {
            if let Err(full) = share.hold(body.len() + intake.held()) {
                intake.fail(full.problem());
                break;
            }
            intake.flush().await;
        }
    }
    Ok(bulk.answer(intake.finish().await).into_response())
}

fn take(item: &[u8], preset: &[Option<Value>], intake: &mut Intake<'_>, bulk: &mut Bulk) {
    let entrance = intake.entrance();
    // Why this is no event is known, and said often enough.
    let taken = match item.first() == Some(&b'{') || bulk.lists_more() {
        true => Some(entrance.stream.schema.fill(item, preset.to_vec())),
        false => None,
    };
    match taken {
        Some(Ok(event)) => intake.take(event, bulk),
        Some(Err(rejection)) => {
            entrance.ingress.metrics().rejected.inc();
            bulk.reject(|| rejection.to_string());
        }
        None => {
            entrance.ingress.metrics().rejected.inc();
            bulk.reject(String::new);
        }
    }
}

/// Reads a list to its end.
async fn check(body: &[u8], budget: &mut Budget) -> Result<(), NotJson> {
    let mut items = Items::new(body);
    let wrong = loop {
        match items.next() {
            Ok(Found::End) => return Ok(()),
            Ok(Found::Blanks(bytes)) => budget.spend(bytes).await,
            Ok(Found::Item(item)) => budget.spend(item.len()).await,
            Err(wrong) => break wrong,
        }
    };
    let mut lines = Position::default();
    for part in body[..wrong.at].chunks(BLANKS_MOST) {
        lines.pass(part);
        budget.spend(part.len()).await;
    }
    Err(wrong.placed(lines))
}

/// Finds the items of a list.
#[derive(Debug)]
struct Items<'a> {
    body: &'a [u8],
    at: usize,
    expects: Expects,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    /// The bracket that begins the list.
    List,
    /// The first item, or the end.
    First,
    /// A comma, or the end.
    Comma,
    /// An item behind a comma.
    Item,
    /// Nothing but blanks.
    Nothing,
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
enum Found<'a> {
    Item(&'a [u8]),
    /// Many blanks; others may follow.
    Blanks(usize),
    End,
}

/// Where the list is not JSON.
#[derive(Debug)]
struct Wrong {
    /// From where lines and columns are counted.
    at: usize,
    fault: String,
    line: usize,
    column: usize,
}

/// A list that is not JSON, in the words of the parser.
#[derive(Debug, thiserror::Error)]
#[error("{fault} at line {line} column {column}")]
struct NotJson {
    fault: String,
    line: usize,
    column: usize,
}

/// Line breaks that were passed, and bytes behind the last of them.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    breaks: usize,
    behind: usize,
}

impl<'a> Items<'a> {
    fn new(body: &'a [u8]) -> Items<'a> {
        Items { body, at: 0, expects: Expects::List }
    }

    fn next(&mut self) -> Result<Found<'a>, Wrong> {
        loop {
            let rest = &self.body[self.at..];
            let is_blank = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\t' | b'\r');
            let blanks = rest.iter().take(BLANKS_MOST).take_while(|byte| is_blank(byte)).count();
            self.at += blanks;
            if blanks == BLANKS_MOST {
                return Ok(Found::Blanks(blanks));
            }
            let next = rest.get(blanks).copied();
            self.expects = match (self.expects, next) {
                (Expects::Nothing, None) => return Ok(Found::End),
                (Expects::Nothing, Some(_)) => return Err(self.wrong("trailing characters", 1)),
                (Expects::List, Some(b'[')) => Expects::First,
                (Expects::List, _) => return Err(self.wrong("expected value", 1)),
                (Expects::First | Expects::Comma, Some(b']')) => Expects::Nothing,
                (Expects::Comma, Some(b',')) => Expects::Item,
                (Expects::Comma, Some(_)) => return Err(self.wrong("expected `,` or `]`", 1)),
                (Expects::Item, Some(b']')) => return Err(self.wrong("trailing comma", 1)),
                (Expects::First | Expects::Comma, None) => {
                    return Err(self.wrong("EOF while parsing a list", 0));
                }
                (Expects::Item, None) => return Err(self.wrong("EOF while parsing a value", 0)),
                (Expects::First | Expects::Item, Some(_)) => {
                    let item = self.item()?;
                    self.expects = Expects::Comma;
                    return Ok(Found::Item(item));
                }
            };
            self.at += 1;
        }
    }

    /// The item that begins here.
    fn item(&mut self) -> Result<&'a [u8], Wrong> {
        let rest = &self.body[self.at..];
        let mut deserializer = serde_json::Deserializer::from_slice(rest);
        match <&RawValue>::deserialize(&mut deserializer) {
            Ok(item) => {
                let item = item.get().as_bytes();
                self.at += item.len();
                Ok(item)
            }
            Err(error) => {
                let told = error.to_string();
                let fault = told.rsplit_once(" at line ").map_or(&*told, |(fault, _)| fault);
                let (line, column) = (error.line(), error.column());
                Err(Wrong { at: self.at, fault: fault.into(), line, column })
            }
        }
    }

    fn wrong(&self, fault: &str, column: usize) -> Wrong {
        Wrong { at: self.at, fault: fault.into(), line: 1, column }
    }
}

impl Wrong {
    /// With `before` it.
    fn placed(self, before: Position) -> NotJson {
        let Wrong { fault, line, column, .. } = self;
        let column = if line == 1 { column + before.behind } else { column };
        NotJson { fault, line: line + before.breaks, column }
    }
}

impl Position {
    fn pass(&mut self, part: &[u8]) {
        self.breaks += memchr::memchr_iter(b'\n', part).count();
        self.behind = match memchr::memrchr(b'\n', part) {
            Some(last) => part.len() - last - 1,
            None => self.behind + part.len(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn items(body: &str) -> Result<Vec<String>, String> {
        let mut budget = Budget::default();
        check(body.as_bytes(), &mut budget).await.map_err(|error| error.to_string())?;
        let (mut items, mut all) = (Items::new(body.as_bytes()), Vec::new());
        loop {
            match items.next().unwrap() {
                Found::Item(item) => all.push(String::from_utf8(item.to_vec()).unwrap()),
                Found::Blanks(_) => {}
                Found::End => return Ok(all),
            }
        }
    }

    #[tokio::test]
    async fn a_list_is_read_as_the_parser_reads_it_whole() {
        let blanks = " ".repeat(2 * BLANKS_MOST);
        let far = format!("[1,{blanks}\n2{blanks}]{blanks}");
        let wrong_far = format!("[1,\n{blanks}2 3]");
        let lists = [
            "[]",
            " [ ] ",
            "[1]",
            "[{\"a\":[1,2]},\"x,]\",[],null]",
            "\n[ 1 ,\r\n\t2 ]\n",
            &far,
            // Broken ones.
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1]]",
            "[1] x",
            "[1,\n\n  x]",
            "[{\"a\":1,\n\"b\"}]",
            "[\"open]",
            "[tru]",
            "[1.]",
            "[{]",
            "[\"\\x\"]",
            &wrong_far,
        ];
        for list in lists {
            let whole: Result<Vec<&RawValue>, _> = serde_json::from_str(list);
            let whole = whole
                .map(|items| items.iter().map(|item| item.get().to_owned()).collect::<Vec<_>>())
                .map_err(|error| error.to_string());
            let shown = &list[..list.len().min(40)];
            assert_eq!(items(list).await, whole, "{shown}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_memory_beside_a_list_does_not_grow_with_its_items() {
        const GROWTH_MOST: usize = 4 << 20;
        /// The most memory that this process ever had.
        fn peak() -> usize {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
            line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
        }
        // A slice for each of its items would take 32 MB.
        let list = format!("[0{}]", ",0".repeat(1_999_999));
        let before = peak();
        assert_eq!(check(list.as_bytes(), &mut Budget::default()).await.map_err(drop), Ok(()));
        let (mut items, mut found) = (Items::new(list.as_bytes()), 0);
        while let Ok(Found::Item(_)) = items.next() {
            found += 1;
        }
        assert_eq!(found, 2_000_000);
        assert!(peak() - before < GROWTH_MOST, "{} bytes", peak() - before);
    }

    #[test]
    fn an_item_that_is_no_text_is_an_error() {
        let mut items = Items::new(b"[\"\xff\"]");
        assert!(items.next().is_err());
    }
}
