//! Commands on run folders. `plimsoll analyze` makes `analysis.json` and `report.html` from the
//! records alone. `show` and `open` show existing results. `compare`, `history` and `contents`
//! combine several runs.

use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use analysis::AnalyzedRun;
use experiment::plan::{self, Plan};
use record::ReadError;
use record::checked_file::read_text;
use record::compared::{Compared, Gated};
use record::folder::RunFolder;
use record::results::Results;
use report::ListedRun;

use crate::commands::turns;
use crate::exit::{Exit, Failure};
use crate::named_files::{self, write};
use crate::{cli, output};

/// Rebuilds a run's `analysis.json` and `report.html`, and prints the results.
pub fn analyze(arguments: &cli::OneRun) -> Result<Exit, Failure> {
    named_files::refuse_for_root(&arguments.folder)?;
    let folder = RunFolder::at(&arguments.folder);
    let run = rebuild(&folder)?;
    write_summaries(&folder, &run.results, &arguments.written)?;
    print_results(&folder, &run.results, arguments.json)?;
    Ok(Exit::Well)
}

/// Analyses a run's records, and writes its `analysis.json` and `report.html`.
pub fn rebuild(folder: &RunFolder) -> Result<AnalyzedRun, Failure> {
    let run = analysis::analyze_to_draw(folder)?;
    let plan = read_plan(folder)?;
    let doing = format!("cannot write into {}", folder.path().display());
    folder.write_results(&run.results).map_err(Failure::file(&doing))?;
    let page = report::page(&report::read(folder, &run, &plan)?)?;
    record::checked_file::write_whole(&folder.report(), page.as_bytes()).map_err(Failure::file(doing))?;
    Ok(run)
}

/// Prints a run's results on standard output: as JSON, or as a summary with the report's path.
pub fn print_results(folder: &RunFolder, results: &Results, json: bool) -> Result<(), Failure> {
    if json {
        output::json(results)
    } else {
        let plan = read_plan(folder)?;
        let summary = report::words::summary(results, &plan, output::colour_on_stdout());
        output::text(&format!("{summary}\n{}\n", folder.report().display()))
    }
}

/// Writes a run's JUnit and Markdown files, if they are requested.
pub fn write_summaries(folder: &RunFolder, results: &Results, written: &cli::WrittenSummaries) -> Result<(), Failure> {
    if written.junit.is_none() && written.markdown.is_none() {
        return Ok(());
    }
    let plan = read_plan(folder)?;
    let texts = [
        (&written.junit, report::summaries::junit(results, &plan)),
        (&written.markdown, report::summaries::markdown(results, &plan)),
    ];
    texts.iter().try_for_each(|(path, text)| path.as_ref().map_or(Ok(()), |path| write(path, text.as_bytes())))
}

/// Reads the plan of a run.
pub fn read_plan(folder: &RunFolder) -> Result<Plan, Failure> {
    let plan: Plan = record::checked_file::read_json_up_to(&folder.plan(), plan::FORMAT)
        .map_err(|error| match error {
            ReadError::Later { .. } => Failure::Analysis(error.into()),
            error => no_run(folder, &error.to_string()),
        })?
        .ok_or_else(|| no_run(folder, "it has no plan.json"))?;
    // Other commands make and remove folders with these names, so they must be safe.
    let hosts = plan.trials.iter().flat_map(|trial| &trial.lab.hosts);
    let bad_host = hosts.map(|host| &host.name).find(|name| !record::folder::is_folder_name(name));
    let bad_trial = plan.trials.iter().map(|trial| &trial.id).find(|id| !record::folder::is_trial_id(id));
    match (bad_trial, bad_host) {
        (Some(id), _) => Err(no_run(folder, &format!("`{id}` in its plan.json is not a trial name"))),
        (None, Some(name)) => Err(no_run(folder, &format!("`{name}` in its plan.json is not a host name"))),
        (None, None) => Ok(plan),
    }
}

fn no_run(folder: &RunFolder, why: &str) -> Failure {
    Failure::Bad {
        what: format!("{} is not a run folder: {why}", folder.path().display()),
        remedy: "give a folder that `plimsoll run` made".to_owned(),
    }
}

/// Prints a run's existing results.
pub fn show(arguments: &cli::OneRun) -> Result<Exit, Failure> {
    let folder = RunFolder::at(&arguments.folder);
    let results = match folder.read_results() {
        Ok(Some(results)) => results,
        // This version of Plimsoll may misread the records of a later version.
        Err(error @ ReadError::Later { .. }) => return Err(Failure::Analysis(error.into())),
        missing => {
            let why = missing.err().map_or_else(|| "it has no analysis.json".to_owned(), |error| error.to_string());
            return Err(Failure::Bad {
                what: format!("{} has no results: {why}", arguments.folder.display()),
                remedy: "`plimsoll analyze` makes them from the records".to_owned(),
            });
        }
    };
    write_summaries(&folder, &results, &arguments.written)?;
    print_results(&folder, &results, arguments.json)?;
    Ok(Exit::Well)
}

