//! Checks of verdicts on classes of figures, and of failures that the generator caused.

use super::*;

/// Returns the findings for a load at 1,000/s with these failures in late and in punctual seconds,
/// percent; every third second is late.
fn failing([late_pct, punctual_pct]: [u32; 2]) -> Vec<RuleFinding> {
    Case::spoiled(|case| {
        case.planned.load.as_mut().unwrap().rate = Some(plan::Rate::Constant(1_000.0));
        case.trial.outcomes = Outcomes::default();
        case.evidence.slots.clear();
        for second in 0..20_u32 {
            let (is_late, noise) = (second % 3 == 0, second % 2);
            let failed = 10 * if is_late { late_pct } else { punctual_pct } + noise;
            let at_s = f64::from(second);
            let slot =
                OutcomeSlot { at_s: at_s + 0.5, slot_s: 0.001, ok: 1_000 - failed, failed, ..OutcomeSlot::default() };
            // No operation ends in one of the seconds.
            case.evidence.slots.extend((second != 13).then_some(slot));
            case.trial.outcomes.ok += u64::from(slot.ok);
            case.trial.outcomes.failed += u64::from(failed);
            let late_us_max = Some(if is_late { 9_000.0 } else { 90.0 });
            let row = GeneratorSecond { at_s: at_s + 1.0, interval_s: 1.0, late_us_max, ..GeneratorSecond::default() };
            case.evidence.generator.push(GeneratorSecond { due: Some(1_000), ..row });
        }
    })
}

#[test]
fn failures_after_late_starts_are_blamed_on_the_generator() {
    let [after_late_starts, always, when_punctual] = [[4, 0], [3, 3], [0, 3]]
        .map(|shares| failing(shares).into_iter().find(|finding| finding.rule == "late_failures"));
    let found = after_late_starts.unwrap();
    assert_eq!(found.trust, Suspect);
    assert!(found.reason.contains("in 7 seconds in which operations started late"), "{}", found.reason);
    assert_eq!((always, when_punctual), (None, None), "the target fails by itself");
}

#[test]
fn a_rule_against_the_tail_leaves_counts_and_throughput_valid() {
    let found = verdict(&Case::spoiled(|case| case.delayed(|delay| delay.p99_pct = Some(30.0))));
    assert_eq!(found.is, Suspect);
    for one in &found.figures {
        let is = if one.figure == FigureClass::TailLatency { Suspect } else { Trust::Valid };
        assert_eq!((one.figure, one.is), (one.figure, is));
    }
    assert!(found.reasons[0].starts_with("p99 can have risen by up to 30 %"), "{:?}", found.reasons);
}

#[test]
fn a_busy_generator_leaves_counts_and_throughput_valid() {
    let found = verdict(&Case::spoiled(|case| case.generator_and_target_at_their_limits(60.0)));
    assert_eq!([FigureClass::Counts, FigureClass::Throughput].map(|class| found.of(class)), [Trust::Valid; 2]);
    assert_eq!(found.of(FigureClass::MedianLatency), Suspect);
    assert!(found.reasons[0].contains("throughput is the generator's limit"), "{:?}", found.reasons);
}

#[test]
fn lateness_names_the_quantile_that_it_moves() {
    let found = Case::spoiled(|case| {
        let all = Quantiles { p50: Some(10_000.0), p99: Some(1_988_100.0), ..Quantiles::default() };
        let punctual = Quantiles { p50: Some(8_000.0), ..all.clone() };
        case.trial.generator.lateness_effect_pct = Some(20.0);
        (case.trial.latency_us, case.trial.punctual_latency_us) = (Some(all), Some(punctual));
    });
    let reason = "20 % of the latency is the generator's own lateness (p50 would be 8 ms instead of 10 ms): it did not run when operations \
                  were due";
    assert_eq!(found.iter().map(|finding| finding.reason.as_str()).collect::<Vec<_>>(), [reason]);
}

#[test]
fn small_lateness_in_a_short_outage_is_ignored() {
    for (first_ok_s, late_us, trust) in
        [(0.001, 4_500.0, None), (0.2, 20_000.0, Some(Suspect)), (0.001, 60_000.0, Some(Void))]
    {
        let found = Case::spoiled(|case| {
            case.delayed(|_| {});
            case.trial.generator.late_us_p99 = Some(late_us);
            let outage = Outage { first_ok_s: Some(first_ok_s), ..Default::default() };
            let kind = DisturbanceKind::Outage;
            case.trial.disturbances.push(Disturbance { kind, outage, ..Default::default() });
        });
        let delayed = found.into_iter().find(|finding| finding.rule == "delayed");
        assert_eq!(delayed.map(|finding| finding.trust), trust, "{late_us}");
    }
}
