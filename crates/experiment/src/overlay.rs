//! Overlays: makes the settings of all trials from one file, its `--set`s, its variants and its
//! sweep. Priority: file < `--set` < variant < sweep point. Tables are merged, lists are replaced.
//! Every value keeps its place in the text.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::keys::{self, Key, KeyType};
use crate::path::{self, PathStep};
use crate::plan::file_keys::{EXPERIMENT, SWEEP};
use crate::plan::load_group;
use crate::problem::{Problem, nearest_hint};
use crate::source::{self, Source};
use crate::tree::{Node, TextSpan, TomlTable, TomlValue};
use crate::trial_setting::{Sweep, TrialSetting};

/// Sections that make up a trial. Variants and sweeps may change only these.
pub(crate) const TRIAL_SECTIONS: [&str; 8] = ["target", "lab", "prepare", "load", "fleet", "fault", "action", "step"];

/// Maximum number of trials. A sweep over several lists easily exceeds it by mistake.
pub(crate) const TRIALS_MAX: usize = 10_000;

/// An experiment file after `--set`, with its variants and sweeps.
pub(crate) struct Layers {
    /// The file after `--set`.
    pub base: TomlTable,
    /// Variants, in file order.
    pub variants: Vec<Variant>,
    /// Sweeps, in file order.
    pub sweeps: Vec<Sweep>,
}

/// A `[[variant]]`.
pub(crate) struct Variant {
    pub name: String,
    pub name_place: TextSpan,
    pub overlay: TomlTable,
}

/// Applies `--set` to the file, and reads variants and sweeps.
pub(crate) fn layers(mut base: TomlTable, sets: &[Arc<Source>], problems: &mut Vec<Problem>) -> Layers {
    let sets = apply_sets(&mut base, sets, problems);
    let variants = variants(&base, problems);
    let sweeps = read_sweeps(&base, &sets, problems);
    sets_without_effect(&sets, &base, &variants, problems);
    sweeps_against_variants(&sweeps, &variants, problems);
    Layers { base, variants, sweeps }
}

fn variants(base: &TomlTable, problems: &mut Vec<Problem>) -> Vec<Variant> {
    let mut variants: Vec<Variant> = Vec::new();
    for (_, table) in base.tables("variant") {
        // The shape check reports a missing name.
        let Some(name) = table.get("name") else { continue };
        let Some(text) = name.text() else { continue };
        if text.contains([',', '(', ')']) {
            problems.push(
                Problem::new(&name.place, "a variant's name has no commas and no brackets")
                    .expected("not usable in crossing(a, b, path)"),
            );
        }
        if let Some(first) = variants.iter().find(|variant| variant.name == text) {
            problems.push(
                Problem::new(&name.place, format!("two variants are called \"{text}\""))
                    .expected("the second")
                    .related(&first.name_place, "the first"),
            );
            continue;
        }
        let mut overlay = table.clone();
        overlay.entries.retain(|entry| TRIAL_SECTIONS.contains(&entry.key.as_str()));
        variants.push(Variant { name: text.to_owned(), name_place: name.place.clone(), overlay });
    }
    variants
}

impl Layers {
    /// Returns the number of trial settings: points × variants.
    pub fn count(&self) -> usize {
        let points = self.sweeps.iter().fold(1, |points: usize, sweep| points.saturating_mul(sweep.values.len()));
        points.saturating_mul(self.variants.len().max(1))
    }

    /// Returns every variant at every point. Points are in the order of the file; the last list
    /// changes fastest. All variants of a point are adjacent, so that compared trials run close
    /// together.
    pub fn settings(&self, problems: &mut Vec<Problem>) -> Vec<TrialSetting> {
        // Leaves out sections such as the variants, because each tree is a copy and there may be
        // many variants.
        let entries = self.base.entries.iter().filter(|entry| TRIAL_SECTIONS.contains(&entry.key.as_str()));
        let base = TomlTable { entries: entries.cloned().collect() };
        let mut trees = Vec::new();
        for variant in &self.variants {
            let mut tree = base.clone();
            merge_table(&mut tree, &variant.overlay, EXPERIMENT, problems);
            trees.push((Some(variant.name.clone()), tree));
        }
        if self.variants.is_empty() {
            trees.push((None, base));
        }
        let mut paths: Vec<Vec<Option<Vec<PathStep>>>> = Vec::new();
        for (_, tree) in &trees {
            paths.push(self.sweeps.iter().map(|sweep| steps_through(sweep, tree, problems)).collect());
        }
        let mut settings = Vec::new();
        for values in product(&self.sweeps) {
            for ((variant, tree), paths) in trees.iter().zip(&paths) {
                let mut tree = tree.clone();
                let mut point = BTreeMap::new();
                for ((sweep, value), steps) in self.sweeps.iter().zip(&values).zip(paths) {
                    point.insert(sweep.path.clone(), value.json());
                    if let Some(steps) = steps {
                        path::set(&mut tree, steps, &sweep.path_place, (*value).clone());
                    }
                }
                settings.push(TrialSetting { variant: variant.clone(), point, tree });
            }
        }
        settings
    }
}

