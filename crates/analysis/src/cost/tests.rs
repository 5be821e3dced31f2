//! Costs worked out by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan;
use experiment::profile;
use record::results::{Emulated, Throughput, WithWarmup};

use record::rows::Sample;

use super::*;

/// The board and the virtual machine of the article.
fn pi() -> Profile {
    Profile {
        name: "pi".into(),
        idle_watts: Some(3.33),
        load_watts: Some(4.8),
        price: Some(profile::Price { amount: 50.0, currency: "EUR".into() }),
        lifetime_years: Some(5.0),
        ..Profile::default()
    }
}

fn blade_share() -> Profile {
    Profile {
        name: "vm".into(),
        idle_watts: Some(41.7),
        load_watts: Some(41.7),
        price: Some(profile::Price { amount: 833.0, currency: "EUR".into() }),
        ..pi()
    }
}

fn lab(hosts: &[(&str, Option<&str>)], profiles: Vec<Profile>) -> Lab {
    let host = |(name, profile): &(&str, Option<&str>)| plan::Host {
        name: (*name).into(),
        profile: profile.map(str::to_owned),
        ..plan::Host::default()
    };
    Lab { hosts: hosts.iter().map(host).collect(), speed: 1.0, profiles, ..Lab::default() }
}

fn pi2c() -> Lab {
    lab(&[("proxy", Some("pi")), ("n1", Some("pi")), ("n2", Some("pi"))], vec![pi()])
}

/// A host that used so much in the seconds from 1 to 8 of which the first two are the warm-up.
fn seconds(host: &str, warming_pct: f64, then_pct: f64) -> Vec<Sample> {
    let sample = |second: u32| Sample {
        at_s: f64::from(second),
        host: host.into(),
        cpu_user_pct: Some(if second <= 2 { warming_pct } else { then_pct } - 5.0),
        cpu_system_pct: Some(5.0),
        ..Sample::default()
    };
    (1..=8).map(sample).collect()
}

fn of_pi2c() -> Vec<Sample> {
    let process = Sample { process: "server".into(), ..seconds("n1", 10.0, 10.0)[4].clone() };
    let mut samples = [seconds("proxy", 5.0, 25.0), seconds("n1", 20.0, 100.0), seconds("n2", 20.0, 60.0)].concat();
    // Of the host they are a part, and the machine that makes the load is not in the lab.
    samples.push(process);
    samples.extend(seconds("local", 100.0, 100.0));
    samples
}

const WINDOW: LoadWindow = LoadWindow { from_s: 2.0, until_s: 8.0, first_fault_s: None, steady: None };

fn trial(cycles_per_s: f64, with_warmup: f64) -> Trial {
    Trial {
        throughput: Throughput { cycles_per_s: Some(cycles_per_s), ..Throughput::default() },
        with_warmup: WithWarmup { cycles_per_s: Some(with_warmup), ..WithWarmup::default() },
        hosts: ["proxy", "n1", "n2"].map(|name| Host { name: name.into(), ..Host::default() }).to_vec(),
        ..Trial::default()
    }
}

fn charged(lab: &Lab, samples: &[Sample], trial: Trial) -> Trial {
    let mut trial = trial;
    let mut sampled = Sampled::over(WINDOW.from_s, WINDOW.until_s);
    samples.iter().for_each(|sample| sampled.add(sample));
    charge(&mut trial, lab, &sampled, Some(&WINDOW));
    trial
}

fn near(value: Option<f64>, known: f64) {
    let value = value.unwrap();
    assert!((value / known - 1.0).abs() < 1e-6, "{value} and not {known}");
}

#[test]
fn watts_joules_and_price_are_those_of_the_hand() {
    let trial = charged(&pi2c(), &of_pi2c(), trial(40.0, 30.0));
    let cost = &trial.cost;
    // Each board: 3.33 + 1.47 × share. 25 %: 3.6975; 100 %: 4.8; 60 %: 4.212. Together 12.7095 W.
    let watts: Vec<f64> = trial.hosts.iter().map(|host| host.watts.unwrap()).collect();
    near(Some(watts[0]), 3.6975);
    near(Some(watts[1]), 4.8);
    near(Some(watts[2]), 4.212);
    near(cost.watts, 12.7095);
    assert_eq!(trial.hosts[0].watts_source.as_deref(), Some("profile"));
    // 12.7095 W / 40 cycles/s.
    near(cost.joules_per_cycle, 0.317_737_5);
    // EUR 150 over 5 × 31,557,600 s are EUR 9.506426e-7 a second; over 40 cycles/s, times a million: EUR 0.02376607.
    near(cost.price_per_million_cycles, 0.023_766_066);
    assert_eq!((cost.currency.as_deref(), cost.lacks.as_deref()), (Some("EUR"), None));
    assert_eq!(cost.electricity_per_million_cycles, None, "nobody said what it costs");
    assert!(cost.modelled);
}

