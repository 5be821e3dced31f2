//! Comparison of run folders: reads them, groups them into sides, compares the sides, applies the
//! gate, and lists the differences between their plans and environments. If one side is given, its
//! variants are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use experiment::plan::{self, Plan};
use record::compared::{Compared, FORMAT, Gated, GatedComparison, Side, Surrounding};
use record::environment::Environment;
use record::folder::RunFolder;
use record::results::{FigureClass, FigureVerdict, Results, Trial, Trust};
use serde_json::Value;

use crate::Error;
use crate::answer::differing;
use crate::comparisons::{self, CompareOptions, ComparisonSide, InterimLook, PlayedTrial};
use crate::metrics::metric;
use crate::run::{analyze_for, found, plan_of, started_unix_s};
use crate::verdict::figures::class_of_path;

/// A run with its results.
struct ComparedRun {
    plan: Plan,
    results: Results,
    environment: Option<Environment>,
    /// Calendar time at which each trial's load began.
    started_unix_s: Vec<Option<f64>>,
    /// Number of void trials.
    void: u32,
    /// Number of void trials that are used nevertheless.
    accepted: u32,
}

/// A side of the comparison: its name and its runs.
struct Runs {
    name: String,
    runs: Vec<ComparedRun>,
}

impl Runs {
    fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.runs.iter().flat_map(|run| &run.results.trials)
    }

    fn plans(&self) -> Vec<&Plan> {
        self.runs.iter().map(|run| &run.plan).collect()
    }

    /// Returns the known environments of the runs.
    fn environments(&self) -> Vec<&Environment> {
        self.runs.iter().filter_map(|run| run.environment.as_ref()).collect()
    }
}

/// Compares folders: each is a run folder or a folder of run folders. The first is the baseline;
/// for a single folder the variants are compared.
///
/// # Errors
/// If there is nothing to compare, or a record is damaged elsewhere than at its end.
pub fn compare(folders: &[&Path], options: &CompareOptions) -> Result<Compared, Error> {
    let mut sides = folders.iter().map(|folder| read_side(folder, options)).collect::<Result<Vec<Runs>, Error>>()?;
    tell_apart(&mut sides);
    known(&options.metrics, &sides)?;
    let comparisons = match sides.as_slice() {
        [only] => of_variants(only, options)?,
        sides => of_sides(sides, options)?,
    };
    let surroundings = all_surroundings(&sides);
    Ok(Compared {
        format: FORMAT,
        warnings: warnings(&sides, &surroundings, &comparisons, options),
        surroundings,
        sides: sides.iter().map(summed).collect(),
        gate_pct: options.gate_pct,
        gate_is_sure: options.is_sure,
        comparisons,
    })
}

fn read_side(path: &Path, options: &CompareOptions) -> Result<Runs, Error> {
    let folders = found(path, "give a folder that `plimsoll run` made, or a folder of such folders")?;
    let runs = folders.iter().map(|folder| read_run(folder, options)).collect::<Result<Vec<ComparedRun>, Error>>()?;
    let side = Runs { name: path.display().to_string(), runs };
    let Some((first, others)) = side.runs.split_first() else { return Ok(side) };
    for (other, folder) in others.iter().zip(&folders[1..]) {
        if let Some(one) = differing_plans(&[&first.plan], &[&other.plan]).first() {
            let (field, a, b) = (&one.field, &one.a, &one.b);
            let (first, folder) = (folders[0].path().display(), folder.path().display());
            return Err(Error::Incomparable {
                what: format!("{}: its runs belong to different experiments", side.name),
                hint: format!("{field} is {a} in {first} and {b} in {folder}"),
            });
        }
    }
    Ok(side)
}

/// Appends a number to the name of a folder that is given twice, so that side names differ.
fn tell_apart(sides: &mut [Runs]) {
    for index in 1..sides.len() {
        let (before, side) = sides.split_at_mut(index);
        if before.iter().any(|known| known.name == side[0].name) {
            side[0].name = format!("{} ({})", side[0].name, index + 1);
        }
    }
}

