//! Health of the generator, from its threads' rows in `generator.csv`: its work, the causes that
//! prevented it from running, and a check of its own counts.
//!
//! **Little's law** checks the generator's own counts: operations in flight = rate × latency.
//!
//! Over a stretch that begins and ends with nothing in flight, the time integral of the operations
//! in flight equals the sum of their latencies exactly, for any load (J. D. C. Little, "A proof for
//! the queuing formula L = λW", Operations Research 9, 1961; for finite stretches: Little's Law as
//! viewed on its 50th anniversary, Operations Research 59, 2011). So the check covers the whole
//! load with its drain: operations in flight at the ends of a shorter part would count as errors.

use std::collections::BTreeMap;

use record::results::{FeedFigures, FleetFigures, Generator, Quantiles};
use record::rows::{FleetSecond, GeneratorSecond};

use crate::evidence::Evidence;
use crate::load_window::LoadWindow;
use crate::sampled::Sampled;
use crate::stats::quantiles::{largest, mean, nearest_rank};

/// Shortest interval of a row from which a share of time is computed, seconds.
const SHORTEST_S: f64 = 0.5;

/// Largest distance in time over which rows of the same second are searched, seconds.
const NEAR_S: f64 = 3.0;

/// Returns the generator's health over the load. Fields that need other records stay empty; the
/// verdict sets `limit`.
pub(crate) fn generator(
    evidence: &Evidence,
    window: Option<&LoadWindow>,
    unfinished_s: f64,
    agents: Option<u32>,
) -> Generator {
    let rows = &evidence.generator;
    if rows.is_empty() {
        return Generator::default();
    }
    let books = littles_law_error_pct(books(evidence, unfinished_s));
    let busy = agents.zip(window).and_then(|(agents, window)| busy_error_pct(rows, window, agents));
    let (run_delay_pct, preempted_pct) =
        window.map_or((None, None), |window| run_delay_pct(rows, &evidence.sampled, window));
    Generator {
        cpu_pct: busiest_thread_pct(rows, window.map_or(f64::INFINITY, |window| window.until_s)),
        late_us_p99: latest_us(rows, window),
        lateness_effect_pct: None,
        bunched_pct: None,
        punctual_failed_pct: None,
        littles_law_error_pct: largest(books.into_iter().chain(busy)),
        connect_failures: Some(rows.iter().map(|row| row.connect_failures).sum()),
        dropped: Some(rows.iter().map(|row| row.dropped).sum()),
        all_busy_s: None,
        throttled_pct: evidence.sampled.throttled_pct(),
        run_delay_pct,
        preempted_pct,
        clock_jump_s: evidence.sampled.clock_jump_s(),
        feed: None,
        fleet: None,
        limit: String::new(),
        each: Vec::new(),
    }
}

/// Returns the clock errors of a fleet's generators, or `None` without records of a fleet.
pub(crate) fn fleet_figures(rows: &[FleetSecond]) -> Option<FleetFigures> {
    let mut firsts: BTreeMap<&str, &FleetSecond> = BTreeMap::new();
    for row in rows {
        firsts.entry(&row.generator).or_insert(row);
    }
    if firsts.is_empty() {
        return None;
    }
    // One generator may have begun early by its clock error, and another late by its own.
    let mut errors_us: Vec<f64> = firsts.values().map(|first| first.error_us).collect();
    errors_us.sort_by(|one, other| other.total_cmp(one));
    Some(FleetFigures {
        generators: u32::try_from(firsts.len()).unwrap_or(u32::MAX),
        began_within_us: (firsts.len() > 1).then(|| errors_us[..2].iter().sum()),
        clock_error_us: largest(rows.iter().map(|row| row.error_us)),
    })
}

fn busiest_thread_pct(rows: &[GeneratorSecond], until_s: f64) -> Option<f64> {
    let mut seconds: Vec<(f64, f64)> = Vec::new();
    for row in rows.iter().filter(|row| row.interval_s >= SHORTEST_S && row.at_s < until_s + SHORTEST_S) {
        // Rows are sorted by time.
        let mut near = seconds.iter_mut().rev().take_while(|(at_s, _)| *at_s > row.at_s - NEAR_S);
        match near.find(|(at_s, _)| (at_s - row.at_s).abs() < SHORTEST_S) {
            Some((_, busiest)) => *busiest = busiest.max(row.cpu_pct),
            None => seconds.push((row.at_s, row.cpu_pct)),
        }
    }
    let busiest: Vec<f64> = seconds.into_iter().map(|(_, busiest)| busiest).collect();
    nearest_rank(&busiest, 0.95)
}