#[test]
fn with_the_warm_up_it_is_the_whole_load() {
    let cost = charged(&pi2c(), &of_pi2c(), trial(40.0, 30.0)).cost.with_warmup;
    // Two seconds in eight at 5, 20 and 20 %: means of 20, 80 and 50 %. 3 × 3.33 + 1.47 × 1.5 = 12.195 W; / 30 = 0.4065 J.
    near(cost.watts, 12.195);
    near(cost.joules_per_cycle, 0.4065);
    near(cost.price_per_million_cycles, 0.031_688_088);
}

#[test]
fn slowed_time_costs_the_machine_meant_nothing() {
    let slowed = Trial { emulated: Some(Emulated { speed: 0.5, ..Emulated::default() }), ..trial(20.0, 15.0) };
    let mut lab = pi2c();
    lab.speed = 0.5;
    let (slowed, real) = (charged(&lab, &of_pi2c(), slowed).cost, charged(&pi2c(), &of_pi2c(), trial(40.0, 30.0)).cost);
    assert_eq!(slowed, real);
}

#[test]
fn electricity_is_in_the_price_where_it_has_one() {
    let lab = Lab { electricity_per_kwh: Some(0.25), ..pi2c() };
    let cost = charged(&lab, &of_pi2c(), trial(40.0, 30.0)).cost;
    // 317,737.5 J for a million cycles are 0.08826042 kWh, at EUR 0.25: EUR 0.02206510; with the hosts' 0.02376607.
    near(cost.electricity_per_million_cycles, 0.022_065_104);
    near(cost.price_per_million_cycles, 0.045_831_17);
    // 406,500 J: EUR 0.02822917, and the hosts' 0.03168809.
    near(cost.with_warmup.price_per_million_cycles, 0.059_917_255);
}

#[test]
fn a_share_of_a_blade_draws_the_same_at_any_load() {
    let lab = lab(&[("n1", Some("vm"))], vec![blade_share()]);
    let cost = charged(&lab, &seconds("n1", 20.0, 60.0), trial(10.0, 10.0)).cost;
    near(cost.watts, 41.7);
    near(cost.joules_per_cycle, 4.17);
    // EUR 833 over 157,788,000 s: 5.279235e-6 a second, over 10 cycles/s.
    near(cost.price_per_million_cycles, 0.527_923_5);
}

#[test]
fn more_than_all_cores_is_all_cores() {
    let lab = lab(&[("n1", Some("pi"))], vec![pi()]);
    near(charged(&lab, &seconds("n1", 100.0, 104.0), trial(1.0, 1.0)).cost.watts, 4.8);
}

#[test]
fn what_a_host_lacks_is_said_and_nothing_made_up() {
    let bare = Profile { name: "bare".into(), ..Profile::default() };
    let lab = lab(&[("proxy", None), ("n1", Some("bare")), ("n2", Some("bare"))], vec![bare]);
    let trial = charged(&lab, &of_pi2c(), trial(40.0, 30.0));
    assert_eq!(
        trial.cost.lacks.as_deref().unwrap(),
        "Energy is not known: no profile for proxy; no [power] with idle and load watts in profile `bare` for n1, n2. \
         Price is not known: no profile for proxy; no [price] in profile `bare` for n1, n2."
    );
    assert_eq!(Cost { lacks: None, ..trial.cost }, Cost::default());
    assert!(trial.hosts.iter().all(|host| host.watts.is_none() && host.watts_source.is_none()));
}

