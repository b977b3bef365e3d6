//! Tables for the rules of the fold.
