//! The generator's own health, from its threads' seconds. It must not judge it: that is the verdict's.

mod held_up;

use record::results::Generator;
use record::rows::GeneratorSecond;

use crate::evidence::Evidence;
use crate::load_window::LoadWindow;
use crate::stats::littles_law::{self, Books};
use crate::stats::order::{largest, nearest_rank};

/// Rows of shorter intervals say nothing about a share of time.
const SHORTEST_S: f64 = 0.5;

/// Rows of one second are no further apart in the file than those of seconds this far apart.
const NEAR_S: f64 = 3.0;

/// The generator's health over the load; `limit` is set by the verdict.
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
    let books = littles_law::error_pct(books(evidence, unfinished_s));
    let busy = agents.zip(window).and_then(|(agents, window)| busy_error_pct(rows, window, agents));
    let (run_delay_pct, preempted_pct) =
        window.map_or((None, None), |window| held_up::run_delay_pct(rows, &evidence.sampled, window));
    Generator {
        cpu_pct: busiest_thread_pct(rows, window.map_or(f64::INFINITY, |window| window.until_s)),
        late_us_p99: latest_us(rows, window),
        littles_law_error_pct: largest(books.into_iter().chain(busy)),
        connect_failures: Some(rows.iter().map(|row| row.connect_failures).sum()),
        dropped: Some(rows.iter().map(|row| row.dropped).sum()),
        throttled_pct: evidence.sampled.throttled_pct(),
        run_delay_pct,
        preempted_pct,
        clock_jump_s: evidence.sampled.clock_jump_s(),
        limit: String::new(),
    }
}

fn busiest_thread_pct(rows: &[GeneratorSecond], until_s: f64) -> Option<f64> {
    let mut seconds: Vec<(f64, f64)> = Vec::new();
    for row in rows.iter().filter(|row| row.interval_s >= SHORTEST_S && row.at_s < until_s + SHORTEST_S) {
        // Rows come in the order of time, to within a second.
        let mut near = seconds.iter_mut().rev().take_while(|(at_s, _)| *at_s > row.at_s - NEAR_S);
        match near.find(|(at_s, _)| (at_s - row.at_s).abs() < SHORTEST_S) {
            Some((_, busiest)) => *busiest = busiest.max(row.cpu_pct),
            None => seconds.push((row.at_s, row.cpu_pct)),
        }
    }
    let busiest: Vec<f64> = seconds.into_iter().map(|(_, busiest)| busiest).collect();
    nearest_rank(&busiest, 0.95)
}

/// The worst second of the measured part: while agents are still being started, lateness is no one's latency.
fn latest_us(rows: &[GeneratorSecond], window: Option<&LoadWindow>) -> Option<f64> {
    let (from_s, until_s) = window.map_or((0.0, f64::INFINITY), |window| (window.from_s, window.until_s));
    let inside =
        rows.iter().filter(|row| row.at_s - row.interval_s >= from_s - SHORTEST_S && row.at_s <= until_s + SHORTEST_S);
    largest(inside.filter_map(|row| row.late_us_p99))
}

fn books(evidence: &Evidence, unfinished_s: f64) -> Books {
    let rows = &evidence.generator;
    let latency_s: f64 = rows.iter().map(|row| row.latency_sum_s).sum();
    let operations: u64 = rows.iter().map(|row| row.operations).sum();
    // Cut off, the last seconds hold operations whose latency nobody wrote down.
    let open_s = match (evidence.ending(), operations) {
        (Some(_), _) | (_, 0) => 0.0,
        (None, operations) => {
            let last_s = largest(rows.iter().map(|row| row.at_s)).unwrap_or(0.0);
            let last = rows.iter().filter(|row| last_s - row.at_s < SHORTEST_S);
            last.map(|row| row.in_flight_mean).sum::<f64>() * latency_s / operations as f64
        }
    };
    Books {
        in_flight_s: rows.iter().map(|row| row.in_flight_mean * row.interval_s).sum(),
        latency_s,
        unfinished_s,
        open_s,
    }
}

/// In a closed loop without pauses every agent always has an operation open; the share of the agents' time in which they
/// had none was lost between an answer and the next send. Only where nothing failed: an agent that cannot connect rests.
fn busy_error_pct(rows: &[GeneratorSecond], window: &LoadWindow, agents: u32) -> Option<f64> {
    let (from_s, until_s) = window.calm()?;
    let inside: Vec<_> = rows
        .iter()
        .filter(|row| row.at_s - row.interval_s >= from_s && row.at_s <= until_s && row.interval_s >= SHORTEST_S)
        .collect();
    let mut started: Vec<(f64, u64)> = inside.iter().map(|row| (row.at_s, u64::from(row.agents))).collect();
    started.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all_started = |at_s: f64| {
        let first = started.partition_point(|(other_s, _)| *other_s <= at_s - SHORTEST_S);
        let same = started[first..].iter().take_while(|(other_s, _)| *other_s < at_s + SHORTEST_S);
        same.map(|(_, agents)| agents).sum::<u64>() == u64::from(agents)
    };
    if inside.is_empty() || inside.iter().any(|row| row.connect_failures > 0 || !all_started(row.at_s)) {
        return None;
    }
    let agents_s: f64 = inside.iter().map(|row| f64::from(row.agents) * row.interval_s).sum();
    let in_flight_s: f64 = inside.iter().map(|row| row.in_flight_mean * row.interval_s).sum();
    Some(100.0 * (agents_s - in_flight_s).abs() / agents_s)
}

/// Full cycles over the whole load; `None` where nobody counted them.
pub(crate) fn cycles(rows: &[GeneratorSecond]) -> Option<u64> {
    // What came before load start was a preparation.
    let of_load = rows.iter().filter(|row| row.at_s > 0.0);
    (!rows.is_empty()).then(|| of_load.map(|row| row.cycles).sum())
}

/// Full cycles per second between two times; a row that lies only partly between them counts by its part.
pub(crate) fn cycles_per_s(rows: &[GeneratorSecond], (from_s, until_s): (f64, f64)) -> Option<f64> {
    if rows.is_empty() || until_s <= from_s {
        return None;
    }
    let part = |row: &GeneratorSecond| {
        let inside_s = row.at_s.min(until_s) - (row.at_s - row.interval_s).max(from_s);
        if row.interval_s > 0.0 { (inside_s / row.interval_s).clamp(0.0, 1.0) } else { 0.0 }
    };
    Some(rows.iter().map(|row| row.cycles as f64 * part(row)).sum::<f64>() / (until_s - from_s))
}

#[cfg(test)]
mod tests;
