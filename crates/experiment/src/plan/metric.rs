//! Metric paths and the functions over them: whether the results will have what a gate or a claim asks for.
//! Nothing is computed here.

use std::ops::Range;

use crate::nearest;
use crate::plan::gates::Names;
use crate::problem::Problem;
use crate::tree::Node;

/// What an argument of a function is.
#[derive(Clone, Copy)]
enum Argument {
    Variant,
    Swept,
    Metric,
}

/// Functions over all trials, each with its arguments and its form.
const FUNCTIONS: [(&str, &[Argument], &str); 4] = [
    ("crossing", &[Argument::Variant, Argument::Variant, Argument::Swept], "crossing(a, b, path)"),
    ("knee", &[Argument::Variant, Argument::Swept], "knee(a, path)"),
    ("peak", &[Argument::Variant], "peak(a)"),
    ("ratio", &[Argument::Metric, Argument::Variant, Argument::Variant], "ratio(metric, a, b)"),
];

type Checked = Option<Problem>;

/// What is wrong with a metric: a path, or a function.
pub(super) fn check(text: &str, node: &Node, names: &Names<'_>) -> Vec<Problem> {
    let Some(open) = text.find('(') else { return path(text, 0..text.len(), node, names).into_iter().collect() };
    let function = text[..open].trim();
    let Some((_, arguments, form)) = FUNCTIONS.iter().find(|(name, ..)| *name == function) else {
        let problem = Problem::new(&node.inside(0..open), format!("there is no function `{function}`"));
        let near = nearest::name(function, FUNCTIONS.iter().map(|(name, ..)| *name));
        let hint = near.map_or_else(forms, |near| format!("did you mean `{near}`?"));
        return vec![problem.expected("unknown function").hint(hint)];
    };
    let Some(inside) = text.trim_end().strip_suffix(')').map(|text| &text[open + 1..]) else {
        let problem = Problem::new(&node.inside(open..text.len()), "this bracket is never closed");
        return vec![problem.expected(format!("write {form}"))];
    };
    let given = split(inside, open + 1);
    if given.len() != arguments.len() {
        let problem =
            Problem::new(&node.inside(0..text.len()), format!("`{function}` takes {}", count(arguments.len())));
        return vec![problem.expected(format!("write {form}"))];
    }
    let swept: Vec<&str> = names.sweeps.iter().map(|sweep| sweep.path.as_str()).collect();
    let argument = |(argument, (word, at)): (&Argument, (&str, Range<usize>))| match argument {
        Argument::Metric => path(word, at, node, names),
        Argument::Variant => known(word, "there is no variant", &names.variants, &node.inside(at)),
        Argument::Swept => known(word, "nothing is swept over", &swept, &node.inside(at)),
    };
    arguments.iter().zip(given).filter_map(argument).collect()
}

fn forms() -> String {
    let forms: Vec<String> = FUNCTIONS.iter().map(|(_, _, form)| (*form).to_owned()).collect();
    format!("there are {}", nearest::listed(&forms, "and"))
}

fn count(arguments: usize) -> String {
    if arguments == 1 { "one argument".to_owned() } else { format!("{arguments} arguments") }
}

/// Arguments between commas, without blanks, each with its bytes.
fn split(inside: &str, base: usize) -> Vec<(&str, Range<usize>)> {
    let mut at = base;
    let mut words = Vec::new();
    for word in inside.split(',') {
        let start = at + word.len() - word.trim_start().len();
        let trimmed = word.trim();
        words.push((trimmed, start..start + trimmed.len()));
        at += word.len() + 1;
    }
    words
}

fn known(word: &str, what: &str, names: &[&str], place: &crate::tree::Place) -> Checked {
    if names.contains(&word) {
        return None;
    }
    let problem = Problem::absent(place, format!("{what} `{word}`")).expected("unknown name");
    Some(problem.maybe(nearest::hint(word, names.iter().copied())))
}

