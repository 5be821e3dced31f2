//! The studies: the articles sentence by sentence, the claims that answer them, and the rule that
//! compares them with experiments and kept runs. `page` writes docs/studies.md, `kept` fills
//! results/.

pub mod kept;
pub mod page;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::rules::{HouseRule, Violation};
use crate::tree::{File, Tree};
use kept::KeptRun;

/// Folder of the studies' files.
const FOLDER: &str = "experiments/studies/";

/// One or several articles on one subject, and the experiments that repeat them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyFile {
    /// File name without `.toml`, as in `make study-NAME`.
    #[serde(skip)]
    pub name: String,
    /// Title of the study's page.
    pub title: String,
    /// Names of the experiments' files without `.toml`, in the order in which they are run.
    pub experiments: Vec<String>,
    /// The articles.
    #[serde(default)]
    pub article: Vec<StudiedArticle>,
    /// Claims that answer no sentence.
    #[serde(default)]
    pub beyond: Vec<BeyondClaim>,
}

/// An article.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudiedArticle {
    /// First part of the experiments' `source`.
    pub name: String,
    /// Title, author, year.
    pub title: String,
    /// Sentences, in the article's order.
    #[serde(default)]
    pub sentence: Vec<Sentence>,
}

/// A sentence of an article.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sentence {
    /// Heading above the sentence.
    pub at: String,
    /// Short quotation in plain English.
    pub quote: String,
    /// Claims that answer the sentence.
    #[serde(default)]
    pub claims: Vec<ClaimName>,
    /// Reason why the sentence cannot be shown on this machine, or why nothing has to be shown. May
    /// be empty if the sentence has claims.
    #[serde(default)]
    pub reason: String,
    /// Figure that proves the reason.
    pub figure: Option<ProvingFigure>,
}

/// A claim of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimName {
    /// Name of the experiment's file without `.toml`.
    pub experiment: String,
    /// The claim's `says`.
    pub says: String,
}

/// A figure of the trials of a kept run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProvingFigure {
    /// Name of the experiment's file without `.toml`.
    pub experiment: String,
    /// Metric path.
    pub metric: String,
    /// Filter of the trials: `variant` or swept paths, with their values.
    #[serde(default, rename = "where")]
    pub filter: toml::Table,
}

/// A claim that answers no sentence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeyondClaim {
    /// Name of the experiment's file without `.toml`.
    pub experiment: String,
    /// The claim's `says`.
    pub says: String,
    /// Reason for the claim.
    #[serde(default)]
    pub reason: String,
}

/// All studies, the experiments and their kept runs.
#[derive(Debug, Default)]
pub struct Studies {
    /// Studies in the order of their files.
    pub studies: Vec<StudyFile>,
    /// Experiments by name.
    pub experiments: BTreeMap<String, toml::Table>,
    /// Kept runs by the experiment's name.
    pub kept: BTreeMap<String, KeptRun>,
    /// Files that cannot be read.
    unreadable: Vec<Violation>,
}

impl Studies {
    /// Reads all files of the tree that are about studies.
    pub fn of(tree: &Tree) -> Self {
        let mut all = Self::default();
        for file in &tree.files {
            if let Some(name) = toml_below(file, FOLDER) {
                match toml::from_str::<StudyFile>(&file.text) {
                    Ok(study) => all.studies.push(StudyFile { name: name.to_owned(), ..study }),
                    Err(problem) => all.unreadable.push(Violation::of(&file.path, problem.to_string().trim())),
                }
            } else if let Some(name) = toml_below(file, "experiments/") {
                match file.text.parse() {
                    Ok(table) => drop(all.experiments.insert(name.to_owned(), table)),
                    Err(problem) => all.unreadable.push(Violation::of(&file.path, problem.to_string().trim())),
                }
            }
        }
        all.kept = kept::runs(tree, &mut all.unreadable);
        all
    }

