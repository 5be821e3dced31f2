//! Parts of the self-check. Each part plants a truth by an experiment on the built-in server, and
//! compares the results with this truth.

use analysis::truths::{self, PlantedOutage};
use fastrand::Rng;
use record::events::start_unix_s;
use record::folder::RunFolder;
use record::results::{Results, Trial};
use record::selfcheck::HeldTruth;
use serde_json::Value;

use super::planned_load_s;
use crate::exit::Failure;

/// A part of the self-check.
pub struct CheckPart {
    pub name: &'static str,
    /// Whether only the long form plays it.
    pub is_long: bool,
    /// Draws the truth to plant. The factor scales the lengths of the loads.
    pub plan: fn(&mut Rng, f64) -> PlannedPart,
}

/// Function that compares results with the planted truth. If the flag is set, it uses a wrong
/// truth, which the check must notice.
type Holder = Box<dyn Fn(&RunFolder, &Results, bool) -> Result<Vec<HeldTruth>, Failure>>;

/// A part of the self-check with the planted truth.
pub struct PlannedPart {
    /// Text of the experiment file.
    pub experiment: String,
    /// Compares the results with the planted truth.
    pub hold: Holder,
}

/// Parts in the order in which they are played.
pub const PARTS: &[CheckPart] = &[
    CheckPart { name: "full-queue", is_long: false, plan: full_queue },
    CheckPart { name: "random-queue", is_long: false, plan: random_queue },
    CheckPart { name: "short-stalls", is_long: false, plan: |random, scale| stalls(random, scale, SHORT_STALLS) },
    CheckPart { name: "long-stalls", is_long: false, plan: |random, scale| stalls(random, scale, LONG_STALLS) },
    CheckPart { name: "errors", is_long: false, plan: errors },
    CheckPart { name: "comparisons", is_long: false, plan: comparisons },
    CheckPart { name: "open-loops", is_long: true, plan: open_loops },
    CheckPart { name: "searches", is_long: true, plan: searches },
];

/// Factor that makes a planted truth wrong, to test that the check notices it.
const MISINFORMED: f64 = 1.2;

/// Returns the factor for planted truths: 1, or [`MISINFORMED`] to make them wrong.
fn told(misinformed: bool) -> f64 {
    if misinformed { MISINFORMED } else { 1.0 }
}

/// Returns an experiment on the built-in server, with these tables `[target]` and `[load]`.
fn experiment(title: &str, seed: u64, target: &str, load: &str) -> String {
    format!(
        "title = \"{title}\"\nasks  = \"Does the measurement match the known truth?\"\nseed  = {seed}\n{target}\n[load]\n\
         {load}\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n"
    )
}

fn echo(with: &str) -> String {
    format!("[target]\nuse  = \"echo\"\nwith = {{ {with} }}")
}

fn seed(random: &mut Rng) -> u64 {
    random.u64(1..1_000_000)
}

fn ms(s: f64) -> String {
    format!("{}ms", (s * 1e3).round())
}

fn first(results: &Results) -> Trial {
    results.trials.first().cloned().unwrap_or_default()
}

fn full_queue(random: &mut Rng, scale: f64) -> PlannedPart {
    let (agents, service_ms) = (random.u32(6..12), random.u32(4..8));
    let service_s = f64::from(service_ms) / 1e3;
    let target = echo(&format!("delay = \"{service_ms}ms\", workers = 1"));
    let load = format!("agents = {agents}\nthreads = 1\ntime = \"{}\"\nwarmup = \"{}\"", ms(9.0 * scale), ms(scale));
    PlannedPart {
        experiment: experiment("A full queue", seed(random), &target, &load),
        hold: Box::new(move |_, results, misinformed| {
            Ok(truths::full_queue(&first(results), agents, service_s * told(misinformed)))
        }),
    }
}

fn random_queue(random: &mut Rng, scale: f64) -> PlannedPart {
    let service_s = 0.004;
    let rate = f64::from(random.u32(125..185));
    let target = echo("delay = \"4ms\", workers = 1");
    let load = format!(
        "agents = 200\nthreads = 1\nrate = {{ poisson = {rate} }}\ntime = \"{}\"\nwarmup = \"{}\"",
        ms(22.0 * scale),
        ms(scale)
    );
    PlannedPart {
        experiment: experiment("A queue at random", seed(random), &target, &load),
        hold: Box::new(move |_, results, misinformed| {
            Ok(truths::random_queue(&first(results), rate / told(misinformed), service_s))
        }),
    }
}