/// Returns the lateness of the worst second of the measured part. Earlier seconds are left out:
/// while agents are being started, lateness is not part of any latency.
fn latest_us(rows: &[GeneratorSecond], window: Option<&LoadWindow>) -> Option<f64> {
    let (from_s, until_s) = window.map_or((0.0, f64::INFINITY), |window| (window.from_s, window.until_s));
    let inside =
        rows.iter().filter(|row| row.at_s - row.interval_s >= from_s - SHORTEST_S && row.at_s <= until_s + SHORTEST_S);
    largest(inside.filter_map(|row| row.late_us_p99))
}

/// Smallest lateness that counts in a quantile, microseconds. Timers are no more precise.
const EXACT_US: f64 = 200.0;

/// Returns how much of a latency quantile is the generator's lateness, percent: `punctual_us` is
/// the quantile after each operation's own lateness was subtracted. Returns `None` below
/// [`EXACT_US`].
pub(crate) fn lateness_pct(all_us: Option<f64>, punctual_us: Option<f64>) -> Option<f64> {
    let (all_us, late_us) = (all_us?, all_us? - punctual_us?);
    (late_us >= EXACT_US).then(|| 100.0 * late_us / all_us)
}

/// Returns the largest share of lateness in p50, p90 and p99, percent; 0 without lateness.
pub(crate) fn lateness_effect_pct(all: &Quantiles, punctual: &Quantiles) -> f64 {
    let pairs = [(all.p50, punctual.p50), (all.p90, punctual.p90), (all.p99, punctual.p99)];
    pairs.into_iter().filter_map(|(all, punctual)| lateness_pct(all, punctual)).fold(0.0, f64::max)
}

/// Returns the numbers of operations that were due and that ended. Returns `None` for records of
/// older versions, or if none was due.
pub(crate) fn due_and_ended(rows: &[GeneratorSecond]) -> Option<(u64, u64)> {
    let due: u64 = rows.iter().map(|row| row.due).sum::<Option<u64>>()?;
    (due > 0).then(|| (due, rows.iter().map(|row| row.operations).sum()))
}

/// Mean share of a thread's agents in operations from which all of them count as busy.
const BUSY: f64 = 0.99;

/// Returns the total length of the seconds in which all agents were busy. In such seconds an open
/// loop has no agent to start operations on time.
pub(crate) fn all_busy_s(rows: &[GeneratorSecond]) -> f64 {
    let mut seconds: BTreeMap<u64, (bool, f64)> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.at_s > 0.0 && row.interval_s >= SHORTEST_S && row.agents > 0) {
        let (all_busy, longest_s) = seconds.entry(row.at_s.round() as u64).or_insert((true, 0.0));
        *all_busy &= row.in_flight_mean >= BUSY * f64::from(row.agents);
        *longest_s = longest_s.max(row.interval_s);
    }
    seconds.into_values().filter(|(all_busy, _)| *all_busy).map(|(_, length_s)| length_s).sum()
}

fn books(evidence: &Evidence, unfinished_s: f64) -> SecondSums {
    let rows = &evidence.generator;
    let latency_s: f64 = rows.iter().map(|row| row.latency_sum_s).sum();
    let operations: u64 = rows.iter().map(|row| row.operations).sum();
    // If the records are cut off, the last seconds have operations whose latency was not written.
    let open_s = match (evidence.ending(), operations) {
        (Some(_), _) | (_, 0) => 0.0,
        (None, operations) => {
            let last_s = largest(rows.iter().map(|row| row.at_s)).unwrap_or(0.0);
            let last = rows.iter().filter(|row| last_s - row.at_s < SHORTEST_S);
            last.map(|row| row.in_flight_mean).sum::<f64>() * latency_s / operations as f64
        }
    };
    SecondSums {
        in_flight_s: rows.iter().map(|row| row.in_flight_mean * row.interval_s).sum(),
        latency_s,
        unfinished_s,
        open_s,
    }
}

