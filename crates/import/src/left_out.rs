//! Contents of a source that its experiment does not have, with counts.

use crate::placeholder;

/// Maximum number of items that a line of the list names.
const NAMED: usize = 100;
/// Maximum number of different items that are counted one by one.
const DIFFERENT: usize = 1000;
/// Longest item, characters.
const LONGEST: usize = 120;

/// List of contents that were left out, in the order of first occurrence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut(Vec<LeftOutKind>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct LeftOutKind {
    what: String,
    items: Vec<(String, usize)>,
    /// Number of items beyond those.
    others: usize,
}

impl LeftOut {
    /// Counts an item, such as the header `user-agent`. `what` names the kind.
    pub fn add(&mut self, what: &str, item: &str) {
        self.add_many(what, item, 1);
    }

    /// Counts an item `count` times.
    pub fn add_many(&mut self, what: &str, item: &str, count: usize) {
        let place = self.0.iter().position(|kind| kind.what == what).unwrap_or_else(|| {
            self.0.push(LeftOutKind { what: what.to_owned(), items: Vec::new(), others: 0 });
            self.0.len() - 1
        });
        let Some(kind) = self.0.get_mut(place) else { return };
        let item: String = comment(item).chars().take(LONGEST).collect();
        let is_full = kind.items.len() == DIFFERENT;
        match kind.items.iter_mut().find(|(known, _)| *known == item) {
            Some((_, counted)) => *counted += count,
            // A source can have millions of different items.
            None if is_full => kind.others += count,
            None => kind.items.push((item, count)),
        }
    }

    /// Whether nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a paragraph for each kind, such as `headers (3): dnt (2 times), accept`. The most
    /// frequent items come first.
    pub fn paragraphs(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|kind| {
            let mut items = kind.items.clone();
            items.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let all = items.iter().map(|(_, count)| count).sum::<usize>() + kind.others;
            let named =
                items.iter().take(NAMED).filter(|(item, _)| !item.is_empty()).map(|(item, count)| match count {
                    1 => item.clone(),
                    _ => format!("{item} ({count} times)"),
                });
            let mut named: Vec<String> = named.collect();
            let unnamed = items.iter().skip(NAMED).map(|(_, count)| count).sum::<usize>() + kind.others;
            if unnamed > 0 {
                named.push(format!("and {unnamed} more"));
            }
            let list = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
            format!("{} ({all}){list}", kind.what)
        })
    }
}

/// Returns a text that can stand in a comment: on one line, without control characters.
pub fn comment(text: &str) -> String {
    text::visible(&text::without_controls(&placeholder::shown(text))).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_and_the_most_frequent_comes_first() {
        let mut left_out = LeftOut::default();
        left_out.add("headers", "accept");
        left_out.add("headers", "dnt");
        left_out.add("headers", "dnt");
        left_out.add("scripts", "");
        let lines: Vec<String> = left_out.paragraphs().collect();
        assert_eq!(lines, ["headers (3): dnt (2 times), accept", "scripts (1)"]);
    }

    #[test]
    fn a_comment_has_no_line_end() {
        assert_eq!(comment("a\nb\r\u{202e}"), "a b [U+202E]");
    }
}
