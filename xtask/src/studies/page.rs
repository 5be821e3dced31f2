//! docs/studies.md: the result of each sentence of each article, with figures from the kept runs.

use std::fmt::Write as _;

use serde_json::Value;
use text::numbers;

use super::kept::{FOLDER, KeptRun};
use super::{ClaimName, ProvingFigure, Sentence, Studies, StudyFile};

/// Path of the page.
pub const PATH: &str = "docs/studies.md";

const OPENING: &str = "<!-- Made by `cargo xtask studies` from experiments/studies and results. Edit it there. -->

# Studies

What the articles say, sentence by sentence, and what Plimsoll measured. A claim is a statement of an experiment file; *yes* means that
it holds in the kept run, *no* that it does not, *not shown* that the trials disagree or are too few to tell. Values are medians over trials; of
functions such as ratios and knees, estimates with their 95 % interval. The runs are in [results](../results): open a `report.html` in a
browser. How a study is run is in [experiments/studies](../experiments/studies/README.md).
";

const NOT_RUN: &str = "not yet run";
/// Possible results of a sentence.
const RESULTS: [&str; 6] = ["yes", "no", "not shown", "not measured", NOT_RUN, "not asked"];

/// Returns the text of the page.
pub fn text(all: &Studies) -> String {
    let mut page = OPENING.to_owned();
    page.push_str(&format!(
        "\n| study | sentences | {} |\n|---|---{}|\n",
        RESULTS.join(" | "),
        "|---".repeat(RESULTS.len())
    ));
    for study in &all.studies {
        let results: Vec<&str> = study.sentences().map(|sentence| result_of(sentence, all)).collect();
        let count = |word: &str| results.iter().filter(|result| **result == word).count().to_string();
        let title = format!("[{}](#{})", cell(&study.title), anchor(&study.title));
        let _ = writeln!(page, "| {title} | {} | {} |", results.len(), RESULTS.map(count).join(" | "));
    }
    for study in &all.studies {
        add_study(study, all, &mut page);
    }
    format!("{}\n", page.trim_end())
}

fn add_study(study: &StudyFile, all: &Studies, page: &mut String) {
    let _ = write!(page, "\n## {}\n\n`make study-{}` runs all of it.\n", study.title, study.name);
    for article in &study.article {
        let _ = write!(page, "\n### {}\n\n`{}`\n\n", article.title, article.name);
        page.push_str("| where | the article | claim | here | result | run |\n|---|---|---|---|---|---|\n");
        for sentence in &article.sentence {
            add_sentence(sentence, all, page);
        }
    }
    if !study.beyond.is_empty() {
        page.push_str("\n### Beyond the articles\n\n| claim | why | here | result | run |\n|---|---|---|---|---|\n");
        for row in &study.beyond {
            let name = ClaimName { experiment: row.experiment.clone(), says: row.says.clone() };
            let (here, result) = answer(&name, all);
            let run = link(&row.experiment, all);
            let _ = writeln!(page, "| {} | {} | {here} | {result} | {run} |", cell(&row.says), cell(&row.reason));
        }
    }
    for (name, run) in study.experiments.iter().filter_map(|name| Some((name, all.kept.get(name)?))) {
        add_run(name, run, page);
    }
}

/// Adds a row for each claim; only the first row has the sentence.
fn add_sentence(sentence: &Sentence, all: &Studies, page: &mut String) {
    let (at, quote) = (cell(&sentence.at), cell(&sentence.quote));
    let figure = sentence.figure.as_ref().and_then(|figure| proof(figure, all)).unwrap_or_default();
    let reason = format!("*{}{figure}*", cell(&sentence.reason));
    if sentence.claims.is_empty() {
        let _ = writeln!(page, "| {at} | {quote} | {reason} | | not asked | |");
        return;
    }
    let is_shown = result_of(sentence, all) == "yes" || sentence.reason.is_empty();
    for (index, claim) in sentence.claims.iter().enumerate() {
        let (at, quote) = if index == 0 { (at.as_str(), quote.as_str()) } else { ("", "") };
        let (here, result) = answer(claim, all);
        let is_last = index + 1 == sentence.claims.len();
        let reason = if is_last && !is_shown { format!("<br>{reason}") } else { String::new() };
        let row = [at, quote, &(cell(&claim.says) + &reason), &here, result, &link(&claim.experiment, all)];
        let cells: String =
            row.iter().map(|cell| if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") }).collect();
        let _ = writeln!(page, "|{cells}");
    }
}

/// Returns the result of a sentence: the worst result of its claims.
fn result_of<'a>(sentence: &Sentence, all: &'a Studies) -> &'a str {
    const WORST_FIRST: [&str; 5] = [NOT_RUN, "no", "not shown", "not measured", "yes"];
    let results: Vec<&str> = sentence.claims.iter().map(|claim| answer(claim, all).1).collect();
    WORST_FIRST.into_iter().find(|word| results.contains(word)).unwrap_or("not asked")
}