/// Checks a path against the metrics of a trial.
fn path(text: &str, at: Range<usize>, node: &Node, names: &Names<'_>) -> Checked {
    // Without the analysis there is nothing to hold it against.
    if names.catalog.metrics.is_empty() {
        return None;
    }
    let parts: Vec<&str> = text.split('.').collect();
    if let Some(problem) = named_part(&parts, at.start, node, names) {
        return Some(problem);
    }
    if names.catalog.metrics.iter().any(|metric| matches(&metric.split('.').collect::<Vec<_>>(), &parts)) {
        return None;
    }
    let concrete: Vec<String> = names.catalog.metrics.iter().map(|metric| like(metric, &parts)).collect();
    let problem =
        Problem::absent(&node.inside(at), format!("the results have no metric `{text}`")).expected("unknown metric");
    let below = concrete.iter().filter(|metric| metric.strip_prefix(text).is_some_and(|rest| rest.starts_with('.')));
    let below: Vec<String> = below.map(|metric| format!("`{metric}`")).collect();
    if !below.is_empty() {
        return Some(problem.hint(format!("it has parts: {}", nearest::listed(&below, "and"))));
    }
    let near = nearest::name(text, concrete.iter().map(String::as_str)).or_else(|| same_end(&concrete, &parts));
    Some(problem.hint(near.map_or_else(
        || "`plimsoll schema results` describes them all".to_owned(),
        |near| format!("did you mean `{near}`?"),
    )))
}

/// The metric that ends in the same word.
fn same_end<'a>(metrics: &'a [String], parts: &[&str]) -> Option<&'a str> {
    let last = format!(".{}", parts.last()?);
    metrics.iter().find(|metric| metric.ends_with(&last)).map(String::as_str)
}

/// `faults.oops.…` and `operations.save.…` speak of things of this file.
fn named_part(parts: &[&str], base: usize, node: &Node, names: &Names<'_>) -> Checked {
    let (known, what) = match parts.first() {
        Some(&"faults") => (&names.faults, "there is no fault called"),
        Some(&"operations") => (&names.operations, "the load has no operation called"),
        _ => return None,
    };
    let [list, name, _, ..] = parts else { return None };
    let known = known.as_ref()?;
    let is_metric = names.catalog.metrics.iter().any(|metric| {
        let pattern: Vec<&str> = metric.split('.').collect();
        pattern.first() == Some(list)
            && (pattern.get(1) == Some(name) || (pattern.get(1) == Some(&"*") && pattern.get(2) == Some(name)))
    });
    if known.iter().any(|known| known == name) || is_metric {
        return None;
    }
    let start = base + list.len() + 1;
    let problem = Problem::absent(&node.inside(start..start + name.len()), format!("{what} `{name}`"));
    Some(problem.expected("unknown name").maybe(nearest::hint(name, known.iter().map(String::as_str))))
}

/// Lists whose elements may be picked by name or, without one, all be meant.
const LISTS: [&str; 2] = ["faults", "hosts"];

/// Whether a path is of this pattern: `*` stands for any one part; of a list, the element may be left out.
fn matches(pattern: &[&str], parts: &[&str]) -> bool {
    let plain = |pattern: &[&str], parts: &[&str]| {
        pattern.len() == parts.len() && pattern.iter().zip(parts).all(|(want, part)| *want == "*" || want == part)
    };
    if plain(pattern, parts) {
        return true;
    }
    let (Some(list), Some(first)) = (pattern.first(), parts.first()) else { return false };
    if list != first || !LISTS.contains(list) {
        return false;
    }
    let has_star = pattern.get(1) == Some(&"*");
    if has_star { plain(&pattern[2..], &parts[1..]) } else { parts.len() > 1 && plain(&pattern[1..], &parts[2..]) }
}

/// A pattern with the path's own words in place of its stars, to be near to it.
fn like(metric: &str, parts: &[&str]) -> String {
    let filled: Vec<&str> = metric
        .split('.')
        .enumerate()
        .map(|(index, part)| if part == "*" { parts.get(index).copied().unwrap_or("*") } else { part })
        .collect();
    filled.join(".")
}
