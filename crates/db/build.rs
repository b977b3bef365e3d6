//! Fails the build where SQLite would be compiled without its session extension.

use std::env;

/// The flags that `libsqlite3-sys` must hand to the C compiler: without them the functions that record
/// and apply changesets are missing.
const FLAGS: [&str; 2] = ["-DSQLITE_ENABLE_SESSION", "-DSQLITE_ENABLE_PREUPDATE_HOOK"];

fn main() {
    println!("cargo:rerun-if-env-changed=LIBSQLITE3_FLAGS");
    let given = env::var("LIBSQLITE3_FLAGS").unwrap_or_default();
    let is_missing = |flag: &&str| !given.split_whitespace().any(|word| word == *flag);
    if FLAGS.iter().any(is_missing) {
        println!(
            "cargo:error=consort-db needs SQLite with its session extension. Add these lines to \
             .cargo/config.toml of your workspace, then build again:"
        );
        println!("cargo:error=[env]");
        println!("cargo:error=LIBSQLITE3_FLAGS = \"{}\"", FLAGS.join(" "));
    }
}