fn read_run(folder: &RunFolder, options: &CompareOptions) -> Result<ComparedRun, Error> {
    let mut results = analyze_for(folder, &options.metrics)?;
    let void = results.trials.iter().filter(|trial| !trial.counts()).count() as u32;
    let accepted = if options.accepts_void { accept(&mut results) } else { 0 };
    let started_unix_s =
        results.trials.iter().map(|trial| started_unix_s(folder, &trial.id)).collect::<Result<Vec<_>, _>>()?;
    let (plan, environment) = (plan_of(folder)?, folder.read_environment()?);
    Ok(ComparedRun { plan, environment, results, started_unix_s, void, accepted })
}

/// Makes void trials count, and returns their number. The verdict of the run does not change.
pub(crate) fn accept(results: &mut Results) -> u32 {
    results.trials.iter_mut().map(|trial| u32::from(trial.accept())).sum()
}

fn known(metrics: &[String], sides: &[Runs]) -> Result<(), Error> {
    let trials: Vec<&Trial> = sides.iter().flat_map(Runs::trials).collect();
    match metrics.iter().find(|path| trials.iter().all(|trial| metric(trial, &path.as_str().into()).is_empty())) {
        None => Ok(()),
        Some(path) => Err(Error::Incomparable {
            what: format!("no trial has a figure `{path}`"),
            hint: "a metric is a path inside a trial of analysis.json, such as latency_us.p99 or failed_pct".to_owned(),
        }),
    }
}

fn played(side: &Runs) -> Vec<PlayedTrial<'_>> {
    let mut played = Vec::new();
    for (run, read) in side.runs.iter().enumerate() {
        let trials = read.results.trials.iter().zip(&read.started_unix_s);
        played.extend(trials.map(|(trial, &started_unix_s)| PlayedTrial { trial, run, started_unix_s }));
    }
    played
}

fn of_variants(side: &Runs, options: &CompareOptions) -> Result<Vec<GatedComparison>, Error> {
    let Some(first) = side.runs.first() else { return Ok(Vec::new()) };
    let found = comparisons::within_runs(&first.plan, &played(side), options);
    if found.is_empty() {
        return Err(Error::Incomparable {
            what: format!("{} has nothing to compare: no two variants have usable trials at the same point", side.name),
            hint: "give two folders, the first of them the baseline".to_owned(),
        });
    }
    Ok(found)
}

fn of_sides(sides: &[Runs], options: &CompareOptions) -> Result<Vec<GatedComparison>, Error> {
    let as_sides = sides.iter().map(|side| ComparisonSide { name: side.name.clone(), trials: played(side) });
    let found = comparisons::between(&as_sides.collect::<Vec<_>>(), options);
    let mut lacking = sides.iter().skip(1).filter(|side| !found.iter().any(|found| found.comparison.b == side.name));
    // A side with only void trials gets a warning instead: it is no error of the user.
    if let Some(side) = lacking.find(|side| !is_void_throughout(&sides[0]) && !is_void_throughout(side)) {
        return Err(Error::Incomparable {
            what: format!("{} and {} have no common point with usable trials", sides[0].name, side.name),
            hint: "compare runs of one experiment, or of experiments with the same variants and swept values"
                .to_owned(),
        });
    }
    Ok(found)
}

/// Whether the side has trials, and none counts.
fn is_void_throughout(side: &Runs) -> bool {
    let side = summed(side);
    side.trials > 0 && side.void - side.accepted == side.trials
}

fn all_surroundings(sides: &[Runs]) -> Vec<Surrounding> {
    let Some((a, others)) = sides.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    for b in others {
        let mut of_side = differing_environments(&a.environments(), &b.environments());
        of_side.extend(differing_plans(&a.plans(), &b.plans()));
        of_side.iter_mut().for_each(|one| one.side.clone_from(&b.name));
        found.append(&mut of_side);
    }
    found
}

fn summed(side: &Runs) -> Side {
    Side {
        name: side.name.clone(),
        title: side.runs.first().map(|run| run.results.title.clone()).unwrap_or_default(),
        runs: side.runs.len() as u32,
        trials: side.trials().count() as u32,
        void: side.runs.iter().map(|run| run.void).sum(),
        accepted: side.runs.iter().map(|run| run.accepted).sum(),
        verdict: side.runs.iter().map(|run| run.results.verdict.is).max().unwrap_or_default(),
    }
}