/// Returns a claim's figure in the kept run, and whether it holds.
fn answer<'a>(name: &ClaimName, all: &'a Studies) -> (String, &'a str) {
    let found = all.kept.get(&name.experiment).and_then(|run| {
        let claims = run.results["claims"].as_array()?;
        Some((claims.iter().find(|claim| claim["says"] == name.says.as_str())?, &run.results))
    });
    let Some((claim, results)) = found else { return (String::new(), NOT_RUN) };
    (here(claim, results), claim["holds"].as_str().unwrap_or("not measured"))
}

/// Formats value, range and note of a claim.
fn here(claim: &Value, results: &Value) -> String {
    let metric = claim["metric"].as_str().unwrap_or_default();
    let raised = results["safe_loads"][0]["over"].as_str().filter(|_| metric.starts_with("safe_load("));
    let write = |value: f64| match raised.and_then(|path| path.rsplit('.').next()) {
        Some("rate") => numbers::rate(value),
        Some(unit) => format!("{} {unit}", numbers::number(value)),
        None => numbers::by_metric(metric, value),
    };
    let value = claim["value"].as_f64().map(write);
    let range = claim["range"][0].as_f64().zip(claim["range"][1].as_f64()).filter(|(low, high)| low < high);
    let range = range.map(|(low, high)| numbers::from_to(&write(low), &write(high)));
    let figures: Vec<String> = value.into_iter().chain(range).collect();
    let note = claim["note"].as_str().filter(|note| !note.is_empty());
    let parts: Vec<String> =
        [figures.join(", ")].into_iter().filter(|part| !part.is_empty()).chain(note.map(cell)).collect();
    parts.join("; ")
}

/// Formats the figure that proves a reason, in brackets; `None` without a kept run or a value.
fn proof(figure: &ProvingFigure, all: &Studies) -> Option<String> {
    let trials = all.kept.get(&figure.experiment)?.results["trials"].as_array()?;
    let is_meant = |trial: &&Value| {
        figure.filter.iter().all(|(key, wanted)| {
            let found = if key == "variant" { &trial[key] } else { &trial["point"][key] };
            match (found.as_f64(), wanted.as_float().or(wanted.as_integer().map(|number| number as f64))) {
                (Some(found), Some(wanted)) => found == wanted,
                _ => found.as_str().is_some() && found.as_str() == wanted.as_str(),
            }
        })
    };
    let steps: Vec<&str> = figure.metric.split('.').collect();
    let mut values = Vec::new();
    trials.iter().filter(is_meant).for_each(|trial| collect(trial, &steps, &mut values));
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let median =
        if values.len() % 2 == 1 { *values.get(middle)? } else { (values.get(middle)? + values[middle - 1]) / 2.0 };
    let plain = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let wheres: Vec<String> = figure.filter.iter().map(|(key, value)| format!("{key} {}", plain(value))).collect();
    let wheres = if wheres.is_empty() { String::new() } else { format!(" with {}", wheres.join(", ")) };
    Some(format!(" (`{}`{wheres}: {})", figure.metric, numbers::by_metric(&figure.metric, median)))
}

/// Collects the numbers at a metric path, as `analysis::metric` finds them.
fn collect(value: &Value, steps: &[&str], values: &mut Vec<f64>) {
    match (value, steps) {
        (Value::Number(number), []) => values.extend(number.as_f64()),
        (Value::Array(elements), []) => elements.iter().for_each(|element| collect(element, &[], values)),
        (Value::Array(elements), [first, rest @ ..]) => {
            let named: Vec<&Value> = elements.iter().filter(|element| element["name"] == *first).collect();
            let (picked, steps) = if named.is_empty() { (elements.iter().collect(), steps) } else { (named, rest) };
            picked.into_iter().for_each(|element| collect(element, steps, values));
        }
        (Value::Object(fields), _) => {
            let fits = (1..=steps.len()).rev().find_map(|count| Some((fields.get(&steps[..count].join("."))?, count)));
            if let Some((field, count)) = fits {
                collect(field, &steps[count..], values);
            }
        }
        _ => {}
    }
}

/// Returns an experiment's number, as a link to its charts if a run is kept.
fn link(experiment: &str, all: &Studies) -> String {
    let number = experiment.split('-').next().unwrap_or(experiment);
    if all.kept.contains_key(experiment) { format!("[{number}](#{})", anchor(experiment)) } else { number.to_owned() }
}

/// Adds the charts of a kept run.
fn add_run(name: &str, run: &KeptRun, page: &mut String) {
    let verdict = run.results["verdict"]["is"].as_str().unwrap_or("not judged");
    let told = [("run", ""), ("plimsoll", "Plimsoll "), ("revision", "revision ")];
    let told: Vec<String> =
        told.iter().filter_map(|(key, word)| Some(format!("{word}`{}`", run.run[*key].as_str()?))).collect();
    let answer = run.results["answer"].as_str().unwrap_or_default();
    let _ = write!(
        page,
        "\n#### {name}\n\n{answer}\n\n*{verdict}*, [report](../{FOLDER}{name}/report.html), {}\n\n",
        told.join(", ")
    );
    for chart in &run.charts {
        let _ = writeln!(page, "![{chart}](../{FOLDER}{name}/{chart}.svg)");
    }
}

/// Returns the anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let letters = heading.to_lowercase();
    let letters = letters.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    letters.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Returns a text for a cell of a table: on one line, with bars escaped.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}
