//! Kept runs: results/EXPERIMENT has the page of one run, its first charts, its analysis and the
//! experiment as it was run.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::rules::Violation;
use crate::tree::Tree;

/// Folder of the kept runs.
pub const FOLDER: &str = "results/";
/// Largest size of all kept runs, bytes.
pub const ROOM: usize = 8_000_000;
/// Name of the compressed analysis.
const ANALYSIS: &str = "analysis.json.gz";
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
    let runs = tree.paths.iter().filter_map(|path| path.strip_prefix(FOLDER)?.strip_suffix(ANALYSIS));
    let names = runs.filter_map(|folder| folder.strip_suffix('/'));
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
        results: serde_json::from_str(text(ANALYSIS)).map_err(|problem| format!("{ANALYSIS}: {problem}"))?,
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
    let environment: Value = serde_json::from_str(&environment?).map_err(|problem| problem.to_string())?;
    let about = serde_json::json!({
        "run": run.file_name().map(|name| name.to_string_lossy()),
        "plimsoll": environment["plimsoll"],
        "revision": environment["build"]["revision"],
    });
    let folder = format!("{FOLDER}{name}");
    let to = root.join(&folder);
    let _ = fs::remove_dir_all(&to);
    fs::create_dir_all(&to).map_err(|problem| format!("{folder}: {problem}"))?;
    let write = |file: &str, content: &[u8]| {
        fs::write(to.join(file), content).map_err(|problem| format!("{folder}/{file}: {problem}"))
    };
    write("experiment.toml", experiment.split_once('\n').map_or("", |(_, rest)| rest).as_bytes())?;
    write(ANALYSIS, &compressed(&analysis?)?)?;
    write("run.json", format!("{about:#}\n").as_bytes())?;
    write("report.html", short_page(&page)?.as_bytes())?;
    for (index, (id, chart)) in charts(&page).into_iter().take(CHARTS).enumerate() {
        write(&format!("{}-{id}.svg", index + 1), chart.as_bytes())?;
    }
    Ok(folder)
}

fn compressed(text: &str) -> Result<Vec<u8>, String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).map_err(|problem| problem.to_string())
}

/// Returns the text of a file of a kept run; `None` if it is neither text nor compressed text.
pub fn text(bytes: Vec<u8>) -> Option<String> {
    if !bytes.starts_with(b"\x1f\x8b") {
        return String::from_utf8(bytes).ok();
    }
    let mut text = String::new();
    GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).ok().map(|_| text)
}

const CHARTS_OF_TRIALS: &str = "<section class=\"block charts\">";
const TRIAL: &str = "<details class=\"trial\" data-trial=\"";
const PICKER: &str = "<div class=\"picker\" hidden>";
const DATA: &str = "<script type=\"application/json\" id=\"data\">";
const FOLDED_TABLE: &str = "<details class=\"block table\">";
/// Largest folded table of a kept page, bytes.
const LARGEST_TABLE: usize = 8_000;

/// Returns the page without large folded tables and without the charts of trials: of all but the
/// first, or of all if a sweep has charts. The values that any trial's charts show under the
/// pointer are removed too. `analysis.json.gz` has all removed figures.
fn short_page(page: &str) -> Result<String, String> {
    let broken = || "report.html is not as this version writes it: `plimsoll analyze` makes it again".to_owned();
    let (body, rest) = page.split_once(DATA).ok_or_else(broken)?;
    let (data, after) = rest.split_once("</script>").ok_or_else(broken)?;
    let body = without_trials(body).and_then(|body| without_large_tables(&body)).ok_or_else(broken)?;
    let mut data: serde_json::Map<String, Value> = serde_json::from_str(data).map_err(|_| broken())?;
    data.retain(|id, _| !is_of_a_trial(id));
    let data = Value::Object(data).to_string().replace('<', "\\u003c");
    Ok([&body, DATA, &data, "</script>", after].concat())
}

