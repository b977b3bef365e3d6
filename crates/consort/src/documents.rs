//! The Rust code of the documents, as documentation tests. Each page with `rust` blocks has its line here; the
//! test `all/rust_blocks_are_documentation_tests` misses those that have none.

#![allow(
    rustdoc::invalid_codeblock_attributes,
    reason = "blocks in other languages have options for the runner of the documents"
)]

#[doc = include_str!("../../../docs/howto/embed-in-rust.md")]
mod embed_in_rust {}
