//! XML documents, and the patches of RFC 5261.
