//! The search for the safe load: from the trials that are finished, and nothing else, to the one that comes next, and to what all
//! of them say. Pure, so that a run goes on after any interruption. It must not play or judge a trial.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::plan::{Find, Plan, Trial, seed};

mod belief;
mod course;

use course::Course;
pub use course::{End, Line};

/// A finished trial, as far as a search has to know it.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Its variant.
    pub variant: Option<String>,
    /// Its condition.
    pub surviving: Option<String>,
    /// The value it had, in the file's terms.
    pub value: f64,
    /// What it says.
    pub said: Said,
}

/// What a trial says of the limits.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// All hold; how far the nearest one is from its bound, as the natural logarithm of their ratio, if that makes sense.
    Held(Option<f64>),
    /// One does not; how far the farthest is beyond its bound.
    Broke(Option<f64>),
    /// Nothing.
    Nothing(Silence),
}

/// Why a trial says nothing, with the reason in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Silence {
    /// The generator was at its limit: what the target would have done is not known.
    Generator(String),
    /// It is void for another reason.
    Void(String),
    /// A limit's metric was not measured; that will not change with another try.
    Unmeasured(String),
}

impl Plan {
    /// The next trial of the search, if the plan has one and it is not over. Several searches take turns, so that what the machine
    /// does in the meantime is shared by all.
    #[must_use]
    pub fn next(&self, finished: &[Finished]) -> Option<Trial> {
        let find = self.find.as_ref()?;
        let wanted = find.templates.iter().filter_map(|template| {
            let own = of(template, finished);
            let value = Course::of(find, template, &own).next().ok()?;
            Some((own.len(), template, value))
        });
        let (_, template, value) = wanted.min_by_key(|(taken, ..)| *taken)?;
        Some(made(find, template, value, finished))
    }
}

/// What the finished trials say about one search: one variant under one condition.
#[must_use]
pub fn line(find: &Find, template: &Trial, finished: &[Finished]) -> Line {
    Course::of(find, template, &of(template, finished)).line()
}

/// How many trials a search of this template takes if nothing disturbs it: the median over edges below, near and above its first
/// value.
#[must_use]
pub fn typical_trials(find: &Find, template: &Trial) -> u32 {
    let first = find.first(template);
    let mut counts = [0.3, 1.4, 5.0, 20.0].map(|factor| {
        let edge = first * factor;
        let mut finished = Vec::new();
        while let Ok(value) = Course::of(find, template, &finished).next() {
            let said = if value <= edge { Said::Held(None) } else { Said::Broke(None) };
            finished.push(Finished {
                variant: template.variant.clone(),
                surviving: template.surviving.clone(),
                value,
                said,
            });
        }
        u32::try_from(finished.len()).unwrap_or(u32::MAX)
    });
    counts.sort_unstable();
    counts[1].midpoint(counts[2])
}

fn of(template: &Trial, finished: &[Finished]) -> Vec<Finished> {
    let same = |one: &&Finished| one.variant == template.variant && one.surviving == template.surviving;
    finished.iter().filter(same).cloned().collect()
}

/// A trial of this template with this value.
fn made(find: &Find, template: &Trial, value: f64, finished: &[Finished]) -> Trial {
    let before = of(template, finished);
    #[expect(clippy::float_cmp, reason = "values are made here, and the same one is the same number")]
    let played = before.iter().filter(|one| one.value == value).count();
    let repeat = u32::try_from(played + 1).unwrap_or(u32::MAX);
    let point = BTreeMap::from([(find.highest.clone(), json(value))]);
    let seed = seed::of_trial(template.seed, repeat, &point);
    let mut trial = Trial {
        id: format!("{:03}", finished.len() + 1),
        point,
        repeat,
        seed,
        faults: seed::faults(&template.faults, seed),
        ..template.clone()
    };
    let speed = trial.lab.speed;
    if let Some(load) = &mut trial.load {
        find.raise(load, value, speed);
    }
    trial
}

/// A whole number without a point.
fn json(value: f64) -> Json {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and far below 2^53")]
    if value.fract() == 0.0 { Json::from(value as u64) } else { Json::from(value) }
}

#[cfg(test)]
mod tests;
