//! Sentences on a load's start and steadiness, shown with the verdict.

use record::results::{FasterStart, Results, Steady, counting};
use text::{capital, code, numbers};

/// Smallest change of throughput that the answer mentions even if chance can explain it, percent.
const WORTH_PCT: f64 = 8.0;

/// Returns a clause for each of: a faster start, a remaining warm-up, and a doubt whether the load
/// was steady. Empty if none applies.
pub fn notes(steady: &Steady) -> Vec<String> {
    let faster = steady.faster_start.as_ref().map(faster_start);
    faster.into_iter().chain(remaining(steady)).chain(doubt(steady)).collect()
}

/// Returns the doubt whether the load was steady, if the change is too small for the answer.
pub fn beside_the_answer(steady: &Steady) -> Option<String> {
    doubt(steady).filter(|_| !is_large(steady))
}

fn is_large(steady: &Steady) -> bool {
    steady.throughput_change_pct.is_some_and(|pct| pct.abs() >= WORTH_PCT)
}

/// Returns `the first 2.5 s were 9 % faster than the rest: no warm-up, so they are measured with
/// it`.
fn faster_start(FasterStart { of, long_s, pct }: &FasterStart) -> String {
    let first = numbers::seconds(*long_s);
    let how = if of == "latency" {
        format!("the latency of the first {first} was {pct:.0} % lower than that of the rest")
    } else {
        format!("the first {first} were {pct:.0} % faster than the rest")
    };
    format!("{how}: this is not a warm-up, so the measurement includes them")
}

fn remaining(steady: &Steady) -> Option<String> {
    let pct = steady.remaining_bias_pct?;
    Some(format!("the warm-up may not be over: throughput may be up to {pct:.1} % higher after it"))
}

fn doubt(steady: &Steady) -> Option<String> {
    steady.cannot_tell.as_ref().map(|why| format!("whether the load was steady is unknown: {why}"))
}

/// Returns the sentence of the answer for the trials whose figures count, or `None` if there is
/// nothing to say.
pub(super) fn sentence(results: &Results) -> Option<String> {
    let used = counting(&results.trials);
    let mut doubtful = Vec::new();
    for trial in &used {
        let Some(steady) = &trial.steady else { continue };
        let beside = beside_the_answer(steady);
        let mut notes = notes(steady);
        notes.retain(|note| Some(note) != beside.as_ref());
        if !notes.is_empty() {
            doubtful.push((&trial.id, notes.join("; ")));
        }
    }
    let (first, notes) = doubtful.first()?;
    Some(match (doubtful.len(), used.len()) {
        (_, 1) => format!("{}.", capital(notes)),
        (some, all) => format!("Check the steadiness of {some} of {all} trials; in {}, {notes}.", code(first)),
    })
}

#[cfg(test)]
mod tests {
    use record::results::Trial;

    use super::*;

    fn of(steady: Steady) -> Option<String> {
        sentence(&Results { trials: vec![Trial { steady: Some(steady), ..Trial::default() }], ..Results::default() })
    }

    #[test]
    fn a_large_inconclusive_change_is_in_the_answer() {
        let why =
            "throughput changed by -31.0 % over the load (90 % interval -42.0 to -4.0 %), but steady means -8 to +8 %";
        let cannot_tell = Some(why.to_owned());
        let large = Steady { cannot_tell, throughput_change_pct: Some(-31.0), ..Steady::default() };
        let small = Steady { throughput_change_pct: Some(-7.0), ..large.clone() };
        assert_eq!(of(large).unwrap(), format!("Whether the load was steady is unknown: {why}."));
        assert_eq!(notes(&small).len(), 1, "the note is still shown with the trial");
        assert_eq!(of(small), None);
        assert_eq!(of(Steady { is: Some(true), ..Steady::default() }), None);
    }

    #[test]
    fn a_faster_start_is_reported() {
        let mut faster = FasterStart { of: "throughput".to_owned(), long_s: 2.5, pct: 9.0 };
        let faster_start = Some(faster.clone());
        let text = of(Steady { faster_start, remaining_bias_pct: Some(1.24), ..Steady::default() }).unwrap();
        assert!(text.starts_with("The first 2.5 s were 9 % faster than the rest"), "{text}");
        assert!(text.contains("the warm-up may not be over: throughput may be up to 1.2 % higher after it"), "{text}");
        faster.of = "latency".to_owned();
        let text = of(Steady { faster_start: Some(faster), ..Steady::default() }).unwrap();
        assert!(text.starts_with("The latency of the first 2.5 s was 9 % lower"), "{text}");
    }

    #[test]
    fn doubtful_trials_are_counted() {
        let doubtful = Steady { remaining_bias_pct: Some(2.0), ..Steady::default() };
        let each = [("001", Steady::default()), ("002", doubtful.clone()), ("003", doubtful)];
        let trials = each.map(|(id, steady)| Trial { id: id.into(), steady: Some(steady), ..Trial::default() });
        let text = sentence(&Results { trials: trials.to_vec(), ..Results::default() }).unwrap();
        assert!(text.starts_with("Check the steadiness of 2 of 3 trials; in `002`, the warm-up may not"), "{text}");
    }
}
