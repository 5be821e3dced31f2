//! What `plimsoll compare` found, for a terminal, for a pull request and for a build server. It must not compare, nor judge anew.

mod junit;
mod markdown;
mod text;

pub use junit::junit;
pub use markdown::markdown;
pub use text::text;

use record::compared::{Compared, Gated, Judged};

use crate::numbers;
use crate::words::differing;

/// The outcome in one sentence.
fn outcome(compared: &Compared) -> String {
    let all = match compared.comparisons.len() {
        1 => "one comparison".to_owned(),
        all => format!("{all} comparisons"),
    };
    let count = |better: bool| {
        let one = |judged: &&Judged| {
            let b = judged.comparison.better.as_deref() == Some(judged.comparison.b.as_str());
            judged.comparison.significant && b == better
        };
        compared.comparisons.iter().filter(one).count()
    };
    let found = match (count(true), count(false)) {
        (0, 0) => format!("no difference shown in {all}"),
        (better, 0) => format!("better in {better} of {all}, worse in none"),
        (0, worse) => format!("worse in {worse} of {all}, better in none"),
        (better, worse) => format!("better in {better} and worse in {worse} of {all}"),
    };
    match compared.gate_pct {
        None => format!("{found}."),
        Some(gate) => {
            let (gate, failed) = (numbers::percent(gate), compared.gated(Gated::Fails).count());
            match failed {
                0 => format!("The gate of {gate} holds: {found}."),
                1 => format!("The gate of {gate} fails for one figure: {found}."),
                failed => format!("The gate of {gate} fails for {failed} figures: {found}."),
            }
        }
    }
}

/// `candidate: latency p99 at 64 agents`.
fn name(judged: &Judged) -> String {
    let place = differing::place(&judged.comparison);
    let place = if place.is_empty() { String::new() } else { format!(" at {place}") };
    format!("{}{place}", differing::figure(&judged.comparison.metric))
}

/// `1,000 → 900/s: 10 % slower (8–12 %), p 0.003`.
fn finding(judged: &Judged) -> String {
    let one = &judged.comparison;
    let write = |value: Option<f64>| numbers::or_none(value, |value| numbers::by_metric(&one.metric, value));
    let chance = one.p_adjusted.map_or_else(String::new, |p| match differing::chance(p) {
        small if small.starts_with('<') => format!(", p {small}"),
        p => format!(", p = {p}"),
    });
    format!("{} → {}: {}{chance}", write(one.a_value), write(one.b_value), differing::verdict(one).0.replace('`', ""))
}

#[cfg(test)]
mod tests;
