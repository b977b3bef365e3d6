//! `consort resolve`: an operator's decision on a partition that stopped for a loss.

use std::process::ExitCode;

use clap::Args;
use consort_client::{Client, From};
use consort_cluster::Role;

use super::remote::{RemoteArgs, explain};
use super::{FAILED, fail};

pub(super) const EXAMPLES: &str = "\
A partition stops when its log no longer has what was read from it before, has lost what was not yet
read, or holds what cannot be read. Consort neither skips nor repeats anything by itself then: find out
what the engine lost, and decide where to go on.

  --from first     at the oldest frame there is
  --from OFFSET    at this frame; what lies before it and was not applied is skipped for good
  --from end       behind the newest frame; everything that was not applied is skipped for good

What a shard has applied stays applied. Frames of producers that are still remembered are not applied
again, even if the place lies before them; frames of others would be.

Examples:
  consort status                                              which partitions stopped, and why
  consort resolve worker:lift_rides/7 --from first            say what would happen
  consort resolve worker:lift_rides/7 --from first --yes      do it

Exit codes:
  0  the partition goes on
  1  nothing was changed; standard error says why";

#[derive(Args)]
pub(crate) struct ResolveArgs {
    /// The role that stopped, as `consort status` names it, such as worker:STREAM/PARTITION
    #[arg(value_name = "ROLE")]
    role: Role,
    /// Where it goes on: first, end, or the number of a frame
    #[arg(long, value_name = "first|end|OFFSET")]
    from: From,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Do it; without this flag the command only says what would happen
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(arguments: &ResolveArgs) -> ExitCode {
    let ResolveArgs { role, from, remote, yes } = arguments;
    remote.run(async |client| {
        if !yes {
            let state = state(&client, role).await?;
            return Ok(fail(
                FAILED,
                &format!(
                    "{state}\n{}\nNothing was changed. With --yes it is done.",
                    meaning(role, *from)
                ),
            ));
        }
        let resolved = client.resolve(role, *from).await.map_err(|error| explain(&error))?;
        eprintln!("{role} goes on at frame {} (decision {})", resolved.offset, resolved.era);
        Ok(ExitCode::SUCCESS)
    })
}

/// How the role stands.
async fn state(client: &Client, role: &Role) -> Result<String, String> {
    let cluster = client.cluster().await.map_err(|error| explain(&error))?;
    let found = cluster.status.roles.into_iter().find(|status| status.role == *role);
    Ok(match found.map(|status| (status.owner, status.stopped)) {
        None => {
            return Err(format!("there is no role '{role}'; `consort status --roles` lists them"));
        }
        Some((Some(owner), Some(reason))) => format!("{role} on '{owner}' stopped: {reason}"),
        Some((Some(owner), None)) => {
            format!("{role} is at work on '{owner}': only a role that stopped can be resolved")
        }
        Some((None, _)) => format!("{role} has no owner at the moment"),
    })
}

fn meaning(role: &Role, from: From) -> String {
    match from {
        From::First => format!("{role} would go on at the oldest frame that its log has."),
        From::Offset(offset) => format!(
            "{role} would go on at frame {offset}: what lies before it and was not applied is skipped for good."
        ),
        From::End => format!(
            "{role} would go on behind the newest frame: everything that was not applied is skipped for good."
        ),
    }
}
