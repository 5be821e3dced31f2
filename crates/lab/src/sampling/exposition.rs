//! Prometheus' text format, as far as a figure's name and value go: types, help, timestamps and exemplars are passed over.
//! It must not fail on a line that it cannot read; such a line is none.

/// A figure: its name, the same with its labels, and its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure<'a> {
    /// `http_requests_total`
    pub name: &'a str,
    /// `{method="get"}`, or nothing.
    pub labels: &'a str,
    /// Finite.
    pub value: f64,
}

/// Every figure that has a finite value: one that is not a number says that there was nothing to measure.
pub fn figures(text: &str) -> impl Iterator<Item = Figure<'_>> {
    text.lines().filter_map(figure)
}

fn figure(line: &str) -> Option<Figure<'_>> {
    let line = line.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let (name, rest) = line.split_at(line.find(|c| !is_name(c))?);
    if !name.starts_with(|c: char| !c.is_ascii_digit()) {
        return None;
    }
    let rest = rest.trim_start();
    let (labels, rest) = rest.split_at(if rest.starts_with('{') { labels_end(rest)? } else { 0 });
    // Without labels there has to be space, which the name's end has shown; after them there need not be.
    let value = rest.split_ascii_whitespace().next()?.parse().ok().filter(|value: &f64| value.is_finite())?;
    Some(Figure { name, labels: if labels == "{}" { "" } else { labels }, value })
}

/// Where the closing brace ends; one within quotes does not close.
fn labels_end(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
