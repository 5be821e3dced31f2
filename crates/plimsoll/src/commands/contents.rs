//! `plimsoll contents`: one page that lists several runs and links the report of each.

use std::path::{Component, Path, PathBuf};

use record::folder::RunFolder;
use record::results::Results;
use report::Listed;

use crate::cli;
use crate::exit::{Done, Failure};
use crate::output;

/// The page's name where none is given.
const PAGE: &str = "contents.html";

/// A run that can be listed.
struct Found {
    /// The folder, without links and `..` on the way.
    path: PathBuf,
    results: Results,
}

/// Writes the page and prints where it is.
pub fn run(arguments: &cli::Contents) -> Result<Done, Failure> {
    let found = all(&arguments.folders)?;
    let parents: Vec<&Path> = found.iter().filter_map(|found| found.path.parent()).collect();
    let page = match &arguments.out {
        Some(page) => page.clone(),
        None => common(&parents).join(PAGE),
    };
    let from = folder_of(&page)?;
    let listed: Vec<Listed<'_>> = found.iter().map(|found| listed(found, &from)).collect();
    let text = report::contents(&arguments.title, &listed)?;
    record::whole::write_whole(&page, text.as_bytes())
        .map_err(|error| Failure::File { what: format!("cannot write {}", page.display()), error })?;
    output::text(&format!("{}\n", page.display()))?;
    Ok(Done::Well)
}

/// All runs, in the order given, each once; or everything that is wrong with any of them.
fn all(folders: &[PathBuf]) -> Result<Vec<Found>, Failure> {
    let mut found: Vec<Found> = Vec::new();
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

fn read(run: &RunFolder) -> Result<Found, String> {
    let path = run.path().canonicalize().map_err(|error| error.to_string())?;
    let results = run.read_results().map_err(|error| error.to_string())?.ok_or("it has no analysis.json")?;
    if !run.report().is_file() {
        return Err("it has no report.html".to_owned());
    }
    Ok(Found { path, results })
}

fn listed<'a>(found: &'a Found, from: &Path) -> Listed<'a> {
    Listed {
        results: &found.results,
        report: way(from, &RunFolder::at(&found.path).report()),
        folder: found.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
    }
}

/// The folder that a page goes into, without links and `..` on the way.
fn folder_of(page: &Path) -> Result<PathBuf, Failure> {
    let folder = page.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.canonicalize().map_err(|error| Failure::Bad {
        what: format!("cannot write {}: {error}", page.display()),
        remedy: "give a file in a folder that exists".to_owned(),
    })
}

/// The deepest folder that all lie in, or are. They are absolute, so that there is one: the root.
fn common(folders: &[&Path]) -> PathBuf {
    let holds_all = |folder: &&Path| folders.iter().all(|other| other.starts_with(folder));
    let first = folders.first().copied().unwrap_or(Path::new("/"));
    first.ancestors().find(holds_all).unwrap_or(Path::new("/")).to_path_buf()
}

/// The way from a folder to a file, with `/`; both are absolute.
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
    fn a_way_goes_up_as_far_as_it_must() {
        let way = |from: &str, to: &str| way(Path::new(from), Path::new(to));
        assert_eq!(way("/runs/pi", "/runs/pi/a/report.html"), "a/report.html");
        assert_eq!(way("/runs/pi", "/runs/b/report.html"), "../b/report.html");
        assert_eq!(way("/srv/my/pages", "/runs/b/report.html"), "../../../runs/b/report.html");
        assert_eq!(way("/", "/runs/b/report.html"), "runs/b/report.html");
    }

    #[test]
    fn the_common_folder_is_the_deepest() {
        let common = |folders: &[&str]| common(&folders.iter().map(Path::new).collect::<Vec<_>>());
        assert_eq!(common(&["/runs/pi", "/runs/pi"]), Path::new("/runs/pi"));
        assert_eq!(common(&["/runs/pi", "/runs/pi2"]), Path::new("/runs"), "by names, not by letters");
        assert_eq!(common(&["/runs/pi/a", "/runs"]), Path::new("/runs"));
        assert_eq!(common(&["/a", "/b"]), Path::new("/"));
    }
}
