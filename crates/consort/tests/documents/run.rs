//! Runs the steps of a page, in order.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::page::{Action, Command, NodeOption, Page};
use crate::program::{Ended, Workplace};
use crate::script::{self, Service};
use crate::servers::Server;
use crate::settings;

/// How long a block that only reads may have another output than expected: views follow their streams, and a
/// killed node's work waits for its lease.
const SETTLED_WITHIN: Duration = Duration::from_secs(20);

const ASK_EVERY: Duration = Duration::from_millis(100);

/// Runs a page in this process's namespaces.
pub(crate) fn run(page: &Page) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(steps(page))
}

async fn steps(page: &Page) -> Result<(), String> {
    let at = |line: usize, failure: String| format!("{}:{line}: {failure}", page.file);
    let mut work = Workplace::new().map_err(|error| at(1, error.to_string()))?;
    let mut servers = Vec::new();
    for server in &page.servers {
        servers.push(Server::start(*server).await);
    }
    let serve = match &page.node {
        NodeOption::None => None,
        NodeOption::Tour => Some("exec consort serve".to_owned()),
        NodeOption::Config(path) => Some(format!("exec consort serve -c '{path}'")),
    };
    if let Some(serve) = serve {
        let started = work.start("node", &serve, Service::Node).await;
        started.map_err(|failure| at(1, format!("the page's node: {failure}")))?;
    }
    for step in &page.steps {
        let done = match &step.action {
            Action::Write { path, text } => {
                work.write(path, text).map_err(|error| format!("cannot write {path}: {error}"))
            }
            Action::CheckSettings { text } => settings::check("these settings", text),
            Action::Run(command) => block(&mut work, step.line, command).await,
        };
        done.map_err(|failure| at(step.line, failure))?;
    }
    work.stop().await.map_err(|failure| at(page.steps.last().map_or(1, |step| step.line), failure))
}

async fn block(work: &mut Workplace, line: usize, command: &Command) -> Result<(), String> {
    if command.restart {
        work.stop().await?;
    }
    let name = line.to_string();
    let script = script::runnable(&command.script);
    if let (None, Some((service, script))) = (command.exit, script::service(&script)) {
        let output = work.start(&name, &script, service).await?;
        return compare(command, &Ended { code: None, output, errors: String::new() });
    }
    let begun = Instant::now();
    loop {
        let ended = work.run(&name, &script, command.with_errors).await?;
        let judged = judge(command, &ended);
        let again = script::only_reads(&script) && begun.elapsed() < SETTLED_WITHIN;
        match judged {
            Err(_) if again => sleep(ASK_EVERY).await,
            Err(failure) => return Err(with_programs(&failure, work)),
            Ok(()) => return Ok(()),
        }
    }
}

/// Whether a block ended as it should, with the expected output.
fn judge(command: &Command, ended: &Ended) -> Result<(), String> {
    let wanted = command.exit.unwrap_or(0);
    if ended.code != Some(wanted) {
        let code = ended.code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
        return Err(format!(
            "the block ended with {code}, not {wanted}\n--- block\n{}--- output\n{}{}",
            command.script, ended.output, ended.errors
        ));
    }
    compare(command, ended)
}

fn compare(command: &Command, ended: &Ended) -> Result<(), String> {
    match &command.expected {
        Some(expected) if !expected.fits(&ended.output) => Err(format!(
            "the output is not that of line {}\n--- block\n{}--- expected\n{}--- actual\n{}\n--- errors\n{}",
            expected.line, command.script, expected.text, ended.output, ended.errors
        )),
        _ => Ok(()),
    }
}

fn with_programs(failure: &str, work: &Workplace) -> String {
    let words = work.last_words();
    format!("{failure}\n--- last lines of the running programs\n{words}")
}
