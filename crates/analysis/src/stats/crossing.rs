//! Where one curve overtakes another for good. It must not know what the curves are, nor resample.
//!
//! Between measured loads the lead is taken to change evenly with the logarithm of the load, because loads are usually doubled. No
//! curve is fitted: the law that fits one system need not fit the other, and where two lie close, a crossing of fitted curves is
//! one of their misfits.

use super::curve::Mean;

/// The load from which `a` is ahead of `b` for good. Minus infinity: `a` is ahead at every load that both have. Infinity: at the
/// highest of them, `a` is not ahead. `None` with fewer than two such loads.
pub(crate) fn crossing(a: &[Mean], b: &[Mean]) -> Option<f64> {
    let leads = leads(a, b);
    let (&(_, last), _) = leads.split_last().filter(|(_, before)| !before.is_empty())?;
    if last <= 0.0 {
        return Some(f64::INFINITY);
    }
    let Some(behind) = leads.iter().rposition(|&(_, lead)| lead <= 0.0) else { return Some(f64::NEG_INFINITY) };
    let [(from, lead), (to, next)] = [leads[behind], leads[behind + 1]];
    let share = -lead / (next - lead);
    Some((from.ln() + share * (to / from).ln()).exp())
}

/// By load, how far `a` is ahead, as a share of the sum, so that it does not matter how high both are.
fn leads(a: &[Mean], b: &[Mean]) -> Vec<(f64, f64)> {
    let lead = |a: &Mean| {
        let b = b.iter().find(|b| b.load == a.load)?;
        let sum = a.rate + b.rate;
        Some((a.load, if sum > 0.0 { (a.rate - b.rate) / sum } else { 0.0 }))
    };
    a.iter().filter_map(lead).collect()
}

#[cfg(test)]
mod tests;
