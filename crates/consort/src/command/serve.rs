//! `consort serve`: runs a node until a signal ends it, an operator retires it, or it cannot go on.

use std::pin::pin;
use std::process::ExitCode;

use clap::Args;
use consort::Extension;
use consort::config::LogFormat;
use consort::{Config, Node, StartError};
use consort_cluster::Left;

use super::parent::Parent;
use super::settings::SettingArgs;
use super::signals::{self, Signals};
use super::{ENGINE_FAILED, FAILED, fail, greeting, tour};
use crate::logging::{self, announce, announce_all};

#[derive(Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: SettingArgs,
    /// Stop when standard input ends: `consort up` holds the other end of it
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

pub(super) fn run(arguments: &ServeArgs, extension: &Extension) -> ExitCode {
    let settings = &arguments.settings;
    let config = match settings.resolve() {
        Ok(config) => config,
        Err(problems) => return fail(FAILED, &problems),
    };
    logging::start(&config.log);
    raise_open_files();
    match tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("consort").build() {
        Ok(runtime) => {
            let parent = Parent::new(arguments.until_stdin_closes);
            let tour = settings.config.is_none();
            runtime.block_on(serve(config, tour, parent, extension))
        }
        Err(error) => fail(FAILED, &format!("cannot start threads: {error}")),
    }
}

async fn serve(
    mut config: Config,
    tour: bool,
    mut parent: Parent,
    extension: &Extension,
) -> ExitCode {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(FAILED, &format!("cannot listen for signals: {error}")),
    };
    let format = config.log.format;
    if tour && let Err(error) = tour::begin(&mut config).await {
        return fail(FAILED, &format!("the tour cannot start: {error}"));
    }
    let started = tokio::select! {
        started = Node::start_extended(config, extension) => started,
        // Nothing has been accepted yet, so there is nothing to finish.
        _ = signals.next() => return ExitCode::SUCCESS,
        () = parent.gone() => return ExitCode::SUCCESS,
    };
    let node = match started {
        Ok(node) => node,
        Err(error @ StartError::Engine { .. }) => return fail(ENGINE_FAILED, &error.to_string()),
        Err(error @ StartError::Definitions(_)) if tour => {
            let hint = "the tour of another release was here: delete ./consort-tour, or run it in another folder";
            return fail(FAILED, &format!("{error}\n{hint}"));
        }
        Err(error) => return fail(FAILED, &error.to_string()),
    };
    let end = {
        let mut end = pin!(until_the_end(&node, &mut signals, &mut parent));
        let greeting = async { announce_all(format, &greeting::lines(&node, tour).await) };
        tokio::select! {
            biased;
            end = &mut end => end,
            () = greeting => end.await,
        }
    };
    finish(node, end, signals, format).await
}

/// Why a node stops.
enum End {
    /// A signal, which the process was sent.
    Told,
    /// The process that started this one is gone.
    Orphaned,
    /// The node left the cluster by itself.
    Left(Left),
    /// The engine failed for good.
    EngineFailed(String),
}

async fn until_the_end(node: &Node, signals: &mut Signals, parent: &mut Parent) -> End {
    tokio::select! {
        _ = signals.next() => End::Told,
        () = parent.gone() => End::Orphaned,
        reason = node.failed() => End::EngineFailed(reason),
        left = node.left() => End::Left(left),
    }
}

/// Stops the node, and says why.
async fn finish(node: Node, end: End, mut signals: Signals, format: LogFormat) -> ExitCode {
    match &end {
        End::Told => announce(
            format,
            "stopping: handing over its roles and finishing the running requests; a second signal stops at once",
        ),
        End::Orphaned => announce(
            format,
            "stopping, since `consort up` is gone: handing over its roles and finishing the running requests",
        ),
        End::Left(Left::Drained) => announce(
            format,
            "the node was retired: its roles are handed over; finishing the running requests",
        ),
        End::Left(left) => tracing::error!(%left, "stopping"),
        End::EngineFailed(reason) => tracing::error!(%reason, "the engine failed; stopping"),
    }
    let drained = tokio::select! {
        drained = node.stop() => drained,
        number = signals.next() => return signals::ended_by(number),
    };
    if drained.unfinished > 0 {
        tracing::warn!(
            connections = drained.unfinished,
            "stopped before all requests were finished"
        );
    }
    match end {
        End::Told | End::Orphaned | End::Left(Left::Drained | Left::Stopped) => ExitCode::SUCCESS,
        End::Left(left @ (Left::Replaced { .. } | Left::Failed { .. })) => {
            fail(FAILED, &left.to_string())
        }
        End::EngineFailed(reason) => fail(
            ENGINE_FAILED,
            &format!("the engine failed: {reason}; start the node again when the cause is mended"),
        ),
    }
}

/// Every connection and every table of the embedded engine is an open file, and the usual soft
/// limit of 1,024 would be met before `max_connections`. The hard limit is the administrator's word
/// and stays.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
    {
        tracing::debug!(%error, "the limit of open files could not be raised");
    }
}
