//! Costs computed by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::{plan, profile};
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
    let hosts = hosts.iter().map(|(name, profile)| plan::Host {
        name: (*name).into(),
        profile: profile.map(str::to_owned),
        ..plan::Host::default()
    });
    Lab { hosts: hosts.collect(), speed: 1.0, profiles, ..Lab::default() }
}

fn pi2c() -> Lab {
    lab(&[("proxy", Some("pi")), ("n1", Some("pi")), ("n2", Some("pi"))], vec![pi()])
}

/// A host with this CPU use in the seconds from 1 to 8, of which the first two are the warm-up.
fn seconds(host: &str, warming_pct: f64, then_pct: f64) -> Vec<Sample> {
    let samples = (1..=8).map(|second| Sample {
        at_s: f64::from(second),
        host: host.into(),
        cpu_user_pct: Some(if second <= 2 { warming_pct } else { then_pct } - 5.0),
        cpu_system_pct: Some(5.0),
        ..Sample::default()
    });
    samples.collect()
}

fn of_pi2c() -> Vec<Sample> {
    let process = Sample { process: "server".into(), ..seconds("n1", 10.0, 10.0)[4].clone() };
    let mut samples = [seconds("proxy", 5.0, 25.0), seconds("n1", 20.0, 100.0), seconds("n2", 20.0, 60.0)].concat();
    // The process is part of the host, and the load-generating machine is not in the lab.
    samples.push(process);
    samples.extend(seconds("local", 100.0, 100.0));
    samples
}

const WINDOW: LoadWindow = LoadWindow { from_s: 2.0, until_s: 8.0, first_fault_s: None, steady: None, is_over: false };

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
fn watts_joules_and_price_match_a_manual_calculation() {
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
    // EUR 150 over 5 × 31,557,600 s are EUR 9.506426e-7 a second; over 40 cycles/s, times a
    // million: EUR 0.02376607.
    near(cost.price_per_million_cycles, 0.023_766_066);
    assert_eq!((cost.currency.as_deref(), cost.lacks.as_deref()), (Some("EUR"), None));
    assert_eq!(cost.electricity_per_million_cycles, None, "nobody said what it costs");
    assert!(cost.modelled);
}

#[test]
fn cost_with_warm_up_covers_the_whole_load() {
    let cost = charged(&pi2c(), &of_pi2c(), trial(40.0, 30.0)).cost.with_warmup;
    // Two seconds in eight at 5, 20 and 20 %: means of 20, 80 and 50 %. 3 × 3.33 + 1.47 × 1.5 =
    // 12.195 W; / 30 = 0.4065 J.
    near(cost.watts, 12.195);
    near(cost.joules_per_cycle, 0.4065);
    near(cost.price_per_million_cycles, 0.031_688_088);
}

#[test]
fn slowed_time_does_not_change_the_cost() {
    let slowed = Trial { emulated: Some(Emulated { speed: 0.5, ..Emulated::default() }), ..trial(20.0, 15.0) };
    let mut lab = pi2c();
    lab.speed = 0.5;
    let (slowed, real) = (charged(&lab, &of_pi2c(), slowed).cost, charged(&pi2c(), &of_pi2c(), trial(40.0, 30.0)).cost);
    assert_eq!(slowed, real);
}