/// Returns every combination of the sweeps' values; the last list changes fastest.
fn product(sweeps: &[Sweep]) -> Vec<Vec<&Node>> {
    sweeps.iter().fold(vec![Vec::new()], |combinations, sweep| {
        combinations
            .iter()
            .flat_map(|before| sweep.values.iter().map(move |value| before.iter().copied().chain([value]).collect()))
            .collect()
    })
}

/// Merges `over` into `base`.
fn merge_table(base: &mut TomlTable, over: &TomlTable, keys: &'static [Key], problems: &mut Vec<Problem>) {
    for entry in &over.entries {
        let kind = keys::find(keys, &entry.key).map(|key| &key.kind);
        match base.entries.iter_mut().find(|known| known.key == entry.key) {
            Some(known) => {
                if merge_node(&mut known.node, &entry.node, kind, problems) {
                    known.key_place = entry.key_place.clone();
                }
            }
            None => match (kind, entry.node.table()) {
                (Some(KeyType::Tables(_)), Some(parts)) => merge_items(&mut [], parts, &[], problems),
                _ => base.entries.push(entry.clone()),
            },
        }
    }
}

/// Merges `over` into `base`. Returns whether `base` was replaced.
fn merge_node(base: &mut Node, over: &Node, kind: Option<&'static KeyType>, problems: &mut Vec<Problem>) -> bool {
    let keys = kind.map(KeyType::keys).unwrap_or_default();
    match (&mut base.value, &over.value, kind) {
        (TomlValue::Table(base), TomlValue::Table(over), _) => {
            merge_table(base, over, keys, problems);
            false
        }
        (TomlValue::List(list), TomlValue::Table(over), Some(KeyType::Tables(_))) => {
            merge_items(list, over, keys, problems);
            false
        }
        _ => {
            *base = over.clone();
            true
        }
    }
}

fn merge_items(list: &mut [Node], over: &TomlTable, keys: &'static [Key], problems: &mut Vec<Problem>) {
    for entry in &over.entries {
        let Some(part) = entry.node.table() else { continue };
        match path::index_of(list, &entry.key) {
            Ok(index) => {
                if let TomlValue::Table(item) = &mut list[index].value {
                    merge_table(item, part, keys, problems);
                }
            }
            Err(lost) => problems.push(
                Problem::absent(&entry.key_place, format!("nothing in the file is called `{}`", entry.key))
                    .expected("unknown name")
                    .maybe(lost.hint),
            ),
        }
    }
}

/// A `--set` that was applied.
struct Set {
    pub path: String,
    pub path_place: TextSpan,
    pub steps: Vec<PathStep>,
    pub value: Node,
}

/// Applies each `--set` in turn; a later one wins.
fn apply_sets(base: &mut TomlTable, sources: &[Arc<Source>], problems: &mut Vec<Problem>) -> Vec<Set> {
    let mut sets = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let rank = index + 1;
        let Some((path, text)) = source.text.split_once('=') else {
            let place = TextSpan::new(source, rank, 0..source.text.len());
            problems.push(
                Problem::new(&place, "--set takes PATH=VALUE")
                    .expected("no `=` found")
                    .hint("such as --set load.time=30s"),
            );
            continue;
        };
        let place = TextSpan::new(source, rank, 0..path.trim_end().len());
        // Skips blanks after the `=`, so that the value may also be written as in a file:
        // `lab.speed = 0.5`.
        let blank = text.len() - text.trim_start().len();
        let value = source::parse_value(source, rank, path.len() + 1 + blank);
        match path::resolve(path.trim_end(), EXPERIMENT, base) {
            Ok(steps) => {
                path::set(base, &steps, &place, value.clone());
                sets.push(Set { path: path.trim().to_owned(), path_place: place, steps, value });
            }
            Err(lost) => {
                let at = place.at(lost.at);
                problems.push(Problem::absent(&at, lost.what).expected("unknown path").maybe(lost.hint));
            }
        }
    }
    sets
}

/// Reports a `--set` that every variant overrides, because variants have priority. Otherwise the
/// `--set` would be silently ignored.
fn sets_without_effect(sets: &[Set], base: &TomlTable, variants: &[Variant], problems: &mut Vec<Problem>) {
    for set in sets {
        let in_variants = variants.iter().map(|variant| {
            let steps = path::resolve(&set.path, EXPERIMENT, &variant.overlay).ok()?;
            path::get(&variant.overlay, &steps).filter(|node| node.table().is_none()).map(|node| node.place.clone())
        });
        let places: Vec<Option<TextSpan>> = in_variants.collect();
        if let Some(Some(first)) = places.first()
            && places.iter().all(Option::is_some)
            && path::get(base, &set.steps).is_some()
        {
            problems.push(
                Problem::new(&set.path_place, format!("setting `{}` has no effect: every variant sets it", set.path))
                    .expected("overlaid by each variant")
                    .related(first, "here, for one")
                    .hint(format!("set it in a variant: --set variant.NAME.{}=…", set.path)),
            );
        }
    }
}

