//! Figures of each generator of a fleet, from its threads' rows in `generator.csv`.

use std::collections::BTreeMap;

use experiment::plan::Fleet;
use record::results::GeneratorFigures;
use record::rows::GeneratorSecond;

use crate::load_window::LoadWindow;
use crate::stats::quantiles::largest;

/// Shortest interval of a row that is used, because shares of time in shorter ones are unreliable;
/// also the tolerance at the window's ends. Seconds.
const SHORTEST_S: f64 = 0.5;

/// Returns the figures of each generator over the measured part, in the order of their ids.
pub(crate) fn each(
    fleet: &Fleet,
    is_open: bool,
    rows: &[GeneratorSecond],
    window: &LoadWindow,
) -> Vec<GeneratorFigures> {
    let inside = rows.iter().filter(|row| {
        let begun_s = row.at_s - row.interval_s;
        row.interval_s >= SHORTEST_S && begun_s >= window.from_s - SHORTEST_S && row.at_s <= window.until_s + SHORTEST_S
    });
    let generators = (1..=fleet.generators).map(|number| {
        let first = (number - 1).saturating_mul(fleet.threads);
        let own = first..first.saturating_add(fleet.threads);
        let own: Vec<&GeneratorSecond> = inside.clone().filter(|row| own.contains(&row.thread)).collect();
        figures(fleet.name(number), is_open, &own)
    });
    generators.collect()
}

fn figures(name: String, is_open: bool, rows: &[&GeneratorSecond]) -> GeneratorFigures {
    let operations: u64 = rows.iter().map(|row| row.operations).sum();
    let latency_s: f64 = rows.iter().map(|row| row.latency_sum_s).sum();
    let due: Option<u64> = rows.iter().map(|row| row.due).sum();
    // Length of rows (seconds) and CPU time (percent × seconds) of each thread.
    let mut threads: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for row in rows {
        let (length_s, cpu) = threads.entry(row.thread).or_default();
        *length_s += row.interval_s;
        *cpu += row.cpu_pct * row.interval_s;
    }
    let length_s = largest(threads.values().map(|(length_s, _)| *length_s));
    GeneratorFigures {
        name,
        cpu_pct: largest(threads.values().map(|(length_s, cpu)| cpu / length_s)),
        late_us_p99: largest(rows.iter().filter_map(|row| row.late_us_p99)),
        operations,
        operations_per_s: length_s.map(|length_s| operations as f64 / length_s),
        carried_pct: due.filter(|due| is_open && *due > 0).map(|due| 100.0 * operations as f64 / due as f64),
        latency_us_mean: (operations > 0).then(|| 1e6 * latency_s / operations as f64),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn row(at_s: f64, thread: u32, operations: u64) -> GeneratorSecond {
        GeneratorSecond {
            at_s,
            interval_s: 1.0,
            thread,
            operations,
            due: Some(100),
            cpu_pct: f64::from(thread) * 10.0,
            late_us_p99: Some(at_s * 10.0),
            latency_sum_s: operations as f64 * 0.002,
            ..GeneratorSecond::default()
        }
    }

    #[test]
    fn each_generator_counts_its_own_threads() {
        let fleet = Fleet { generators: 2, threads: 2, ..Fleet::default() };
        let window = LoadWindow { from_s: 1.0, until_s: 4.0, first_fault_s: None, steady: None, is_over: false };
        let mut rows = Vec::new();
        for at_s in (1..=6_u8).map(f64::from) {
            rows.extend((0..4).map(|thread| row(at_s, thread, if thread < 2 { 100 } else { 80 })));
        }
        let [open, closed] = [true, false].map(|is_open| each(&fleet, is_open, &rows, &window));
        assert_eq!(open.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["g1", "g2"]);
        assert_eq!(open.iter().map(|one| one.operations).collect::<Vec<_>>(), [600, 480]);
        assert_eq!((open[1].operations_per_s, open[1].carried_pct), (Some(160.0), Some(80.0)));
        assert_eq!((open[0].cpu_pct, open[1].cpu_pct, open[1].late_us_p99), (Some(10.0), Some(30.0), Some(40.0)));
        assert!((open[1].latency_us_mean.unwrap() - 2000.0).abs() < 1e-6);
        assert_eq!(closed[1].carried_pct, None);
        assert_eq!(each(&fleet, true, &[], &window)[0], GeneratorFigures { name: "g1".into(), ..Default::default() });
    }
}
