//! Rates that vary, played: the number of operations follows the schedule, counted in the second of
//! their intended start.

use experiment::plan::{Load, Rate, RateStage};
use fixture::TestDir;

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, play, step};

fn at(agents: u32, time_s: f64, rate: Rate) -> Load {
    Load { rate: Some(rate), drain_s: 60.0, ..load(agents, time_s, vec![step("ping", &[])]) }
}

fn good() -> Server {
    Server::frames(|_| Reply::Frame(0, Vec::new()))
}

/// Returns the number of operations that were due in each second, over all threads.
fn due(run: &LoadRun) -> Vec<u64> {
    let mut due = Vec::new();
    for second in run.intervals.iter().map(|interval| &interval.generator) {
        let number = (second.at_s - 1e-6) as usize;
        due.resize(due.len().max(number + 1), 0);
        due[number] += second.due.unwrap();
    }
    while due.last() == Some(&0) {
        due.pop();
    }
    due
}

#[test]
fn stages_keep_their_rate_in_each_second() {
    let stages = vec![
        RateStage { from: 0.0, to: 200.0, over_s: 2.0 },
        RateStage { from: 50.0, to: 50.0, over_s: 1.0 },
        RateStage { from: 400.0, to: 0.0, over_s: 1.0 },
    ];
    let server = good();
    for (agents, threads) in [(1, 1), (7, 2)] {
        let mut load = at(agents, 5.0, Rate::Stages(stages.clone()));
        load.threads = Some(threads);
        let run = play(orders(&server.service(), load));
        assert_eq!(due(&run), [50, 150, 50, 200], "{agents} agents");
        assert_eq!((run.summary.ok, run.summary.unfinished), (450, 0));
        assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
    }
}

#[test]
fn the_same_seed_gives_the_same_random_load() {
    let server = good();
    let played = |seed: u64, threads: u32| {
        let mut load = at(5, 1.0, Rate::Poisson { poisson: 300.0 });
        load.threads = Some(threads);
        let mut orders = orders(&server.service(), load);
        orders.seed = seed;
        let run = play(orders);
        assert_eq!(due(&run).iter().sum::<u64>(), run.summary.ok);
        assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
        run.summary.ok
    };
    let of_seeds: Vec<u64> = (1..=5).map(|seed| played(seed, 1)).collect();
    assert_eq!(played(1, 2), of_seeds[0], "however many threads");
    assert!(of_seeds.iter().any(|count| *count != of_seeds[0]), "{of_seeds:?}");
    // Four standard deviations.
    assert!(of_seeds.iter().all(|count| count.abs_diff(300) < 70), "{of_seeds:?}");
}

#[test]
fn a_replay_reports_starts_after_the_load() {
    let server = good();
    let folder = TestDir::new();
    let replay = folder.write("recorded.csv", "at_s\n0\n0.1\n0.1\n0.1\n0.95\n1.0\n1.5\n7\n").display().to_string();
    let run = play(orders(&server.service(), at(2, 2.0, Rate::Replay { replay, stretch: 1.0 })));
    assert_eq!(due(&run), [5, 2]);
    assert_eq!(run.summary.ok, 7);
    let found: Vec<&str> = run.notices().into_iter().filter(|notice| notice.contains("not played")).collect();
    assert_eq!(found.len(), 1, "once, whatever the number of threads");
    assert!(found[0].starts_with("1 of the 8 starts in "), "{found:?}");
}

#[test]
fn a_silent_target_leaves_every_operation_unfinished() {
    let stages = vec![RateStage { from: 0.0, to: 1000.0, over_s: 1.0 }];
    let server = Server::frames(|_| Reply::Silence);
    for rate in [Rate::Stages(stages), Rate::Poisson { poisson: 500.0 }] {
        let mut load = at(3, 1.0, rate);
        load.drain_s = 0.1;
        load.timeout_s = 60.0;
        let run = play(orders(&server.service(), load));
        assert_eq!(due(&run).iter().sum::<u64>(), run.summary.unfinished);
        assert!(run.summary.unfinished.abs_diff(500) < 100, "{}", run.summary.unfinished);
        assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
    }
}
