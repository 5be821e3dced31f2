//! Kept runs: results/EXPERIMENT has the page of one run, its first charts, its analysis and the
//! experiment as it was run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::rules::Violation;
use crate::tree::Tree;

/// Folder of the kept runs.
pub const FOLDER: &str = "results/";
/// Largest size of all kept runs, bytes.
pub const ROOM: usize = 8_000_000;
/// Number of charts that are kept, from the top of the page.
const CHARTS: usize = 4;
/// Files of a run folder that are read.
const FILES: [&str; 4] = ["experiment.toml", "analysis.json", "report.html", "environment.json"];
/// Beginnings of the lines that a run writes above its experiment: the file's path, and each
/// override.
const FROM: &str = "# from ";
const SET: &str = "# played with --set ";

/// A kept run.
#[derive(Debug)]
pub struct KeptRun {
    /// The experiment as it was run.
    pub experiment: toml::Table,
    /// `analysis.json`.
    pub results: Value,
    /// `run.json`: version of Plimsoll, and the run folder's name.
    pub run: Value,
    /// Names of the charts.
    pub charts: Vec<String>,
}

/// The kept runs in the tree, by the experiment's name.
pub fn runs(tree: &Tree, unreadable: &mut Vec<Violation>) -> BTreeMap<String, KeptRun> {
    let names = tree.paths.iter().filter_map(|path| path.strip_prefix(FOLDER)?.strip_suffix("/analysis.json"));
    let mut found = BTreeMap::new();
    for name in names {
        match run(tree, name) {
            Ok(run) => drop(found.insert(name.to_owned(), run)),
            Err(problem) => unreadable.push(Violation::of(&format!("{FOLDER}{name}"), problem)),
        }
    }
    found
}

fn run(tree: &Tree, name: &str) -> Result<KeptRun, String> {
    let text = |file: &str| tree.text_of(&format!("{FOLDER}{name}/{file}"));
    let charts = tree.paths.iter().filter_map(|path| path.strip_prefix(FOLDER)?.strip_prefix(name)?.strip_prefix('/'));
    let mut charts: Vec<String> = charts.filter_map(|file| file.strip_suffix(".svg")).map(str::to_owned).collect();
    charts.sort();
    Ok(KeptRun {
        experiment: text("experiment.toml").parse().map_err(|problem| format!("experiment.toml: {problem}"))?,
        results: serde_json::from_str(text("analysis.json")).map_err(|problem| format!("analysis.json: {problem}"))?,
        run: serde_json::from_str(text("run.json")).unwrap_or_default(),
        charts,
    })
}

/// Copies a run folder's page, charts and analysis into results/ under its experiment's name.
/// Returns that folder.
///
/// # Errors
/// If the run was made with `--set`, if its experiment is not in experiments/, or if a file cannot
/// be read or written.
pub fn keep(root: &Path, run: &Path) -> Result<String, String> {
    let read = |file: &str| {
        fs::read_to_string(run.join(file)).map_err(|problem| format!("{}/{file}: {problem}", run.display()))
    };
    let [experiment, analysis, page, environment] = FILES.map(read);
    let (experiment, page) = (experiment?, page?);
    if let Some(set) = experiment.lines().find_map(|line| line.strip_prefix(SET)) {
        return Err(format!(
            "{} was run with --set {set}: only runs of an experiment as it stands are kept",
            run.display()
        ));
    }
    let from = experiment.lines().next().and_then(|line| line.strip_prefix(FROM)).unwrap_or_default();
    let name = Path::new(from).file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    if name.is_empty() || !root.join(format!("experiments/{name}.toml")).is_file() {
        return Err(format!("{}: there is no experiments/{name}.toml", run.display()));
    }
    let json = |text: String| serde_json::from_str::<Value>(&text).map_err(|problem| problem.to_string());
    let (analysis, environment) = (json(analysis?)?, json(environment?)?);
    let about = serde_json::json!({
        "run": run.file_name().map(|name| name.to_string_lossy()),
        "plimsoll": environment["plimsoll"],
        "revision": environment["build"]["revision"],
    });
    let folder = format!("{FOLDER}{name}");
    let to = root.join(&folder);
    let _ = fs::remove_dir_all(&to);
    fs::create_dir_all(&to).map_err(|problem| format!("{folder}: {problem}"))?;
    let write = |file: &str, text: &str| {
        fs::write(to.join(file), text).map_err(|problem| format!("{folder}/{file}: {problem}"))
    };
    write("experiment.toml", experiment.split_once('\n').map_or("", |(_, rest)| rest))?;
    write("analysis.json", &format!("{}\n", rounded(analysis)))?;
    write("run.json", &format!("{about:#}\n"))?;
    write("report.html", &with_one_trial(&page)?)?;
    for (index, (id, chart)) in charts(&page).into_iter().take(CHARTS).enumerate() {
        write(&format!("{}-{id}.svg", index + 1), &chart)?;
    }
    Ok(folder)
}

/// Rounds numbers to six significant digits, to save space.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            number.as_f64().and_then(|number| format!("{number:.5e}").parse::<f64>().ok()).into()
        }
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, rounded(value))).collect(),
        other => other,
    }
}

const TRIAL: &str = "<details class=\"trial\" data-trial=\"";
const PICKER: &str = "<div class=\"picker\" hidden>";
const DATA: &str = "<script type=\"application/json\" id=\"data\">";
const LEFT_OUT: &str = "<p class=\"note\">Only the first trial's charts are kept here.</p>\n";