/// Returns the steps of a swept path through the tree of a trial.
fn steps_through(sweep: &Sweep, tree: &TomlTable, problems: &mut Vec<Problem>) -> Option<Vec<PathStep>> {
    match path::resolve(&sweep.path, EXPERIMENT, tree) {
        Ok(steps) => Some(steps),
        Err(lost) => {
            let problem = Problem::absent(&sweep.path_place, format!("this path does not exist: {}", lost.what));
            problems.push(problem.expected("unknown path").maybe(lost.hint));
            None
        }
    }
}

/// Reads `[sweep]`. A `--set` of a swept path reduces that sweep to the value that it sets.
fn read_sweeps(base: &TomlTable, sets: &[Set], problems: &mut Vec<Problem>) -> Vec<Sweep> {
    let mut paths = base.table("sweep").cloned().unwrap_or_default();
    paths.entries.retain(|entry| keys::find(SWEEP, &entry.key).is_none());
    let mut sweeps = Vec::new();
    for entry in paths.flattened() {
        if let Some(values) = entry.node.list() {
            let (listed, values) = (values.to_vec(), values.to_vec());
            sweeps.push(Sweep { path: entry.key, path_place: entry.key_place, listed, values });
        }
    }
    sweeps.retain(|sweep| is_in_a_trial(sweep, problems));
    sweeps.retain(|sweep| {
        check_values(sweep, problems);
        // The trials can still be checked without this sweep.
        !sweep.values.is_empty()
    });
    for sweep in &mut sweeps {
        let steps = path::resolve(&sweep.path, EXPERIMENT, base).ok();
        for set in sets.iter().filter(|set| set.path == sweep.path || Some(&set.steps) == steps.as_ref()) {
            sweep.values = vec![set.value.clone()];
        }
    }
    sweeps
}

fn is_in_a_trial(sweep: &Sweep, problems: &mut Vec<Problem>) -> bool {
    let root = sweep.path.split('.').next().unwrap_or_default();
    if TRIAL_SECTIONS.contains(&root) {
        return true;
    }
    problems.push(
        Problem::new(&sweep.path_place, format!("`{}` cannot be swept", sweep.path))
            .expected("a path inside a trial")
            .maybe(nearest_hint(root, TRIAL_SECTIONS)),
    );
    false
}

fn check_values(sweep: &Sweep, problems: &mut Vec<Problem>) {
    if sweep.values.is_empty() {
        problems.push(
            Problem::new(&sweep.path_place, format!("the sweep of `{}` has no values", sweep.path))
                .expected("an empty list")
                .hint("without values there are no trials: list at least one, or remove the line"),
        );
    }
    // Charts over a swept rate, and names of points, need numbers.
    let is_rate = load_group::named(&sweep.path).is_some_and(|(_, key)| ["rate", "rate.sessions"].contains(&key));
    if let Some(value) = sweep.values.iter().find(|value| is_rate && value.number().is_none()) {
        let path = &sweep.path;
        problems.push(
            Problem::new(&value.place, format!("`{path}` can only be swept over plain numbers"))
                .expected("not a number of starts per second")
                .hint(format!(
                    "sweep `{path}.poisson` for starts at random; put stages and recorded schedules into variants"
                )),
        );
    }
    let json: Vec<_> = sweep.values.iter().map(Node::json).collect();
    for (index, value) in json.iter().enumerate() {
        if let Some(first) = json[..index].iter().position(|other| other == value) {
            problems.push(
                Problem::new(&sweep.values[index].place, format!("`{}` is swept over {value} twice", sweep.path))
                    .expected("again")
                    .related(&sweep.values[first].place, "first here")
                    .hint("`repeat = 2` at the top of the file runs every point twice"),
            );
        }
    }
}

/// Reports a path that both a variant and a sweep set, because neither should win.
fn sweeps_against_variants(sweeps: &[Sweep], variants: &[Variant], problems: &mut Vec<Problem>) {
    for sweep in sweeps {
        for variant in variants {
            let node = path::resolve(&sweep.path, EXPERIMENT, &variant.overlay)
                .ok()
                .and_then(|steps| path::get(&variant.overlay, &steps));
            if let Some(node) = node {
                problems.push(
                    Problem::new(
                        &node.place,
                        format!("the variant \"{}\" sets `{}`, which is swept", variant.name, sweep.path),
                    )
                    .expected("set here")
                    .related(&sweep.path_place, "swept here")
                    .hint("remove one of the two, or write the values as variants only"),
                );
            }
        }
    }
}