    /// Returns the offences of the studies and of the page that is made from them.
    fn offences(&self, tree: &Tree) -> Vec<Violation> {
        let mut offences = self.unreadable.clone();
        for study in &self.studies {
            self.judge_study(study, &mut offences);
        }
        let rows: Vec<ClaimName> = self.studies.iter().flat_map(StudyFile::rows).collect();
        for (name, experiment) in &self.experiments {
            let path = format!("experiments/{name}.toml");
            for says in claims(experiment) {
                let row = ClaimName { experiment: name.clone(), says: says.to_owned() };
                if !rows.contains(&row) {
                    offences.push(Violation::of(&path, format!("the claim \"{says}\" is in no row of {FOLDER}*.toml")));
                }
            }
        }
        for (name, run) in &self.kept {
            let path = format!("{}{name}", kept::FOLDER);
            match self.experiments.get(name) {
                None => offences.push(Violation::of(&path, format!("there is no experiments/{name}.toml any more"))),
                Some(now) if *now != run.experiment => {
                    let what = "the experiment has changed since this run: run it again, and `cargo xtask keep RUN`";
                    offences.push(Violation::of(&path, what));
                }
                Some(_) => {}
            }
        }
        if tree.kept_bytes > kept::ROOM {
            let what = format!("{} bytes, at most {}", tree.kept_bytes, kept::ROOM);
            offences.push(Violation::of(kept::FOLDER, what));
        }
        if !self.studies.is_empty() && tree.text_of(page::PATH) != page::text(self) {
            offences.push(Violation::of(page::PATH, "is out of date: run `cargo xtask studies`"));
        }
        offences
    }

    fn judge_study(&self, study: &StudyFile, offences: &mut Vec<Violation>) {
        let path = format!("{FOLDER}{}.toml", study.name);
        let mut complain = |what: String| offences.push(Violation::of(&path, what));
        let figures = study.sentences().filter_map(|sentence| sentence.figure.as_ref());
        for name in study.experiments.iter().chain(figures.map(|figure| &figure.experiment)) {
            if !self.experiments.contains_key(name) {
                complain(format!("there is no experiments/{name}.toml"));
            }
        }
        for sentence in study.sentences().filter(|sentence| sentence.claims.is_empty() && sentence.reason.is_empty()) {
            complain(format!("\"{}\" has neither `claims` nor a `reason`", sentence.quote));
        }
        for row in study.rows() {
            if !study.experiments.contains(&row.experiment) {
                complain(format!("`{}` is not among its `experiments`", row.experiment));
            } else if !self
                .experiments
                .get(&row.experiment)
                .is_some_and(|found| claims(found).any(|says| says == row.says))
            {
                complain(format!("{} does not claim \"{}\"", row.experiment, row.says));
            }
        }
    }
}

impl StudyFile {
    /// Sentences of all articles.
    pub fn sentences(&self) -> impl Iterator<Item = &Sentence> {
        self.article.iter().flat_map(|article| &article.sentence)
    }

    /// All claims that the study names.
    fn rows(&self) -> Vec<ClaimName> {
        let asked = self.sentences().flat_map(|sentence| sentence.claims.iter().cloned());
        let beyond = self.beyond.iter();
        let beyond = beyond.map(|row| ClaimName { experiment: row.experiment.clone(), says: row.says.clone() });
        asked.chain(beyond).collect()
    }
}

/// Returns the name of a `.toml` file directly in `folder`.
fn toml_below<'a>(file: &'a File, folder: &str) -> Option<&'a str> {
    file.path.strip_prefix(folder)?.strip_suffix(".toml").filter(|name| !name.contains('/'))
}

/// Returns the text of each claim of an experiment.
fn claims(experiment: &toml::Table) -> impl Iterator<Item = &str> {
    let claims = experiment.get("claim").and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
    claims.iter().filter_map(|claim| claim.get("says")?.as_str())
}

pub const KIND: HouseRule = HouseRule {
    name: "studies",
    reason: "what an article says and no claim answers, or what a claim says and an older experiment measured, reads like evidence",
    check,
    canary: &[
        ("experiments/07-x.toml", "title = \"x\"\n\n[[claim]]\nsays = \"it scales\"\n"),
        ("experiments/studies/x.toml", "title = \"x\"\nexperiments = [\"07-x\"]\n"),
        ("docs/studies.md", ""),
    ],
};

