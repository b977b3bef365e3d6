//! The Lua scripts: one call each, atomic on the server.

use redis::Script;

/// Declares that the server must have memory to spare before the script begins, so that none can run
/// out of it half-way.
const NEEDS_MEMORY: &str = "#!lua\n";
/// For scripts that free memory or leave it as it is.
const ALWAYS: &str = "#!lua flags=allow-oom\n";
const COMMON: &str = include_str!("scripts/common.lua");

/// The scripts, hashed once.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) commit: Source,
    pub(super) get: Source,
    pub(super) scan: Source,
    pub(super) members: Source,
    pub(super) append: Source,
    pub(super) entries: Source,
    pub(super) trim: Source,
    pub(super) time: Source,
}

/// A script's text and the hash that the server knows it by.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) text: String,
    pub(super) hash: String,
}

impl Source {
    fn new(text: String) -> Self {
        let hash = Script::new(&text).get_hash().to_string();
        Source { text, hash }
    }

    fn on_cells(flags: &str, text: &str) -> Self {
        Source::new([flags, COMMON, text].concat())
    }
}

impl Scripts {
    pub(super) fn new() -> Self {
        Scripts {
            commit: Source::on_cells(NEEDS_MEMORY, include_str!("scripts/commit.lua")),
            get: Source::on_cells(ALWAYS, include_str!("scripts/get.lua")),
            scan: Source::on_cells(ALWAYS, include_str!("scripts/scan.lua")),
            members: Source::on_cells(ALWAYS, include_str!("scripts/members.lua")),
            append: Source::new(include_str!("scripts/append.lua").into()),
            entries: Source::new(include_str!("scripts/entries.lua").into()),
            trim: Source::new(include_str!("scripts/trim.lua").into()),
            time: Source::new(include_str!("scripts/time.lua").into()),
        }
    }
}
