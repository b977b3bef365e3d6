//! The bounds of pieces and documents, each with its reason.

/// The most bytes of a piece, and of a document: a log record has at most 2 MiB, and its envelope needs room beside
/// the content (tenant, id, key, source: below 2 KiB).
pub const MAX_PIECE: usize = 1984 << 10;

/// The largest document of a collection whose feed stores whole documents: a feed row then holds the piece and the
/// document, and has to fit into a feed entry.
pub const MAX_DOCUMENT_IN_FEED: usize = 256 << 10;

/// The most operations of one piece: each is checked and undone by itself, and a patch of more is a whole document.
pub const MAX_OPERATIONS: usize = 1_000;

/// The deepest nesting of a piece and of a document. Parsers refuse to read deeper ones back, and walks that recurse
/// stay far from the end of a thread's stack.
pub const MAX_DEPTH: usize = 100;

/// The most nodes that the selectors and walks of one piece visit: some tens of milliseconds.
pub const MAX_VISITS: usize = 1_000_000;

/// The most array elements that one piece moves by inserts and removals.
pub const MAX_MOVES: usize = 1_000_000;

/// The most sources of one document: its head names each, within 8 KiB.
pub const MAX_SOURCES: usize = 32;

/// The most ranges of numbers that are remembered as skipped, for each source: two numbers a range, in the head.
pub const MAX_SKIPPED_RANGES: usize = 8;

/// The most pieces that wait for one document: releasing them takes two records at most.
pub const MAX_PENDING_PIECES: usize = 256;

/// The most bytes of pieces that wait for one document: they are read with each of its pieces and written with most.
pub const MAX_PENDING_BYTES: usize = 256 << 10;

/// The most ranges of numbers that are remembered as used up ahead of their turn, for one document.
pub const MAX_PASSED_RANGES: usize = 64;

/// The most waiting pieces that one record releases: some ten milliseconds of work.
pub const MAX_RELEASED_PIECES: usize = 200;

/// A record that has planned so many bytes releases no further piece, so that its commit stays within 16 MiB.
pub const MAX_RELEASED_BYTES: usize = 2 << 20;

/// The longest history, in versions.
pub const MAX_HISTORY: u32 = 1_000;

/// Each version whose number is a multiple of this is kept as a whole document, so that an old version is at most
/// this many pieces away from one.
pub const HISTORY_STRIDE: u64 = 16;
