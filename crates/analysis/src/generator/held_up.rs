//! What kept the generator from running: strangers on its CPUs, a quota; and what was done to the machine's clock meanwhile. It must
//! not judge.

use record::rows::{GeneratorSecond, Sample};

use crate::hosts::{GENERATOR, during};
use crate::load_window::LoadWindow;
use crate::stats::order::{largest, mean};

/// Rows and samples of one second may lie this far apart; rows of shorter intervals say nothing about a share of time.
const SAME_SECOND_S: f64 = 0.5;

/// Run delay, and of it the strangers' part: percent of the measured part, of the thread that it hit hardest.
pub(super) fn run_delay_pct(
    rows: &[GeneratorSecond],
    samples: &[Sample],
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
            parts.extend(strangers_part(delay_pct, threads, row.at_s, samples));
        }
        delayed = largest(delayed.into_iter().chain(mean(&delays)));
        preempted = largest(preempted.into_iter().chain(mean(&parts)));
    }
    (delayed, preempted)
}

/// How much of a thread's run delay in a second is the strangers' doing. On CPUs that are the clients' alone it can be no more than
/// the strangers ran there. On CPUs that all share, whoever ran there is to blame by how much he ran.
fn strangers_part(delay_pct: f64, threads: u32, at_s: f64, samples: &[Sample]) -> Option<f64> {
    // After a second that the probes slept through, the next one covers it.
    let at_s = samples.iter().find(|sample| sample.at_s >= at_s - SAME_SECOND_S)?.at_s;
    let same = |sample: &&Sample| (sample.at_s - at_s).abs() < SAME_SECOND_S;
    let own = samples.iter().filter(same).find(|sample| sample.process == GENERATOR)?;
    if let Some(strangers_pct) = own.cpu_strangers_pct {
        return Some(delay_pct.min(strangers_pct * f64::from(threads)));
    }
    let of_machine = |sample: &&Sample| sample.host == own.host && sample.process.is_empty();
    let machine = samples.iter().filter(same).find(of_machine)?;
    let others_pct = busy_pct(machine)? - busy_pct(own)?;
    let strangers_pct = machine.cpu_strangers_pct?;
    Some(if others_pct > 0.0 { delay_pct * (strangers_pct / others_pct).clamp(0.0, 1.0) } else { 0.0 })
}

fn busy_pct(sample: &Sample) -> Option<f64> {
    Some(sample.cpu_user_pct? + sample.cpu_system_pct?)
}

/// Mean over the load of the time in which a quota kept the generator from running.
pub(super) fn throttled_pct(samples: &[Sample], until_s: f64) -> Option<f64> {
    let own = during(samples, until_s).into_iter().filter(|sample| sample.process == GENERATOR);
    mean(&own.filter_map(|sample| sample.cpu_throttled_pct).collect::<Vec<_>>())
}

/// The largest step of this machine's calendar clock from one reading to the next.
pub(super) fn clock_jump_s(samples: &[Sample]) -> Option<f64> {
    let mut before_s = 0.0;
    let ahead_s = samples.iter().filter_map(|sample| sample.calendar_ahead_s);
    largest(ahead_s.map(|ahead_s| (ahead_s - std::mem::replace(&mut before_s, ahead_s)).abs()))
}
