//! A growing, bounded list of words that are not known in advance, such as the first words of a
//! server's errors. A word is allocated when it is first seen. The number of words is bounded
//! because a hostile server could send any number of them.

use std::sync::OnceLock;

/// Maximum number of words in a list.
const MOST: usize = 64;
/// Longest word, bytes.
const LONGEST: usize = 24;

/// The first words of errors that servers have sent to this process.
pub static ERROR_WORDS: OpenWords = OpenWords::new();

/// A list of numbered words.
#[derive(Debug)]
pub struct OpenWords([OnceLock<Box<str>>; MOST]);

impl OpenWords {
    const fn new() -> Self {
        Self([const { OnceLock::new() }; MOST])
    }

    /// Returns the index of a word. Adds the word if it is new. Returns `None` if the text is not a
    /// plain word, or if the list is full.
    pub fn number(&self, word: &[u8]) -> Option<usize> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if word.is_empty() || word.len() > LONGEST || !word.iter().all(is_plain) {
            return None;
        }
        let lower = || String::from_utf8_lossy(word).to_ascii_lowercase().into_boxed_str();
        self.0.iter().position(|known| known.get_or_init(lower).as_bytes().eq_ignore_ascii_case(word))
    }

    /// Returns the word with this index, in lower case.
    pub fn word(&self, number: usize) -> Option<&str> {
        self.0.get(number)?.get().map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_numbers_and_are_limited_to_64() {
        let words = OpenWords::new();
        assert_eq!(words.number(b"WRONGTYPE"), Some(0));
        assert_eq!(words.number(b"BusyKey"), Some(1));
        assert_eq!(
            (words.number(b"wrongtype"), words.word(0), words.word(1)),
            (Some(0), Some("wrongtype"), Some("busykey"))
        );
        for number in 0..1_000_000 {
            words.number(format!("w{number}").as_bytes());
        }
        assert_eq!((words.word(63), words.word(64)), (Some("w61"), None));
        assert_eq!((words.number(b"another"), words.number(b"w61")), (None, Some(63)));
    }

    #[test]
    fn invalid_text_gets_no_number() {
        let words = OpenWords::new();
        for text in [&b""[..], b"a\x1b[31m", "\u{e9}".as_bytes(), &[b'x'; 25]] {
            assert_eq!(words.number(text), None);
        }
        assert_eq!(words.word(0), None);
    }
}
