//! JSON documents, and the patches of RFC 6902 and RFC 7396.
