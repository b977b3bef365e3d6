//! The peers are installed into a folder beside the build. Bytewax from PyPI is here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::lines::Lines;

/// Many times what anything should take.
pub(super) const WITHIN: Duration = Duration::from_secs(300);

pub(crate) fn folder(name: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench-peers").join(name);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

pub(crate) fn done(command: &mut Command) -> Result<()> {
    let status = command.stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// One worker, in memory.
pub(super) struct Bytewax {
    python: PathBuf,
}

impl Bytewax {
    pub(super) fn install() -> Result<Self> {
        let folder = folder("bytewax")?;
        let python = folder.join("bin/python");
        if !python.exists() {
            done(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
            let pip = ["-m", "pip", "install", "--quiet", "bytewax==0.21.1"];
            done(Command::new(&python).args(pip))?;
        }
        Ok(Bytewax { python })
    }

    /// Seconds for all lines, by the flow's own clock: the start of the interpreter does not count.
    pub(super) fn run(&self, lines: &Lines) -> Result<f64> {
        let folder = TempDir::new()?;
        let (script, input) = (folder.path().join("flow.py"), folder.path().join("lines"));
        fs::write(&script, include_str!("bytewax.py"))?;
        fs::write(&input, &lines.text)?;
        let output = Command::new(&self.python).arg(script).arg(input).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let failed = || String::from_utf8_lossy(&output.stderr).into_owned();
        let mut words = said.split_whitespace();
        let seconds = words.next().and_then(|word| word.parse().ok()).with_context(failed)?;
        let sums: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
        ensure!(sums == [lines.count; 2], "Bytewax counted {sums:?} of {}", lines.count);
        Ok(seconds)
    }
}
