//! The little that a reader is shown of bytes that came: bounded, and without control characters.

/// Bytes of the longest line that is shown.
const LINE: usize = 200;

/// The beginning of some bytes, at most so many of them.
pub fn beginning(bytes: &[u8], most: usize) -> String {
    let more = if bytes.len() > most { "…" } else { "" };
    format!("{}{more}", String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).escape_debug())
}

/// The last line of some bytes.
pub fn last_line(bytes: &[u8]) -> String {
    let line = bytes.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    beginning(line.trim_ascii(), LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_short_and_has_no_control_characters() {
        assert_eq!(last_line(b"+OK\r\n-ERR \x1b]0;x\x07 no\r\n"), "-ERR \\u{1b}]0;x\\u{7} no");
        assert_eq!(last_line(b""), "");
        assert_eq!(beginning(b"abc", 2), "ab…");
        assert_eq!(last_line(&[b'x'; 1000]).chars().count(), LINE + 1);
    }
}
