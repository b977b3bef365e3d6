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
