//! `think` of a load and of a step: its forms, its mistakes, and its place in the plan.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use experiment::plan::{Load, Pause, Plan};
use experiment::timeline;
use known::read;

fn file(load: &str, step: &str, more: &str) -> String {
    format!(
        "[target]\nuse = \"vsns\"\n[load]\nagents = 10\ntime = \"1m\"\n{load}\n[[load.cycle]]\ncall = \"ping\"\n{step}\n{more}"
    )
}

fn plan(load: &str, step: &str, more: &str) -> Plan {
    read(&file(load, step, more), &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

fn load(load: &str, step: &str, more: &str) -> Load {
    plan(load, step, more).trials[0].load.clone().unwrap()
}

#[test]
fn a_load_and_a_step_have_each_form_of_a_pause() {
    let forms = [
        ("\"2s\"", Pause::Fixed(2.0)),
        ("{ uniform = [\"1s\", \"3s\"] }", Pause::Uniform { uniform: [1.0, 3.0] }),
        ("{ normal = [\"2s\", \"500ms\"] }", Pause::Normal { normal: [2.0, 0.5] }),
        ("{ exponential = \"2s\" }", Pause::Exponential { exponential: 2.0 }),
    ];
    for (text, pause) in forms {
        let of_load = load(&format!("think = {text}"), "", "");
        assert_eq!(of_load.pause_after(&of_load.steps[0]), pause);
        assert!(of_load.has_pauses() && of_load.is_paced());
        let own = load("think = \"9s\"", &format!("think = {text}"), "");
        assert_eq!((own.steps[0].think, own.think_s), (Some(pause), 9.0));
        let plan = plan("", &format!("think = {text}"), "");
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan, "{json}");
    }
    let none = load("think = \"1s\"", "think = \"0s\"", "");
    assert_eq!(none.pause_after(&none.steps[0]), Pause::Fixed(0.0));
    let plain = serde_json::to_value(load("think = \"1s\"", "", "")).unwrap();
    assert!(plain.get("think").is_none() && plain["steps"][0].get("think").is_none(), "as in older plans");
}

#[test]
fn a_slow_lab_stretches_pauses() {
    let slow = load(
        "think = { normal = [\"2s\", \"1s\"] }",
        "think = { exponential = \"3s\" }",
        "[lab]\nspeed = 0.5\nhosts = 1\n",
    );
    assert_eq!(slow.think, Some(Pause::Normal { normal: [4.0, 2.0] }));
    assert_eq!(slow.steps[0].think, Some(Pause::Exponential { exponential: 6.0 }));
}

#[test]
fn mistakes_in_a_pause_are_reported() {
    let table = [
        ("think = { uniform = [\"3s\", \"1s\"] }", "", "the longest pause is shorter than the shortest"),
        ("think = { normal = [\"3s\"] }", "", "`normal` has two durations"),
        ("", "think = { uniform = [\"1s\", \"2s\", \"3s\"] }", "`uniform` has two durations"),
        ("", "think = { uniform = [\"1s\", \"2s\"], exponential = \"1s\" }", "exclude each other"),
        ("", "think = {}", "`think` says nothing"),
        ("", "think = 3", "a duration such as"),
        ("", "think = { gaussian = [\"1s\", \"1s\"] }", "it is called `normal` here"),
        ("think = { exponential = \"1s\" }\nthink_spread_pct = 10", "", "belongs to a fixed `think`"),
        ("rate = 5", "think = \"1s\"", "`think` and a `rate` of operations exclude each other"),
        ("rate = 5\nthink = { exponential = \"1s\" }", "", "`think` and a `rate` of operations exclude each other"),
    ];
    for (load, step, expected) in table {
        let told = read(&file(load, step, ""), &[]).unwrap_err().to_string();
        assert!(told.contains(expected), "{load}\n{step}: {told}");
    }
    assert!(load("rate = { sessions = 5 }", "think = \"1s\"", "").has_pauses());
}

#[test]
fn check_prints_pauses() {
    let told =
        timeline::print(&plan("think = { uniform = [\"1s\", \"3s\"] }", "think = { normal = [\"2s\", \"1s\"] }", ""));
    assert!(told.contains("10 agents, thinking 1s to 3s, timeout"), "{told}");
    assert!(told.contains("ping (then 2s ± 1s (normal))"), "{told}");
}
