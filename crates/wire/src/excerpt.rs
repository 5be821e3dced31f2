//! Short excerpts of received bytes for messages: bounded, and without control characters.

/// Maximum number of bytes of a line that are shown.
const LINE: usize = 200;

/// Returns the first `most` bytes as text.
pub fn beginning(bytes: &[u8], most: usize) -> String {
    let more = if bytes.len() > most { "…" } else { "" };
    format!("{}{more}", String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).escape_debug())
}

/// Returns the line of a refusal that says why: the first line of an answer in HTTP/1 or of a page,
/// otherwise the last line.
pub fn reason_line(refusal: &[u8]) -> String {
    let mut lines = refusal.trim_ascii().split(|byte| *byte == b'\n');
    let is_of_web = refusal.starts_with(b"HTTP/") || refusal.starts_with(b"<");
    let line = if is_of_web { lines.next() } else { lines.next_back() };
    beginning(line.unwrap_or_default().trim_ascii(), LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_short_without_control_characters() {
        assert_eq!(reason_line(b"+OK\r\n-ERR \x1b]0;x\x07 no\r\n"), "-ERR \\u{1b}]0;x\\u{7} no");
        assert_eq!(reason_line(b""), "");
        let page = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 14\r\n\r\n<html>\n</html>\n";
        assert_eq!(reason_line(page), "HTTP/1.1 400 Bad Request", "a page is not the reason");
        assert_eq!(reason_line(b"<!DOCTYPE HTML>\n<html>\n</html>\n"), "<!DOCTYPE HTML>");
        assert_eq!(beginning(b"abc", 2), "ab…");
        assert_eq!(reason_line(&[b'x'; 1000]).chars().count(), LINE + 1);
    }
}