fn check(tree: &Tree) -> Vec<Violation> {
    Studies::of(tree).offences(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPERIMENT: &str = "title = \"x\"\n[[claim]]\nsays = \"it scales\"\nmetric = \"a.b_s\"\n";
    const STUDY: &str = "title = \"The study\"\nexperiments = [\"07-x\"]\n[[article]]\nname = \"a\"\ntitle = \"An article\"\n\
                         [[article.sentence]]\nat = \"results\"\nquote = \"it scales | well\"\n\
                         claims = [{ experiment = \"07-x\", says = \"it scales\" }]\nreason = \"two cores\"\n\
                         figure = { experiment = \"07-x\", metric = \"hosts.n1.cpu_pct\", where = { variant = \"b\", \"load.agents\" = 4 } }\n";
    const ANALYSIS: &str = r#"{"verdict": {"is": "valid"}, "safe_loads": [], "claims": [{"says": "it scales", "metric": "latency_us.p99",
        "value": 1500, "range": [1000, 2000], "note": "a note", "holds": "not shown", "trials": 3}],
        "trials": [{"variant": "a", "point": {"load.agents": 4}, "hosts": [{"name": "n1", "cpu_pct": 1}]},
                   {"variant": "b", "point": {"load.agents": 4}, "hosts": [{"name": "n1", "cpu_pct": 90}, {"name": "n2", "cpu_pct": 3}]},
                   {"variant": "b", "point": {"load.agents": 4}, "hosts": [{"name": "n1", "cpu_pct": 96}]},
                   {"variant": "b", "point": {"load.agents": 8}, "hosts": [{"name": "n1", "cpu_pct": 2}]}]}"#;

    /// Returns the offences, with a page that is up to date.
    fn offences(files: &[(&str, &str)]) -> Vec<String> {
        let page = page::text(&Studies::of(&Tree::of(files)));
        let files = [files, &[(page::PATH, page.as_str())]].concat();
        check(&Tree::of(&files)).into_iter().map(|offence| offence.what).collect()
    }

    #[test]
    fn each_claim_has_a_row_and_each_row_a_claim() {
        let experiment = ("experiments/07-x.toml", EXPERIMENT);
        assert_eq!(offences(&[experiment, ("experiments/studies/x.toml", STUDY)]), Vec::<String>::new());
        let other = STUDY.replace("says = \"it scales\"", "says = \"it does not\"");
        let found = offences(&[experiment, ("experiments/studies/x.toml", &other)]);
        assert_eq!(
            found,
            [
                "07-x does not claim \"it does not\"",
                "the claim \"it scales\" is in no row of experiments/studies/*.toml"
            ]
        );
        let silent =
            STUDY.replace("claims = [{ experiment = \"07-x\", says = \"it scales\" }]\nreason = \"two cores\"\n", "");
        assert!(offences(&[experiment, ("experiments/studies/x.toml", &silent)])[0].contains("neither"));
        let found = offences(&[experiment, ("experiments/studies/x.toml", "title = 1\n")]);
        assert!(found[0].contains("expected a string"), "{found:?}");
    }

    #[test]
    fn experiments_that_changed_since_their_kept_run_are_found() {
        let kept = |experiment: &str| {
            offences(&[
                ("experiments/07-x.toml", EXPERIMENT),
                ("experiments/studies/x.toml", STUDY),
                ("results/07-x/experiment.toml", experiment),
                ("results/07-x/analysis.json.gz", ANALYSIS),
            ])
        };
        assert_eq!(kept(&format!("# A comment.\n{EXPERIMENT}")), Vec::<String>::new());
        let found = kept(&EXPERIMENT.replace("a.b_s", "a.c_s"));
        assert!(found.len() == 1 && found[0].contains("has changed since this run"), "{found:?}");
    }

    #[test]
    fn the_page_has_a_row_for_each_claim() {
        let study = [("experiments/07-x.toml", EXPERIMENT), ("experiments/studies/x.toml", STUDY)];
        let text = page::text(&Studies::of(&Tree::of(&study)));
        assert!(
            text.contains("| results | it scales \\| well | it scales<br>*two cores* | | not yet run | 07 |"),
            "{text}"
        );
        let run = [
            ("results/07-x/experiment.toml", EXPERIMENT),
            ("results/07-x/analysis.json.gz", ANALYSIS),
            ("results/07-x/1-scaling.svg", "<svg/>"),
        ];
        let text = page::text(&Studies::of(&Tree::of(&[&study[..], &run].concat())));
        let row = "| results | it scales \\| well | it scales<br>*two cores (`hosts.n1.cpu_pct` with variant b, load.agents 4: 93 %)* | \
                   1.5 ms, 1–2 ms; a note | not shown | [07](#07-x) |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("![1-scaling](../results/07-x/1-scaling.svg)"), "{text}");
    }
}
