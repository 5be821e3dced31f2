//! Reader of experiment files: parse, overlay, resolve every trial, check, and number the trials.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::manifest::Metrics;
use crate::overlay::{self, Layers, TRIAL_SECTIONS, TRIALS_MAX};
use crate::plan::file_keys::EXPERIMENT;
use crate::plan::gates::{self, MetricNames};
use crate::plan::load::Load;
use crate::plan::target::{TargetKind, TargetStart};
use crate::plan::trial::{self, Trial, TrialTemplate};
use crate::plan::{FORMAT, Plan, demand, find, point_repeats, stop_rule};
use crate::problem::{Problem, Problems};
use crate::secrets;
use crate::section::{Mode, Section, SectionWalk};
use crate::source::{self, Source};
use crate::tree::{Node, TextSpan, TomlTable};
use crate::trial_setting::TrialSetting;

/// Reads an experiment file with its `--set`s, and resolves it into trials.
///
/// # Errors
/// All problems in the file, in the `--set`s, and in names that the catalog lacks.
pub fn read(source: &Source, sets: &[String], catalog: &Catalog) -> Result<Plan, Problems> {
    let file = Arc::new(source.clone());
    let (base, mut problems) = source::parse(&file);
    let syntax_is_broken = !problems.is_empty();
    let start = TextSpan::new(&file, 0, 0..0);
    if base.entries.is_empty() && !syntax_is_broken {
        problems.push(
            Problem::new(&start, "there is nothing in this file")
                .expected("an experiment is expected here")
                .hint("`plimsoll new URL` or `plimsoll new TARGET` writes one to start from"),
        );
        return Err(Problems::new(problems, false));
    }
    let layers = overlay::layers(base, &named(sets), &mut problems);
    secrets::check_names(&layers.base, &mut problems);
    let plan = resolve(source, &start, &layers, catalog, &mut problems);
    match plan {
        Some(plan) if problems.is_empty() => Ok(plan),
        _ => Err(Problems::new(problems, syntax_is_broken)),
    }
}

/// Returns each `--set` as a separate source.
pub(crate) fn named(sets: &[String]) -> Vec<Arc<Source>> {
    let mut sources = Vec::new();
    for (index, text) in sets.iter().enumerate() {
        let name = match sets.len() {
            1 => "--set".to_owned(),
            count => format!("--set {} of {count}", index + 1),
        };
        sources.push(Arc::new(Source { name, text: text.clone() }));
    }
    sources
}

/// Resolves all trials, requirements and claims. Returns `None` only if there are problems.
fn resolve(
    source: &Source,
    start: &TextSpan,
    layers: &Layers,
    catalog: &Catalog,
    problems: &mut Vec<Problem>,
) -> Option<Plan> {
    shape(&layers.base, start, problems);
    let root = Section { table: &layers.base, keys: EXPERIMENT, place: start };
    let too_many = |trials: usize| {
        let place = layers.base.entry("sweep").map_or(start, |entry| &entry.key_place);
        let problem =
            Problem::new(place, format!("this makes {trials} trials")).expected(format!("at most {TRIALS_MAX}"));
        let problem = problem.hint("trials are the product of all lists of the sweep, the variants and `repeat`");
        (trials > TRIALS_MAX).then_some(problem)
    };
    if let Some(problem) = too_many(layers.count().saturating_mul(root.get("repeat").unwrap_or(1))) {
        problems.push(problem);
        return None;
    }
    let settings = layers.settings(problems);
    let mut parts = Vec::new();
    let mut told_of = ReportedProblems::of(problems);
    for setting in &settings {
        let (read, told) = trial::read(&Section { table: &setting.tree, ..root }, catalog);
        told_of.merge(problems, told);
        parts.push(read);
    }
    let names = names(&root, layers, (&settings, &parts), catalog);
    let repeats = point_repeats::read(&root, &settings, &names, problems);
    problems.extend(too_many(repeats.iter().map(|repeats| *repeats as usize).sum()));
    let requirements = gates::requirements(&root.sections("require"), &names, problems);
    let claims = gates::claims(&root, &names, problems);
    let stop = stop_rule::read(&root, &names, problems);
    gates::check_timeouts(
        &root,
        (&requirements, &claims, stop.as_ref().map(|stop| &stop.metric)),
        (&settings, &parts),
        problems,
    );
    let find = find::read(&root, &parts, &names, problems);
    let demand = demand::read(&root, find.as_ref(), &names, problems);
    let parts = parts.into_iter().collect::<Option<Vec<TrialTemplate>>>()?;
    let file_seed = root.get("seed").unwrap_or(1);
    let find = find.map(|mut find| {
        find.templates = find::templates(&find, &settings, &parts, catalog, file_seed);
        find
    });
    // A search makes its trials while it runs.
    let trials =
        if find.is_some() { Vec::new() } else { number(&settings, &parts, &repeats, stop.is_some(), file_seed) };
    Some(Plan {
        format: FORMAT,
        title: root.text("title").map_or_else(|| stem(&source.name), ToOwned::to_owned),
        asks: root.text("asks").unwrap_or_default().to_owned(),
        variants: layers.variants.iter().map(|variant| variant.name.clone()).collect(),
        swept: layers.sweeps.iter().map(|sweep| sweep.path.clone()).collect(),
        stop,
        trials,
        requirements,
        claims,
        find,
        demand,
    })
}

