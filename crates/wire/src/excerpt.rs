//! Short excerpts of received bytes for messages: bounded, and without control characters.

/// Maximum number of bytes of a line that are shown.
const LINE: usize = 200;

/// Returns the first `most` bytes as text.
pub fn beginning(bytes: &[u8], most: usize) -> String {
    let more = if bytes.len() > most { "…" } else { "" };
    format!("{}{more}", String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).escape_debug())
}

/// Returns the last line of some bytes.
pub fn last_line(bytes: &[u8]) -> String {
    let line = bytes.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    beginning(line.trim_ascii(), LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_short_without_control_characters() {
        assert_eq!(last_line(b"+OK\r\n-ERR \x1b]0;x\x07 no\r\n"), "-ERR \\u{1b}]0;x\\u{7} no");
        assert_eq!(last_line(b""), "");
        assert_eq!(beginning(b"abc", 2), "ab…");
        assert_eq!(last_line(&[b'x'; 1000]).chars().count(), LINE + 1);
    }
}