/// Returns the warnings that a reader must know before the comparisons.
fn warnings(
    sides: &[Runs],
    surroundings: &[Surrounding],
    comparisons: &[GatedComparison],
    options: &CompareOptions,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for b in sides.iter().skip(1) {
        let mut differing = surroundings.iter().filter(|one| one.of == PLAN && one.side == b.name);
        if differing.any(|one| ["load.", "target.", "faults.", "steps."].iter().any(|of| one.field.starts_with(of))) {
            let a = &sides[0].name;
            warnings.push(format!("{a} and {} are different experiments: target, load or faults differ", b.name));
        }
    }
    for (runs, side) in sides.iter().map(|runs| (runs, summed(runs))).filter(|(_, side)| side.void > 0) {
        let (name, void, all) = (&side.name, side.void, side.trials);
        warnings.push(if side.accepted == 0 {
            format!("{name}: {void} of {all} trials are void and left out")
        } else {
            format!(
                "{name}: {void} of {all} trials are void ({}) but used (--accept): the disturbance may cause the \
                 differences",
                rules_of(runs)
            )
        });
    }
    if let Some(side) = sides.iter().find(|side| sides.len() > 1 && is_void_throughout(side)) {
        warnings.push(format!(
            "{}: all trials are void ({}), so nothing is compared with it; `plimsoll show` prints the remedies, and \
             --accept compares void trials too",
            side.name,
            rules_of(side)
        ));
    }
    if sides.len() > 1 && comparisons.iter().any(|judged| judged.comparison.p.is_none() && is_measured(judged)) {
        let why = "one run per side cannot be tested: repeats within a run do not show how much the machine drifts \
                   between runs";
        let remedy = match options.in_turn {
            true => "raise --turns; existing runs count",
            false => "play both in turn with `plimsoll compare --play BASE.toml CANDIDATE.toml`",
        };
        warnings.push(format!("{why}; {remedy}"));
    } else if sides.len() > 1 && comparisons.iter().any(|judged| judged.comparison.pairs == 0) {
        warnings.push(
            "the runs were not played in turn, so drift of the machine between them changes the differences but not \
             their intervals"
                .to_owned(),
        );
    }
    warnings.extend(sides.iter().flat_map(|side| unusable(side, comparisons)));
    warnings.extend(lacking(comparisons));
    warnings.extend(options.gate_pct.and_then(|gate| inconclusive(comparisons, gate, options.in_turn)));
    warnings.extend(unadjusted(comparisons));
    warnings.extend(options.gate_pct.into_iter().flat_map(|gate| failing_raw(comparisons, gate)));
    warnings.extend(options.look.map(of_look));
    warnings
}

/// Returns warnings about classes of compared figures that are suspect or void in trials that
/// count.
fn unusable(side: &Runs, comparisons: &[GatedComparison]) -> Vec<String> {
    let compared: BTreeSet<FigureClass> =
        comparisons.iter().map(|judged| class_of_path(&judged.comparison.metric.as_str().into())).collect();
    let trials: Vec<&Trial> = side.trials().filter(|trial| trial.counts()).collect();
    let mut warnings = Vec::new();
    for class in compared {
        let verdicts: Vec<&FigureVerdict> =
            trials.iter().flat_map(|trial| &trial.verdict.figures).filter(|one| one.figure == class).collect();
        let Some(reason) = verdicts.iter().find_map(|one| one.reasons.first()) else { continue };
        let [suspect, void] =
            [Trust::Suspect, Trust::Void].map(|is| verdicts.iter().filter(|one| one.is == is).count());
        let void = if void > 0 { format!(" and void in {void} (left out)") } else { String::new() };
        let (name, class, all) = (&side.name, class.name(), trials.len());
        warnings.push(format!("{name}: suspect {class} in {suspect} of {all} trials{void}: {reason}"));
    }
    warnings
}

/// Returns warnings about metrics that some trials do not have.
fn lacking(comparisons: &[GatedComparison]) -> Vec<String> {
    let lacking = comparisons.iter().map(|judged| &judged.comparison).filter(|found| found.without != [0, 0]);
    let metrics: BTreeSet<&String> = lacking.map(|found| &found.metric).collect();
    let what = "trials without this metric are left out of its comparison";
    metrics.into_iter().map(|metric| format!("{metric}: {what}")).collect()
}