/// Stalls of a part: name, range of the stalls' lengths, their distance, and length of the load.
/// Times are in seconds.
struct StallLengths {
    name: &'static str,
    between_s: [f64; 2],
    every_s: f64,
    load_s: f64,
}

/// Two stalls in a load. The first begins `every_s` after the server was found ready.
const SHORT_STALLS: StallLengths =
    StallLengths { name: "short stalls", between_s: [0.26, 0.4], every_s: 5.0, load_s: 12.0 };
/// One stall in a load.
const LONG_STALLS: StallLengths =
    StallLengths { name: "long stalls", between_s: [0.8, 1.6], every_s: 7.0, load_s: 12.0 };

/// Rate of the loads with a planted outage, operations per second.
const RATE_PER_S: f64 = 400.0;

fn drawn(random: &mut Rng, [from_s, to_s]: [f64; 2]) -> f64 {
    from_s + (to_s - from_s) * random.f64()
}

fn at_a_rate(load_s: f64, scale: f64) -> String {
    format!(
        "agents = 800\nthreads = 1\nrate = {RATE_PER_S}\ntime = \"{}\"\nwarmup = \"{}\"",
        ms(load_s * scale),
        ms(scale)
    )
}

fn stalls(random: &mut Rng, scale: f64, lengths: StallLengths) -> PlannedPart {
    let stall_s = drawn(random, lengths.between_s) * scale;
    let target = echo(&format!("stall = \"{}\", stall_every = \"{}\"", ms(stall_s), ms(lengths.every_s * scale)));
    let title = text::capital(lengths.name);
    PlannedPart {
        experiment: experiment(&title, seed(random), &target, &at_a_rate(lengths.load_s, scale)),
        hold: Box::new(move |folder, results, misinformed| {
            let noted = noted(folder, misinformed)?;
            Ok(truths::outages(lengths.name, &first(results), &noted, 1.0 / RATE_PER_S))
        }),
    }
}

fn errors(random: &mut Rng, scale: f64) -> PlannedPart {
    let errors_s = drawn(random, [0.8, 2.0]) * scale;
    let target = echo(&format!("errors_for = \"{}\", errors_every = \"{}\"", ms(errors_s), ms(7.0 * scale)));
    PlannedPart {
        experiment: experiment("Errors for a while", seed(random), &target, &at_a_rate(12.0, scale)),
        hold: Box::new(|folder, results, misinformed| {
            let noted = noted(folder, misinformed)?;
            Ok(truths::outages("errors for a while", &first(results), &noted, 1.0 / RATE_PER_S))
        }),
    }
}

/// Name of the built-in server's log in a trial's folder of logs.
const LOG: &str = "n1.server.log";

/// Reads the outages that the server noted during the load, on the load's clock.
fn noted(folder: &RunFolder, misinformed: bool) -> Result<Vec<PlantedOutage>, Failure> {
    let trial = folder.trial("001");
    let events = record::lines::read_events(&trial.events()).map_err(|error| Failure::Analysis(error.into()))?;
    let zero_s = start_unix_s(&events.items);
    let path = trial.logs().join(LOG);
    let log = std::fs::read_to_string(&path).map_err(Failure::file(format!("cannot read {}", path.display())))?;
    let (zero_s, until_s) = (zero_s.unwrap_or(0.0), planned_load_s(folder)?);
    let told = told(misinformed);
    let noted = log.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let [from_s, until_s] =
            ["first_unix_s", "last_unix_s"].map(|key| Some((line.get(key)?.as_f64()? - zero_s) * told));
        let errors = line.get("errors").and_then(Value::as_u64).map(|errors| (errors as f64 * told).round() as u64);
        Some(PlantedOutage { from_s: from_s?, until_s: until_s?, errors })
    });
    Ok(noted.filter(|one| one.until_s > 0.0 && one.from_s < until_s * told).collect())
}

/// Variant that the others are compared with.
const ONE: &str = "one";
/// Variant that does the same work as `ONE`.
pub const SAME: &str = "same";
const MORE: &str = "more";
/// Additional work of the variant `MORE`, percent of the work of `ONE`.
const MORE_PCT: f64 = 10.0;
/// CPU work per request, in rounds of arithmetic: some tenths of a millisecond.
const WORK: f64 = 300_000.0;

