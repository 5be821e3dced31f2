//! Offsets into quoted texts.

use super::offsets;

#[test]
fn escapes_and_quotes_are_stepped_over() {
    assert_eq!(offsets(r#""a\tb""#, "a\tb"), [1, 2, 4, 5]);
    assert_eq!(offsets(r#""\u00e9x""#, "éx"), [1, 2, 7, 8]);
    assert_eq!(offsets("'a\\b'", "a\\b"), [1, 2, 3, 4]);
    assert_eq!(offsets("\"\"\"\nab\"\"\"", "ab"), [4, 5, 6]);
    assert_eq!(offsets("\"\"\"a\\\n   b\"\"\"", "ab"), [3, 9, 10]);
    assert_eq!(offsets("30s", "30s"), [0, 1, 2, 3]);
    assert!(offsets("\"a\"", "abcdef").is_empty());
}
