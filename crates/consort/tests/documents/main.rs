//! Every document of the project is a test: its commands run, their output is compared with the page, its
//! settings are checked, and its links lead somewhere. `docs/dev/documents.md` has the rules for pages.
//!
//! Each page is one test of this program, which has a harness of its own for that. The tests of the runner
//! itself stand in [`runner_tests`].

mod expected;
mod files;
mod info;
mod links;
mod namespace;
mod page;
mod program;
mod run;
mod runner_tests;
mod script;
mod servers;
mod settings;
mod whole;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// With this argument and the name of a page, the program runs that page where it is.
const RUN_PAGE: &str = "--run-page";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(RUN_PAGE) {
        return run_here(&arguments.next().unwrap_or_default());
    }
    let mut trials = whole::trials();
    trials.extend(runner_tests::trials());
    for file in files::documents() {
        let name = file.trim_end_matches(".md").to_owned();
        trials.push(Trial::test(name, move || test_page(&file)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Checks the links of a page and runs its blocks.
fn test_page(file: &str) -> Result<(), Failed> {
    let text = files::read(file);
    let mut wrong = links::broken(file, &text, &files::exists, &files::read);
    match page::Page::parse(file, &text) {
        Err(mistakes) => wrong.extend(mistakes),
        Ok(page) if page.has_work() => {
            if let Err(failure) = namespace::run_apart(file) {
                wrong.push(failure);
            }
        }
        Ok(_) => {}
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n\n").into()),
    }
}

/// The page's blocks, in this process: its namespaces are made.
fn run_here(file: &str) -> ExitCode {
    let outcome = page::Page::parse(file, &files::read(file))
        .map_err(|mistakes| mistakes.join("\n\n"))
        .and_then(|page| run::run(&page));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
