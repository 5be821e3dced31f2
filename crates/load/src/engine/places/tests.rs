//! Dealt out evenly, and as the engine's threads take it to be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// Every combination of a few numbers that a load can have.
fn all() -> Vec<Places> {
    let mut all = Vec::new();
    for agents in [1, 2, 3, 7, 16, 100, 101] {
        for pipeline in [1, 2, 3, 16, 1000] {
            for services in [1, 2, 3, 5] {
                let connections = connections(agents, services, pipeline);
                for threads in 1..=connections.min(4) {
                    all.push(Places { agents, connections, services, threads });
                }
            }
        }
    }
    all
}

fn connections(agents: u32, services: u32, pipeline: u32) -> u32 {
    Connections { keep_alive: true, pipeline }.of(agents, services)
}

#[test]
fn with_a_connection_each_agents_go_to_services_and_threads_in_turn() {
    let places = Places { agents: 7, connections: 7, services: 3, threads: 2 };
    assert_eq!((1..=7).map(|number| places.service_of(number)).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(places.agents_of(0).collect::<Vec<_>>(), [1, 3, 5, 7]);
    assert_eq!(places.agents_of(1).collect::<Vec<_>>(), [2, 4, 6]);
    assert_eq!(places.connections_of(1).collect::<Vec<_>>(), [1, 0, 2]);
}

#[test]
fn everybody_is_in_one_thread_and_takes_its_connections_in_turn() {
    for places in all() {
        let mut seen = Vec::new();
        let mut loads = Vec::new();
        for thread in 0..places.threads {
            let services: Vec<u32> = places.connections_of(thread).collect();
            let mut load = vec![0_u32; services.len()];
            for (index, number) in places.agents_of(thread).enumerate() {
                let connection = index % services.len();
                assert_eq!(services[connection], places.service_of(number), "agent {number} of {places:?}");
                assert_eq!(services[connection], (number - 1) % places.services, "as without a pipeline");
                load[connection] += 1;
                seen.push(number);
            }
            loads.extend(load);
        }
        seen.sort_unstable();
        assert_eq!(seen, (1..=places.agents).collect::<Vec<_>>(), "{places:?}");
        assert_eq!(loads.len(), places.connections as usize, "{places:?}");
        let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
        assert!(*least > 0 && most - least <= 1, "{places:?}: {loads:?}");
    }
}

#[test]
fn a_pipeline_holds_no_more_than_it_was_asked_to() {
    for (agents, services, pipeline, expected) in [
        (1, 1, 1, 1),
        (100, 1, 16, 7),
        (96, 1, 16, 6),
        (3, 1, 1000, 1),
        (50_000, 1, 1, 50_000),
        (100, 3, 16, 9),
        (4, 3, 1, 4),
        (10, 3, 1000, 3),
        (2, 3, 1000, 2),
    ] {
        assert_eq!(
            connections(agents, services, pipeline),
            expected,
            "{agents} agents, {services} services, {pipeline}"
        );
    }
    for places in all() {
        let most =
            (0..places.connections).map(|own| places.agents.saturating_sub(own).div_ceil(places.connections)).max();
        let pipelines = [1, 2, 3, 16, 1000];
        let fits = |pipeline: &&u32| connections(places.agents, places.services, **pipeline) == places.connections;
        assert!(most.unwrap() <= *pipelines.iter().filter(fits).min().unwrap(), "{places:?}");
    }
}

#[test]
fn requests_by_service() {
    assert_eq!(by_service(vec![vec!["a1", "b1"], vec!["a2", "b2"]]), ["a1", "a2", "b1", "b2"]);
    assert_eq!(by_service::<u8>(Vec::new()), [0; 0]);
}
