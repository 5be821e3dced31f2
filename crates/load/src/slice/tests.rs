//! Tests of slices: all slices of a load together have exactly the starts of the undivided load.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use experiment::plan::{AgentStage, Connections, Load, Rate, RateStage, Step};
use proptest::prelude::*;
use wire::protocols::lines::Lines;

use super::*;
use crate::engine::script::Script;
use crate::schedules::presence::AgentPresence;

fn orders(load: Load, services: u32, seed: u64, slice: Option<LoadSlice>) -> LoadOrder {
    LoadOrder {
        protocol: "lines".into(),
        services: (0..services).map(|number| format!("127.0.0.1:{}", 1000 + number)).collect(),
        load,
        purpose: LoadPurpose::Measure,
        seed,
        tls: Default::default(),
        files: wire::input_files::InputFiles::below(std::env::temp_dir()),
        slot_s: 0.01,
        tether: None,
        hosts: Vec::new(),
        without_ring: true,
        slice,
    }
}

fn load(agents: u32, pipeline: u32, rate: Option<Rate>) -> Load {
    let step = Step {
        call: "send".into(),
        name: "send".into(),
        with: [("line".to_owned(), "x".into())].into(),
        ..Step::default()
    };
    Load {
        agents,
        time_s: 3.0,
        timeout_s: 1.0,
        rate,
        connections: Connections { keep_alive: true, pipeline },
        steps: vec![step],
        ..Load::default()
    }
}

fn rate() -> impl Strategy<Value = Option<Rate>> {
    let stages = |(from, to): (f64, f64)| {
        Some(Rate::Stages(vec![RateStage { from, to, over_s: 1.0 }, RateStage { from: to, to: from, over_s: 2.0 }]))
    };
    prop_oneof![
        Just(None),
        (1.0..500.0).prop_map(|per_s| Some(Rate::Constant(per_s))),
        (1.0..500.0).prop_map(|poisson| Some(Rate::Poisson { poisson })),
        ((1.0..300.0), (1.0..300.0)).prop_map(stages),
    ]
}

/// An agent's work: its service, its connection's thread and place there, its first start and all
/// other starts.
type Part = (u32, u32, usize, u64, Vec<u64>);

/// Returns the work of each agent whose thread runs in this process.
fn played(orders: &LoadOrder) -> BTreeMap<u32, Part> {
    let script = Script::<Lines>::compile(orders).unwrap();
    let mut parts = BTreeMap::new();
    for thread in script.mine.clone() {
        let connections = script.places.connections_of(thread).count();
        for (place, number) in script.places.agents_of(thread).enumerate() {
            let group = &script.groups[script.group_of(number)];
            let index = number - 1 - group.before;
            let mut starts = Vec::new();
            group.schedule.due(index, 0, group.schedule.end_ns(), &mut |due| {
                starts.extend((0..due.count).map(|place| due.at_ns(place)));
            });
            let first_ns = group.schedule.first_ns(index);
            let part = (script.places.service_of(number), thread, place % connections, first_ns, starts);
            assert_eq!(parts.insert(number, part), None, "agent {number} is there twice");
        }
    }
    parts
}

proptest! {
    #[test]
    fn the_union_of_equal_slices_is_the_whole_schedule(
        agents in 1_u32..120,
        pipeline in prop_oneof![Just(1_u32), 2_u32..20],
        services in 1_u32..4,
        generators in 1_u32..9,
        each in 1_u32..5,
        rate in rate(),
        seed in any::<u64>(),
    ) {
        let load = load(agents, pipeline, rate);
        let threads = generators * each;
        let slices: Vec<LoadSlice> = LoadSlice::deal(generators, each).collect();
        let of_slice = |slice: &LoadSlice| orders(load.clone(), services, seed, Some(*slice));
        if load.connections.of(agents, services) < threads {
            let refused = Script::<Lines>::compile(&of_slice(&slices[0])).err().unwrap().to_string();
            prop_assert!(refused.contains("use fewer generators"), "{}", refused);
            return Ok(());
        }
        let mut union = BTreeMap::new();
        for slice in &slices {
            for (number, part) in played(&of_slice(slice)) {
                prop_assert_eq!(union.insert(number, part), None, "agent {} is in two slices", number);
            }
        }
        let whole = played(&orders(Load { threads: Some(threads), ..load.clone() }, services, seed, None));
        prop_assert_eq!(whole.len(), agents as usize);
        prop_assert_eq!(&union, &whole);
        // The starts of an agent do not depend on the number of threads.
        let starts = |parts: BTreeMap<u32, Part>| -> Vec<_> {
            parts.into_iter().map(|(number, (service, .., first_ns, starts))| (number, service, first_ns, starts)).collect()
        };
        let one = played(&orders(Load { threads: Some(1), ..load.clone() }, services, seed, None));
        prop_assert_eq!(starts(union), starts(one));
    }
}

