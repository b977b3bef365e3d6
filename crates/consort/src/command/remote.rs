//! What the commands share that ask a running node.

use std::process::ExitCode;

use clap::Args;
use consort_client::{Client, ClientError};

use super::{FAILED, fail};

#[derive(Args)]
pub(crate) struct RemoteArgs {
    /// The address of any node of the cluster
    #[arg(long, value_name = "URL", env = "CONSORT_URL", default_value = "http://127.0.0.1:7400")]
    url: String,
    /// One of that node's access tokens ([http] tokens), where it asks for one; the variable hides it
    /// from other users of this machine
    #[arg(long, value_name = "TOKEN", env = "CONSORT_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl RemoteArgs {
    /// Runs what a command does with a client; what it gives as an error is told, and the command fails.
    pub(crate) fn run(
        &self,
        command: impl AsyncFnOnce(Client) -> Result<ExitCode, String>,
    ) -> ExitCode {
        let token = self.token.as_deref().filter(|token| !token.is_empty());
        let client = match Client::new(&self.url, token) {
            Ok(client) => client,
            Err(error) => return fail(FAILED, &error.to_string()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = match runtime {
            Ok(runtime) => runtime.block_on(command(client)),
            Err(error) => Err(format!("cannot start: {error}")),
        };
        outcome.unwrap_or_else(|reason| fail(FAILED, &reason))
    }
}

/// What happened, and what to do.
pub(crate) fn explain(error: &ClientError) -> String {
    match error {
        ClientError::Unreachable { .. } => format!(
            "{error}; if no node runs there, give the address of one with --url or CONSORT_URL"
        ),
        ClientError::NoAnswer { .. } => {
            format!("{error}; ask again, or ask another node with --url")
        }
        ClientError::Refused { kind, .. } if kind == "no-access" => {
            format!("{error}; give it with --token or CONSORT_TOKEN")
        }
        ClientError::Refused { .. } | ClientError::Unreadable { .. } => error.to_string(),
    }
}
