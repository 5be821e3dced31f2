//! Cost of a unit of work in a trial: power and price from the hosts' profiles, with the measured
//! CPU use and the completed cycles. This module reads no meter and does not guess values that a
//! profile lacks.
//!
//! Power is assumed to rise linearly with CPU use, from idle to load watts (X. Fan, W.-D. Weber, L.
//! A. Barroso, "Power provisioning for a warehouse-sized computer", ISCA 2007: within a few percent
//! for whole servers). Price is spread evenly over the lifetime, used or not.
//!
//! **Cost of a variant at a point**: means over the usable trials, with intervals.
//!
//! Repeats are few, so their spread is taken from all points of a variant together, as for a curve
//! of throughput: the cost of a cycle is inversely proportional to throughput, so both have the
//! same relative spread.

use experiment::plan::{Lab, MetricExpression};
use experiment::profile::Profile;
use record::results::{Cost, CostWithWarmup, Host, PointCost, Trial};

use crate::load_window::LoadWindow;
use crate::sampled::{HostSums, RunningMean, Sampled};
use crate::stats::curve::LoadCurve;
use crate::stats::quantiles::mean;
use crate::stats::student::quantile_of_t;
use crate::trial_groups::{TrialGroup, repeats};

/// A year of 365.25 days.
const YEAR_S: f64 = 31_557_600.0;
const JOULES_PER_KWH: f64 = 3.6e6;
const MILLION: f64 = 1e6;
/// Source of the watts.
const PROFILE: &str = "profile";

/// Sets the watts of each host, and the trial's cost. `sampled` has all hosts over this window.
pub(crate) fn charge(trial: &mut Trial, lab: &Lab, sampled: &Sampled, window: Option<&LoadWindow>) {
    // Hosts that only make the load are no part of the cost of serving it.
    let lab = &lab.with_generators_only(false);
    let lacks = match window {
        None => "Cost is not known: no load was measured.",
        Some(_) if lab.hosts.is_empty() => {
            "Cost is not known: the lab has no hosts with profiles, which give power and price."
        }
        Some(_) => {
            let measured = powers(lab, sampled, |host| host.measured_busy_pct);
            let whole = powers(lab, sampled, |host| host.busy_pct);
            set_watts(&mut trial.hosts, lab, &measured);
            trial.cost = cost(trial, lab, &measured, &whole);
            return;
        }
    };
    trial.cost = Cost { lacks: Some(lacks.to_owned()), ..Cost::default() };
}

/// Returns the reason if the metric is a cost and has no value in these trials.
pub(crate) fn unknown(metric: &MetricExpression, trials: &[&Trial]) -> Option<String> {
    let asked = metric.measured().is_some_and(|path| path.0.first().is_some_and(|first| first == "cost"));
    trials.iter().filter(|_| asked).find_map(|trial| trial.cost.lacks.clone())
}

/// Power of each host in the order of the lab, or the missing input.
type Powers = Vec<Result<f64, String>>;

/// Returns the power of each host at its mean CPU use. CPU use is a percentage of the capacity of
/// the host's cores; for an emulated host, of its profile's cores at their speed, including
/// `lab.speed`.
fn powers(lab: &Lab, sampled: &Sampled, busy: fn(&HostSums) -> RunningMean) -> Powers {
    let powers = lab.hosts.iter().map(|host| {
        let profile = profile(lab, host)?;
        let (idle, load) = profile
            .idle_watts
            .zip(profile.load_watts)
            .ok_or_else(|| format!("no [power] with idle and load watts in profile `{}`", profile.name))?;
        let cpu_pct = sampled.host(&host.name).and_then(|host| busy(host).value());
        let cpu_pct = cpu_pct.ok_or("no CPU sampled in the measured part")?;
        Ok(idle + (load - idle) * (cpu_pct / 100.0).clamp(0.0, 1.0))
    });
    powers.collect()
}

fn profile<'a>(lab: &'a Lab, host: &experiment::plan::Host) -> Result<&'a Profile, String> {
    lab.profile_of(host).ok_or_else(|| "no profile".to_owned())
}

