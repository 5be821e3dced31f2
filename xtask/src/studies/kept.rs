//! Kept runs: results/EXPERIMENT has the page of one run, its first charts, its analysis and the experiment as it was run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::rules::Violation;
use crate::tree::Tree;

/// Where kept runs are.
pub const FOLDER: &str = "results/";
/// Charts that are kept, from the top of the page.
const CHARTS: usize = 4;
/// Files of a run folder that are read.
const FILES: [&str; 4] = ["experiment.toml", "analysis.json", "report.html", "environment.json"];
/// Lines that a run writes above its experiment: where the file was, and what was overridden.
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
    /// Names of its charts.
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

/// Copies a run folder's page, charts and analysis into results/ under its experiment's name; returns that folder.
///
/// # Errors
/// If the run was made with `--set`, or its experiment is not one of ours, or a file cannot be read or written; in words.
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
    write("analysis.json", &format!("{analysis}\n"))?;
    write("run.json", &format!("{about:#}\n"))?;
    write("report.html", &page)?;
    for (index, (id, chart)) in charts(&page).into_iter().take(CHARTS).enumerate() {
        write(&format!("{}-{id}.svg", index + 1), &chart)?;
    }
    Ok(folder)
}

/// The charts of a page as files of their own, with their ids, in page order.
fn charts(page: &str) -> Vec<(String, String)> {
    let style = style(page);
    let chart = |figure: &str| {
        let (id, rest) = figure.split_once('"')?;
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

/// What charts need of a page's style: the colours of light paper, and the rules of drawings.
fn style(page: &str) -> String {
    let style = page.split_once("<style>").map_or("", |(_, rest)| rest.split("</style>").next().unwrap_or_default());
    let colours = style.lines().skip_while(|line| !line.starts_with(":root")).take_while(|line| !line.starts_with('}'));
    let rules =
        style.lines().filter(|line| line.starts_with("svg ") || line.starts_with(".plot ") || line.starts_with(".i-"));
    colours.chain(["}"]).chain(rules).collect::<Vec<_>>().join("\n")
}
