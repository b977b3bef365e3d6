//! Where a server's program is, and what to say where there is none.

use std::path::PathBuf;

/// The program's path, looked up in PATH and in the folders of system programs.
///
/// # Panics
///
/// If it is not installed, with the words of [`not_installed`].
pub(crate) fn find(program: &str) -> PathBuf {
    find_in_package(program, program)
}

/// The same, of a program whose Debian package has another name.
///
/// # Panics
///
/// If it is not installed.
pub(crate) fn find_in_package(program: &str, package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/bin".into(), "/usr/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| panic!("{}", not_installed_as(program, package)))
}

/// What a developer reads who lacks a server whose Debian package has the program's name.
pub(crate) fn not_installed(program: &str) -> String {
    not_installed_as(program, program)
}

fn not_installed_as(program: &str, package: &str) -> String {
    format!(
        "{program} is not installed: run `cargo xtask test`, which installs it, or apt-get install {package}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(
        expected = "redis-swerver is not installed: run `cargo xtask test`, which installs it, or apt-get install redis-swerver"
    )]
    fn a_missing_program_is_named_with_its_remedy() {
        find("redis-swerver");
    }
}
