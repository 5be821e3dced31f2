//! "Did you mean": the known name that is closest to one that is not known. It must not know which names there are.

/// The closest of `known`, if it is close enough to have been meant.
pub(crate) fn name<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    let length = wanted.chars().count();
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &name.to_lowercase()), name))
        .filter(|(distance, name)| {
            let longest = length.max(name.chars().count());
            *distance <= 1.max(longest / 3).min(longest / 2)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// ``did you mean `agents`?``, or else the list of what there is.
pub(crate) fn hint<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.into_iter().collect();
    if let Some(name) = name(wanted, known.iter().copied()) {
        return Some(format!("did you mean `{name}`?"));
    }
    match known.as_slice() {
        [] => None,
        [only] => Some(format!("there is only `{only}`")),
        _ => {
            let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            Some(format!("there are {}", listed(&quoted, "and")))
        }
    }
}

/// `a, b or c`; a long list is cut.
pub(crate) fn listed(names: &[String], conjunction: &str) -> String {
    const SHOWN: usize = 16;
    match names {
        [] => String::new(),
        [only] => only.clone(),
        _ if names.len() > SHOWN => format!("{}, … ({} in all)", names[..SHOWN].join(", "), names.len()),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}
