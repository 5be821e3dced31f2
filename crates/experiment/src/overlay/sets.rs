//! `--set PATH=VALUE`.

use std::sync::Arc;

use super::Variant;
use crate::keys::experiment::EXPERIMENT;
use crate::path::{self, Step};
use crate::problem::Problem;
use crate::source::Source;
use crate::syntax;
use crate::tree::{Node, Place, Table};

/// A `--set` that was applied.
pub(super) struct Set {
    pub path: String,
    pub path_place: Place,
    pub steps: Vec<Step>,
    pub value: Node,
}

/// Applies each `--set` in turn; a later one wins.
pub(super) fn apply(base: &mut Table, sources: &[Arc<Source>], problems: &mut Vec<Problem>) -> Vec<Set> {
    let mut sets = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let rank = index + 1;
        let Some((path, text)) = source.text.split_once('=') else {
            let place = Place::new(source, rank, 0..source.text.len());
            problems.push(
                Problem::new(&place, "--set takes PATH=VALUE")
                    .expected("no `=` found")
                    .hint("such as --set load.time=30s"),
            );
            continue;
        };
        let place = Place::new(source, rank, 0..path.trim_end().len());
        // As a file would have it, `lab.speed = 0.5`, in which shape errors name settings, too.
        let blank = text.len() - text.trim_start().len();
        let value = syntax::parse_value(source, rank, path.len() + 1 + blank);
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

/// A variant wins over `--set`. A `--set` that every variant undoes would be silently ignored.
pub(super) fn without_effect(sets: &[Set], base: &Table, variants: &[Variant], problems: &mut Vec<Problem>) {
    for set in sets {
        let in_variant = |variant: &Variant| {
            let steps = path::resolve(&set.path, EXPERIMENT, &variant.overlay).ok()?;
            path::get(&variant.overlay, &steps).filter(|node| node.table().is_none()).map(|node| node.place.clone())
        };
        let places: Vec<Option<Place>> = variants.iter().map(in_variant).collect();
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