/// Returns the share of the agents' time without an open operation, percent. In a closed loop
/// without pauses, every agent should always have an operation open. Returns `None` if a connect
/// failed, because agents then wait, or if not all agents had started.
fn busy_error_pct(rows: &[GeneratorSecond], window: &LoadWindow, agents: u32) -> Option<f64> {
    let (from_s, until_s) = window.calm()?;
    let inside: Vec<_> = rows
        .iter()
        .filter(|row| row.at_s - row.interval_s >= from_s && row.at_s <= until_s && row.interval_s >= SHORTEST_S)
        .collect();
    let mut started: Vec<(f64, u64)> = inside.iter().map(|row| (row.at_s, u64::from(row.agents))).collect();
    started.sort_by(|a, b| a.0.total_cmp(&b.0));
    for row in &inside {
        let first = started.partition_point(|(other_s, _)| *other_s <= row.at_s - SHORTEST_S);
        let same = started[first..].iter().take_while(|(other_s, _)| *other_s < row.at_s + SHORTEST_S);
        let all_started = same.map(|(_, agents)| agents).sum::<u64>() == u64::from(agents);
        if row.connect_failures > 0 || !all_started {
            return None;
        }
    }
    let agents_s: f64 = inside.iter().map(|row| f64::from(row.agents) * row.interval_s).sum();
    // Time in which an agent waits for a record of its feed counts as busy.
    let busy_s: f64 =
        inside.iter().map(|row| row.in_flight_mean * row.interval_s + row.feed_wait_s.unwrap_or(0.0)).sum();
    (!inside.is_empty()).then(|| 100.0 * (agents_s - busy_s).abs() / agents_s)
}

/// Returns the full cycles over the whole load, or `None` if they were not counted.
pub(crate) fn cycles(rows: &[GeneratorSecond]) -> Option<u64> {
    // Rows before load start belong to the preparation.
    let of_load = rows.iter().filter(|row| row.at_s > 0.0);
    (!rows.is_empty()).then(|| of_load.map(|row| row.cycles).sum())
}

/// Returns the full cycles per second between two times. A row that lies partly between them counts
/// by the part inside.
pub(crate) fn cycles_per_s(rows: &[GeneratorSecond], window: (f64, f64)) -> Option<f64> {
    per_s(rows, window, |row| Some(row.cycles))
}

/// Returns the messages over the whole load that answered no operation, or `None` if they were not
/// counted.
pub(crate) fn pushed_messages(rows: &[GeneratorSecond]) -> Option<u64> {
    let counts = rows.iter().filter(|row| row.at_s > 0.0).filter_map(|row| row.pushed_messages);
    counts.reduce(u64::saturating_add)
}

/// Returns the bytes of answers per second between two times, or `None` if they were not counted.
pub(crate) fn received_bytes_per_s(rows: &[GeneratorSecond], window: (f64, f64)) -> Option<f64> {
    per_s(rows, window, |row| row.received_bytes)
}

/// Returns the figures of feeds that are read ahead, over the measured part, or `None` without such
/// a feed. `wait_pct` is relative to the latencies in an open loop, where waits for records are
/// part of them, and otherwise to the agents' time.
pub(crate) fn feed_figures(
    rows: &[GeneratorSecond],
    (from_s, until_s): (f64, f64),
    is_open: bool,
) -> Option<FeedFigures> {
    let inside: Vec<&GeneratorSecond> = rows
        .iter()
        .filter(|row| row.at_s - row.interval_s >= from_s - SAME_SECOND_S && row.at_s <= until_s + SAME_SECOND_S)
        .filter(|row| row.feed_wait_s.is_some())
        .collect();
    let (mut wait_s, mut of_s, mut read_s) = (0.0, 0.0, 0.0);
    let (mut bytes, mut records, mut read_percent_s) = (0.0, 0.0, 0.0);
    for row in &inside {
        wait_s += row.feed_wait_s.unwrap_or(0.0);
        of_s += if is_open { row.in_flight_mean } else { f64::from(row.agents) } * row.interval_s;
        read_s += row.feed_bytes.map_or(0.0, |_| row.interval_s);
        bytes += row.feed_bytes.unwrap_or(0) as f64;
        records += row.feed_records.unwrap_or(0) as f64;
        read_percent_s += row.feed_read_pct.unwrap_or(0.0) * row.interval_s;
    }
    let [bytes_per_s, records_per_s, read_pct] =
        [bytes, records, read_percent_s].map(|amount| (read_s > 0.0).then(|| amount / read_s));
    let wait_pct = (of_s > 0.0).then(|| 100.0 * wait_s / of_s);
    (!inside.is_empty()).then_some(FeedFigures { bytes_per_s, records_per_s, read_pct, wait_pct })
}