/// Returns the page with the charts of the first trial only. The charts of all trials are most of
/// its size.
fn with_one_trial(page: &str) -> Result<String, String> {
    let mut trials = page.match_indices(TRIAL).map(|(at, _)| at);
    let (Some(first), Some(second)) = (trials.next(), trials.next()) else { return Ok(page.to_owned()) };
    let broken = || "report.html is not as this version writes it: `plimsoll analyze` makes it again".to_owned();
    let end = second + page[second..].find("</section>").ok_or_else(broken)?;
    let others = page[second..end].split(TRIAL).filter_map(|trial| trial.split('"').next());
    let others: Vec<String> = others.filter(|id| !id.is_empty()).map(|id| format!("t{id}-")).collect();
    let before = page[..first].find(PICKER).unwrap_or(first);
    let (between, rest) = page[end..].split_once(DATA).ok_or_else(broken)?;
    let (data, after) = rest.split_once("</script>").ok_or_else(broken)?;
    let mut data: serde_json::Map<String, Value> = serde_json::from_str(data).map_err(|_| broken())?;
    data.retain(|id, _| !others.iter().any(|other| id.starts_with(other.as_str())));
    let data = Value::Object(data).to_string().replace('<', "\\u003c");
    Ok([&page[..before], LEFT_OUT, &page[first..second], between, DATA, &data, "</script>", after].concat())
}

/// Returns the curves of a page as SVG files, each with its id, in page order.
fn charts(page: &str) -> Vec<(String, String)> {
    let style = style(page);
    let is_of_curves = |tag: &str| tag.contains("data-hover");
    let chart = |figure: &str| {
        let (id, rest) = figure.split_once('"').filter(|(_, rest)| rest.split('>').next().is_some_and(is_of_curves))?;
        let svg = &rest[rest.find("<svg ")?..];
        let svg = &svg[..svg.find("<div").into_iter().chain(svg.find("</div")).min()?];
        let (head, body) = svg.split_once('>')?;
        let size: Vec<&str> = head.split_once("viewBox=\"")?.1.split_once('"')?.0.split(' ').collect();
        let [_, _, width, height] = size.as_slice() else { return None };
        let head = head.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" ", 1);
        let paper = format!("<rect width=\"{width}\" height=\"{height}\" fill=\"var(--paper)\"/>");
        Some((
            id.to_owned(),
            format!("{head} width=\"{width}\" height=\"{height}\"><style>{style}</style>{paper}{body}\n"),
        ))
    };
    page.split("<figure class=\"chart\" id=\"").skip(1).filter_map(chart).collect()
}

/// Returns the part of a page's style that charts need: the light colours and the rules of
/// drawings.
fn style(page: &str) -> String {
    let style = page.split_once("<style>").map_or("", |(_, rest)| rest.split("</style>").next().unwrap_or_default());
    let colours = style.lines().skip_while(|line| !line.starts_with(":root")).take_while(|line| !line.starts_with('}'));
    let rules =
        style.lines().filter(|line| line.starts_with("svg ") || line.starts_with(".plot ") || line.starts_with(".i-"));
    colours.chain(["}"]).chain(rules).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_page_has_the_charts_of_its_first_trial() {
        let figure = |id: &str| {
            format!(
                "<figure class=\"chart\" id=\"{id}\" data-hover><div class=\"sheet\"><svg viewBox=\"0 0 9 5\" role=\"group\"><g/></svg><div hidden></div></div></figure>"
            )
        };
        let trial = |id: &str| format!("{TRIAL}{id}\">{}</details>\n", figure(&format!("t{id}-cpu-1")));
        let data = r#"{"sweep-1":{"n":"\u003cb>"},"t001-cpu-1":1,"t002-cpu-1":2}"#;
        let style = "<style>\n:root {\n  --paper: #fff;\n}\nsvg .line { x }\n.bar { y }\n</style>";
        let page = format!(
            "{style}{}<section>{PICKER}pick</div>{}{}</section>\n{DATA}{data}</script>end",
            figure("sweep-1"),
            trial("001"),
            trial("002")
        );
        let kept = with_one_trial(&page).unwrap();
        assert!(
            kept.contains("t001-cpu-1\" data") && kept.contains("\"t001-cpu-1\":1") && kept.ends_with("</script>end"),
            "{kept}"
        );
        assert!(!kept.contains("t002") && !kept.contains("pick</div>"), "{kept}");
        assert!(kept.contains(r#""\u003cb>""#), "{kept}");
        let charts = charts(&kept);
        assert_eq!(charts.iter().map(|chart| chart.0.as_str()).collect::<Vec<_>>(), ["sweep-1", "t001-cpu-1"]);
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" viewBox=\"0 0 9 5\" role=\"group\" width=\"9\" \
                   height=\"5\"><style>:root {\n  --paper: #fff;\n}\nsvg .line { x }</style><rect width=\"9\" height=\"5\" \
                   fill=\"var(--paper)\"/><g/></svg>\n";
        assert_eq!(charts[0].1, svg);
    }

    #[test]
    fn numbers_are_kept_with_six_digits() {
        let value = serde_json::json!({"a": [1234.56789, 3, null, 0.000_012_345_678]});
        assert_eq!(rounded(value).to_string(), r#"{"a":[1234.57,3,null,0.0000123457]}"#);
    }
}