/// Returns warnings about figures that fail the gate only without adjustment.
fn failing_raw(comparisons: &[GatedComparison], gate_pct: f64) -> Vec<String> {
    let mut warnings = Vec::new();
    for judged in comparisons.iter().filter(|judged| judged.gate == Some(Gated::Fails)) {
        let found = &judged.comparison;
        let is_shown = found.significant && judged.worse_pct.is_none_or(|worse| worse >= gate_pct);
        if let Some(raw) = differing::raw(found).filter(|_| !is_shown) {
            warnings.push(format!("{} fails the gate {raw}", differing::figure(&found.metric)));
        }
    }
    warnings
}

/// Returns a warning that p-values and intervals are corrected for repeated looks.
fn of_look(look: InterimLook) -> String {
    if look.level == 0.0 {
        return "earlier looks at these runs have used up the error probability of 5 %: no difference can be shown any \
                more; start again with another --out"
            .to_owned();
    }
    format!(
        "this is look {} at runs that are repeated until the gate decides: p and intervals are corrected for this \
         (error probability of this look: {} of the 5 % for all looks)",
        look.number,
        text::numbers::percent(100.0 * look.level)
    )
}

/// Returns warnings about covariates for which comparisons are not adjusted.
fn unadjusted(comparisons: &[GatedComparison]) -> Vec<String> {
    text::distinct(comparisons.iter().flat_map(|judged| differing::unadjusted(&judged.comparison)))
}

/// Returns the rules that made trials of a side void.
fn rules_of(side: &Runs) -> String {
    let reasons = side.trials().flat_map(|trial| trial.verdict.rules.iter().zip(&trial.verdict.severities));
    let reasons = reasons.filter(|(_, severity)| **severity == Trust::Void).map(|(rule, _)| rule);
    let rules: Vec<String> = text::distinct(reasons.cloned()).iter().map(|rule| text::code(rule)).collect();
    text::listed(&rules, "and")
}

/// Whether both sides have the figure.
fn is_measured(judged: &GatedComparison) -> bool {
    judged.comparison.a_value.is_some() && judged.comparison.b_value.is_some()
}

/// Largest number of inconclusive comparisons that the message lists.
const TOLD: usize = 6;

/// Returns the comparisons in which the gate is inconclusive, with a remedy for each.
fn inconclusive(comparisons: &[GatedComparison], gate_pct: f64, in_turn: bool) -> Option<String> {
    let unsure: Vec<&GatedComparison> =
        comparisons.iter().filter(|judged| judged.gate == Some(Gated::CannotTell)).collect();
    let cases = unsure.iter().take(TOLD).map(|judged| {
        let found = &judged.comparison;
        let place = differing::at_place(found);
        let help = match (judged.repeats_needed, found.p) {
            (Some(repeats), _) => {
                let what = if found.over == "run" { "runs" } else { "repeats" };
                format!("about {repeats} {what} of each side would decide")
            }
            (None, None) if found.a_value.is_some() && found.b_value.is_some() => match found.over.as_str() {
                "run" if in_turn => "raise --turns".to_owned(),
                "run" => "play the two in turn".to_owned(),
                _ => "set repeat = 3 or more".to_owned(),
            },
            (None, None) => "not measured on both sides".to_owned(),
            (None, Some(_)) => "no number of repeats up to 1,000 would decide".to_owned(),
        };
        format!("{}{place} ({help})", differing::figure(&found.metric))
    });
    let mut cases: Vec<String> = cases.collect();
    if unsure.len() > TOLD {
        cases.push(format!("{} more", unsure.len() - TOLD));
    }
    (!unsure.is_empty()).then(|| {
        let (cases, all) = (text::listed(&cases, "and"), comparisons.len());
        format!("the gate of {gate_pct} % is inconclusive in {} of {all} comparisons: {cases}", unsure.len())
    })
}

/// Value of a field that is missing or could not be determined.
const UNKNOWN: &str = "unknown";

/// Environment fields that differ from run to run on any machine: the last part of their paths.
const EVER_CHANGING: [&str; 9] =
    ["free_bytes", "available_bytes", "uptime_s", "load1", "load5", "load15", "boot_id", "temperature_c", "sync_us"];

/// Plan fields that distinguish trials of one experiment by design, or depend on such fields.
const OF_THE_TRIAL: [&str; 5] = ["id", "repeat", "variant", "point", "seed"];

