//! `load.rate` in its forms and `load.backlog`: their plan, and plans of older versions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use experiment::plan::{Backlog, Load, Overflow, Plan, Rate, RateStage};
use experiment::timeline;
use known::read;

fn plan(load: &str, more: &str, sets: &[&str]) -> Plan {
    let file = format!(
        "[target]\nuse = \"vsns\"\n[load]\nagents = 10\ntime = \"1m\"\n{load}\n[[load.cycle]]\ncall = \"ping\"\n{more}"
    );
    read(&file, sets).unwrap_or_else(|problems| panic!("{problems}"))
}

fn load(load: &str, more: &str, sets: &[&str]) -> Load {
    plan(load, more, sets).trials[0].load.clone().unwrap()
}

fn rate(text: &str) -> Rate {
    load(&format!("rate = {text}"), "", &[]).rate.unwrap()
}

fn stage(from: f64, to: f64, over_s: f64) -> RateStage {
    RateStage { from, to, over_s }
}

#[test]
fn the_forms_of_a_rate() {
    assert_eq!(rate("5000"), Rate::Constant(5000.0));
    assert_eq!(rate("{ poisson = 2.5 }"), Rate::Poisson { poisson: 2.5 });
    assert_eq!(rate("{ replay = \"a/starts.csv\" }"), Rate::Replay { replay: "a/starts.csv".into(), stretch: 1.0 });
    let stages = "[{ to = 100, over = \"10s\" }, { at = 100, for = \"20s\" }, { at = 300, for = \"1s\" }, { to = 0, over = \"5s\" }, \
                  { from = 50, to = 60, over = \"24s\" }]";
    let expected = [
        stage(0.0, 100.0, 10.0),
        stage(100.0, 100.0, 20.0),
        stage(300.0, 300.0, 1.0),
        stage(300.0, 0.0, 5.0),
        stage(50.0, 60.0, 24.0),
    ];
    assert_eq!(rate(stages), Rate::Stages(expected.to_vec()), "a minute in all, and that is `time`");
    let headed = "\n[[load.rate]]\nto = 100\nover = \"10s\"\n[[load.rate]]\nat = 7\nfor = \"2s\"\n";
    let expected = [stage(0.0, 100.0, 10.0), stage(7.0, 7.0, 2.0)];
    assert_eq!(load("", headed, &[]).rate, Some(Rate::Stages(expected.to_vec())));
    assert_eq!(load("", "\n[load.rate]\npoisson = 3\n", &[]).rate, Some(Rate::Poisson { poisson: 3.0 }));
}

fn sessions(rate: Rate) -> Rate {
    Rate::Sessions { sessions: Box::new(rate) }
}

#[test]
fn sessions_have_every_form_of_a_rate() {
    assert_eq!(rate("{ sessions = 40 }"), sessions(Rate::Constant(40.0)));
    assert_eq!(rate("{ sessions = { poisson = 2.5 } }"), sessions(Rate::Poisson { poisson: 2.5 }));
    let replay = Rate::Replay { replay: "starts.csv".into(), stretch: 1.0 };
    assert_eq!(rate("{ sessions = { replay = \"starts.csv\" } }"), sessions(replay));
    let stages = sessions(Rate::Stages(vec![stage(0.0, 40.0, 30.0)]));
    assert_eq!(rate("{ sessions = [{ to = 40, over = \"30s\" }] }"), stages);
    let load = load("rate = { sessions = { replay = \"starts.csv\" } }\nthink = \"2s\"", "", &[]);
    assert_eq!((load.files(), load.think_s), (vec!["starts.csv".to_owned()], 2.0));
}

#[test]
fn mistakes_in_a_rate_of_sessions_are_reported() {
    let told = |load: &str| {
        let file = format!(
            "[target]\nuse = \"vsns\"\n[load]\nagents = 10\ntime = \"1m\"\n{load}\n[[load.cycle]]\ncall = \"ping\"\n"
        );
        read(&file, &[]).unwrap_err().to_string()
    };
    let table = [
        ("rate = { sessions = 40, poisson = 40 }", "`poisson` and `sessions` exclude each other"),
        ("rate = { sessions = 0 }", "sessions"),
        ("rate = { sessions = [] }", "has no stage"),
        ("rate = { session = 40 }", "did you mean `sessions`?"),
        ("rate = { users = 40 }", "it is called `sessions` here"),
        ("rate = { sessions = 40 }\ncount = 9", "`count` and `rate` exclude each other"),
        ("rate = 40\nthink = \"1s\"", "or start sessions: rate = { sessions = … }"),
        ("rate = { sessions = [{ to = 40, over = \"5m\" }] }", "the stages are longer than the load"),
    ];
    for (load, expected) in table {
        let told = told(load);
        assert!(told.contains(expected), "{load}: {told}");
    }
}

#[test]
fn a_search_raises_sessions() {
    let find = |highest: &str, rate: &str| {
        let file = format!(
            "[target]\nuse = \"vsns\"\n[load]\nagents = 10\ntime = \"1m\"\nrate = {rate}\n[[load.cycle]]\ncall = \"ping\"\n\
             [find]\nhighest = \"{highest}\"\nwhile = [{{ metric = \"latency_us.p99\", below = \"50ms\" }}]\n"
        );
        read(&file, &[])
    };
    let plan = find("load.rate.sessions", "{ sessions = 40 }").unwrap();
    let searched = plan.find.as_ref().unwrap();
    assert_eq!((searched.first(&searched.templates[0]), searched.unit()), (40.0, "sessions/s"));
    let random = sessions(Rate::Poisson { poisson: 40.0 });
    let next = plan.next(&[]).unwrap();
    assert_eq!(next.load.unwrap().rate, Some(random));
    for (highest, rate, hint) in [
        ("load.rate", "{ sessions = 40 }", "write `load.rate.sessions`"),
        ("load.rate.sessions", "40", "write `load.rate`"),
    ] {
        let problems = find(highest, rate).unwrap_err().to_string();
        assert!(problems.contains(hint), "{problems}");
    }
}

