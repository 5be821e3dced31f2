//! Why a trial's cost is not known: which host lacks what, as sentences. It must not work out a cost.

use experiment::plan::Lab;

/// Hosts named in a sentence at most.
const NAMED: usize = 4;

/// The price of a host.
pub(super) struct Price<'a> {
    /// For each second of its lifetime.
    pub per_s: f64,
    /// ISO 4217.
    pub currency: &'a str,
}

/// What keeps energy and price from being known, if anything does.
pub(super) struct Lacks {
    /// Energy.
    pub energy: Option<String>,
    /// Price.
    pub price: Option<String>,
}

impl Lacks {
    /// Of hosts in the order of the lab.
    pub fn of(lab: &Lab, powers: &[Result<f64, String>], prices: &[Result<Price<'_>, String>]) -> Self {
        let names = || lab.hosts.iter().map(|host| host.name.as_str());
        let energy =
            grouped(names().zip(powers).filter_map(|(name, power)| Some((name, power.as_ref().err()?.clone()))));
        let missing =
            grouped(names().zip(prices).filter_map(|(name, price)| Some((name, price.as_ref().err()?.clone()))));
        let currencies = || names().zip(prices).filter_map(|(name, price)| Some((name, price.as_ref().ok()?.currency)));
        let first = currencies().next().map(|(_, currency)| currency);
        let several = currencies().any(|(_, currency)| Some(currency) != first).then(|| {
            grouped(currencies().map(|(name, currency)| (name, currency.to_owned())))
                .map(|listed| format!("two currencies cannot be added up: {listed}"))
        });
        Self { energy, price: missing.or(several.flatten()) }
    }

    /// In sentences; `None` if nothing is lacking. `cycled`: whether a full cycle was completed. `charged`: whether electricity is to be
    /// in the price.
    pub fn text(&self, cycled: bool, charged: bool) -> Option<String> {
        let uncharged = self.energy.as_ref().filter(|_| charged && self.price.is_none());
        let sentences = [
            self.energy.as_ref().map(|why| format!("Energy is not known: {why}.")),
            self.price.as_ref().map(|why| format!("Price is not known: {why}.")),
            uncharged.map(|_| "Price is not known: electricity is to be in it, and energy is not known.".to_owned()),
            (!cycled).then(|| "No full cycle was completed in the measured part.".to_owned()),
        ];
        let sentences: Vec<String> = sentences.into_iter().flatten().collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }
}

/// `no profile for proxy; no [price] in profile `x` for n1, n2`.
fn grouped<'a>(lacking: impl Iterator<Item = (&'a str, String)>) -> Option<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, why) in lacking {
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => groups.push((why, vec![name])),
        }
    }
    let group = |(why, names): &(String, Vec<&str>)| {
        let more = names.len().saturating_sub(NAMED);
        let named = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{why} for {named}{more}")
    };
    (!groups.is_empty()).then(|| groups.iter().map(group).collect::<Vec<_>>().join("; "))
}