fn set_watts(hosts: &mut [Host], lab: &Lab, powers: &Powers) {
    for (of_lab, power) in lab.hosts.iter().zip(powers) {
        if let (Some(host), Ok(watts)) = (hosts.iter_mut().find(|host| host.name == of_lab.name), power) {
            host.watts = Some(*watts);
            host.watts_source = Some(PROFILE.to_owned());
        }
    }
}

/// Returns the total power, or `None` if the power of a host is unknown.
fn sum(powers: &Powers) -> Option<f64> {
    powers.iter().map(|power| power.as_ref().ok().copied()).sum()
}

fn cost(trial: &Trial, lab: &Lab, measured: &Powers, whole: &Powers) -> Cost {
    let prices: Vec<Result<HostPrice<'_>, String>> = lab.hosts.iter().map(|host| price(lab, host)).collect();
    let lacks = MissingCostInput::of(lab, measured, &prices);
    // Without a total price there is no currency for electricity either.
    let price_per_s = lacks.price.is_none().then(|| prices.iter().flatten().map(|price| price.per_s).sum());
    let rates = Rates { price_per_s, electricity_per_kwh: lab.electricity_per_kwh };
    // The modelled machine is faster by the factor by which time was slowed.
    let speed = trial.emulated.as_ref().map_or(1.0, |emulated| emulated.speed);
    let [cut, all] = [(measured, trial.throughput.cycles_per_s), (whole, trial.with_warmup.cycles_per_s)].map(
        |(powers, cycles_per_s)| EnergySpent {
            watts: sum(powers),
            cycles_per_s: cycles_per_s.map(|per_s| per_s / speed).filter(|per_s| *per_s > 0.0),
        },
    );
    let (joules_per_cycle, price_per_million_cycles) = (cut.joules_per_cycle(), cut.price_per_million_cycles(&rates));
    Cost {
        watts: cut.watts,
        watts_source: cut.watts.map(|_| PROFILE.to_owned()),
        joules_per_cycle,
        price_per_million_cycles,
        electricity_per_million_cycles: price_per_million_cycles
            .and_then(|_| cut.electricity_per_million_cycles(&rates)),
        currency: prices
            .iter()
            .flatten()
            .next()
            .filter(|_| price_per_s.is_some())
            .map(|price| price.currency.to_owned()),
        with_warmup: CostWithWarmup {
            watts: all.watts,
            joules_per_cycle: all.joules_per_cycle(),
            price_per_million_cycles: all.price_per_million_cycles(&rates),
        },
        lacks: lacks.text(cut.cycles_per_s.is_some(), lab.electricity_per_kwh.is_some()),
        modelled: cut.watts.is_some() || price_per_million_cycles.is_some(),
    }
}

fn price<'a>(lab: &'a Lab, host: &experiment::plan::Host) -> Result<HostPrice<'a>, String> {
    let profile = profile(lab, host)?;
    let price = profile.price.as_ref().ok_or_else(|| format!("no [price] in profile `{}`", profile.name))?;
    let years = profile.lifetime_years.filter(|years| *years > 0.0);
    let years = years.ok_or_else(|| format!("no lifetime_years in profile `{}`", profile.name))?;
    Ok(HostPrice { per_s: price.amount / (years * YEAR_S), currency: &price.currency })
}

/// Running costs of a lab.
struct Rates {
    /// Price of all hosts together, per second.
    price_per_s: Option<f64>,
    electricity_per_kwh: Option<f64>,
}

/// Power drawn, and work done with it.
struct EnergySpent {
    watts: Option<f64>,
    cycles_per_s: Option<f64>,
}

impl EnergySpent {
    fn joules_per_cycle(&self) -> Option<f64> {
        Some(self.watts? / self.cycles_per_s?)
    }

    fn electricity_per_million_cycles(&self, rates: &Rates) -> Option<f64> {
        Some(self.joules_per_cycle()? / JOULES_PER_KWH * rates.electricity_per_kwh? * MILLION)
    }

