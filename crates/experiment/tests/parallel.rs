//! `parallel` of a cycle: operations that are sent at once, their place in the plan, and loads that
//! cannot have them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use experiment::plan::{Load, Pause, Plan};
use experiment::timeline;
use known::read;

const TWO: &str = "parallel = [\n{ name = \"style\", call = \"get\", with = { path = \"/s\" } },\n\
                   { name = \"image\", call = \"get\", with = { path = \"/i/{repeat}\" }, repeat = 9, keep = { last = \"answer.status\" } },\n]";

fn file(load: &str, more: &str) -> String {
    format!(
        "[target]\nurl = \"http://127.0.0.1:8080\"\n[load]\nagents = 10\ntime = \"1m\"\n{load}\n\
         [[load.cycle]]\nname = \"page\"\ncall = \"get\"\nwith = {{ path = \"/\" }}\n{more}"
    )
}

fn load(load: &str, more: &str) -> Load {
    let plan = read(&file(load, more), &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan, "{json}");
    plan.trials[0].load.clone().unwrap()
}

fn problems(load: &str, more: &str) -> String {
    read(&file(load, more), &[]).expect_err("a mistake")
}

#[test]
fn parallel_operations_are_steps_of_the_plan() {
    let more = format!(
        "[[load.cycle]]\nconnections = 4\nthink = \"2s\"\n{TWO}\n[[load.cycle]]\nname = \"next\"\ncall = \"get\"\nwith = {{ path = \"/{{last}}\" }}"
    );
    let load = load("", &more);
    let marks: Vec<_> = load.steps.iter().map(|step| (step.name.as_str(), step.at_once, step.beside)).collect();
    assert_eq!(marks, [("page", 0, false), ("style", 4, false), ("image", 4, true), ("next", 0, false)]);
    assert_eq!(load.steps[2].think, Some(Pause::Fixed(2.0)));
    assert_eq!((load.at_once(), load.further_connections()), (4, 30));
    let json = serde_json::to_value(&load).unwrap();
    assert!(json["steps"][0].get("at_once").is_none() && json["steps"][1].get("beside").is_none());
    let plan = read(&file("", &more), &[]).unwrap();
    let listing = timeline::print(&plan);
    assert!(listing.contains("page → [style (then 2s) + image (9 times, then 2s)] → next"), "{listing}");
}

#[test]
fn connections_are_at_most_those_of_the_operations() {
    let small = "[[load.cycle]]\nparallel = [{ name = \"style\", call = \"get\", with = { path = \"/s\" } }]";
    assert_eq!(load("", small).at_once(), 1);
    assert_eq!(load("", &format!("[[load.cycle]]\n{TWO}")).at_once(), 6);
    assert_eq!((Load::default().at_once(), Load::default().further_connections()), (1, 0));
}

#[test]
fn sequences_and_first_steps_may_be_parallel() {
    let text = file("", "").replace("[[load.cycle]]", "[[load.mix]]").replace(
        "[[load.mix]]",
        &format!(
            "[[load.on_start]]\n{TWO}\n[[load.mix]]\nsteps = [\n{{ name = \"look\", call = \"get\", with = {{ path = \"/{{last}}\" }} }},\n\
             {{ parallel = [{{ name = \"a\", call = \"get\", with = {{ path = \"/a\" }} }}, {{ name = \"b\", call = \"get\", with = {{ path = \"/b\" }} }}] }},\n]\n[[load.mix]]"
        ),
    );
    let plan = read(&text, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let load = plan.trials[0].load.as_ref().unwrap();
    let marks: Vec<_> =
        load.steps.iter().map(|step| (step.name.as_str(), step.once, step.follows, step.beside)).collect();
    assert_eq!(
        marks,
        [
            ("style", true, false, false),
            ("image", true, false, true),
            ("look", false, false, false),
            ("a", false, true, false),
            ("b", false, true, true),
            ("page", false, false, false)
        ]
    );
    assert_eq!(load.steps_on_start(), 2);
}

#[test]
fn loads_that_cannot_have_parallel_operations() {
    let block = format!("[[load.cycle]]\n{TWO}");
    let told = problems("rate = 100", &block);
    assert!(told.contains("`parallel` and a `rate` of operations exclude each other"), "{told}");
    load("rate = { sessions = 10 }", &block);
    let first = format!("rate = {{ sessions = 10 }}\n[[load.on_start]]\n{TWO}");
    let told = problems(&first, "");
    assert!(told.contains("a session at a rate begins with one operation"), "{told}");
    let told = problems("pipeline = 2", &block);
    assert!(told.contains("`parallel` and `pipeline` exclude each other"), "{told}");
    let vsns = file("", &block).replace("http://127.0.0.1:8080", "vsns://127.0.0.1:1");
    let told = read(&vsns, &[]).expect_err("a mistake");
    assert!(told.contains("the protocol `vsns` has no parallel operations"), "{told}");
}
