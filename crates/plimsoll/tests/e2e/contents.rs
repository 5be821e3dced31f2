//! `plimsoll contents` on run folders that the test makes from the golden run.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::{Sandbox, root};

const GOLDEN: &str = "crates/record/golden/2026-11-20T10-31-05-a-name-server-crashes";

/// Makes a run folder with the files that the page needs.
fn made(folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    for file in ["plan.json", "analysis.json"] {
        fs::copy(root().join(GOLDEN).join(file), folder.join(file)).unwrap();
    }
    fs::write(folder.join("report.html"), "<!doctype html>").unwrap();
    folder.to_path_buf()
}

#[test]
fn one_page_links_all_reports_in_the_given_order() {
    let sandbox = Sandbox::new();
    let series = sandbox.path().join("runs/series");
    let (one, two) = (made(&series.join("b one")), made(&series.join("a two")));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    let printed = sandbox.play(&["contents", one, two, one, "--title", "Two & one"]).exits(0).stdout;
    let page = series.join("contents.html");
    assert_eq!(printed.trim(), page.canonicalize().unwrap().display().to_string());
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("<h1>Two &amp; one</h1>"));
    let places = ["href=\"b%20one/report.html\"", "href=\"a%20two/report.html\""].map(|link| text.find(link).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(text.matches("<section class=\"run\"").count(), 2, "one was given twice");

    // A folder of runs lists its runs, by name. A page elsewhere has links that lead back.
    let elsewhere = sandbox.path().join("pages");
    fs::create_dir(&elsewhere).unwrap();
    let out = elsewhere.join("all.html");
    sandbox.play(&["contents", series.to_str().unwrap(), "--out", out.to_str().unwrap()]).exits(0);
    let text = fs::read_to_string(&out).unwrap();
    let places =
        ["../runs/series/a%20two/report.html", "../runs/series/b%20one/report.html"].map(|way| text.find(way).unwrap());
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn all_bad_folders_are_reported_and_no_page_is_written() {
    let sandbox = Sandbox::new();
    let runs = sandbox.path().join("runs");
    let good = made(&runs.join("good"));
    let (torn, bare, unreported) = (made(&runs.join("torn")), made(&runs.join("bare")), made(&runs.join("unreported")));
    fs::write(torn.join("analysis.json"), "{ \"format\": 1, ").unwrap();
    fs::remove_file(bare.join("analysis.json")).unwrap();
    fs::remove_file(unreported.join("report.html")).unwrap();
    let empty = runs.join("empty");
    fs::create_dir(&empty).unwrap();
    let missing = runs.join("missing");
    let folders = [&good, &torn, &bare, &unreported, &empty, &missing].map(|path| path.to_str().unwrap().to_owned());
    let words: Vec<&str> = std::iter::once("contents").chain(folders.iter().map(String::as_str)).collect();
    let played = sandbox.play(&words).exits(2).says(&[
        "torn cannot be listed",
        "bare cannot be listed: it has no analysis.json",
        "unreported cannot be listed: it has no report.html",
        "empty is not a run folder and holds none",
        "cannot read",
        "missing",
        "plimsoll analyze",
    ]);
    assert!(!played.stderr.contains("good cannot"), "{}", played.stderr);
    assert!(!runs.join("contents.html").exists());
    let out = runs.join("no/such/place.html");
    sandbox.play(&["contents", &folders[0], "--out", out.to_str().unwrap()]).exits(2).says(&["a folder that exists"]);
}
