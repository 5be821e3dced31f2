//! The finding about cost: what a cycle takes of energy and money, one variant against the other. It must not leave out that this is a model.

use record::results::{PointCost, Results};

use super::quoted;
use crate::numbers;
use crate::tables::sweeps;

/// Curves that a line names at most; the table has them all.
const NAMED: usize = 4;

/// A sentence where two variants have a cost, at the peak of each.
pub fn sentence(results: &Results) -> Option<String> {
    let peaks: Vec<&PointCost> = results.costs.iter().filter(|cost| cost.at_peak).collect();
    let [one, other] = peaks.as_slice() else { return None };
    if one.variant == other.variant {
        return None;
    }
    let joules = |cost: &PointCost| cost.joules_per_cycle.map(numbers::joules);
    let price = |cost: &PointCost| {
        Some(numbers::money(cost.price_per_million_cycles?, cost.currency.as_deref().unwrap_or_default()))
    };
    let both = |value: &dyn Fn(&PointCost) -> Option<String>| Some((value(one)?, value(other)?));
    let names = [one, other].map(|cost| quoted(&cost.variant));
    let parts = [
        both(&joules).map(|(a, b)| format!("a cycle takes {a} with {} and {b} with {}", names[0], names[1])),
        both(&price).map(|(a, b)| format!("a million cycles cost {a} with {} and {b} with {}", names[0], names[1])),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("At their peaks {} (modelled).", parts.join("; ")))
}

/// All that have a cost, at the peak of each, in a line; `None` where the answer says it already, or there is none.
pub fn line(results: &Results) -> Option<String> {
    if sentence(results).is_some_and(|sentence| results.answer.contains(&sentence)) {
        return None;
    }
    let of_peak = |cost: &PointCost| {
        let joules = cost.joules_per_cycle.map(|joules| format!("{} a cycle", numbers::joules(joules)));
        let currency = cost.currency.as_deref().unwrap_or_default();
        let price = cost.price_per_million_cycles.map(|price| format!("{} a million", numbers::money(price, currency)));
        let figures: Vec<String> = joules.into_iter().chain(price).collect();
        let name = sweeps::cost_name(cost);
        let name = if name.is_empty() { name } else { format!("{}: ", quoted(&name)) };
        (!figures.is_empty()).then(|| format!("{name}{}", figures.join(", ")))
    };
    let peaks: Vec<String> = results.costs.iter().filter(|cost| cost.at_peak).filter_map(of_peak).collect();
    let more = peaks.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; {more} more in the report") } else { String::new() };
    let named = peaks.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    (!peaks.is_empty()).then(|| format!("Cost at the peak, modelled: {named}{more}."))
}
