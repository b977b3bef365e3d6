//! A process, a network and a list of processes of its own for each page, so that pages run side by side on
//! the same ports and none of them can end what belongs to another.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
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
        // Claims of ports are files in the folder of temporary files, and each page has all ports for itself.
        let temporary = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut apart = Command::new("unshare");
        apart.args(UNSHARE).args(["sh", "-c", r#"ip link set lo up && exec "$@""#, "sh"]);
        apart.arg(program).args([RUN_PAGE, file]).env(APART, "yes").env("TMPDIR", temporary.path());
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

/// Stands in for `pidof`, `pgrep` and `pkill`: finds the processes listed in a file, and no others. `$LIST` is that
/// file. The name of a program counts for `pidof`, the whole command line for the others, as with `-f`.
const STAND_IN: &str = r#"#!/bin/sh
signal=-TERM pattern= found=1
for word; do
  case $word in -f) ;; -*) signal=$word ;; *) pattern=$word ;; esac
done
for pid in $(cat "$LIST"); do
  case ${0##*/} in pidof) shown=/proc/$pid/comm ;; *) shown=/proc/$pid/cmdline ;; esac
  tr '\0' ' ' <"$shown" 2>/dev/null | grep -qE -- "$pattern" || continue
  found=0
  case ${0##*/} in pkill) kill "$signal" "$pid" ;; *) echo "$pid" ;; esac
done
exit $found
"#;

/// Writes programs that find only the processes listed in a file: without a namespace, the real ones would find those
/// of others.
pub(crate) fn write_stand_ins(folder: &Path, list: &Path) -> io::Result<()> {
    let text = STAND_IN.replace("$LIST", &list.display().to_string());
    for name in ["pidof", "pgrep", "pkill"] {
        let path = folder.join(name);
        fs::write(&path, &text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}