    /// Returns the price, including electricity if it has a price.
    fn price_per_million_cycles(&self, rates: &Rates) -> Option<f64> {
        let hosts = rates.price_per_s? / self.cycles_per_s? * MILLION;
        match rates.electricity_per_kwh {
            None => Some(hosts),
            Some(_) => Some(hosts + self.electricity_per_million_cycles(rates)?),
        }
    }
}

/// Largest number of hosts that a sentence names.
const NAMED: usize = 4;

/// The price of a host.
struct HostPrice<'a> {
    /// Price per second of its lifetime.
    pub per_s: f64,
    /// Currency, ISO 4217.
    pub currency: &'a str,
}

/// Inputs that are missing for energy and price.
struct MissingCostInput {
    pub energy: Option<String>,
    pub price: Option<String>,
}

impl MissingCostInput {
    /// Collects the missing inputs of hosts in the order of the lab.
    pub fn of(lab: &Lab, powers: &[Result<f64, String>], prices: &[Result<HostPrice<'_>, String>]) -> Self {
        let names = lab.hosts.iter().map(|host| host.name.as_str());
        let powers = names.clone().zip(powers);
        let energy = grouped(powers.filter_map(|(name, power)| Some((name, power.as_ref().err()?.clone()))));
        let (mut unpriced, mut currencies) = (Vec::new(), Vec::new());
        for (name, price) in names.zip(prices) {
            match price {
                Ok(price) => currencies.push((name, price.currency.to_owned())),
                Err(why) => unpriced.push((name, why.clone())),
            }
        }
        let differ = currencies.iter().any(|(_, currency)| *currency != currencies[0].1);
        let several = grouped(currencies.into_iter().filter(|_| differ));
        let several = several.map(|listed| format!("prices in two currencies cannot be added: {listed}"));
        Self { energy, price: grouped(unpriced.into_iter()).or(several) }
    }

    /// Returns the missing inputs in sentences, or `None` if nothing is missing. `cycled` says
    /// whether a full cycle was completed, `charged` whether the price includes electricity.
    pub fn text(&self, cycled: bool, charged: bool) -> Option<String> {
        let uncharged = self.energy.as_ref().filter(|_| charged && self.price.is_none());
        let sentences = [
            self.energy.as_ref().map(|why| format!("Energy is not known: {why}.")),
            self.price.as_ref().map(|why| format!("Price is not known: {why}.")),
            uncharged.map(|_| "Price is not known: it includes electricity, and energy is not known.".to_owned()),
            (!cycled).then(|| "No full cycle was completed in the measured part.".to_owned()),
        ];
        let sentences: Vec<String> = sentences.into_iter().flatten().collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }
}

/// Returns a list such as `no profile for proxy; no [price] in profile `x` for n1, n2`.
fn grouped<'a>(lacking: impl Iterator<Item = (&'a str, String)>) -> Option<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, why) in lacking {
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => groups.push((why, vec![name])),
        }
    }
    let listed = groups.iter().map(|(why, names)| {
        let more = names.len().saturating_sub(NAMED);
        let named = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{why} for {named}{more}")
    });
    (!groups.is_empty()).then(|| listed.collect::<Vec<_>>().join("; "))
}

/// Prefix of swept paths that are loads: the same service, used more or less.
const LOAD: &str = "load.";

/// Returns the cost of each variant at each point, in the order of the trials. Empty if no trial
/// has a cost.
pub(crate) fn points(trials: &[&Trial]) -> Vec<PointCost> {
    if !trials.iter().any(|trial| has_cost(trial)) {
        return Vec::new();
    }
    let groups = repeats(trials.iter().copied());
    let joules = intervals(&groups, |trial| trial.cost.joules_per_cycle);
    let prices = intervals(&groups, |trial| trial.cost.price_per_million_cycles);
    let mut costs: Vec<PointCost> = groups.iter().map(PointCost::from).collect();
    for ((cost, joules), price) in costs.iter_mut().zip(joules).zip(prices) {
        (cost.joules_per_cycle_ci95, cost.price_per_million_cycles_ci95) = (joules, price);
    }
    mark(&mut costs);
    costs
}