#[test]
fn one_host_that_was_not_sampled_leaves_the_price() {
    let samples: Vec<Sample> =
        of_pi2c().into_iter().filter(|sample| sample.host != "n2" || sample.at_s < 2.5).collect();
    let lab = Lab { electricity_per_kwh: None, ..pi2c() };
    let trial = charged(&lab, &samples, trial(40.0, 30.0));
    assert_eq!(
        trial.cost.lacks.as_deref().unwrap(),
        "Energy is not known: no CPU sampled in the measured part for n2."
    );
    assert_eq!((trial.cost.watts, trial.cost.joules_per_cycle), (None, None));
    near(trial.cost.price_per_million_cycles, 0.023_766_066);
    assert!(trial.hosts[1].watts.is_some() && trial.hosts[2].watts.is_none());

    let cost = charged(&Lab { electricity_per_kwh: Some(0.25), ..lab }, &samples, self::trial(40.0, 30.0)).cost;
    assert_eq!(cost.price_per_million_cycles, None, "electricity was to be in it");
    assert!(cost.lacks.unwrap().ends_with("electricity is to be in it, and energy is not known."));
}

#[test]
fn two_currencies_are_not_added_up() {
    let board =
        Profile { name: "board".into(), price: Some(profile::Price { amount: 80.0, currency: "USD".into() }), ..pi() };
    let lab = lab(&[("proxy", Some("pi")), ("n1", Some("board")), ("n2", Some("pi"))], vec![pi(), board]);
    let cost = charged(&lab, &of_pi2c(), trial(40.0, 30.0)).cost;
    assert_eq!((cost.price_per_million_cycles, cost.currency, cost.joules_per_cycle.is_some()), (None, None, true));
    let lacks = "Price is not known: two currencies cannot be added up: EUR for proxy, n2; USD for n1.";
    assert_eq!(cost.lacks.as_deref(), Some(lacks));
}

#[test]
fn a_price_without_a_lifetime_is_none() {
    let lab = lab(&[("n1", Some("pi"))], vec![Profile { lifetime_years: None, ..pi() }]);
    let cost = charged(&lab, &of_pi2c(), trial(40.0, 30.0)).cost;
    assert_eq!(cost.lacks.as_deref(), Some("Price is not known: no lifetime_years in profile `pi` for n1."));
}

#[test]
fn without_cycles_hosts_or_a_load_there_is_no_cost() {
    let none = charged(&pi2c(), &of_pi2c(), trial(0.0, 0.0)).cost;
    assert_eq!((none.joules_per_cycle, none.price_per_million_cycles), (None, None), "not infinitely much");
    assert!(none.watts.is_some() && none.lacks.unwrap().contains("No full cycle"));
    let local = charged(&lab(&[], Vec::new()), &of_pi2c(), trial(40.0, 30.0)).cost;
    assert!(local.watts.is_none() && local.lacks.unwrap().contains("no hosts with profiles"));
    let mut idle = trial(40.0, 30.0);
    charge(&mut idle, &pi2c(), &Sampled::default(), None);
    assert_eq!(idle.cost.lacks.as_deref(), Some("Cost is not known: no load was measured."));
}

#[test]
fn costs_can_be_claimed() {
    let trial = charged(&pi2c(), &of_pi2c(), trial(40.0, 30.0));
    for path in
        ["cost.watts", "cost.joules_per_cycle", "cost.price_per_million_cycles", "cost.with_warmup.joules_per_cycle"]
    {
        assert_eq!(crate::metrics::metric(&trial, path).len(), 1, "{path}");
        assert!(crate::metrics::metric_paths().iter().any(|known| known == path), "{path}");
    }
}

#[test]
fn a_claim_and_a_gate_on_a_cost_that_is_not_known_say_why() {
    let lacking = charged(&lab(&[("n1", None)], Vec::new()), &of_pi2c(), trial(40.0, 30.0));
    let range = plan::Range { below: Some(1.0), ..plan::Range::default() };
    let claim = plan::Claim {
        says: String::new(),
        source: String::new(),
        metric: "cost.joules_per_cycle".into(),
        range: range.clone(),
        filter: std::collections::BTreeMap::new(),
    };
    let gate = plan::Requirement { metric: claim.metric.clone(), range, filter: claim.filter.clone() };
    let found = crate::claims::claim(&claim, std::slice::from_ref(&lacking));
    assert_eq!((found.value, found.holds), (None, record::results::Holds::NotMeasured));
    assert!(found.note.contains("no profile for n1"), "{}", found.note);
    let gate = crate::claims::requirement(&gate, std::slice::from_ref(&lacking));
    assert!(!gate.holds && gate.unmeasured.unwrap().contains("no profile for n1"));
    let known = charged(&pi2c(), &of_pi2c(), trial(40.0, 30.0));
    let found = crate::claims::claim(&claim, &[known]);
    assert_eq!((found.holds, found.note.as_str()), (record::results::Holds::Yes, ""));
}