/// Source of a difference: the plan.
const PLAN: &str = "plan";

type Fields = BTreeMap<String, BTreeSet<String>>;

/// Whether this field of an environment differs from run to run on any machine.
pub(crate) fn is_ever_changing(path: &str) -> bool {
    EVER_CHANGING.contains(&path.rsplit('.').next().unwrap_or(path))
}

/// Returns the fields of the machine that differ between two sides, each of one or several runs.
fn differing_environments(a: &[&Environment], b: &[&Environment]) -> Vec<Surrounding> {
    let [a, b] = [a, b].map(|runs| {
        let mut fields = Fields::new();
        for run in runs {
            collect(&serde_json::to_value(run).unwrap_or_default(), "", &mut fields);
        }
        fields.retain(|path, _| !is_ever_changing(path));
        fields
    });
    differing("environment", &a, &b)
}

/// Returns the fields of the plans that differ, for trials of the same variant and point; each path
/// once.
fn differing_plans(a: &[&Plan], b: &[&Plan]) -> Vec<Surrounding> {
    let (of_a, of_b) = (by_point(a), by_point(b));
    let mut found: Vec<Surrounding> = Vec::new();
    for (point, fields) in &of_a {
        let Some(others) = of_b.get(point) else { continue };
        for one in differing(PLAN, fields, others) {
            if !found.iter().any(|known| known.field == one.field) {
                found.push(one);
            }
        }
    }
    found
}

fn by_point(plans: &[&Plan]) -> BTreeMap<String, Fields> {
    let mut points: BTreeMap<String, Fields> = BTreeMap::new();
    for trial in plans.iter().flat_map(|plan| &plan.trials) {
        collect(&stripped(trial), "", points.entry(point(trial)).or_default());
    }
    points
}

fn point(trial: &plan::Trial) -> String {
    serde_json::to_string(&(&trial.variant, &trial.point)).unwrap_or_default()
}

fn stripped(trial: &plan::Trial) -> Value {
    let mut value = serde_json::to_value(trial).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        OF_THE_TRIAL.iter().for_each(|name| {
            fields.remove(*name);
        });
    }
    // A fault's seed is derived from the trial's seed.
    for fault in value.get_mut("faults").and_then(Value::as_array_mut).into_iter().flatten() {
        fault.as_object_mut().and_then(|fields| fields.remove("seed"));
    }
    value
}

/// Collects every path with its value. Elements of an array of tables are keyed by name, or by
/// index if they have no name.
fn collect(value: &Value, path: &str, fields: &mut Fields) {
    match value {
        Value::Object(table) => table.iter().for_each(|(key, value)| collect(value, &joined(path, key), fields)),
        Value::Array(elements) if elements.iter().any(Value::is_object) => {
            for (index, element) in elements.iter().enumerate() {
                let name = element.get("name").and_then(Value::as_str).map_or_else(|| index.to_string(), str::to_owned);
                collect(element, &joined(path, &name), fields);
            }
        }
        Value::Null => {}
        other => {
            fields.entry(path.to_owned()).or_default().insert(text::of_json(other));
        }
    }
}

fn joined(path: &str, step: &str) -> String {
    if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") }
}