fn per_s(
    rows: &[GeneratorSecond],
    (from_s, until_s): (f64, f64),
    counted: fn(&GeneratorSecond) -> Option<u64>,
) -> Option<f64> {
    if rows.is_empty() || until_s <= from_s {
        return None;
    }
    let mut sum = 0.0;
    for row in rows {
        sum += counted(row)? as f64 * share_inside(row.at_s, row.interval_s, (from_s, until_s));
    }
    Some(sum / (until_s - from_s))
}

/// Returns the share between two times of an interval that ends at `at_s`.
pub(crate) fn share_inside(at_s: f64, interval_s: f64, (from_s, until_s): (f64, f64)) -> f64 {
    let inside_s = at_s.min(until_s) - (at_s - interval_s).max(from_s);
    if interval_s > 0.0 { (inside_s / interval_s).clamp(0.0, 1.0) } else { 0.0 }
}

/// Largest distance in time of rows and samples of the same second, seconds. Shorter rows are not
/// used.
const SAME_SECOND_S: f64 = 0.5;

/// Returns the run delay, and the part of it that other processes caused, percent of the measured
/// part. Each is the largest mean of a thread.
fn run_delay_pct(rows: &[GeneratorSecond], sampled: &Sampled, window: &LoadWindow) -> (Option<f64>, Option<f64>) {
    let threads: u32 = rows.iter().map(|row| row.thread + 1).max().unwrap_or(0);
    let (mut delayed, mut preempted) = (None, None);
    for thread in 0..threads {
        let inside = rows.iter().filter(|row| {
            row.thread == thread
                && row.interval_s >= SAME_SECOND_S
                && row.at_s - row.interval_s >= window.from_s - SAME_SECOND_S
                && row.at_s <= window.until_s + SAME_SECOND_S
        });
        let (mut delays, mut parts) = (Vec::new(), Vec::new());
        for row in inside {
            let Some(delay_pct) = row.run_delay_pct else { continue };
            delays.push(delay_pct);
            parts.extend(strangers_part(delay_pct, threads, row.at_s, sampled));
        }
        delayed = largest(delayed.into_iter().chain(mean(&delays)));
        preempted = largest(preempted.into_iter().chain(mean(&parts)));
    }
    (delayed, preempted)
}

/// Returns the part of a thread's run delay in a second that other processes caused. On CPUs
/// reserved for the clients, the part is limited to the time that other processes ran there. On
/// shared CPUs each process is responsible in proportion to its CPU time.
fn strangers_part(delay_pct: f64, threads: u32, at_s: f64, sampled: &Sampled) -> Option<f64> {
    let (own, machine) = sampled.in_second(at_s)?;
    if let Some(strangers_pct) = own.strangers_pct {
        return Some(delay_pct.min(strangers_pct * f64::from(threads)));
    }
    let machine = machine?;
    let others_pct = machine.busy_pct? - own.busy_pct?;
    let strangers_pct = machine.strangers_pct?;
    Some(if others_pct > 0.0 { delay_pct * (strangers_pct / others_pct).clamp(0.0, 1.0) } else { 0.0 })
}

/// Terms of Little's law, summed over the rows of a load.
#[derive(Debug, Clone, Copy, Default)]
struct SecondSums {
    /// Time integral of the operations in flight, seconds.
    pub in_flight_s: f64,
    /// Sum of the latencies of ended operations, seconds.
    pub latency_s: f64,
    /// Time for which operations that never ended had been open, seconds.
    pub unfinished_s: f64,
    /// Latency that may be missing because the records end in the middle, seconds.
    pub open_s: f64,
}

