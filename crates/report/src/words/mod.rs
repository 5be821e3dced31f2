//! The results in words: the answer, and the summary that a terminal shows. Words must not hold a number that was not measured.

mod aligned;
mod answer;
mod crash;
mod plain_load;
mod side_by_side;
mod summary;

pub use answer::answer;
pub use summary::summary;

/// Items as in a sentence: `a, b and c`.
fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A name out of an experiment, marked as one. Whoever sets the text turns the marks into what is usual there.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "'"))
}

/// With a capital at its beginning.
fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// With a full stop at its end.
fn stopped(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

#[cfg(test)]
mod tests;
