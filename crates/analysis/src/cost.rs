//! What a unit of work costs in a trial: the power and the price that the hosts' profiles give, by the CPU that was measured and the
//! cycles that were completed. No meter is read here, and what a profile does not say is not made up.
//!
//! Power is taken to rise in a straight line with the CPU used, from idle to load watts (X. Fan, W.-D. Weber, L. A. Barroso, "Power
//! provisioning for a warehouse-sized computer", ISCA 2007: within a few percent for whole servers). Price is spread evenly over
//! the lifetime, used or not.

use experiment::plan::Lab;
use experiment::profile::Profile;
use record::results::{Cost, CostWithWarmup, Host, Trial};

use crate::load_window::LoadWindow;
use crate::sampled::{HostSums, Mean, Sampled};

mod lacks;
mod points;

use lacks::{Lacks, Price};
pub(crate) use points::points;

/// A year of 365.25 days.
const YEAR_S: f64 = 31_557_600.0;
const JOULES_PER_KWH: f64 = 3.6e6;
const MILLION: f64 = 1e6;
/// Where watts come from.
const PROFILE: &str = "profile";

/// Sets the watts of each host, and the trial's cost. `sampled` are all hosts, over this window.
pub(crate) fn charge(trial: &mut Trial, lab: &Lab, sampled: &Sampled, window: Option<&LoadWindow>) {
    let unknown = |why: &str| Cost { lacks: Some(why.to_owned()), ..Cost::default() };
    trial.cost = match window {
        None => unknown("Cost is not known: no load was measured."),
        Some(_) if lab.hosts.is_empty() => unknown(
            "Cost is not known: the lab has no hosts with profiles, which say what a host draws and what it cost.",
        ),
        Some(_) => {
            let measured = powers(lab, sampled, |host| host.measured_busy_pct);
            let whole = powers(lab, sampled, |host| host.busy_pct);
            set_watts(&mut trial.hosts, lab, &measured);
            cost(trial, lab, &measured, &whole)
        }
    };
}

/// Why a metric of cost has no value in these trials, if it is one and that is known.
pub(crate) fn unknown(metric: &str, trials: &[&Trial]) -> Option<String> {
    let asked = metric.split(['(', ',', ' ']).any(|path| path.starts_with("cost."));
    trials.iter().filter(|_| asked).find_map(|trial| trial.cost.lacks.clone())
}

/// The power of each host in the order of the lab, or what it lacks.
type Powers = Vec<Result<f64, String>>;

/// By the mean CPU of a host as a whole, percent of what its cores can do: of a host that was made, of its profile's cores at their
/// speed, `lab.speed` included.
fn powers(lab: &Lab, sampled: &Sampled, busy: fn(&HostSums) -> Mean) -> Powers {
    let power = |host: &experiment::plan::Host| {
        let profile = profile(lab, host)?;
        let (idle, load) = profile
            .idle_watts
            .zip(profile.load_watts)
            .ok_or_else(|| format!("no [power] with idle and load watts in profile `{}`", profile.name))?;
        let cpu_pct = sampled.host(&host.name).and_then(|host| busy(host).value());
        let cpu_pct = cpu_pct.ok_or("no CPU sampled in the measured part")?;
        Ok(watts(idle, load, cpu_pct))
    };
    lab.hosts.iter().map(power).collect()
}

fn profile<'a>(lab: &'a Lab, host: &experiment::plan::Host) -> Result<&'a Profile, String> {
    lab.profile_of(host).ok_or_else(|| "no profile".to_owned())
}

/// Of a host that used so much of what its cores can do.
fn watts(idle_watts: f64, load_watts: f64, cpu_pct: f64) -> f64 {
    idle_watts + (load_watts - idle_watts) * (cpu_pct / 100.0).clamp(0.0, 1.0)
}

fn set_watts(hosts: &mut [Host], lab: &Lab, powers: &Powers) {
    for (of_lab, power) in lab.hosts.iter().zip(powers) {
        if let (Some(host), Ok(watts)) = (hosts.iter_mut().find(|host| host.name == of_lab.name), power) {
            host.watts = Some(*watts);
            host.watts_source = Some(PROFILE.to_owned());
        }
    }
}

/// All of them together; `None` if one is not known.
fn sum(powers: &Powers) -> Option<f64> {
    powers.iter().map(|power| power.as_ref().ok().copied()).sum()
}

fn cost(trial: &Trial, lab: &Lab, measured: &Powers, whole: &Powers) -> Cost {
    let prices: Vec<Result<Price<'_>, String>> = lab.hosts.iter().map(|host| price(lab, host)).collect();
    let lacks = Lacks::of(lab, measured, &prices);
    // Without a price that can be added up there is no currency for electricity either.
    let price_per_s = lacks.price.is_none().then(|| prices.iter().flatten().map(|price| price.per_s).sum());
    let rates = Rates { price_per_s, electricity_per_kwh: lab.electricity_per_kwh };
    // The machine meant is as much faster as time was slowed.
    let speed = trial.emulated.as_ref().map_or(1.0, |emulated| emulated.speed);
    let meant = |cycles_per_s: Option<f64>| cycles_per_s.map(|per_s| per_s / speed).filter(|per_s| *per_s > 0.0);
    let cut = Spent { watts: sum(measured), cycles_per_s: meant(trial.throughput.cycles_per_s) };
    let all = Spent { watts: sum(whole), cycles_per_s: meant(trial.with_warmup.cycles_per_s) };
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

fn price<'a>(lab: &'a Lab, host: &experiment::plan::Host) -> Result<Price<'a>, String> {
    let profile = profile(lab, host)?;
    let price = profile.price.as_ref().ok_or_else(|| format!("no [price] in profile `{}`", profile.name))?;
    let years = profile.lifetime_years.filter(|years| *years > 0.0);
    let years = years.ok_or_else(|| format!("no lifetime_years in profile `{}`", profile.name))?;
    Ok(Price { per_s: price.amount / (years * YEAR_S), currency: &price.currency })
}

/// What a lab costs while it stands there.
struct Rates {
    /// Of all hosts.
    price_per_s: Option<f64>,
    electricity_per_kwh: Option<f64>,
}

/// What was drawn, and what was done with it.
struct Spent {
    watts: Option<f64>,
    cycles_per_s: Option<f64>,
}

impl Spent {
    fn joules_per_cycle(&self) -> Option<f64> {
        Some(self.watts? / self.cycles_per_s?)
    }

    fn electricity_per_million_cycles(&self, rates: &Rates) -> Option<f64> {
        Some(self.joules_per_cycle()? / JOULES_PER_KWH * rates.electricity_per_kwh? * MILLION)
    }

    /// With electricity, if that has a price.
    fn price_per_million_cycles(&self, rates: &Rates) -> Option<f64> {
        let hosts = rates.price_per_s? / self.cycles_per_s? * MILLION;
        match rates.electricity_per_kwh {
            None => Some(hosts),
            Some(_) => Some(hosts + self.electricity_per_million_cycles(rates)?),
        }
    }
}

#[cfg(test)]
mod tests;
