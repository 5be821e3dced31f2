//! Notes on faults whose effect on clients cannot be measured: the time before a fault is too short
//! for a baseline, or the time after it for recovery.

use crate::duration::show;
use crate::plan::{Trial, Warmup};

use super::moments;

/// Shortest baseline, as in the analysis (`analysis::stats::outage`).
const SHORTEST_BASELINE_S: f64 = 0.5;

/// Time for which service must work to count as recovered, as in the analysis.
const HOLD_S: f64 = 1.0;

/// Returns notes on the faults of a trial that cannot be measured.
pub(super) fn notes(trial: &Trial) -> Vec<String> {
    let Some(load) = &trial.load else { return Vec::new() };
    let mut begun: Vec<(f64, &str, f64)> = Vec::new();
    for fault in trial.faults.iter().filter(|fault| !fault.standing && !fault.repairs) {
        let lasts_s = fault.for_s.unwrap_or(0.0);
        let times = moments(fault, &trial.faults, load.time_s);
        begun.extend(times.into_iter().map(|at_s| (at_s, fault.name.as_str(), at_s + lasts_s)));
    }
    begun.sort_by(|one, other| one.0.total_cmp(&other.0));
    let warm_s = if let Warmup::Seconds(warmup_s) = load.warmup { warmup_s.max(load.ramp_s) } else { load.ramp_s };
    let mut notes = Vec::new();
    if let Some((at_s, name, _)) = begun.first().filter(|(at_s, ..)| at_s - warm_s < SHORTEST_BASELINE_S) {
        notes.push(format!(
            "no room for a baseline before {name} at {}: without {} of load after the ramp and the warm-up, losses and recovery are \
             not measured",
            show(*at_s),
            show(SHORTEST_BASELINE_S)
        ));
    }
    let mut cramped: Vec<(&str, usize, String)> = Vec::new();
    for (index, (at_s, name, healed_s)) in begun.iter().enumerate() {
        let (end_s, end) = match begun.get(index + 1) {
            Some((next_s, next, _)) => (*next_s, format!("{next} begins")),
            None => (load.time_s, "the load ends".to_owned()),
        };
        if end_s - healed_s >= HOLD_S {
            continue;
        }
        let after = match (end_s < *healed_s, healed_s > at_s) {
            (true, _) => "before it is healed".to_owned(),
            (false, is_healed) => {
                format!("less than {} after it {}", show(HOLD_S), if is_healed { "is healed" } else { "begins" })
            }
        };
        match cramped.iter_mut().find(|(known, ..)| known == name) {
            Some((_, count, _)) => *count += 1,
            None => cramped.push((*name, 1, format!("at {}: {end} at {}, {after}", show(*at_s), show(end_s)))),
        }
    }
    notes.extend(cramped.into_iter().map(|(name, count, first)| {
        let more = if count > 1 { format!("; the same of {} later ones", count - 1) } else { String::new() };
        format!("no room for recovery from {name} {first}{more}")
    }));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Fault, Load, When};

    fn trial(faults: &[(&str, When, Option<f64>)]) -> Trial {
        let fault = |(name, when, for_s): &(&str, When, Option<f64>)| Fault {
            name: (*name).to_owned(),
            when: when.clone(),
            for_s: *for_s,
            ..Fault::default()
        };
        let load = Load { time_s: 20.0, ramp_s: 2.0, warmup: Warmup::Seconds(4.0), ..Load::default() };
        Trial { load: Some(load), faults: faults.iter().map(fault).collect(), ..Trial::default() }
    }

    #[test]
    fn faults_with_enough_time_have_no_notes() {
        let faults = [("a", When::At(6.0), Some(3.0)), ("b", When::Every { first_s: 12.0, every_s: 3.5 }, None)];
        assert_eq!(notes(&trial(&faults)), [""; 0]);
        assert_eq!(notes(&Trial { load: None, ..trial(&[("a", When::At(0.0), None)]) }), [""; 0]);
        let standing = Fault { standing: true, ..Fault::default() };
        assert_eq!(notes(&Trial { faults: vec![standing], ..trial(&[]) }), [""; 0]);
    }

    #[test]
    fn a_fault_too_early_has_no_baseline() {
        let found = notes(&trial(&[("b", When::At(9.0), None), ("a", When::At(4.2), None)]));
        let [early] = found.as_slice() else { panic!("{found:?}") };
        assert!(early.starts_with("no room for a baseline before a at 4.2s: without 500ms of load"), "{early}");
    }

    #[test]
    fn a_fault_with_too_little_after_it_has_no_recovery() {
        let late = notes(&trial(&[("a", When::At(15.0), Some(4.5))]));
        assert!(late[0].ends_with("from a at 15s: the load ends at 20s, less than 1s after it is healed"), "{late:?}");
        let open = notes(&trial(&[("a", When::At(15.0), Some(9.0))]));
        assert!(open[0].ends_with("from a at 15s: the load ends at 20s, before it is healed"), "{open:?}");
        let close = notes(&trial(&[("a", When::Every { first_s: 6.0, every_s: 0.5 }, None)]));
        let [close] = close.as_slice() else { panic!("{close:?}") };
        assert!(
            close.ends_with("from a at 6s: a begins at 6.5s, less than 1s after it begins; the same of 27 later ones"),
            "{close}"
        );
    }
}
