//! One file into many: what `--set`, variants and the sweep make of it. File < `--set` < variant < sweep point; tables
//! merge, lists replace. Every value keeps the place it was written at. It must not know what a value means.

mod merge;
mod sets;
mod sweeps;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::keys::experiment::EXPERIMENT;
use crate::path::{self, Step};
use crate::problem::Problem;
use crate::source::Source;
use crate::tree::{Entry, Node, Place, Table};

pub(crate) use sweeps::Sweep;

/// The sections that make up a trial: what variants and sweeps may change.
pub(crate) const TRIAL_SECTIONS: [&str; 6] = ["target", "lab", "prepare", "load", "fault", "step"];

/// More trials than anyone will wait for; a product of lists gets there quickly.
pub(crate) const TRIALS_MAX: usize = 10_000;

/// A file with its overlays taken apart.
pub(crate) struct Layers {
    /// The file after `--set`.
    pub base: Table,
    /// In file order.
    pub variants: Vec<Variant>,
    /// In file order.
    pub sweeps: Vec<Sweep>,
}

/// A `[[variant]]`.
pub(crate) struct Variant {
    pub name: String,
    pub name_place: Place,
    pub overlay: Table,
}

/// One variant at one point of the sweep.
pub(crate) struct Setting {
    pub variant: Option<String>,
    pub point: BTreeMap<String, Json>,
    pub tree: Table,
}

/// Applies `--set` to the file, and takes variants and sweeps apart.
pub(crate) fn layers(mut base: Table, sets: &[Arc<Source>], problems: &mut Vec<Problem>) -> Layers {
    let sets = sets::apply(&mut base, sets, problems);
    let variants = variants(&base, problems);
    let sweeps = sweeps::read(&base, &sets, problems);
    sets::without_effect(&sets, &base, &variants, problems);
    sweeps::against_variants(&sweeps, &variants, problems);
    Layers { base, variants, sweeps }
}

fn variants(base: &Table, problems: &mut Vec<Problem>) -> Vec<Variant> {
    let mut variants: Vec<Variant> = Vec::new();
    for (_, table) in base.tables("variant") {
        // Its absence is reported by the shape check.
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
    /// How many settings there are: points × variants.
    pub fn count(&self) -> usize {
        let points = self.sweeps.iter().fold(1, |points: usize, sweep| points.saturating_mul(sweep.values.len()));
        points.saturating_mul(self.variants.len().max(1))
    }

    /// Every variant at every point: points in the order of the file, the last list fastest, and at each point the
    /// variants, so that what is compared runs close together.
    pub fn settings(&self, problems: &mut Vec<Problem>) -> Vec<Setting> {
        // Without the variants themselves, above all: there may be many, and each has a copy of its own.
        let inside = |entry: &&Entry| TRIAL_SECTIONS.contains(&entry.key.as_str());
        let base = Table { entries: self.base.entries.iter().filter(inside).cloned().collect() };
        let mut trees = Vec::new();
        for variant in &self.variants {
            let mut tree = base.clone();
            merge::table(&mut tree, &variant.overlay, EXPERIMENT, problems);
            trees.push((Some(variant.name.clone()), tree));
        }
        if self.variants.is_empty() {
            trees.push((None, base));
        }
        let ways: Vec<Vec<Option<Vec<Step>>>> =
            trees.iter().map(|(_, tree)| self.sweeps.iter().map(|sweep| sweep.way(tree, problems)).collect()).collect();
        let mut settings = Vec::new();
        for values in product(&self.sweeps) {
            for ((variant, tree), ways) in trees.iter().zip(&ways) {
                let mut tree = tree.clone();
                let mut point = BTreeMap::new();
                for ((sweep, value), way) in self.sweeps.iter().zip(&values).zip(ways) {
                    point.insert(sweep.path.clone(), value.json());
                    if let Some(way) = way {
                        path::set(&mut tree, way, &sweep.path_place, (*value).clone());
                    }
                }
                settings.push(Setting { variant: variant.clone(), point, tree });
            }
        }
        settings
    }
}

/// Every combination of the sweeps' values; the last list changes fastest.
fn product(sweeps: &[Sweep]) -> Vec<Vec<&Node>> {
    sweeps.iter().fold(vec![Vec::new()], |combinations, sweep| {
        combinations
            .iter()
            .flat_map(|before| sweep.values.iter().map(move |value| before.iter().copied().chain([value]).collect()))
            .collect()
    })
}