/// Makes consecutive slices with these numbers of threads.
fn divided(counts: &[u32]) -> Vec<LoadSlice> {
    let threads = counts.iter().sum();
    let firsts = counts.iter().scan(0, |next, count| Some(std::mem::replace(next, *next + count)));
    firsts.zip(counts).map(|(first, &count)| LoadSlice { threads, first, count }).collect()
}

proptest! {
    /// Also holds if the processes have different numbers of threads, which no caller needs yet.
    #[test]
    fn the_union_of_any_slices_is_the_whole_schedule(
        agents in 30_u32..120,
        services in 1_u32..4,
        counts in prop::collection::vec(1_u32..6, 1..7),
        rate in rate(),
        seed in any::<u64>(),
    ) {
        let (load, slices) = (load(agents, 1, rate), divided(&counts));
        let mut union = BTreeMap::new();
        for slice in &slices {
            for (number, part) in played(&orders(load.clone(), services, seed, Some(*slice))) {
                prop_assert_eq!(union.insert(number, part), None, "agent {} is in two slices", number);
            }
        }
        let threads = Some(counts.iter().sum());
        let whole = played(&orders(Load { threads, ..load.clone() }, services, seed, None));
        prop_assert_eq!(whole.len(), agents as usize);
        prop_assert_eq!(&union, &whole);
    }
}

#[test]
fn the_agents_of_all_slices_are_those_of_each_stage() {
    let stages = [(0, 50, 1.0), (50, 50, 0.5), (50, 7, 1.0)].map(|(from, to, over_s)| AgentStage { from, to, over_s });
    let load = Load { agent_stages: stages.to_vec(), ..load(50, 1, None) };
    let slices: Vec<Script<Lines>> = divided(&[2, 1, 3])
        .into_iter()
        .map(|slice| Script::compile(&orders(load.clone(), 2, 5, Some(slice))).unwrap())
        .collect();
    for (at_ms, expected) in [(1, 1), (490, 25), (999, 50), (1_200, 50), (2_000, 29), (2_499, 8), (2_900, 7)] {
        let there = |script: &Script<Lines>, number: u32| {
            let presence = script.groups[script.group_of(number)].presence.as_ref().unwrap();
            matches!(presence.at(number - 1, at_ms * 1_000_000), AgentPresence::Until(_))
        };
        let of_slice = |script: &Script<Lines>| {
            let numbers = script.mine.clone().flat_map(|thread| script.places.agents_of(thread));
            numbers.filter(|number| there(script, *number)).count()
        };
        let all: Vec<usize> = slices.iter().map(of_slice).collect();
        assert_eq!(all.iter().sum::<usize>(), expected, "at {at_ms} ms: {all:?}");
    }
}

#[test]
fn equal_slices_are_consecutive() {
    assert_eq!(LoadSlice::deal(3, 2).collect::<Vec<_>>(), divided(&[2, 2, 2]));
}

#[test]
fn indivisible_loads_and_invalid_slices_are_refused() {
    let slice = LoadSlice { threads: 4, first: 0, count: 2 };
    let refused = |orders: LoadOrder| Script::<Lines>::compile(&orders).err().map(|error| error.to_string());
    let good = orders(load(8, 1, None), 1, 1, Some(slice));
    assert_eq!(refused(good.clone()), None);
    let counted = Load { count: Some(5), ..good.load.clone() };
    assert!(refused(LoadOrder { load: counted, ..good.clone() }).unwrap().contains("leave out `count`"));
    let prepares = LoadOrder { purpose: LoadPurpose::Prepare { count: 3 }, ..good.clone() };
    assert!(refused(prepares).unwrap().contains("preparation"));
    for bad in [
        LoadSlice { count: 0, ..slice },
        LoadSlice { first: 3, ..slice },
        LoadSlice { first: u32::MAX, ..slice },
        LoadSlice { threads: 0, first: 0, count: 0 },
    ] {
        assert!(
            refused(LoadOrder { slice: Some(bad), ..good.clone() }).unwrap().contains("not a valid part of a load"),
            "{bad:?}"
        );
    }
}