#[test]
fn electricity_with_a_price_is_included() {
    let lab = Lab { electricity_per_kwh: Some(0.25), ..pi2c() };
    let cost = charged(&lab, &of_pi2c(), trial(40.0, 30.0)).cost;
    // 317,737.5 J for a million cycles are 0.08826042 kWh, at EUR 0.25: EUR 0.02206510; with the
    // hosts' 0.02376607.
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
fn usage_above_all_cores_is_capped() {
    let lab = lab(&[("n1", Some("pi"))], vec![pi()]);
    near(charged(&lab, &seconds("n1", 100.0, 104.0), trial(1.0, 1.0)).cost.watts, 4.8);
}

#[test]
fn missing_profile_data_is_reported() {
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
fn an_unsampled_host_leaves_only_the_price() {
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
    assert!(cost.lacks.unwrap().ends_with("it includes electricity, and energy is not known."));
}

#[test]
fn two_currencies_are_not_added_up() {
    let board =
        Profile { name: "board".into(), price: Some(profile::Price { amount: 80.0, currency: "USD".into() }), ..pi() };
    let lab = lab(&[("proxy", Some("pi")), ("n1", Some("board")), ("n2", Some("pi"))], vec![pi(), board]);
    let cost = charged(&lab, &of_pi2c(), trial(40.0, 30.0)).cost;
    assert_eq!((cost.price_per_million_cycles, cost.currency, cost.joules_per_cycle.is_some()), (None, None, true));
    let lacks = "Price is not known: prices in two currencies cannot be added: EUR for proxy, n2; USD for n1.";
    assert_eq!(cost.lacks.as_deref(), Some(lacks));
}

#[test]
fn a_price_needs_a_lifetime() {
    let lab = lab(&[("n1", Some("pi"))], vec![Profile { lifetime_years: None, ..pi() }]);
    let cost = charged(&lab, &of_pi2c(), trial(40.0, 30.0)).cost;
    assert_eq!(cost.lacks.as_deref(), Some("Price is not known: no lifetime_years in profile `pi` for n1."));
}

#[test]
fn a_cost_needs_cycles_hosts_and_a_load() {
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
        assert_eq!(crate::metrics::metric(&trial, &path.into()).len(), 1, "{path}");
        assert!(crate::metrics::metric_paths().iter().any(|known| known == path), "{path}");
    }
}

#[test]
fn claims_and_gates_on_unknown_costs_have_reasons() {
    let lacking = charged(&lab(&[("n1", None)], Vec::new()), &of_pi2c(), trial(40.0, 30.0));
    let range = plan::MetricRange { below: Some(1.0), ..plan::MetricRange::default() };
    let claim = plan::Claim {
        says: String::new(),
        source: String::new(),
        metric: "cost.joules_per_cycle".into(),
        range: range.clone(),
        filter: std::collections::BTreeMap::new(),
        on_void: false,
    };
    let gate = plan::Requirement { metric: claim.metric.clone(), range, filter: claim.filter.clone() };
    let found = crate::claims::claim(&claim, std::slice::from_ref(&lacking), &[]);
    assert_eq!((found.value, found.holds), (None, record::results::Holds::NotMeasured));
    assert!(found.note.contains("no profile for n1"), "{}", found.note);
    let gate = crate::claims::requirement(&gate, std::slice::from_ref(&lacking), &[]);
    assert!(!gate.holds && gate.unmeasured.unwrap().contains("no profile for n1"));
    let known = charged(&pi2c(), &of_pi2c(), trial(40.0, 30.0));
    let found = crate::claims::claim(&claim, &[known], &[]);
    assert_eq!((found.holds, found.note.as_str()), (record::results::Holds::Yes, ""));
}

mod points {
    use record::results::{Emulated, Throughput, Trust, Verdict, counting};
    use serde_json::json;

    use super::super::*;

    /// 12 W and about EUR 0.1 per hour: the cost of a cycle is proportional to one over the rate.
    fn trial(variant: &str, point: &[(&str, u32)], cycles_per_s: f64) -> Trial {
        Trial {
            variant: Some(variant.to_owned()).filter(|name| !name.is_empty()),
            point: point.iter().map(|(path, value)| ((*path).to_owned(), json!(value))).collect(),
            throughput: Throughput { cycles_per_s: Some(cycles_per_s), ..Throughput::default() },
            cost: Cost {
                watts: Some(12.0),
                joules_per_cycle: Some(12.0 / cycles_per_s),
                price_per_million_cycles: Some(30.0 / cycles_per_s),
                currency: Some("EUR".to_owned()),
                with_warmup: CostWithWarmup {
                    joules_per_cycle: Some(13.0 / cycles_per_s),
                    ..CostWithWarmup::default()
                },
                modelled: true,
                ..Cost::default()
            },
            ..Trial::default()
        }
    }

    const AGENTS: &str = "load.agents";

    #[track_caller]
    fn near(value: f64, known: f64) {
        assert!((value - known).abs() < 1e-5, "{value} and not {known}");
    }

    #[test]
    fn means_and_intervals_match_a_manual_calculation() {
        // J at 1 agent 2, 3, 4 (mean 3), at 2 agents 1, 1.2 (mean 1.1). Squares of the residuals,
        // as shares of the mean and enlarged by √(3/2) and √2: (1/3)² × 1.5 = 0.1666667 twice, 0
        // once, (0.1/1.1)² × 2 = 0.0165289 twice. Their mean over 5: 0.0732782, so a relative
        // spread of 0.2706994 with 3 degrees of freedom, t = 3.182446. Half widths: × 3 / √3 =
        // 1.492135 and × 1.1 / √2 = 0.670078.
        let rates = [(1, 6.0), (1, 4.0), (1, 3.0), (2, 12.0), (2, 10.0)];
        let mut trials = rates.map(|(agents, rate)| trial("", &[(AGENTS, agents)], rate)).to_vec();
        // The repeats of another variant differ more, which says nothing about this one.
        trials.extend([1.0, 9.0, 30.0].map(|rate| trial("other", &[(AGENTS, 1)], rate)));
        let costs = points(&counting(&trials));
        let [one, two, _] = costs.as_slice() else { panic!("{costs:?}") };
        near(one.joules_per_cycle.unwrap(), 3.0);
        near(two.joules_per_cycle.unwrap(), 1.1);
        let [low, high] = one.joules_per_cycle_ci95.unwrap();
        near(low, 3.0 - 1.492_135);
        near(high, 3.0 + 1.492_135);
        let [low, high] = two.joules_per_cycle_ci95.unwrap();
        near(low, 1.1 - 0.670_078);
        near(high, 1.1 + 0.670_078);
        // The price is 2.5 times the energy.
        near(two.price_per_million_cycles_ci95.unwrap()[0], 2.5 * (1.1 - 0.670_078));
        assert_eq!((one.trials, two.trials, one.watts, one.currency.as_deref()), (3, 2, Some(12.0), Some("EUR")));
        near(two.with_warmup.joules_per_cycle.unwrap(), 13.0 / 12.0 * 1.1);
    }

    #[test]
    fn an_interval_needs_repeats() {
        let costs = points(&counting(&[trial("a", &[(AGENTS, 1)], 6.0), trial("a", &[(AGENTS, 2)], 9.0)]));
        assert!(costs.iter().all(|cost| cost.joules_per_cycle.is_some() && cost.joules_per_cycle_ci95.is_none()));
    }

    #[test]
    fn peak_and_cheapest_point_are_marked_for_each_curve() {
        let mut trials = Vec::new();
        for (variant, hosts, rates) in
            [("pi", 1, [5.0, 9.0, 8.0]), ("pi", 3, [4.0, 20.0, 25.0]), ("xeon", 1, [9.0, 8.0, 7.0])]
        {
            for (agents, rate) in [1, 2, 4].into_iter().zip(rates) {
                trials.push(trial(variant, &[(AGENTS, agents), ("lab.hosts", hosts)], rate));
            }
        }
        // A point with the least energy, though not the lowest price.
        trials[2].cost.joules_per_cycle = Some(0.1);
        let costs = points(&counting(&trials));
        let marked = |of: fn(&PointCost) -> bool| -> Vec<usize> { (0..9).filter(|&index| of(&costs[index])).collect() };
        assert_eq!(marked(|cost| cost.at_peak), [1, 5, 6], "one for each variant and number of hosts");
        assert_eq!(marked(|cost| cost.cheapest), [1, 5, 6]);
        for trial in &mut trials {
            trial.cost.price_per_million_cycles = None;
        }
        let costs = points(&counting(&trials));
        let cheapest: Vec<usize> = (0..9).filter(|&index| costs[index].cheapest).collect();
        assert_eq!(cheapest, [2, 5, 6], "without a price by energy");
    }

    #[test]
    fn cycles_are_those_of_the_emulated_machine() {
        let mut slowed = trial("", &[], 10.0);
        let throughput = Throughput { cycles_per_s: Some(40.0), ..Throughput::default() };
        slowed.emulated = Some(Emulated { speed: 0.25, throughput, ..Emulated::default() });
        assert_eq!(points(&counting(&[slowed]))[0].cycles_per_s, Some(40.0));
    }

    #[test]
    fn void_trials_are_skipped_and_unknown_costs_shown() {
        let mut void = trial("a", &[], 1.0);
        void.verdict = Verdict { is: Trust::Void, ..Verdict::default() };
        let mut unknown = trial("b", &[], 8.0);
        unknown.cost = Cost { lacks: Some("Energy is not known: no profile for n1.".to_owned()), ..Cost::default() };
        let costs = points(&counting(&[void, trial("a", &[], 6.0), unknown.clone()]));
        assert_eq!((costs.len(), costs[0].trials, costs[0].joules_per_cycle), (2, 1, Some(2.0)));
        assert_eq!((costs[1].trials, costs[1].joules_per_cycle, costs[1].cheapest), (0, None, false));
        assert_eq!(costs[1].lacks, unknown.cost.lacks);
        assert_eq!(points(&counting(&[unknown])), Vec::new(), "nothing where nobody has a cost");
    }
}