/// Programs that open a page in a browser, in the order in which they are tried.
const OPENERS: [&str; 4] = ["xdg-open", "open", "wslview", "sensible-browser"];

/// Opens a run's report in a browser.
pub fn open(arguments: &cli::Folder) -> Result<Exit, Failure> {
    let page = RunFolder::at(&arguments.folder).report();
    let page = page.canonicalize().map_err(|error| Failure::Bad {
        what: format!("no report at {}: {error}", page.display()),
        remedy: "`plimsoll analyze` makes it from the records".to_owned(),
    })?;
    let opened = OPENERS.iter().any(|opener| {
        let mut command = Command::new(opener);
        command.arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().is_ok()
    });
    output::text(&format!("{}\n", page.display()))?;
    if opened {
        Ok(Exit::Well)
    } else {
        Err(Failure::Bad {
            what: format!("no browser was found (tried {})", OPENERS.join(", ")),
            remedy: "open the page printed above yourself".to_owned(),
        })
    }
}

/// Compares runs, writes the requested files and prints the comparison.
pub fn compare(arguments: &cli::Compare) -> Result<Exit, Failure> {
    let gate_pct = arguments.gate.as_deref().map(percent).transpose()?;
    let (metrics, accepts_void) = (arguments.metrics.clone(), arguments.accept);
    let (is_sure, in_turn) = (arguments.sure, arguments.play);
    let options = analysis::CompareOptions { metrics, gate_pct, is_sure, accepts_void, look: None, in_turn };
    let compared = if arguments.play {
        let Some(compared) = turns::compare(arguments, &options)? else { return Ok(Exit::Interrupted) };
        compared
    } else {
        let folders: Vec<&Path> = arguments.folders.iter().map(AsRef::as_ref).collect();
        analysis::compare(&folders, &options)?
    };
    if let Some(path) = &arguments.written.junit {
        write(path, report::compared::junit(&compared).as_bytes())?;
    }
    if let Some(path) = &arguments.written.markdown {
        write(path, report::compared::markdown(&compared).as_bytes())?;
    }
    if arguments.json {
        output::json(&compared)?;
    } else {
        output::text(&report::compared::text(&compared, output::colour_on_stdout()))?;
    }
    Ok(outcome(&compared, arguments))
}

/// Returns the exit of a comparison: the first of the exit codes 6, 5 and 7 that applies, or 0.
fn outcome(compared: &Compared, arguments: &cli::Compare) -> Exit {
    if compared.is_void() && !arguments.accept {
        Exit::Void
    } else if compared.gated(Gated::Fails).next().is_some() {
        Exit::Violated
    } else if is_inconclusive(compared) && !arguments.allow_inconclusive {
        Exit::Inconclusive
    } else {
        Exit::Well
    }
}

/// Whether a gate is inconclusive, or is given but has no comparison to judge.
pub fn is_inconclusive(compared: &Compared) -> bool {
    compared.gated(Gated::CannotTell).next().is_some() || compared.gate_pct.is_some() && compared.comparisons.is_empty()
}

/// Parses a percentage such as `5%`, `2.5 %` or `5`.
fn percent(text: &str) -> Result<f64, Failure> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(pct) if pct.is_finite() && pct > 0.0 => Ok(pct),
        _ => Err(Failure::Bad {
            what: format!("--gate {text}: expected a percentage above 0"),
            remedy: "such as --gate 5%".to_owned(),
        }),
    }
}

/// Prints the history of each metric over the runs.
pub fn history(arguments: &cli::History) -> Result<Exit, Failure> {
    let folders: Vec<&Path> = arguments.folders.iter().map(PathBuf::as_path).collect();
    let course = analysis::history(&folders, &arguments.metrics, arguments.accept)?;
    if arguments.json {
        output::json(&course)?;
    } else {
        output::text(&report::words::course(&course, output::colour_on_stdout()))?;
    }
    Ok(Exit::Well)
}

/// Default file name of the page of contents.
const PAGE: &str = "contents.html";

/// A run that the page of contents lists.
struct RunListing {
    /// Absolute path of the run folder, with links and `..` resolved.
    path: PathBuf,
    results: Results,
    /// First chart of the report, as markup; empty if the report has no chart.
    chart: String,
}

