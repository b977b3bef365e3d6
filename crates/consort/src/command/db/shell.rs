//! `consort db shell`: SQL statements from a prompt, a file or the command line.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Args;
use consort_client::{ClientError, DbAdminClient};
use consort_db::sqlite::complete::is_complete;
use serde_json::Value;

use super::{DatabaseArgs, rows, told};
use crate::command::{FAILED, print};

const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE '\\_consort%' ESCAPE '\\' \
     AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";

const SCHEMA: &str = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name NOT LIKE '\\_consort%' ESCAPE '\\'";

const HELP: &str = "\
Each statement ends with ';'. Every statement is a request of its own.
  .tables         the tables and views
  .schema [NAME]  the statements that made them
  .quit           ends the shell, as the end of the input does
";

#[derive(Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Run this and end; without it, statements come from standard input
    #[arg(value_name = "SQL")]
    sql: Option<String>,
    /// Print rows as JSON lists, one a line
    #[arg(long)]
    json: bool,
}

/// Where a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatementRoute {
    Read,
    /// A read, or a write if the node refuses the read: only SQLite knows.
    Unsure,
    Write,
}

/// A line of the input.
#[derive(Debug, PartialEq, Eq)]
enum Input {
    Statement(String),
    Help,
    Quit,
}

pub(super) fn run(arguments: &ShellArgs) -> ExitCode {
    arguments.database.run(async |databases, name| {
        let shell = Shell { databases, name, json: arguments.json };
        match &arguments.sql {
            Some(sql) => shell.run(sql).await.map(|()| ExitCode::SUCCESS),
            None => shell.read().await,
        }
    })
}

struct Shell<'a> {
    databases: DbAdminClient,
    name: &'a str,
    json: bool,
}

impl Shell<'_> {
    /// Runs what comes in. At a prompt a failure is told and the next statement follows; elsewhere it is the end.
    async fn read(&self) -> Result<ExitCode, String> {
        let is_prompt = std::io::stdin().is_terminal();
        if is_prompt {
            eprintln!("'{}' at a node of the cluster; .help lists what there is", self.name);
        }
        let mut pending = String::new();
        let mut lines = std::io::stdin().lock().lines();
        loop {
            if is_prompt {
                eprint!("{}", if pending.is_empty() { "> " } else { "  " });
                let _ = std::io::stderr().flush();
            }
            let Some(line) = lines.next() else { break };
            let line = line.map_err(|error| format!("cannot read standard input: {error}"))?;
            let Some(input) = take_line(&mut pending, &line) else { continue };
            match self.obey(input).await {
                Ok(true) => {}
                Ok(false) => return Ok(ExitCode::SUCCESS),
                Err(reason) if is_prompt => eprintln!("{reason}"),
                Err(reason) => return Err(reason),
            }
        }
        match pending.trim().is_empty() {
            true => Ok(ExitCode::SUCCESS),
            false if is_prompt => Ok(ExitCode::from(FAILED)),
            // The last statement of a file may lack its end.
            false => self.run(&pending).await.map(|()| ExitCode::SUCCESS),
        }
    }

    /// False at the end.
    async fn obey(&self, input: Input) -> Result<bool, String> {
        match input {
            Input::Quit => return Ok(false),
            Input::Help => print(HELP)?,
            Input::Statement(sql) => self.run(&sql).await?,
        }
        Ok(true)
    }

    async fn run(&self, sql: &str) -> Result<(), String> {
        let answer = match route(sql) {
            StatementRoute::Write => self.write(sql).await,
            StatementRoute::Read => self.databases.query(self.name, sql).await,
            StatementRoute::Unsure => match self.databases.query(self.name, sql).await {
                Err(error) if error.kind() == Some("db-request") => self.write(sql).await,
                answer => answer,
            },
        };
        self.show(&answer.map_err(|error| told(&error))?)
    }

    /// The result of the one statement, with the position of the write.
    async fn write(&self, sql: &str) -> Result<Value, ClientError> {
        let mut answer = self.databases.execute(self.name, sql).await?;
        let mut result = answer["results"][0].take();
        result["position"] = answer["position"].take();
        Ok(result)
    }

    fn show(&self, answer: &Value) -> Result<(), String> {
        if answer["columns"].is_array() {
            let shown = if self.json { rows::lines(answer) } else { rows::table(answer) };
            print(&shown)?;
        }
        let position = answer["position"].as_str().unwrap_or_default();
        let plural = |number: u64| if number == 1 { "" } else { "s" };
        match answer["changes"].as_u64() {
            Some(changes) => eprintln!("{changes} row{} changed, {position}", plural(changes)),
            None => {
                let count = rows::count(answer) as u64;
                eprintln!("{count} row{}, {position}", plural(count));
            }
        }
        Ok(())
    }
}

