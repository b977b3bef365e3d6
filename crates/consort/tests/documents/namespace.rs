//! A process, a network and a list of processes of its own for each page, so that pages run side by side on
//! the same ports and none of them can end what belongs to another.

use std::fs::{self, File};
use std::process::Command;

use crate::RUN_PAGE;

/// Set for a page that has namespaces of its own.
pub(crate) const APART: &str = "CONSORT_PAGE_APART";

/// User, network, processes and mounts of its own. Everything in it ends with its first process, which in turn
/// ends with `unshare`.
const UNSHARE: [&str; 6] =
    ["--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Runs a page in namespaces of its own; where the system does not permit them, on the real ports while no
/// other page runs there.
pub(crate) fn run_apart(file: &str) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    if is_permitted() {
        let mut apart = Command::new("unshare");
        apart.args(UNSHARE).args(["sh", "-c", r#"ip link set lo up && exec "$@""#, "sh"]);
        apart.arg(program).args([RUN_PAGE, file]).env(APART, "yes");
        return outcome(&mut apart);
    }
    let lock = std::env::temp_dir().join("consort-documents.lock");
    let lock = File::create(&lock).map_err(|error| format!("cannot make {lock:?}: {error}"))?;
    lock.lock().map_err(|error| format!("cannot lock the ports: {error}"))?;
    outcome(Command::new(program).args([RUN_PAGE, file]).env_remove(APART))
}

fn is_permitted() -> bool {
    let mut probe = Command::new("unshare");
    probe.args(UNSHARE).args(["ip", "link", "set", "lo", "up"]);
    probe.output().is_ok_and(|probe| probe.status.success())
}

fn outcome(page: &mut Command) -> Result<(), String> {
    let ended = page.output().map_err(|error| format!("the page cannot run: {error}"))?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&ended.stderr).trim_end().to_owned()),
    }
}

/// Writes a `pidof` that finds only the processes listed in a file, and a `pkill` and a `pgrep` that refuse:
/// without a namespace the real ones would find the processes of others.
pub(crate) fn write_stand_ins(
    folder: &std::path::Path,
    list: &std::path::Path,
) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let list = list.display();
    let pidof = format!(
        "#!/bin/sh\nfound=1\nfor pid in $(cat '{list}'); do kill -0 \"$pid\" 2>/dev/null && echo \"$pid\" && found=0\ndone\nexit $found\n"
    );
    let refusal =
        "#!/bin/sh\necho 'without namespaces a page ends programs by pidof only' >&2\nexit 1\n";
    for (name, text) in
        [("pidof", pidof.as_str()), ("pkill", refusal), ("pgrep", refusal), ("killall", refusal)]
    {
        let path = folder.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}