/// Returns the difference between the two sides of Little's law, percent of the operations in
/// flight. Returns `None` if nothing was in flight.
fn littles_law_error_pct(books: SecondSums) -> Option<f64> {
    let apart = (books.in_flight_s - books.latency_s - books.unfinished_s).abs();
    (books.in_flight_s > 0.0).then(|| 100.0 * (apart - books.open_s).max(0.0) / books.in_flight_s)
}

#[cfg(test)]
mod tests {
    use record::events::{Ending, Event, What};
    use record::rows::Sample;

    use super::*;

    /// Two threads with five agents each, always busy, with operations of a tenth of a second.
    fn seconds(count: u32) -> Vec<GeneratorSecond> {
        let rows = (1..=count).flat_map(|second| [(second, 0), (second, 1)]).map(|(second, thread)| GeneratorSecond {
            at_s: f64::from(second),
            interval_s: 1.0,
            thread,
            cpu_pct: f64::from(second + 10 * thread),
            agents: 5,
            in_flight_mean: 5.0,
            operations: 50,
            latency_sum_s: 5.0,
            cycles: 10,
            ..GeneratorSecond::default()
        });
        rows.collect()
    }

    fn evidence(generator: Vec<GeneratorSecond>) -> Evidence {
        let ended = Event { at_s: 99.0, what: What::Ended { how: Ending::Done, reason: None } };
        Evidence { generator, events: vec![ended], ..Evidence::default() }
    }

    const WINDOW: LoadWindow =
        LoadWindow { from_s: 0.0, until_s: 20.0, first_fault_s: None, steady: None, is_over: false };

    #[test]
    fn the_start_spread_covers_the_two_largest_errors() {
        let rows = [(0.0, "g1", 40.0), (0.0, "g2", 70.0), (0.0, "g3", 50.0), (1.0, "g1", 90.0), (1.0, "g2", 10.0)].map(
            |(at_s, name, error_us)| FleetSecond {
                at_s,
                generator: name.to_owned(),
                error_us,
                ..FleetSecond::default()
            },
        );
        assert_eq!(fleet_figures(&[]), None);
        let one = fleet_figures(&rows[..1]).unwrap();
        assert_eq!((one.generators, one.began_within_us, one.clock_error_us), (1, None, Some(40.0)));
        let three = fleet_figures(&rows).unwrap();
        assert_eq!((three.generators, three.began_within_us, three.clock_error_us), (3, Some(120.0), Some(90.0)));
    }

    #[test]
    fn the_worst_second_lies_in_the_measured_part() {
        let rows = [(1.0, 900.0), (2.0, 800.0), (3.0, 10.0), (4.0, 20.0), (6.0, 700.0)].map(|(at_s, late_us)| {
            GeneratorSecond { at_s, interval_s: 1.0, late_us_p99: Some(late_us), ..GeneratorSecond::default() }
        });
        let window = LoadWindow { from_s: 2.0, until_s: 5.0, first_fault_s: None, steady: None, is_over: false };
        assert_eq!((latest_us(&rows, Some(&window)), latest_us(&rows, None)), (Some(20.0), Some(900.0)));
    }

    #[test]
    fn due_operations_are_counted_if_recorded() {
        // An older version wrote rows without `due`.
        for (rows, expected) in [
            (&[(Some(100), 90), (Some(50), 60)][..], Some((150, 150))),
            (&[(Some(100), 90), (None, 60)], None),
            (&[(Some(0), 0)], None),
            (&[], None),
        ] {
            let seconds =
                rows.iter().map(|&(due, operations)| GeneratorSecond { due, operations, ..Default::default() });
            assert_eq!(due_and_ended(&seconds.collect::<Vec<_>>()), expected, "{rows:?}");
        }
    }

    #[test]
    fn missing_evidence_gives_default_figures() {
        assert_eq!(generator(&Evidence::default(), None, 0.0, None), Generator::default());
    }

    #[test]
    fn the_busiest_thread_counts_and_the_drain_does_not() {
        let mut rows = seconds(20);
        rows.push(GeneratorSecond { at_s: 22.0, interval_s: 1.0, cpu_pct: 100.0, ..GeneratorSecond::default() });
        rows.push(GeneratorSecond { at_s: 20.0, interval_s: 0.01, cpu_pct: 100.0, ..GeneratorSecond::default() });
        let health = generator(&evidence(rows), Some(&WINDOW), 0.0, None);
        assert_eq!(health.cpu_pct, Some(29.0), "95th percentile of 11..=30");
        assert_eq!(health.late_us_p99, None, "no timer fired");
        assert_eq!((health.connect_failures, health.dropped), (Some(0), Some(0)));
    }