/// Checks the shape of a file. A variant may complete the sections of a trial, so here they are
/// checked for unknown keys only. All other sections must be complete.
fn shape(base: &TomlTable, start: &TextSpan, problems: &mut Vec<Problem>) {
    for (mode, inside) in [(Mode::File, true), (Mode::Whole, false)] {
        let mut part = base.clone();
        part.entries.retain(|entry| TRIAL_SECTIONS.contains(&entry.key.as_str()) == inside);
        let mut found = Vec::new();
        SectionWalk { root: EXPERIMENT, mode, problems: &mut found }.table("", EXPERIMENT, &part, start);
        // A missing section of a trial is reported for the trial.
        found.retain(|problem| !(problem.absence && problem.place == *start));
        problems.append(&mut found);
    }
}

/// Place and text of each reported problem. A mistake in the file appears in each of its trials,
/// and there may be thousands of both.
struct ReportedProblems(HashSet<((usize, usize, usize), String)>);

impl ReportedProblems {
    fn of(problems: &[Problem]) -> Self {
        Self(problems.iter().map(Self::name).collect())
    }

    fn name(problem: &Problem) -> ((usize, usize, usize), String) {
        (problem.place.order(), problem.what.clone())
    }

    /// Adds the problems that have not been reported yet.
    fn merge(&mut self, problems: &mut Vec<Problem>, told: Vec<Problem>) {
        problems.extend(told.into_iter().filter(|problem| self.0.insert(Self::name(problem))));
    }
}

fn names<'a>(
    root: &Section<'_>,
    layers: &'a Layers,
    (settings, parts): (&'a [TrialSetting], &[Option<TrialTemplate>]),
    catalog: &'a Catalog,
) -> MetricNames<'a> {
    let groups = |setting: &'a TrialSetting| setting.tree.table("load").and_then(|load| load.get("group"));
    let mut lists = Vec::new();
    for setting in settings {
        let of_groups = groups(setting).and_then(Node::list).unwrap_or_default().iter().filter_map(Node::table);
        let populations = setting.tree.table("load").into_iter().chain(of_groups);
        for load in populations {
            lists.extend(["on_start", "cycle", "mix"].into_iter().filter_map(|key| load.get(key)));
            lists.extend(load.tables("mix").filter_map(|(_, entry)| entry.get("steps")));
        }
    }
    let operations = names_in(lists.into_iter(), &["name", "call"]);
    MetricNames {
        catalog,
        variants: layers.variants.iter().map(|variant| variant.name.as_str()).collect(),
        sweeps: &layers.sweeps,
        faults: names_in(settings.iter().filter_map(|setting| setting.tree.get("fault")), &["name"]),
        steps: names_in(settings.iter().filter_map(|setting| setting.tree.get("step")), &["name"]),
        checks: operations.as_ref().and_then(|_| checks(parts)),
        operations,
        groups: names_in(settings.iter().filter_map(groups), &["name"]),
        kept: kept(settings, parts, catalog, |_, _| true),
        gauges: gauges(settings, parts, catalog).unwrap_or_default(),
        conditions: root.section("find").map(|find| find::conditions(&find, parts)),
    }
}

/// Returns the operations with expectations, and the fields that they expect. `None` if a load is
/// not known.
fn checks(parts: &[Option<TrialTemplate>]) -> Option<BTreeMap<String, BTreeSet<String>>> {
    let mut checks: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for parts in parts {
        let steps = parts.as_ref()?.load.iter().flat_map(Load::all_steps);
        for step in steps.filter(|step| !step.expect.is_empty()) {
            checks.entry(step.name.clone()).or_default().extend(step.expect.keys().cloned());
        }
    }
    Some(checks)
}

/// Returns the metrics of a kind that the targets of the trials publish. `None` if a target is not
/// known or comes from `--set`.
fn kept(
    settings: &[TrialSetting],
    parts: &[Option<TrialTemplate>],
    catalog: &Catalog,
    is_of_kind: impl Fn(&Metrics, &str) -> bool,
) -> Option<Vec<String>> {
    let mut targets = settings.iter().filter_map(|setting| setting.tree.table("target")?.get("use"));
    if targets.any(|target| target.place.rank > 0) {
        return None;
    }
    let mut names = BTreeSet::new();
    for parts in parts {
        let TargetKind::Folder { name, .. } = &parts.as_ref()?.target.kind else { continue };
        let metrics = catalog.targets.get(name)?.metrics.iter();
        for metrics in metrics {
            names.extend(metrics.keep.keys().filter(|name| is_of_kind(metrics, name)).cloned());
        }
    }
    Some(names.into_iter().collect())
}

