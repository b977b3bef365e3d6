//! Bytes as text, for cursors and places of scans.

use bytes::Bytes;

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What [`hex`] wrote.
pub(crate) fn unhex(text: &str) -> Option<Bytes> {
    let digits = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(digits).collect::<Option<Vec<u8>>>().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive() {
        for bytes in [&b""[..], b"\x00", b"\xff\x0a a"] {
            assert_eq!(unhex(&hex(bytes)).as_deref(), Some(bytes));
        }
        for wrong in ["0", "0g", "é1", "+1"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }
}
