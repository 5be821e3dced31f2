//! Text inside SVG and HTML that is written here rather than by the page's template. It must let nothing through that
//! could be read as markup.

/// `text` with every character that markup gives a meaning replaced, also inside quotes.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Not allowed in XML, so a saved SVG would not open.
            c if c.is_control() && !matches!(c, '\n' | '\t') => safe.push('\u{fffd}'),
            c if is_bidi(c) => safe.push_str(&shown(c)),
            c => safe.push(c),
        }
    }
    safe
}

/// A text whose letters stand in the order in which they were written: what would turn them round is shown instead.
pub fn visible(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains(is_bidi) {
        return text.into();
    }
    text.chars().map(|c| if is_bidi(c) { shown(c) } else { c.to_string() }).collect::<String>().into()
}

/// Whether the character changes the direction of those around it (Unicode Bidirectional Algorithm, UAX 9).
fn is_bidi(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn shown(character: char) -> String {
    format!("[U+{:04X}]", u32::from(character))
}

/// JSON that can stand inside a `<script>` element: `</script>` and `<!--` cannot occur in it.
pub fn json_in_script(json: &str) -> String {
    visible(json)
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// A place on paper, to a tenth.
pub fn place(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}