#[test]
fn a_backlog_has_a_limit_and_an_overflow_action() {
    let backlog = |text: &str| load(&format!("rate = 5\n{text}"), "", &[]).backlog;
    assert_eq!(backlog(""), None);
    assert_eq!(backlog("backlog = 0"), Some(Backlog { most: 0, overflow: Overflow::Drop }));
    let stopped = backlog("backlog = 10_000\noverflow = \"stop\"");
    assert_eq!(stopped, Some(Backlog { most: 10_000, overflow: Overflow::Stop }));
}

#[test]
fn a_slow_lab_slows_rates_and_stretches_times() {
    let slow = |text: &str| load(&format!("rate = {text}"), "[lab]\nhosts = 1\nspeed = 0.5\n", &[]).rate.unwrap();
    assert_eq!(slow("100"), Rate::Constant(50.0));
    assert_eq!(slow("{ poisson = 100 }"), Rate::Poisson { poisson: 50.0 });
    assert_eq!(slow("{ replay = \"x\" }"), Rate::Replay { replay: "x".into(), stretch: 2.0 });
    assert_eq!(slow("{ sessions = 100 }"), sessions(Rate::Constant(50.0)));
    assert_eq!(slow("[{ to = 10, over = \"1m\" }]"), Rate::Stages(vec![stage(0.0, 5.0, 120.0)]));
}

#[test]
fn sweeps_and_sets_reach_into_a_rate() {
    let swept = plan("", "[sweep]\n\"load.rate.poisson\" = [100, 200]\n", &[]);
    let rates: Vec<Rate> = swept.trials.iter().map(|trial| trial.load.clone().unwrap().rate.unwrap()).collect();
    assert_eq!(rates, [Rate::Poisson { poisson: 100.0 }, Rate::Poisson { poisson: 200.0 }]);
    let stages = "rate = [{ to = 100, over = \"10s\" }, { at = 50, for = \"9s\" }]";
    let set = load(stages, "", &["load.rate.1.for=20s", "load.rate.0.to=10"]).rate;
    assert_eq!(set, Some(Rate::Stages(vec![stage(0.0, 10.0, 10.0), stage(50.0, 50.0, 20.0)])));
    let swept = plan("rate = { sessions = 9 }", "[sweep]\n\"load.rate.sessions\" = [10, 20]\n", &[]);
    let rates: Vec<Rate> = swept.trials.iter().map(|trial| trial.load.clone().unwrap().rate.unwrap()).collect();
    assert_eq!(rates, [10.0, 20.0].map(|per_s| sessions(Rate::Constant(per_s))));
    let set = load("rate = 9", "", &["load.rate.sessions.poisson=7"]).rate;
    assert_eq!(set, Some(sessions(Rate::Poisson { poisson: 7.0 })));
    assert_eq!(load(stages, "", &["load.rate=7"]).rate, Some(Rate::Constant(7.0)));
    assert_eq!(load("rate = 9", "", &["load.rate.poisson=7"]).rate, Some(Rate::Poisson { poisson: 7.0 }));
}

#[test]
fn new_and_older_plans_are_read_back() {
    let forms = ["5000", "{ poisson = 1 }", "{ replay = \"x.csv\" }", "[{ to = 9, over = \"1s\" }]"];
    let of_sessions = forms.map(|form| format!("{{ sessions = {form} }}"));
    for text in forms.into_iter().chain(of_sessions.iter().map(String::as_str)) {
        let plan = plan(&format!("rate = {text}\nbacklog = 3"), "", &[]);
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan, "{json}");
    }
    let mut old = serde_json::to_value(plan("rate = 5000", "", &[])).unwrap();
    let load = &mut old["trials"][0]["load"];
    assert_eq!(load["rate"], 5000.0, "a plain number, as ever");
    assert!(load.get("backlog").is_none());
    load["rate"] = serde_json::json!(4000);
    let old: Plan = serde_json::from_value(old).unwrap();
    assert_eq!(old.trials[0].load.as_ref().unwrap().rate, Some(Rate::Constant(4000.0)));
}

#[test]
fn check_prints_each_rate_and_backlog() {
    let told = |load: &str| timeline::print(&plan(load, "", &[]));
    for (load, words) in [
        ("rate = 5000", "10 agents, 5000 operations/s (open loop), timeout 10s"),
        (
            "rate = { poisson = 50 }\nbacklog = 1000",
            "50 operations/s at random (open loop), at most 1,000 waiting and the rest dropped",
        ),
        ("rate = { replay = \"x.csv\" }", "operations as recorded in x.csv (open loop)"),
        ("rate = { sessions = 40 }\nthink = \"2s\"", "10 agents, 40 sessions/s (open loop), thinking 2s, timeout 10s"),
        ("rate = { sessions = [{ to = 9, over = \"10s\" }] }", "0 to 9 sessions/s in 10s (open loop)"),
        (
            "rate = [{ to = 100, over = \"10s\" }, { at = 100, for = \"30s\" }]\nbacklog = 5\noverflow = \"stop\"",
            "0 to 100 operations/s in 10s, then 100 operations/s for 30s (open loop), stopped when more than 5 wait",
        ),
    ] {
        assert!(told(load).contains(words), "{}", told(load));
    }
}
