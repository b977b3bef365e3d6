//! The `consort` command.

use std::process::ExitCode;

use consort::Extension;

/// Most of what a node allocates is small, short-lived, and freed by another thread than the one that took
/// it: the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    without_huge_pages();
    consort::run_command_line(&Extension::default())
}

/// Huge pages are made for heaps that stay. A node's memory comes and goes with its load, in many small pieces:
/// most of a huge page would be cleared and held for the sake of a part of it. Nothing depends on it, so what
/// the system says of it is not heeded.
fn without_huge_pages() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