    #[test]
    fn feed_waits_are_counted_in_the_measured_part() {
        let mut rows = seconds(20);
        assert_eq!(feed_figures(&rows, (0.0, 20.0), false), None);
        for row in &mut rows {
            (row.in_flight_mean, row.latency_sum_s, row.feed_wait_s) = (4.0, 4.0, Some(1.0));
            if row.thread == 0 {
                (row.feed_bytes, row.feed_records, row.feed_read_pct) = (Some(2_000_000), Some(500), Some(90.0));
            }
        }
        let health = generator(&evidence(rows.clone()), Some(&WINDOW), 0.0, Some(10));
        assert_eq!(health.littles_law_error_pct, Some(0.0));
        rows.iter_mut().filter(|row| row.at_s <= 10.0).for_each(|row| row.feed_wait_s = Some(5.0));
        let [closed, open] = [false, true].map(|is_open| feed_figures(&rows, (10.0, 20.0), is_open).unwrap());
        let expected = FeedFigures {
            bytes_per_s: Some(2e6),
            records_per_s: Some(500.0),
            read_pct: Some(90.0),
            wait_pct: Some(20.0),
        };
        assert_eq!((closed, open.wait_pct), (expected, Some(25.0)));
    }

    #[test]
    fn the_lateness_effect_is_a_share_of_latency() {
        // Timers are not more exact than 200 µs.
        for (all, punctual, effect) in [
            ([1_000.0, 4_000.0], [1_000.0, 4_000.0], 0.0),
            ([1_000.0, 4_000.0], [1_000.0, 3_000.0], 25.0),
            ([150.0, 400.0], [100.0, 250.0], 0.0),
        ] {
            let [all, punctual] =
                [all, punctual].map(|[p50, p99]| Quantiles { p50: Some(p50), p99: Some(p99), ..Quantiles::default() });
            assert_eq!(lateness_effect_pct(&all, &punctual), effect);
            assert_eq!(lateness_effect_pct(&Quantiles::default(), &punctual), 0.0, "too few to tell");
        }
    }

    #[test]
    fn balanced_sums_have_no_error() {
        let health = generator(&evidence(seconds(20)), Some(&WINDOW), 0.0, Some(10));
        assert_eq!(health.littles_law_error_pct, Some(0.0));
    }

    #[test]
    fn missing_latencies_show_as_an_error() {
        let mut rows = seconds(20);
        rows[0].latency_sum_s = 0.0;
        rows[1].latency_sum_s = 0.0;
        let health = generator(&evidence(rows.clone()), Some(&WINDOW), 0.0, Some(10));
        assert_eq!(health.littles_law_error_pct, Some(5.0));
        let health = generator(&evidence(rows), Some(&WINDOW), 10.0, Some(10));
        assert_eq!(health.littles_law_error_pct, Some(0.0), "they are unfinished");
    }

    #[test]
    fn idle_agents_show_in_a_closed_loop() {
        let mut rows = seconds(20);
        for row in &mut rows {
            row.in_flight_mean = 4.0;
            row.latency_sum_s = 4.0;
        }
        // Agents may be idle with pauses or in an open loop, or if they cannot connect.
        for (agents, connect_failures, expected) in [(Some(10), 0, 20.0), (None, 0, 0.0), (Some(10), 1, 0.0)] {
            rows[3].connect_failures = connect_failures;
            let health = generator(&evidence(rows.clone()), Some(&WINDOW), 0.0, agents);
            assert!((health.littles_law_error_pct.unwrap() - expected).abs() < 1e-9, "{health:?}");
        }
    }

    #[test]
    fn operations_open_at_a_cut_off_are_no_error() {
        let mut rows = seconds(20);
        rows.last_mut().unwrap().latency_sum_s = 4.5;
        let cut = Evidence { generator: rows, ..Evidence::default() };
        assert_eq!(generator(&cut, Some(&WINDOW), 0.0, Some(10)).littles_law_error_pct, Some(0.0));
    }