fn has_cost(trial: &Trial) -> bool {
    trial.cost.joules_per_cycle.is_some() || trial.cost.price_per_million_cycles.is_some()
}

impl From<&TrialGroup<'_>> for PointCost {
    fn from(group: &TrialGroup<'_>) -> Self {
        let mut costs = group.trials.iter().map(|trial| &trial.cost);
        Self {
            variant: group.variant.unwrap_or_default().to_owned(),
            point: group.point.clone(),
            cycles_per_s: group.mean(|trial| match &trial.emulated {
                Some(emulated) => emulated.throughput.cycles_per_s,
                None => trial.throughput.cycles_per_s,
            }),
            watts: group.mean(|trial| trial.cost.watts),
            joules_per_cycle: group.mean(|trial| trial.cost.joules_per_cycle),
            price_per_million_cycles: group.mean(|trial| trial.cost.price_per_million_cycles),
            currency: costs.clone().find_map(|cost| cost.currency.clone()),
            with_warmup: CostWithWarmup {
                watts: group.mean(|trial| trial.cost.with_warmup.watts),
                joules_per_cycle: group.mean(|trial| trial.cost.with_warmup.joules_per_cycle),
                price_per_million_cycles: group.mean(|trial| trial.cost.with_warmup.price_per_million_cycles),
            },
            trials: group.trials.iter().filter(|trial| has_cost(trial)).count() as u32,
            lacks: costs.find_map(|cost| cost.lacks.clone()),
            ..Self::default()
        }
    }
}

/// Returns the 95 % interval of each group's mean: Student's, with the spread of all points of the
/// variant together.
pub(crate) fn intervals(groups: &[TrialGroup<'_>], value: impl Fn(&Trial) -> Option<f64>) -> Vec<Option<[f64; 2]>> {
    let values: Vec<Vec<f64>> = groups.iter().map(|group| group.values(&value)).collect();
    let intervals = groups.iter().zip(&values).map(|(group, own)| {
        let of_variant =
            groups.iter().zip(&values).enumerate().filter(|(_, (other, _))| other.variant == group.variant);
        let measured: Vec<(f64, f64)> = of_variant
            .flat_map(|(index, (_, values))| values.iter().map(move |value| (index as f64, *value)))
            .collect();
        let spread = LoadCurve::of(&measured).spread()?;
        let mean = mean(own)?;
        let half = quantile_of_t(0.975, spread.degrees as f64)? * spread.relative * mean / (own.len() as f64).sqrt();
        Some([(mean - half).max(0.0), mean + half])
    });
    intervals.collect()
}

/// Marks the peak and the cheapest point of each curve. A curve has one variant and one value of
/// each swept path that is no load.
fn mark(costs: &mut [PointCost]) {
    for index in 0..costs.len() {
        let curve: Vec<(usize, &PointCost)> =
            costs.iter().enumerate().filter(|(_, other)| is_same_curve(other, &costs[index])).collect();
        let peak = lowest(&curve, |cost| Some(-cost.cycles_per_s.filter(|per_s| *per_s > 0.0)?));
        let cheapest = lowest(&curve, |cost| cost.price_per_million_cycles)
            .or_else(|| lowest(&curve, |cost| cost.joules_per_cycle));
        (costs[index].at_peak, costs[index].cheapest) = (peak == Some(index), cheapest == Some(index));
    }
}

fn is_same_curve(a: &PointCost, b: &PointCost) -> bool {
    let [place_a, place_b] = [a, b].map(|cost| cost.point.iter().filter(|(path, _)| !path.starts_with(LOAD)));
    a.variant == b.variant && place_a.eq(place_b)
}

/// Returns the index of the lowest value; of several equal values, the first.
fn lowest(curve: &[(usize, &PointCost)], value: fn(&PointCost) -> Option<f64>) -> Option<usize> {
    let valued = curve.iter().filter_map(|(index, cost)| Some((*index, value(cost)?)));
    valued.reduce(|best, next| if next.1 < best.1 { next } else { best }).map(|(index, _)| index)
}

#[cfg(test)]
mod tests;
