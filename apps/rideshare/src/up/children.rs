//! The child processes of `rideshare up`.

use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command as TokioCommand};
use tokio::time::{Instant, sleep, timeout};

use crate::http::HttpClient;
use crate::start_error::StartError;

/// How long all children may take to become healthy.
const HEALTHY_WITHIN: Duration = Duration::from_secs(60);

/// How long one health check may take.
const CHECK_WITHIN: Duration = Duration::from_secs(1);

/// How often children are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a child may take to end by itself.
const END_WITHIN: Duration = Duration::from_secs(20);

/// All children, in the order in which they were started.
///
/// Each has its standard input from a pipe of this process and ends when the pipe is closed. So the children end with
/// this process, even if it is killed.
#[derive(Debug, Default)]
pub(super) struct Children(Vec<RunningChild>);

#[derive(Debug)]
struct RunningChild {
    name: String,
    health_url: String,
    process: Child,
}

impl Children {
    /// Starts a child, whose health is asked at `health_url`.
    pub(super) fn start(
        &mut self,
        name: &str,
        command: Command,
        health_url: &str,
    ) -> Result<(), StartError> {
        let mut command = TokioCommand::from(command);
        for (variable, _) in std::env::vars_os() {
            // The settings of `up` are not those of its children.
            if variable.to_string_lossy().starts_with("RIDESHARE_") {
                command.env_remove(variable);
            }
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // The terminal sends Ctrl-C to a whole group; children hear of it from this process alone.
            .process_group(0)
            .kill_on_drop(true);
        let failed = |source| StartError::Child { name: name.to_owned(), source };
        let process = command.spawn().map_err(failed)?;
        let (name, health_url) = (name.to_owned(), health_url.to_owned());
        self.0.push(RunningChild { name, health_url, process });
        Ok(())
    }

    /// Waits until all children are healthy.
    pub(super) async fn all_healthy(&mut self) -> Result<(), StartError> {
        let http = HttpClient::new();
        let deadline = Instant::now() + HEALTHY_WITHIN;
        for at in 0..self.0.len() {
            loop {
                self.none_has_ended()?;
                let RunningChild { name, health_url, .. } = &self.0[at];
                let reason = match http.get(health_url, &[], CHECK_WITHIN).await {
                    Ok(answer) if answer.status().is_success() => break,
                    Ok(answer) => format!("status {}", answer.status()),
                    Err(failure) => failure.to_string(),
                };
                if Instant::now() >= deadline {
                    let (name, seconds) = (name.clone(), HEALTHY_WITHIN.as_secs());
                    return Err(StartError::NotHealthy { name, seconds, reason });
                }
                sleep(LOOK_EVERY).await;
            }
        }
        Ok(())
    }

    /// Waits for something, as long as no child ends.
    pub(super) async fn until(
        &mut self,
        something: impl Future<Output = Result<(), StartError>>,
    ) -> Result<(), StartError> {
        tokio::select! {
            done = something => done,
            ended = self.one_ends() => ended,
        }
    }

    /// Waits until a child ends by itself, which is an error.
    pub(super) async fn one_ends(&mut self) -> Result<(), StartError> {
        loop {
            self.none_has_ended()?;
            sleep(LOOK_EVERY).await;
        }
    }

    /// Ends all children, the last one first: Consort ends when no service needs it any more.
    pub(super) async fn end_all(mut self) {
        while let Some(mut child) = self.0.pop() {
            drop(child.process.stdin.take());
            if timeout(END_WITHIN, child.process.wait()).await.is_err() {
                tracing::warn!("{} does not end, and is killed", child.name);
                let _ = child.process.kill().await;
            }
        }
    }

    fn none_has_ended(&mut self) -> Result<(), StartError> {
        for RunningChild { name, process, .. } in &mut self.0 {
            let how = match process.try_wait() {
                Ok(None) => continue,
                Ok(Some(status)) => status.to_string(),
                Err(error) => error.to_string(),
            };
            return Err(StartError::ChildEnded { name: name.clone(), how });
        }
        Ok(())
    }
}
