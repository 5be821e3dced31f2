//! What kept the generator from running: strangers on its CPUs, a quota; and what was done to the machine's clock meanwhile. It must
//! not judge.

use record::rows::GeneratorSecond;

use crate::load_window::LoadWindow;
use crate::sampled::Sampled;
use crate::stats::order::{largest, mean};

/// Rows and samples of one second may lie this far apart; rows of shorter intervals say nothing about a share of time.
const SAME_SECOND_S: f64 = 0.5;

/// Run delay, and of it the strangers' part: percent of the measured part, of the thread that it hit hardest.
pub(super) fn run_delay_pct(
    rows: &[GeneratorSecond],
    sampled: &Sampled,
    window: &LoadWindow,
) -> (Option<f64>, Option<f64>) {
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

/// How much of a thread's run delay in a second is the strangers' doing. On CPUs that are the clients' alone it can be no more than
/// the strangers ran there. On CPUs that all share, whoever ran there is to blame by how much he ran.
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