fn differing(of: &str, a: &Fields, b: &Fields) -> Vec<Surrounding> {
    let paths: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differing = paths.into_iter().filter(|path| a.get(*path) != b.get(*path));
    let surroundings = differing.map(|path| {
        let [a, b] = [a, b].map(|fields| {
            let texts = fields.get(path).map(|values| values.iter().cloned().collect::<Vec<_>>().join(", "));
            texts.unwrap_or_else(|| UNKNOWN.to_owned())
        });
        Surrounding { side: String::new(), of: of.to_owned(), field: path.clone(), a, b }
    });
    surroundings.collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use experiment::plan::{TargetKind, Trial};
    use fixture::TestDir;
    use record::environment::{Cpu, RunFolderDisk};
    use serde_json::json;

    use super::*;
    use crate::synthetic;

    /// Copies the golden run into the folder.
    fn golden(folder: &TestDir, name: &str) -> PathBuf {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/golden/2026-11-20T10-31-05-a-name-server-crashes");
        let to = folder.join(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        assert!(Command::new("cp").arg("-r").arg(golden).arg(&to).status().unwrap().success());
        to
    }

    fn edit(path: &Path, from: &str, to: &str) {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(from), "{from}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    }

    fn refused(folders: &[&Path], options: &CompareOptions) -> String {
        compare(folders, options).expect_err("that cannot be compared").to_string()
    }

    #[test]
    fn a_run_and_its_copy_do_not_differ() {
        let folder = TestDir::new();
        let (a, b) = (golden(&folder, "a"), golden(&folder, "b"));
        let found = compare(&[&a, &b], &CompareOptions { gate_pct: Some(5.0), ..CompareOptions::default() }).unwrap();
        assert_eq!(found.surroundings, Vec::new());
        assert_eq!(found.sides[0].name, a.display().to_string());
        assert_eq!((found.sides[0].runs, found.sides[0].trials), (1, 2));
        assert!(found.comparisons.len() > 3, "{found:#?}");
        assert!(found.comparisons.iter().all(|judged| !judged.comparison.significant), "{found:#?}");
        assert!(found.gated(Gated::Fails).next().is_none(), "{found:#?}");
        // One run of each shows nothing, and the gate is inconclusive.
        assert!(found.gated(Gated::CannotTell).count() > 3, "{found:#?}");
        let warning = found.warnings.iter().find(|text| text.contains("is inconclusive in")).unwrap();
        assert!(warning.contains("the gate of 5 % ") && warning.contains("play the two in turn"), "{warning}");
        assert!(found.warnings.iter().any(|warning| warning.contains("compare --play")), "{:?}", found.warnings);
        // Runs that already alternate need other advice.
        let in_turn = CompareOptions { gate_pct: Some(5.0), in_turn: true, ..CompareOptions::default() };
        let warnings = compare(&[&a, &b], &in_turn).unwrap().warnings;
        assert!(!warnings.iter().any(|one| one.contains("--play") || one.contains("the two in turn")), "{warnings:?}");
        assert_eq!(warnings.iter().filter(|one| one.contains("raise --turns")).count(), 2, "{warnings:?}");
    }

    #[test]
    fn any_percentile_can_be_compared() {
        let folder = TestDir::new();
        let (a, b) = (golden(&folder, "a"), golden(&folder, "b"));
        let metrics = ["latency_us.p95", "latency_us.p97.5"].map(str::to_owned).to_vec();
        let found = compare(&[&a, &b], &CompareOptions { metrics, ..CompareOptions::default() }).unwrap();
        let told: Vec<(&str, bool)> = found
            .comparisons
            .iter()
            .map(|judged| (judged.comparison.metric.as_str(), judged.comparison.a_value.is_some()))
            .collect();
        assert_eq!(told, [("latency_us.p95", true), ("latency_us.p97.5", true)]);
    }

    #[test]
    fn differing_surroundings_are_listed() {
        let folder = TestDir::new();
        let (a, b) = (golden(&folder, "a"), golden(&folder, "b"));
        edit(&b.join("plan.json"), "\"agents\": 200", "\"agents\": 100");
        let kernel = RunFolder::at(&b).read_environment().unwrap().unwrap().kernel.unwrap();
        edit(&b.join("environment.json"), &kernel, "7.0.0");
        let found = compare(&[&a, &b], &CompareOptions::default()).unwrap();
        let fields: Vec<(&str, &str)> =
            found.surroundings.iter().map(|one| (one.of.as_str(), one.field.as_str())).collect();
        assert_eq!(fields, [("environment", "kernel"), ("plan", "load.agents")]);
        assert!(found.warnings.iter().any(|warning| warning.contains("different experiments")), "{:?}", found.warnings);
    }

    #[test]
    fn a_folder_of_runs_is_one_side() {
        let folder = TestDir::new();
        let (base, candidate) = (folder.join("base"), folder.join("candidate"));
        for name in ["1", "2"] {
            golden(&folder, &format!("base/{name}"));
            golden(&folder, &format!("candidate/{name}"));
        }
        let found = compare(&[&base, &candidate], &CompareOptions::default()).unwrap();
        assert_eq!((found.sides[0].runs, found.sides[1].trials), (2, 4));
        edit(&base.join("2/plan.json"), "\"agents\": 200", "\"agents\": 100");
        let why = refused(&[&base, &candidate], &CompareOptions::default());
        assert!(why.contains("different experiments") && why.contains("load.agents is 200"), "{why}");
    }

    #[test]
    fn impossible_comparisons_are_refused_with_a_reason() {
        let folder = TestDir::new();
        let (a, empty) = (golden(&folder, "a"), folder.join("empty"));
        std::fs::create_dir(&empty).unwrap();
        for (folders, metric, word) in [
            (vec![empty.as_path(), a.as_path()], "failed_pct", "not a run folder"),
            (vec![Path::new("nowhere/at/all"), a.as_path()], "failed_pct", "nowhere/at/all"),
            (vec![a.as_path()], "failed_pct", "two folders"),
            (vec![a.as_path(), a.as_path()], "latency_us.q98", "latency_us.q98"),
        ] {
            let why =
                refused(&folders, &CompareOptions { metrics: vec![metric.to_owned()], ..CompareOptions::default() });
            assert!(why.contains(word), "{why}");
        }
        let other = golden(&folder, "other");
        edit(&other.join("plan.json"), "\"point\": {}", "\"point\": { \"load.agents\": 200 }");
        let why = refused(&[&a, &other], &CompareOptions::default());
        assert!(why.contains("no common point"), "{why}");
    }

    fn environment(kernel: &str, turbo: Option<bool>, free_bytes: u64) -> Environment {
        Environment {
            kernel: Some(kernel.to_owned()),
            cpu: Cpu { turbo, ..Cpu::default() },
            disk: RunFolderDisk { free_bytes: Some(free_bytes), ..RunFolderDisk::default() },
            ..Environment::default()
        }
    }

    fn rows(found: &[Surrounding]) -> Vec<(&str, &str, &str)> {
        found.iter().map(|one| (one.field.as_str(), one.a.as_str(), one.b.as_str())).collect()
    }

    #[test]
    fn equal_machines_have_no_differences() {
        let [a, b] = [1, 2].map(|free_bytes| environment("6.1.0", Some(true), free_bytes));
        assert_eq!(differing_environments(&[&a], &[&b]), Vec::new());
    }

    #[test]
    fn each_differing_field_is_named() {
        let a = ["6.1.0", "6.2.0"].map(|kernel| environment(kernel, Some(true), 1));
        let a = a.each_ref();
        let found = differing_environments(&a, &[&environment("6.1.0", None, 1)]);
        assert_eq!(rows(&found), [("cpu.turbo", "true", "unknown"), ("kernel", "6.1.0, 6.2.0", "6.1.0")]);
        assert!(differing_environments(&a, &[]).iter().any(|one| one.field == "kernel" && one.b == "unknown"));
    }

    fn plan(agents: u32, state: &str, seed: u64) -> Plan {
        let load = synthetic::load(agents, 10.0);
        let with = BTreeMap::from([("state".to_owned(), state.to_owned())]);
        let mut fault = synthetic::fault("oops", 2.0);
        fault.seed = seed;
        let target = plan::Target {
            kind: TargetKind::Folder { name: "vsns".into(), with },
            protocol: "vsns".into(),
            ..Default::default()
        };
        let trials = [1, 2].map(|repeat| Trial {
            id: format!("{repeat:03}"),
            repeat,
            seed: seed + u64::from(repeat),
            target: target.clone(),
            faults: vec![fault.clone()],
            ..synthetic::trial(load.clone())
        });
        Plan { trials: trials.to_vec(), ..synthetic::plan() }
    }

    #[test]
    fn differing_plan_fields_are_named() {
        let one = plan(8, "ets", 1);
        assert_eq!(differing_plans(&[&one], &[&plan(8, "ets", 7)]), Vec::new());
        let found = differing_plans(&[&one], &[&plan(16, "mnesia", 1)]);
        assert_eq!(rows(&found), [("load.agents", "8", "16"), ("target.with.state", "ets", "mnesia")]);
    }

    #[test]
    fn only_trials_of_the_same_point_are_compared() {
        let [few, many] = [8, 16].map(|agents| {
            let mut plan = plan(agents, "ets", 1);
            for trial in &mut plan.trials {
                trial.point.insert("load.agents".into(), json!(agents));
            }
            plan
        });
        assert_eq!(differing_plans(&[&few], &[&many]), Vec::new());
        assert_eq!(differing_plans(&[&few, &many], &[&many]), Vec::new());
    }
}
