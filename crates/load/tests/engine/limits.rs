//! Loads that are refused before they start, and loads that end early.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use experiment::plan::{Backlog, Connections, Feed, Load, Overflow, Pause, Rate, RateStage};
use load::{Error, LoadOrder};
use record::clock::Clock;

use crate::server::{Reply, Server};
use crate::setting::{load, orders, pairs, step};

fn refused(change: impl Fn(&mut LoadOrder)) -> String {
    let mut orders = orders("127.0.0.1:1", load(1, 1.0, vec![step("ping", &[])]));
    assert!(load::check(&orders).is_ok());
    change(&mut orders);
    load::check(&orders).unwrap_err().to_string()
}

fn stages(from: f64, to: f64, over_s: f64) -> Rate {
    Rate::Stages(vec![RateStage { from, to, over_s }])
}

fn replayed(stretch: f64) -> Rate {
    Rate::Replay { replay: "no-such-file.csv".into(), stretch }
}

#[test]
fn invalid_orders_are_refused() {
    let of_load = |change: fn(&mut Load)| refused(|orders| change(&mut orders.load));
    let table = [
        (refused(|orders| orders.protocol = "gopher".into()), "gopher"),
        (refused(|orders| orders.services.push("nowhere".into())), "service `nowhere`: "),
        (refused(|orders| orders.services.clear()), "a load needs a service"),
        (refused(|orders| orders.slot_s = 0.0), "negative"),
        (of_load(|load| load.rate = Some(Rate::Constant(0.0))), "operations/s"),
        (of_load(|load| load.rate = Some(Rate::Constant(f64::NAN))), "operations/s"),
        (of_load(|load| load.rate = Some(Rate::Constant(2e9))), "operations/s"),
        (of_load(|load| load.rate = Some(Rate::Poisson { poisson: 2e7 })), "operations/s"),
        (of_load(|load| load.rate = Some(Rate::Stages(Vec::new()))), "each stage of a rate"),
        (of_load(|load| load.rate = Some(stages(0.0, 0.0, 1.0))), "each stage of a rate"),
        (of_load(|load| load.rate = Some(stages(-1.0, 0.0, 1.0))), "operations/s"),
        (of_load(|load| load.rate = Some(stages(1.0, 2.0, 0.0))), "each stage of a rate"),
        (of_load(|load| load.rate = Some(replayed(0.0))), "`stretch` must be"),
        (of_load(|load| load.rate = Some(replayed(1.0))), "no-such-file.csv"),
        (
            of_load(|load| load.connections = Connections { keep_alive: false, pipeline: 2 }),
            "connections that are kept",
        ),
        (of_load(|load| load.backlog = Some(Backlog { most: 1, overflow: Overflow::Drop })), "open loop"),
        (of_load(|load| load.think = Some(Pause::Fixed(-1.0))), "negative"),
        (of_load(|load| (load.rate, load.think_s) = (Some(Rate::Constant(1.0)), 0.1)), "exclude each other"),
        (of_load(|load| load.agents = 0), "at least one agent"),
        (of_load(|load| load.from = vec!["::1".parse().unwrap()]), "needs an IPv4 address"),
        (of_load(|load| load.steps.clear()), "at least one agent"),
        (of_load(|load| load.timeout_s = 0.0), "timeout"),
        (of_load(|load| load.think_s = -1.0), "negative"),
        (of_load(|load| load.steps = vec![step("fetch", &[])]), "no operation `fetch`"),
        (of_load(|load| load.steps = vec![step("save", &["key=k"])]), "needs `value`"),
        (of_load(|load| load.steps = vec![step("load", &["key={other}"])]), "keeps `other`"),
        (of_load(|load| load.steps = vec![step("load", &["key={feed.users.name}"])]), "no feed `users`"),
        (
            of_load(|load| load.steps = vec![step("load", &["key={env:NO_SUCH_VARIABLE_HERE}"])]),
            "NO_SUCH_VARIABLE_HERE",
        ),
        (of_load(|load| load.steps[0].keep = pairs(&["a=request.key"])), "no argument `key` to keep"),
        (of_load(|load| load.steps[0].keep = pairs(&["a=key"])), "neither request.FIELD"),
        (of_load(|load| load.steps[0].expect = pairs(&["value=x"])), "has no `value`"),
        (of_load(|load| load.steps[0].audit = true), "cannot be audited"),
        (
            of_load(|load| {
                load.feeds = vec![Feed { name: "f".into(), file: "no-such-file.csv".into(), ..Feed::default() }]
            }),
            "no-such-file.csv",
        ),
    ];
    for (error, expected) in table {
        assert!(error.contains(expected), "`{error}` should contain `{expected}`");
    }
}

#[test]
fn a_slot_must_be_kept_before_it_is_used() {
    let mut use_it = step("load", &["key={saved}"]);
    use_it.name = "use".into();
    let mut keep_it = step("save", &["key=k", "value=v"]);
    keep_it.keep = pairs(&["saved=request.value"]);
    let orders_of = |steps| orders("127.0.0.1:1", load(1, 1.0, steps));
    assert!(load::check(&orders_of(vec![keep_it.clone(), use_it.clone()])).is_ok());
    let error = load::check(&orders_of(vec![use_it, keep_it])).unwrap_err();
    assert!(matches!(&error, Error::Step { step, .. } if step == "use"), "{error}");
}

#[test]
fn too_many_agents_are_refused() {
    let error = load::check(&orders("127.0.0.1:1", load(4_000_000_000, 1.0, vec![step("ping", &[])]))).unwrap_err();
    assert!(matches!(error, Error::Files { .. } | Error::Transport(transport::error::Error::Ports { .. })), "{error}");
}

#[test]
fn a_load_can_be_stopped_and_aborted() {
    for abort in [false, true] {
        let server = Server::frames(|_| Reply::Frame(0, Vec::new()));
        let (sink, intervals) = sync_channel(1000);
        let running = load::start(
            orders(&server.service(), load(2, 600.0, vec![step("ping", &[])])),
            Clock::starting_in(Duration::ZERO),
            sink,
        )
        .unwrap();
        assert!(!running.is_finished());
        // The first second has arrived, so operations have run for a while.
        let first = intervals.recv().unwrap();
        assert!(first.generator.operations > 0 && !first.is_last);
        if abort {
            running.abort()
        } else {
            running.stop()
        }
        let summary = running.join().unwrap();
        assert!(summary.ok >= first.generator.operations);
        assert!(abort || summary.unfinished == 0);
        assert!(intervals.iter().any(|interval| interval.is_last));
    }
}

#[test]
fn an_abort_does_not_wait_for_load_start() {
    let (sink, _intervals) = sync_channel(10);
    let orders = orders("127.0.0.1:1", load(1, 1.0, vec![step("ping", &[])]));
    let running = load::start(orders, Clock::starting_in(Duration::from_secs(3600)), sink).unwrap();
    running.abort();
    assert_eq!(running.join().unwrap(), load::Summary::default());
}

#[test]
fn the_load_ends_if_its_recorder_is_gone() {
    let server = Server::frames(|_| Reply::Frame(0, Vec::new()));
    let (sink, intervals) = sync_channel(10);
    drop(intervals);
    let orders = orders(&server.service(), load(1, 600.0, vec![step("ping", &[])]));
    let running = load::start(orders, Clock::starting_in(Duration::ZERO), sink).unwrap();
    assert!(matches!(running.join(), Err(Error::RecorderGone)));
}