/// Adds a line to what is pending, and takes what is complete.
fn take_line(pending: &mut String, line: &str) -> Option<Input> {
    if pending.trim().is_empty() {
        pending.clear();
        let mut words = line.split_whitespace();
        match words.next() {
            None => return None,
            Some(".quit" | ".exit") => return Some(Input::Quit),
            Some(".tables") => return Some(Input::Statement(TABLES.to_owned())),
            Some(".schema") => return Some(Input::Statement(schema(words.next()))),
            Some(word) if word.starts_with('.') => return Some(Input::Help),
            Some(_) => {}
        }
    }
    pending.push_str(line);
    pending.push('\n');
    // A text with a zero byte is sent as it is, and refused by the node.
    match is_complete(pending) {
        Ok(false) => None,
        Ok(true) | Err(_) => Some(Input::Statement(std::mem::take(pending).trim().to_owned())),
    }
}

fn schema(name: Option<&str>) -> String {
    match name {
        None => SCHEMA.to_owned(),
        Some(name) => format!("{SCHEMA} AND tbl_name = '{}'", name.replace('\'', "''")),
    }
}

/// By its first word, comments before it left out.
fn route(sql: &str) -> StatementRoute {
    let word: String = without_comments(sql).chars().take_while(|c| c.is_alphabetic()).collect();
    match word.to_ascii_lowercase().as_str() {
        "select" | "values" | "explain" => StatementRoute::Read,
        "pragma" if !sql.contains('=') => StatementRoute::Read,
        "with" => StatementRoute::Unsure,
        _ => StatementRoute::Write,
    }
}

fn without_comments(sql: &str) -> &str {
    let mut rest = sql.trim_start();
    loop {
        let after = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map_or("", |(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, after)| after)
        } else {
            return rest;
        };
        rest = after.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_read_or_written_by_its_first_word() {
        use StatementRoute::{Read, Unsure, Write};
        for (sql, expected) in [
            ("SELECT 1", Read),
            ("  select 1", Read),
            ("-- a comment\n/* and\nanother */ VALUES (1)", Read),
            ("explain delete from t", Read),
            ("PRAGMA table_info(t)", Read),
            ("PRAGMA user_version = 7", Write),
            ("WITH a AS (SELECT 1) SELECT * FROM a", Unsure),
            ("INSERT INTO t VALUES (1)", Write),
            ("selectx", Write),
            ("-- nothing", Write),
            ("", Write),
        ] {
            assert_eq!(route(sql), expected, "{sql}");
        }
    }

    #[test]
    fn a_statement_goes_on_over_lines_until_its_end() {
        let mut pending = String::new();
        let mut take = |line: &str| take_line(&mut pending, line);
        let statement = |sql: &str| Some(Input::Statement(sql.to_owned()));
        assert_eq!(take(""), None);
        assert_eq!(take("SELECT ';',"), None);
        assert_eq!(take(".quit"), None, "within a statement it is not a command");
        assert_eq!(take("1;"), statement("SELECT ';',\n.quit\n1;"));
        assert_eq!(take("CREATE TRIGGER t AFTER INSERT ON t BEGIN DELETE FROM t;"), None);
        let trigger = "CREATE TRIGGER t AFTER INSERT ON t BEGIN DELETE FROM t;\nEND;";
        assert_eq!(take("END;"), statement(trigger));
        assert_eq!(take(".tables"), statement(TABLES));
        let schema = format!("{SCHEMA} AND tbl_name = 'it''s'");
        assert_eq!(take(".schema it's"), statement(&schema));
        assert_eq!((take(".help"), take(" .quit ")), (Some(Input::Help), Some(Input::Quit)));
    }
}