    #[test]
    fn cycles_are_counted_proportionally_in_partial_seconds() {
        let rows = seconds(20);
        assert_eq!(cycles_per_s(&rows, (2.0, 10.0)), Some(20.0));
        assert_eq!(cycles_per_s(&rows, (2.5, 3.0)), Some(20.0));
        assert_eq!(cycles_per_s(&rows, (2.0, 2.0)), None);
        assert_eq!(cycles_per_s(&[], (2.0, 3.0)), None);
        let counted: u64 = rows.iter().map(|row| row.cycles).sum();
        let before = rows.iter().map(|row| GeneratorSecond { at_s: row.at_s - 1_000.0, ..row.clone() });
        assert_eq!(cycles(&rows.iter().cloned().chain(before).collect::<Vec<_>>()), Some(counted));
        assert_eq!(cycles(&[]), None);
    }

    fn sample(at_s: f64, process: &str, busy_pct: f64) -> Sample {
        Sample {
            at_s,
            host: "local".into(),
            process: process.into(),
            cpu_user_pct: Some(busy_pct),
            cpu_system_pct: Some(0.0),
            ..Sample::default()
        }
    }

    #[test]
    fn seconds_with_all_agents_busy_are_counted() {
        let rows = [(1.0, 0, 20.0), (1.0, 1, 100.0), (2.0, 0, 100.0), (2.0, 1, 99.5), (3.0, 0, 140.0)].map(
            |(at_s, thread, in_flight_mean)| GeneratorSecond {
                at_s,
                interval_s: 1.0,
                thread,
                agents: 100,
                in_flight_mean,
                ..GeneratorSecond::default()
            },
        );
        assert_eq!(all_busy_s(&rows), 2.0);
        assert_eq!(all_busy_s(&[]), 0.0);
    }

    /// Run delay of the engine's threads in each second, and CPU use of the machine, of other
    /// processes and of the generator.
    fn waiting(run_delay_pct: f64, machine_pct: f64, strangers_pct: f64, own_pct: f64) -> Evidence {
        waiting_with(run_delay_pct, machine_pct, strangers_pct, own_pct, |row| row)
    }

    /// The same seconds with more figures in each sample of the machine and the generator.
    fn waiting_with(
        run_delay_pct: f64,
        machine_pct: f64,
        strangers_pct: f64,
        own_pct: f64,
        own: impl Fn(Sample) -> Sample,
    ) -> Evidence {
        let mut rows = seconds(20);
        rows.iter_mut().for_each(|row| row.run_delay_pct = Some(run_delay_pct));
        let mut evidence = evidence(rows);
        for at_s in (1..=20).map(f64::from) {
            let machine = sample(at_s, "", machine_pct);
            evidence.sampled.add(&own(Sample { cpu_strangers_pct: Some(strangers_pct), ..machine }));
            evidence.sampled.add(&own(sample(at_s, "generator", own_pct)));
        }
        evidence
    }

    fn preempted(evidence: &Evidence) -> Option<f64> {
        generator(evidence, Some(&WINDOW), 0.0, None).preempted_pct
    }

    #[test]
    fn waiting_for_the_target_is_not_preemption() {
        assert_eq!(preempted(&waiting(30.0, 80.0, 0.0, 40.0)), Some(0.0));
        assert_eq!(preempted(&waiting(30.0, 80.0, 4.0, 40.0)), Some(3.0), "a tenth of what else ran");
        assert_eq!(preempted(&waiting(30.0, 80.0, 40.0, 40.0)), Some(30.0), "all of it");
        assert_eq!(preempted(&waiting(30.0, 40.0, 3.0, 40.0)), Some(0.0), "nothing else ran: rounding");
        assert_eq!(preempted(&evidence(seconds(20))), None, "the kernel does not say");
    }

    /// A machine without a lab is a host like any other, and may be called `n1`.
    #[test]
    fn the_generators_machine_is_the_host_in_its_own_rows() {
        let called = waiting_with(30.0, 80.0, 4.0, 40.0, |row| Sample { host: "n1".into(), ..row });
        assert_eq!(preempted(&called), Some(3.0));
        let elsewhere = waiting_with(30.0, 80.0, 4.0, 40.0, |row| match row.process.as_str() {
            "generator" => row,
            _ => Sample { host: "n1".into(), ..row },
        });
        assert_eq!(preempted(&elsewhere), None, "another host's strangers");
    }