fn comparisons(random: &mut Rng, scale: f64) -> PlannedPart {
    let variants = [(ONE, WORK), (SAME, WORK), (MORE, WORK * (1.0 + MORE_PCT / 100.0))];
    let variants = variants
        .map(|(name, work)| format!("[[variant]]\nname = \"{name}\"\ntarget = {{ with = {{ work = {work:.0} }} }}\n"));
    let target = format!("repeat = 5\n[target]\nuse = \"echo\"\n{}", variants.concat());
    let load = format!("agents = 4\nthreads = 1\ntime = \"{}\"\nwarmup = \"{}\"", ms(6.0 * scale), ms(scale));
    PlannedPart {
        experiment: experiment("The same, and a tenth more work", seed(random), &target, &load),
        hold: Box::new(|_, results, misinformed| {
            let (same, more) = if misinformed { (MORE, SAME) } else { (SAME, MORE) };
            Ok(truths::differences(results, same, more, MORE_PCT))
        }),
    }
}

fn open_loops(random: &mut Rng, scale: f64) -> PlannedPart {
    let load = at_a_rate(15.0, scale).replace("agents = 800", "agents = 64");
    let target = format!("repeat = 2\n{}", echo("delay = \"1ms\""));
    PlannedPart {
        experiment: experiment("Undisturbed", seed(random), &target, &load),
        hold: Box::new(|_, results, _| Ok(results.trials.iter().flat_map(truths::undisturbed).collect())),
    }
}

fn searches(random: &mut Rng, scale: f64) -> PlannedPart {
    let (workers, delay_us) = (random.u32(2..7), random.u32(3..7) * 500);
    let capacity = f64::from(workers) / (f64::from(delay_us) * 1e-6);
    let begin = capacity * drawn(random, [0.3, 0.9]);
    let target = echo(&format!("delay = \"{delay_us}us\", workers = {workers}"));
    let load = format!(
        "agents = 64\nrate = {begin:.0}\nthreads = 1\ntime = \"{}\"\nwarmup = \"{}\"\ndrain = \"500ms\"",
        ms(1.5 * scale),
        ms(0.3 * scale)
    );
    let limit_us = 3 * delay_us + 5_000;
    let find = format!(
        "[find]\nhighest = \"load.rate\"\nstarts = \"even\"\nprecision_pct = 5\n\
         while = [{{ metric = \"latency_us.p90\", below = {limit_us} }}]\n"
    );
    PlannedPart {
        experiment: experiment("A known capacity", seed(random), &target, &load) + &find,
        hold: Box::new(move |_, results, misinformed| Ok(truths::capacity(results, capacity * told(misinformed)))),
    }
}

#[cfg(test)]
mod tests {
    use experiment::source::Source;

    use super::*;
    use crate::catalog;
    use crate::commands::experiments;

    #[test]
    fn every_part_is_a_valid_experiment_for_any_seed() {
        let known = catalog::known(None).unwrap();
        for (part, seed) in PARTS.iter().flat_map(|part| (0..5).map(move |seed| (part, seed))) {
            for scale in [1.0, 0.2] {
                let planned = (part.plan)(&mut Rng::with_seed(seed), scale);
                let source = Source { name: part.name.to_owned(), text: planned.experiment };
                let plan = experiments::plan(&source, &[], &known);
                assert!(plan.is_ok(), "{}: {}", part.name, plan.unwrap_err());
            }
        }
    }

    #[test]
    fn the_seed_determines_every_part() {
        for part in PARTS {
            let drawn = |seed: u64| (part.plan)(&mut Rng::with_seed(seed), 1.0).experiment;
            assert_eq!(drawn(7), drawn(7), "{}", part.name);
            assert_ne!(drawn(7), drawn(8), "{}", part.name);
        }
    }

    #[test]
    fn the_short_form_takes_about_three_minutes() {
        let known = catalog::known(None).unwrap();
        let load_s = |part: &CheckPart| {
            let planned = (part.plan)(&mut Rng::with_seed(1), 1.0);
            let source = Source { name: part.name.to_owned(), text: planned.experiment };
            let plan = experiments::plan(&source, &[], &known).unwrap();
            plan.trials.iter().filter_map(|trial| trial.load.as_ref()).map(|load| load.time_s).sum::<f64>()
        };
        let all_s: f64 = PARTS.iter().filter(|part| !part.is_long).map(load_s).sum();
        assert!((120.0..170.0).contains(&all_s), "{all_s}");
    }
}
