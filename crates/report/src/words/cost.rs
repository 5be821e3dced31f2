//! The finding about cost: what a cycle takes of energy and money, one variant against the other. It must not leave out that this is a model.

use record::results::{PointCost, Results};

use super::quoted;
use crate::numbers;

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