/// Whether a chart's id is that of a trial, such as `t001-cpu-1`.
fn is_of_a_trial(id: &str) -> bool {
    let number = id.strip_prefix('t').and_then(|rest| rest.split('-').next());
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn without_trials(body: &str) -> Option<String> {
    let Some(start) = body.find(CHARTS_OF_TRIALS) else { return Some(body.to_owned()) };
    let section = &body[start..];
    let end = section.find("</section>")?;
    let mut trials = section[..end].match_indices(TRIAL).map(|(at, _)| at);
    let (Some(first), second) = (trials.next(), trials.next()) else { return Some(body.to_owned()) };
    let (kept, note) = if body.contains(" id=\"sweep-") {
        (String::new(), "This kept page leaves out the charts of the trials.")
    } else {
        let trial = section[first..second.unwrap_or(end)].replace(" data-hover", "");
        (trial, "This kept page has the charts of the first trial only, without values under the pointer.")
    };
    let before = section[..first].find(PICKER).unwrap_or(first);
    let note = format!("<p class=\"note\">{note}</p>\n");
    Some([&body[..start], &section[..before], &note, &kept, &section[end..]].concat())
}

fn without_large_tables(body: &str) -> Option<String> {
    let mut tables = body.split(FOLDED_TABLE);
    let mut short = tables.next()?.to_owned();
    for table in tables {
        let end = end_of_details(table)?;
        let title = table.split_once("<h2>")?.1.split("</h2>").next()?;
        if end <= LARGEST_TABLE {
            short.extend([FOLDED_TABLE, table]);
        } else {
            let note = format!(
                "<p class=\"note\">{title}: this kept page leaves out the table. Its figures are in \
                 <a href=\"{ANALYSIS}\">{ANALYSIS}</a>.</p>"
            );
            short.extend([&note, &table[end..]]);
        }
    }
    Some(short)
}

/// Returns the end of a `details` element, given the text behind its opening tag. Elements may be
/// nested.
fn end_of_details(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, _) in text.match_indices("details") {
        if text[..at].ends_with("</") {
            depth -= 1;
            if depth == 0 {
                return Some(at + "details>".len());
            }
        } else if text[..at].ends_with('<') {
            depth += 1;
        }
    }
    None
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

    const STYLE: &str = "<style>\n:root {\n  --paper: #fff;\n}\nsvg .line { x }\n.bar { y }\n</style>";

    fn figure(id: &str) -> String {
        format!(
            "<figure class=\"chart\" id=\"{id}\" data-hover><div class=\"sheet\"><svg viewBox=\"0 0 9 5\" role=\"group\"><g/></svg><div hidden></div></div></figure>"
        )
    }

    /// Returns a page with two trials and a folded table of `cells` empty cells.
    fn page(top: &str, cells: usize) -> String {
        let trial = |id: &str| format!("{TRIAL}{id}\">{}</details>\n", figure(&format!("t{id}-cpu-1")));
        let data = r#"{"sweep-1":{"n":"\u003cb>"},"t001-cpu-1":1,"t002-cpu-1":2}"#;
        let trials = format!("{CHARTS_OF_TRIALS}{PICKER}pick</div>{}{}</section>\n", trial("001"), trial("002"));
        let table = format!(
            "{FOLDED_TABLE}<summary><h2>Hosts</h2></summary><details><p></p></details>{}</details>\nrest\n",
            "<td></td>".repeat(cells)
        );
        format!("{STYLE}{top}{trials}{table}{DATA}{data}</script>end")
    }

    #[test]
    fn a_kept_page_has_the_charts_of_its_first_trial() {
        let kept = short_page(&page("", 3)).unwrap();
        assert!(kept.contains("id=\"t001-cpu-1\">") && !kept.contains("\"t001-cpu-1\":1"), "{kept}");
        assert!(!kept.contains("t002") && !kept.contains("pick</div>") && kept.contains("<td>"), "{kept}");
    }

    #[test]
    fn a_kept_page_of_a_sweep_has_no_charts_of_trials() {
        let kept = short_page(&page(&figure("sweep-1"), 3)).unwrap();
        assert!(!kept.contains("t001") && kept.contains(r#"{"sweep-1":{"n":"\u003cb>"}}</script>end"#), "{kept}");
        let charts = charts(&kept);
        assert_eq!(charts.iter().map(|chart| chart.0.as_str()).collect::<Vec<_>>(), ["sweep-1"]);
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" viewBox=\"0 0 9 5\" role=\"group\" width=\"9\" \
                   height=\"5\"><style>:root {\n  --paper: #fff;\n}\nsvg .line { x }</style><rect width=\"9\" height=\"5\" \
                   fill=\"var(--paper)\"/><g/></svg>\n";
        assert_eq!(charts[0].1, svg);
    }

    #[test]
    fn a_kept_page_leaves_out_large_folded_tables() {
        let kept = short_page(&page("", 1_000)).unwrap();
        assert!(!kept.contains("<td>") && kept.contains("</section>\n<p class=\"note\">Hosts: this"), "{kept}");
        assert!(kept.contains("</p>\nrest\n"), "{kept}");
    }

    #[test]
    fn a_kept_analysis_is_read_as_it_was_written() {
        assert_eq!(text(compressed("{\"a\": 1}").unwrap()).as_deref(), Some("{\"a\": 1}"));
        assert_eq!(text(b"<svg/>".to_vec()).as_deref(), Some("<svg/>"));
        assert_eq!(text(vec![0xff, 0xfe]), None);
    }
}