/// Writes the page of contents, and prints its path.
pub fn contents(arguments: &cli::Contents) -> Result<Exit, Failure> {
    let found = all(&arguments.folders)?;
    let parents: Vec<&Path> = found.iter().filter_map(|found| found.path.parent()).collect();
    let page = match &arguments.out {
        Some(page) => page.clone(),
        None => common(&parents).join(PAGE),
    };
    let from = folder_of(&page)?;
    let listed: Vec<ListedRun<'_>> = found.iter().map(|found| listed(found, &from)).collect();
    let text = report::contents(&arguments.title, &listed)?;
    write(&page, text.as_bytes())?;
    output::text(&format!("{}\n", page.display()))?;
    Ok(Exit::Well)
}

/// Reads all runs in these folders, in the given order and without duplicates, or returns all
/// problems.
fn all(folders: &[PathBuf]) -> Result<Vec<RunListing>, Failure> {
    let mut found: Vec<RunListing> = Vec::new();
    let mut wrong: Vec<String> = Vec::new();
    for path in folders {
        let runs = match RunFolder::found_at(path) {
            Ok(runs) if runs.is_empty() => {
                wrong.push(format!("{} is not a run folder and holds none: it has no plan.json", path.display()));
                continue;
            }
            Ok(runs) => runs,
            Err(error) => {
                wrong.push(format!("cannot read {}: {error}", path.display()));
                continue;
            }
        };
        for run in runs {
            match read(&run) {
                Ok(run) if found.iter().any(|other| other.path == run.path) => {}
                Ok(run) => found.push(run),
                Err(why) => wrong.push(format!("{} cannot be listed: {why}", run.path().display())),
            }
        }
    }
    if wrong.is_empty() {
        return Ok(found);
    }
    Err(Failure::Bad {
        what: wrong.join("\n  "),
        remedy: "give folders that `plimsoll run` made; `plimsoll analyze` makes results and report from the records"
            .to_owned(),
    })
}

fn read(run: &RunFolder) -> Result<RunListing, String> {
    let path = run.path().canonicalize().map_err(|error| error.to_string())?;
    let results = run.read_results().map_err(|error| error.to_string())?.ok_or("it has no analysis.json")?;
    let page = read_text(&run.report()).map_err(|error| error.to_string())?.ok_or("it has no report.html")?;
    Ok(RunListing { path, results, chart: report::first_chart(&page).unwrap_or_default().to_owned() })
}

fn listed<'a>(found: &'a RunListing, from: &Path) -> ListedRun<'a> {
    ListedRun {
        results: &found.results,
        report: way(from, &RunFolder::at(&found.path).report()),
        folder: found.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        chart: found.chart.clone(),
    }
}

/// Returns the absolute path of a page's folder, with links and `..` resolved.
fn folder_of(page: &Path) -> Result<PathBuf, Failure> {
    let folder = page.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.canonicalize().map_err(|error| Failure::Bad {
        what: format!("cannot write {}: {error}", page.display()),
        remedy: "give a file in a folder that exists".to_owned(),
    })
}

/// Returns the deepest folder that contains or equals each of these folders. The paths are
/// absolute, so they share at least the root.
fn common(folders: &[&Path]) -> PathBuf {
    let mut above = folders.first().copied().unwrap_or(Path::new("/")).ancestors();
    let common = above.find(|above| folders.iter().all(|other| other.starts_with(above)));
    common.unwrap_or(Path::new("/")).to_path_buf()
}

/// Returns the relative path from a folder to a file, with `/` as separator. Both paths are
/// absolute.
fn way(from: &Path, to: &Path) -> String {
    let shared = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| "..".to_owned());
    let down = to.components().skip(shared).filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_go_up_to_the_common_folder() {
        let way = |from: &str, to: &str| way(Path::new(from), Path::new(to));
        assert_eq!(way("/runs/pi", "/runs/pi/a/report.html"), "a/report.html");
        assert_eq!(way("/runs/pi", "/runs/b/report.html"), "../b/report.html");
        assert_eq!(way("/srv/my/pages", "/runs/b/report.html"), "../../../runs/b/report.html");
        assert_eq!(way("/", "/runs/b/report.html"), "runs/b/report.html");
    }

    #[test]
    fn the_deepest_common_folder_is_found() {
        let common = |folders: &[&str]| common(&folders.iter().map(Path::new).collect::<Vec<_>>());
        assert_eq!(common(&["/runs/pi", "/runs/pi"]), Path::new("/runs/pi"));
        assert_eq!(common(&["/runs/pi", "/runs/pi2"]), Path::new("/runs"), "by names, not by letters");
        assert_eq!(common(&["/runs/pi/a", "/runs"]), Path::new("/runs"));
        assert_eq!(common(&["/a", "/b"]), Path::new("/"));
    }
}
