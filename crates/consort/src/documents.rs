//! The Rust code of the documents, as documentation tests. Each page with `rust` blocks has its line here; the
//! test `all/rust_blocks_are_documentation_tests` misses those that have none.
