//! Rules about failed connects, by cause.

use std::collections::BTreeMap;

use super::{Evaluation, RuleInput};

pub fn failed_connects(facts: &RuleInput<'_>) -> Evaluation {
    let failed = failed_connects_until(facts, first_ok_s(facts));
    let others = failed.connects - failed.handshakes - failed.refused - failed.own;
    let when = failed.when;
    Some((others as f64, format!("{others} connects failed {when}: agents could not reach the target")))
}

pub fn refused_connects(facts: &RuleInput<'_>) -> Evaluation {
    let failed = failed_connects_until(facts, first_ok_s(facts));
    let (refused, when) = (failed.refused, failed.when);
    let how = failed.worst_refusal.unwrap_or_default();
    Some((refused as f64, format!("{refused} connects were refused {when}, most with `{how}`: the target was reached")))
}

fn first_ok_s(facts: &RuleInput<'_>) -> f64 {
    facts.evidence.slots.iter().find(|slot| slot.ok > 0).map_or(f64::INFINITY, |slot| slot.at_s)
}

/// Returns the share of attempts over the whole load that failed because of this machine's own
/// limits.
pub fn local_limits(facts: &RuleInput<'_>) -> Evaluation {
    let attempts = &facts.evidence.attempts;
    let all: u64 = attempts.iter().map(|row| row.count).sum();
    let own = attempts.iter().filter(|row| OF_THIS_MACHINE.contains(&row.result.as_str()));
    let own: u64 = own.map(|row| row.count).sum();
    let pct = 100.0 * own as f64 / all.max(1) as f64;
    let what = "attempts failed for lack of a local port or file descriptor";
    Some((pct, format!("{own} {what} ({pct:.1} %): the limit is this machine's, not the target's")))
}

/// Results of attempts, as in `attempts.csv`, that this machine's limits caused.
const OF_THIS_MACHINE: [&str; 2] = ["connect: no local port left", "connect: no file descriptor left"];

pub fn failed_handshakes(facts: &RuleInput<'_>) -> Evaluation {
    let failed = failed_connects_until(facts, f64::INFINITY);
    let (handshakes, when) = (failed.handshakes, failed.when);
    let what = match failed.worst_handshake {
        Some("tls: bad certificate") => "its certificate is not trusted".to_owned(),
        Some(refused) if refused.starts_with(REFUSED) => {
            let alert = refused[REFUSED.len()..].trim_start_matches(": ");
            let wants = alert.contains("certificate") || alert == "handshake failure";
            let may_want = if wants { "; it may require a client certificate" } else { "" };
            format!("it refused the handshake ({alert}){may_want}")
        }
        _ => "it speaks no TLS, or no version that Plimsoll supports".to_owned(),
    };
    Some((handshakes as f64, format!("{handshakes} TLS handshakes failed {when}: the target was reached, but {what}")))
}

/// Prefixes of the results, as in `attempts.csv`, of attempts whose connection ended in the TLS
/// handshake. `tls: broken` is not included: it occurs after the handshake.
const OF_HANDSHAKES: [&str; 4] =
    ["tls: bad certificate", "tls: closed in the handshake", "tls: handshake failed", REFUSED];
const REFUSED: &str = "tls: refused by the target";
/// Prefixes of the results of attempts whose connection the target or a proxy refused.
const OF_REFUSALS: [&str; 2] = ["answer: ", "proxy: "];

/// Counts of connects that failed before the first fault and before a given time.
struct FailedConnects<'a> {
    connects: u64,
    /// Failed connects for which this machine had no local port or file descriptor left.
    own: u64,
    /// Failed TLS handshakes, limited to the number of failed connects. One failed handshake on a
    /// shared connection fails several attempts.
    handshakes: u64,
    /// Connects that the target or a proxy refused.
    refused: u64,
    /// The most frequent result of failed handshakes.
    worst_handshake: Option<&'a str>,
    /// The most frequent result of refused connects.
    worst_refusal: Option<&'a str>,
    /// The period in words.
    when: &'static str,
}

/// Returns the number of attempts whose result has one of the prefixes, and the most frequent such
/// result.
fn with_prefixes<'a>(counts: &BTreeMap<&'a str, u64>, prefixes: &[&str]) -> (u64, Option<&'a str>) {
    let found = counts.iter().filter(|(result, _)| prefixes.iter().any(|prefix| result.starts_with(prefix)));
    let most = found.clone().max_by_key(|(_, count)| **count).map(|(result, _)| *result);
    (found.map(|(_, count)| count).sum(), most)
}

fn failed_connects_until<'a>(facts: &RuleInput<'a>, until_s: f64) -> FailedConnects<'a> {
    let first_fault_s = facts.window.and_then(|window| window.first_fault_s).unwrap_or(f64::INFINITY);
    let until_s = until_s.min(first_fault_s);
    let before = facts.evidence.generator.iter().filter(|row| row.at_s <= until_s);
    let connects: u64 = before.map(|row| row.connect_failures).sum();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for row in facts.evidence.attempts.iter().filter(|row| row.at_s <= until_s) {
        *counts.entry(row.result.as_str()).or_default() += row.count;
    }
    let (own, _) = with_prefixes(&counts, &OF_THIS_MACHINE);
    let own = own.min(connects);
    let (handshakes, worst_handshake) = with_prefixes(&counts, &OF_HANDSHAKES);
    let handshakes = handshakes.min(connects - own);
    // An operation on an open connection may get the same answer. So refusals are limited to the
    // remaining failed connects.
    let (refused, worst_refusal) = with_prefixes(&counts, &OF_REFUSALS);
    let (unconnected, _) = with_prefixes(&counts, &["connect "]);
    let refused = refused.min((connects - own - handshakes).saturating_sub(unconnected));
    let when = if first_fault_s.is_finite() { "before any fault" } else { "without a fault" };
    FailedConnects { connects, own, handshakes, refused, worst_handshake, worst_refusal, when }
}