    #[test]
    fn every_other_process_on_dedicated_cpus_is_a_stranger() {
        // One of two threads may have shared its CPU with all other processes.
        for (strangers_pct, preempted_pct) in [(45.0, 40.0), (3.0, 6.0)] {
            let evidence = waiting_with(40.0, 90.0, 1.0, 10.0, |row| match row.process.as_str() {
                "generator" => Sample { cpu_strangers_pct: Some(strangers_pct), ..row },
                _ => row,
            });
            assert_eq!(preempted(&evidence), Some(preempted_pct));
        }
    }

    #[test]
    fn the_thread_that_waits_most_counts() {
        let mut evidence = waiting(10.0, 50.0, 0.0, 10.0);
        evidence.generator.iter_mut().filter(|row| row.thread == 1).for_each(|row| row.run_delay_pct = Some(20.0));
        assert_eq!(generator(&evidence, Some(&WINDOW), 0.0, None).run_delay_pct, Some(20.0));
    }

    #[test]
    fn throttling_and_clock_jumps_are_detected() {
        let evidence = waiting(0.0, 50.0, 0.0, 10.0);
        let healthy = generator(&evidence, Some(&WINDOW), 0.0, None);
        assert_eq!((healthy.throttled_pct, healthy.clock_jump_s), (None, None));
        let evidence = waiting_with(0.0, 50.0, 0.0, 10.0, |row| match row.process.as_str() {
            "generator" => Sample { cpu_throttled_pct: Some(if row.at_s <= 10.0 { 8.0 } else { 0.0 }), ..row },
            // The clock drifts, which is no jump, and at half-time it is set back by an hour.
            _ => {
                let back_s = if row.at_s <= 10.0 { 0.0 } else { 3600.0 };
                Sample { calendar_ahead_s: Some(row.at_s * 1e-5 - back_s), ..row }
            }
        });
        let spoiled = generator(&evidence, Some(&WINDOW), 0.0, None);
        assert_eq!(spoiled.throttled_pct, Some(4.0));
        assert!((spoiled.clock_jump_s.unwrap() - 3600.0).abs() < 0.01);
    }

    #[test]
    fn known_answers() {
        let table = [
            (SecondSums::default(), None),
            (SecondSums { in_flight_s: 100.0, latency_s: 100.0, ..SecondSums::default() }, Some(0.0)),
            (SecondSums { in_flight_s: 100.0, latency_s: 90.0, ..SecondSums::default() }, Some(10.0)),
            (SecondSums { in_flight_s: 100.0, latency_s: 110.0, ..SecondSums::default() }, Some(10.0)),
            (SecondSums { in_flight_s: 100.0, latency_s: 90.0, unfinished_s: 10.0, open_s: 0.0 }, Some(0.0)),
            (SecondSums { in_flight_s: 100.0, latency_s: 90.0, unfinished_s: 0.0, open_s: 4.0 }, Some(6.0)),
            (SecondSums { in_flight_s: 100.0, latency_s: 99.0, unfinished_s: 0.0, open_s: 4.0 }, Some(0.0)),
        ];
        for (books, known) in table {
            assert_eq!(littles_law_error_pct(books), known, "{books:?}");
        }
    }

    #[test]
    fn a_load_that_drains_obeys_littles_law() {
        let mut random = fastrand::Rng::with_seed(3);
        let operations: Vec<(f64, f64)> = (0..100).map(|_| (random.f64() * 10.0, random.f64())).collect();
        let step = 1e-3;
        let in_flight_s: f64 = (0..12_000)
            .map(|number| f64::from(number) * step)
            .map(|at_s| {
                operations.iter().filter(|(from, long)| (*from..from + long).contains(&at_s)).count() as f64 * step
            })
            .sum();
        let latency_s = operations.iter().map(|(_, long)| long).sum();
        let error = littles_law_error_pct(SecondSums { in_flight_s, latency_s, ..SecondSums::default() }).unwrap();
        assert!(error < 0.1, "{error}");
    }
}