/// Returns the metrics that are gauges in every target that has them.
fn gauges(settings: &[TrialSetting], parts: &[Option<TrialTemplate>], catalog: &Catalog) -> Option<Vec<String>> {
    let others = kept(settings, parts, catalog, |metrics, name| !metrics.is_gauge(name))?;
    let gauges = kept(settings, parts, catalog, Metrics::is_gauge)?;
    Some(gauges.into_iter().filter(|gauge| !others.contains(gauge)).collect())
}

/// Returns the names in lists of tables. The name of a table is its first key in `keys`. `None` if
/// a list comes from `--set`.
fn names_in<'a>(lists: impl Iterator<Item = &'a Node>, keys: &[&str]) -> Option<Vec<String>> {
    let mut names = BTreeSet::new();
    for list in lists {
        if list.place.rank > 0 {
            return None;
        }
        let tables = list.list().unwrap_or_default().iter().filter_map(Node::table);
        names.extend(tables.filter_map(|table| keys.iter().find_map(|key| table.text(key))).map(ToOwned::to_owned));
    }
    Some(names.into_iter().collect())
}

/// Returns the places of the settings in the order of a repeat. On a machine that gets slower, a
/// variant that is always played after another would look worse. So at each point the seed
/// determines the order of the variants, or of the points if there are no variants. Each second
/// repeat reverses the order of the repeat before it, so that a steady change cancels out. With a
/// stop rule the points stay in the file's order. Points that share a start of the target form a
/// block and are played one after the other. The seed also determines the order in a block, which
/// is the same for all variants.
fn order(
    (settings, parts): (&[TrialSetting], &[TrialTemplate]),
    (repeat, repeats): (u32, u32),
    is_stopped: bool,
    file_seed: u64,
) -> Vec<usize> {
    let has_variants = settings.iter().any(|setting| setting.variant.is_some());
    let is_drawn = repeats > 1 && (!is_stopped || has_variants);
    let start = |place: usize| parts.get(place).map(|parts| parts.target.start).unwrap_or_default();
    // Values that distinguish blocks of the same variant.
    let outer = |place: usize| {
        let is_outer = move |path: &String| start(place) == TargetStart::EachTrial || !path.starts_with("load.");
        settings[place].point.iter().filter(move |(path, _)| is_outer(path))
    };
    let first = |is_same: &dyn Fn(usize) -> bool| (0..settings.len()).find(|other| is_same(*other)).unwrap_or_default();
    let draw = |what: String| {
        let drawn = trial::seed_of_fault(file_seed, &what);
        if repeat.is_multiple_of(2) { !drawn } else { drawn }
    };
    let pair = (repeat - 1) / 2;
    let mut order: Vec<usize> = (0..settings.len()).collect();
    order.sort_by_cached_key(|&place| {
        let variant = &settings[place].variant;
        let block = first(&|other| settings[other].variant == *variant && outer(other).eq(outer(place)));
        if !is_drawn {
            return (0, block as u64, place as u64);
        }
        let point = first(&|other| has_variants && outer(other).eq(outer(place)));
        let load = match is_stopped {
            true => place as u64,
            false => draw(format!("load {pair} {:?}", settings[place].point)),
        };
        (point, draw(format!("order {pair} {block}")), load)
    });
    order
}

/// Numbers the trials: first each setting once, then each setting that has a second repeat, and so
/// on; never A A B B.
fn number(
    settings: &[TrialSetting],
    parts: &[TrialTemplate],
    repeats: &[u32],
    is_stopped: bool,
    file_seed: u64,
) -> Vec<Trial> {
    let count: usize = repeats.iter().map(|repeats| *repeats as usize).sum();
    let digits = count.to_string().len().max(3);
    let most = repeats.iter().copied().max().unwrap_or(1);
    let rounds = (1..=most).flat_map(|repeat| {
        let order = order((settings, parts), (repeat, most), is_stopped, file_seed);
        let played =
            order.into_iter().filter(move |place| repeats.get(*place).is_some_and(|repeats| repeat <= *repeats));
        played.filter_map(move |place| Some((repeat, place, (settings.get(place)?, parts.get(place)?))))
    });
    rounds
        .enumerate()
        .map(|(index, (repeat, place, (setting, parts)))| {
            let seed = trial::seed_of_trial(file_seed, repeat, &setting.point);
            Trial {
                id: format!("{:0digits$}", index + 1),
                variant: setting.variant.clone(),
                point: setting.point.clone(),
                place,
                repeat,
                seed,
                target: parts.target.clone(),
                lab: parts.lab.clone(),
                prepare: parts.prepare.clone(),
                load: parts.load.clone(),
                fleet: parts.fleet.clone(),
                faults: trial::seeded_faults(&parts.faults, seed),
                surviving: None,
                steps: trial::seeded_steps(&parts.steps, seed),
            }
        })
        .collect()
}

/// Returns the file's name without folder and extension: `03-crash` for
/// `experiments/03-crash.toml`.
fn stem(name: &str) -> String {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    file.strip_suffix(".toml").unwrap_or(file).to_owned()
}
