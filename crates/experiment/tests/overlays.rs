//! File < `--set` < variant < sweep point: priority, merging, and resolution of paths.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use experiment::plan::{
    AuditAs, AuditEffect, Expected, Load, Plan, Retry, SlotContent, Step, TargetKind, TextCondition, When, WhenFailed,
};
use known::read;

const FILE: &str = r#"
title = "A"

[target]
use  = "vsns"
with = { state = "ets", hub = "wait" }

[load]
agents = 10
time   = "30s"
retry  = { tries = 3, wait = "10ms" }

[[load.cycle]]
call = "save"
with = { space = "a", key = "k", value = "v" }

[[load.cycle]]
name = "again"
call = "save"
with = { space = "a", key = "k", value = "w" }

[[load.cycle]]
call = "load"
with = { space = "a", key = "k" }

[[fault]]
name = "oops"
kind = "call"
at   = "20s"
with = { call = "oops" }

[[fault]]
name = "killed"
kind = "kill"
at   = "21s"
"#;

fn plan(more: &str, sets: &[&str]) -> Plan {
    read(&format!("{FILE}{more}"), sets).unwrap_or_else(|problems| panic!("{problems}"))
}

fn load(plan: &Plan, trial: usize) -> &Load {
    plan.trials[trial].load.as_ref().unwrap()
}

fn with(plan: &Plan, trial: usize, name: &str) -> String {
    let TargetKind::Folder { with, .. } = &plan.trials[trial].target.kind else { panic!("a folder") };
    with[name].clone()
}

#[test]
fn each_layer_wins_over_the_one_below() {
    let more = "\n[[variant]]\nname = \"v\"\nload = { agents = 30, ramp = \"3s\" }\n[[variant]]\nname = \"w\"\n";
    let sweep = "\n[sweep]\n\"load.ramp\" = [\"4s\"]\n";
    assert_eq!(load(&plan("", &[]), 0).agents, 10);
    assert_eq!(load(&plan("", &["load.agents=20"]), 0).agents, 20);
    let both = plan(more, &["load.agents=20", "load.ramp=2s"]);
    assert_eq!((load(&both, 0).agents, load(&both, 0).ramp_s), (30, 3.0));
    assert_eq!((load(&both, 1).agents, load(&both, 1).ramp_s), (20, 2.0));
    let swept = plan(
        &more
            .replace(", ramp = \"3s\"", "")
            .replace("\n[[variant]]", &format!("{sweep}\n[[variant]]"))
            .replacen(sweep, "", 1),
        &[],
    );
    assert_eq!((load(&swept, 0).agents, load(&swept, 0).ramp_s), (30, 4.0));
    assert_eq!(load(&plan("", &["load.agents=20", "load.agents=21"]), 0).agents, 21);
}

#[test]
fn tables_merge_and_lists_replace() {
    let more = "\n[[variant]]\nname = \"v\"\ntarget = { with = { state = \"mnesia\" } }\nload = { retry = { wait = \"1s\" }, cycle = [{ call = \"ping\" }] }\n";
    let plan = plan(more, &[]);
    assert_eq!((with(&plan, 0, "state").as_str(), with(&plan, 0, "hub").as_str()), ("mnesia", "wait"));
    assert_eq!(load(&plan, 0).retry, Retry::Tries { tries: 3, wait_s: 1.0 });
    assert_eq!(load(&plan, 0).steps.len(), 1);
}

#[test]
fn tables_change_list_elements_by_name() {
    let more = "\n[[variant]]\nname = \"v\"\nfault = { oops = { at = \"5s\" } }\nload = { cycle = { again = { every = 3 } } }\n";
    let plan = plan(more, &[]);
    let faults = &plan.trials[0].faults;
    assert_eq!((&faults[0].when, &faults[1].when), (&When::At(5.0), &When::At(21.0)));
    let every: Vec<u32> = load(&plan, 0).steps.iter().map(|step| step.every).collect();
    assert_eq!(every, [1, 3, 1]);
}

#[test]
fn sets_find_lists_by_name_call_and_index() {
    let plan = plan(
        "",
        &[
            "fault.oops.at=1s",
            "fault.1.at=\"2s\"",
            "load.cycle.again.with.value=x",
            "load.cycle.load.with.key={seq}",
            "load.cycle.0.with.value=y",
        ],
    );
    let faults = &plan.trials[0].faults;
    assert_eq!((&faults[0].when, &faults[1].when), (&When::At(1.0), &When::At(2.0)));
    let steps = &load(&plan, 0).steps;
    assert_eq!(
        (steps[0].with["value"].as_str(), steps[1].with["value"].as_str(), steps[2].with["key"].as_str()),
        ("y", "x", "{seq}")
    );
}

#[test]
fn steps_are_found_by_name_or_else_by_call() {
    // Only the first `save` has no name.
    let plan = plan("", &["load.cycle.save.every=7"]);
    assert_eq!(load(&plan, 0).steps.iter().map(|step| step.every).collect::<Vec<_>>(), [7, 1, 1]);
    let twice = FILE.replace("name = \"again\"\n", "");
    let problems = read(&twice, &["load.cycle.save.every=7"]).unwrap_err();
    assert!(
        problems.contains("several of `load.cycle` are called `save`") && problems.contains("0 or 1"),
        "{problems}"
    );
}

#[test]
fn a_set_is_toml_or_else_a_text() {
    let plan = plan(
        "",
        &[
            "title=two words",
            "target.with.hub_tries=5",
            "load.warmup=auto",
            "load.retry={ wait = \"2s\" }",
            "load.threads=2",
            "repeat=2",
        ],
    );
    assert_eq!((plan.title.as_str(), plan.trials.len(), with(&plan, 0, "hub_tries").as_str()), ("two words", 2, "5"));
    assert_eq!((load(&plan, 0).retry, load(&plan, 0).threads), (Retry::Wait { wait_s: 2.0 }, Some(2)));
}

#[test]
fn a_set_of_a_swept_path_collapses_the_sweep() {
    let more = "\n[sweep]\n\"load.agents\" = [1, 2]\ntarget.with.state = [\"ets\", \"process\"]\n\n[[require]]\nmetric = \"failed_pct\"\nbelow = 1\nwhere = { load.agents = 2 }\n";
    assert_eq!(plan(more, &[]).trials.len(), 4);
    let collapsed = plan(more, &["load.agents=7"]);
    let points: Vec<(u64, &str)> = collapsed
        .trials
        .iter()
        .map(|trial| (trial.point["load.agents"].as_u64().unwrap(), trial.point["target.with.state"].as_str().unwrap()))
        .collect();
    assert_eq!(points, [(7, "ets"), (7, "process")]);
    assert_eq!(load(&collapsed, 0).agents, 7);
    assert_eq!(plan(more, &["sweep.load.agents=[3, 4, 5]"]).trials.len(), 6);
}

#[test]
fn a_set_does_not_invalidate_the_files_gates() {
    let more = "\n[[claim]]\nsays = \"x\"\nsource = \"y\"\nmetric = \"faults.oops.outage.failed\"\nholds = { below = 1 }\n\
        [[require]]\nmetric = \"operations.again.outcomes.ok\"\nabove = 1\n";
    let plan = plan(more, &["fault=[]", "load.cycle=[{ call = \"ping\" }]"]);
    assert_eq!((plan.trials[0].faults.len(), plan.claims.len(), load(&plan, 0).steps.len()), (0, 1, 1));
}

#[test]
fn a_set_by_name_replaces_a_sweep_by_index() {
    let more = "\n[sweep]\n\"fault.0.at\" = [\"1s\", \"2s\"]\n";
    let collapsed = plan(more, &["fault.oops.at=3s"]);
    assert_eq!((collapsed.trials.len(), &collapsed.trials[0].faults[0].when), (1, &When::At(3.0)));
}

#[test]
fn a_mistake_is_shown_where_it_was_written() {
    let more = "\n[[variant]]\nname = \"v\"\nload = { time = \"10s\" }\n[sweep]\n\"load.agents\" = [1, 0]\n";
    let problems = read(&format!("{FILE}{more}"), &["fault.killed.on=nobody"]).unwrap_err();
    for told in [
        "[ experiment.toml:29:8 ]",
        "the load ends after 10s",
        "[ experiment.toml:41:21 ]",
        "`load.agents` cannot be 0",
        "[ --set:1:17 ]",
        "there is no `nobody` in this lab",
    ] {
        assert!(problems.contains(told), "{told}\n{problems}");
    }
}

#[test]
fn dotted_fields_may_be_quoted_or_not() {
    let http = "[target]\nurl = \"http://localhost\"\n[load]\nagents = 1\ntime = \"1s\"\n[[load.cycle]]\ncall = \"get\"\nwith = { path = \"/\", header.accept = \"a\" }\n";
    let steps = |text: &str, sets: &[&str]| read(text, sets).unwrap().trials[0].load.as_ref().unwrap().steps.clone();
    assert_eq!(steps(http, &[]), steps(&http.replace("header.accept", "\"header.accept\""), &[]));
    assert_eq!(steps(http, &["load.cycle.get.with.header.accept=b"])[0].with["header.accept"], "b");
}

#[test]
fn seeds_change_the_numbers_and_nothing_else() {
    let (a, b) = (plan("", &[]), plan("", &["seed=2"]));
    assert_ne!(a.trials[0].seed, b.trials[0].seed);
    assert_ne!(a.trials[0].faults[0].seed, a.trials[0].faults[1].seed);
    assert_eq!(a.trials[0].load, b.trials[0].load);
}

#[test]
fn lab_ports_are_changed_by_name() {
    const LAGGING: &str = r#"
[target]
use = "docket"
[lab]
hosts = 3
[[lab.port]]
name = "dist"
[load]
agents = 1
time   = "30s"
[[load.cycle]]
call = "get"
with = { path = "/" }
"#;
    let rates = |more: &str, sets: &[&str]| {
        let plan = read(&format!("{LAGGING}{more}"), sets).unwrap_or_else(|problems| panic!("{problems}"));
        let rate = |trial: &experiment::plan::Trial| {
            let port = &trial.lab.ports[0];
            (port.name.clone(), port.link.rate_bits_per_s, port.link.delay_s)
        };
        plan.trials.iter().map(rate).collect::<Vec<_>>()
    };
    let dist = |rate, delay| ("dist".to_owned(), rate, delay);
    let swept = "[sweep]\n\"lab.port.dist.rate\" = [\"1mbit\", \"5mbit\"]\n";
    assert_eq!(rates(swept, &[]), [dist(Some(1e6), None), dist(Some(5e6), None)]);
    let sets = ["lab.port.dist.rate=2mbit", "lab.port.dist.delay=5ms"];
    assert_eq!(rates(swept, &sets), [dist(Some(2e6), Some(0.005))]);
    let variant = "[[variant]]\nname = \"a\"\nlab = { port = { dist = { rate = \"3mbit\" } } }\n";
    assert_eq!(rates(variant, &[]), [dist(Some(3e6), None)]);
    assert!(
        read(&format!("{LAGGING}{swept}"), &["lab.port.dits.rate=2mbit"]).unwrap_err().contains("did you mean `dist`?")
    );
}

const CASES: &str = r#"
[target]
url = "http://127.0.0.1:8080"

[[prepare]]
call  = "post"
with  = { path = "/cases/seed-{seq}", body = '{{"party": "p-{seq}"}}' }
audit = { effect = "write", key = "seed-{seq}", value = "request.body" }

[load]
agents      = 10
time        = "30s"
when_failed = "next cycle"

[[load.cycle]]
name = "create"
call = "post"
with = { path = "/cases/case-{agent}", body = "x" }
keep = { version = "answer.header.etag" }

[[load.cycle]]
name  = "browse"
call  = "get"
with  = { path = "/cases/case-{agent}" }
audit = { effect = "read", key = "case-{agent}", value = "answer.body", space = "of-{version}" }

[[load.cycle]]
name  = "delete"
call  = "delete"
with  = { path = "/cases/case-{agent}" }
audit = { effect = "remove", key = 7 }
"#;

#[test]
fn audit_settings_are_in_the_plan_and_can_be_set() {
    let told = |effect, space: &str, key: &str, value: Option<&str>| {
        Some(AuditAs {
            effect,
            space: space.into(),
            key: key.into(),
            value: value.map(Into::into),
            ..AuditAs::default()
        })
    };
    let plan = read(CASES, &[]).unwrap();
    let trial = &plan.trials[0];
    let load = trial.load.as_ref().unwrap();
    assert_eq!(load.when_failed, WhenFailed::NextCycle);
    let seed = &trial.prepare[0].step;
    assert_eq!((seed.audit, &seed.audit_as), (true, &told(AuditEffect::Write, "", "seed-{seq}", Some("request.body"))));
    let audits: Vec<_> = load.steps.iter().map(|step| (step.audit, step.audit_as.clone())).collect();
    assert_eq!(audits[0], (false, None));
    let browsed = told(AuditEffect::Read, "of-{version}", "case-{agent}", Some("answer.body"));
    assert_eq!(audits[1], (true, browsed));
    assert_eq!(audits[2], (true, told(AuditEffect::Remove, "", "7", None)));

    let set = read(CASES, &["load.cycle.delete.audit.key=other", "load.when_failed=go on"]).unwrap();
    let load = set.trials[0].load.as_ref().unwrap();
    assert_eq!((load.steps[2].audit_as.as_ref().unwrap().key.as_str(), load.when_failed), ("other", WhenFailed::GoOn));
}

#[test]
fn a_plan_without_the_newer_keys_is_read() {
    let plan = read(CASES, &[]).unwrap();
    let mut written = serde_json::to_value(plan.trials[0].load.as_ref().unwrap()).unwrap();
    assert_eq!(written["when_failed"], "next cycle");
    written.as_object_mut().unwrap().remove("when_failed");
    for step in written["steps"].as_array_mut().unwrap() {
        step.as_object_mut().unwrap().remove("audit_as");
    }
    let load: Load = serde_json::from_value(written).unwrap();
    assert_eq!(load.when_failed, WhenFailed::GoOn);
    let told: Vec<&Step> = load.steps.iter().filter(|step| step.audit_as.is_some()).collect();
    assert!(told.is_empty());
}

#[test]
fn sets_reach_into_comparisons() {
    let more = "\n[[load.cycle]]\nname = \"look\"\ncall = \"load\"\nwith = { space = \"a\", key = \"k\" }\n\
                expect = { status = { one_of = [\"ok\"] }, value = \"v\", \"value/a.b/c\" = { contains = \"x\", not = \"y\" } }\n\
                keep = { id = { from = \"answer.value\", matches = \"[0-9]+\" } }\n";
    let sets = [
        "load.cycle.look.expect.status.one_of=[\"ok\", \"not_found\"]",
        "load.cycle.look.expect.value={ matches = \"^v\" }",
        "load.cycle.look.expect.'value/a.b/c'.not.contains=z",
        "load.cycle.look.keep.id.matches=[a-z]+",
    ];
    let plan = plan(more, &sets);
    let step = load(&plan, 0).steps.last().unwrap();
    let text = |text: &str| Some(text.to_owned());
    let one_of = Some(vec!["ok".to_owned(), "not_found".to_owned()]);
    let not = Expected::Compared(TextCondition { contains: text("z"), ..TextCondition::default() });
    let expected = [
        ("status", TextCondition { one_of, ..TextCondition::default() }),
        ("value", TextCondition { matches: text("^v"), ..TextCondition::default() }),
        ("value/a.b/c", TextCondition { contains: text("x"), not: Some(Box::new(not)), ..TextCondition::default() }),
    ];
    for (field, comparison) in expected {
        assert_eq!(step.expect[field], Expected::Compared(comparison), "{field}");
    }
    assert_eq!(step.keep["id"], SlotContent::Part { from: "answer.value".into(), matches: "[a-z]+".into() });
}

#[test]
fn plain_expectations_keep_the_older_format() {
    let more = "\n[[load.cycle]]\nname = \"look\"\ncall = \"load\"\nwith = { space = \"a\", key = \"k\" }\n\
                expect = { status = \"ok\", value = { not = { one_of = [1, 2.50] } } }\nkeep = { got = \"answer.value\" }\n";
    let step = load(&plan(more, &[]), 0).steps.last().unwrap().clone();
    let json = serde_json::to_value(&step).unwrap();
    assert_eq!(json["expect"], serde_json::json!({ "status": "ok", "value": { "not": { "one_of": ["1", "2.50"] } } }));
    assert_eq!(json["keep"], serde_json::json!({ "got": "answer.value" }));
    assert_eq!(serde_json::from_value::<Step>(json).unwrap(), step);
}

#[test]
fn points_with_other_repeats_stay_interleaved() {
    let sweep = "\n[sweep]\n\"load.agents\" = [1, 2, 3]\n\
        repeat = [{ load.agents = 2, repeat = 3 }, { \"load.agents\" = 3, repeat = 1 }]\n";
    let repeat = |text: &str| text.replacen("title = \"A\"", "title = \"A\"\nrepeat = 2", 1);
    let numbered = |sets: &[&str]| {
        let plan = read(&repeat(&format!("{FILE}{sweep}")), sets).unwrap_or_else(|problems| panic!("{problems}"));
        let played = |trial: &experiment::plan::Trial| (trial.repeat, trial.point["load.agents"].as_u64().unwrap());
        plan.trials.iter().map(played).collect::<Vec<_>>()
    };
    let mut played = numbered(&[]);
    assert!(played.is_sorted_by_key(|(repeat, _)| *repeat), "{played:?}");
    played.sort_unstable();
    assert_eq!(played, [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 2)]);
    assert_eq!(numbered(&["repeat=1"]).len(), 3, "`--set` is for all points");
    assert_eq!(
        numbered(&["load.agents=2"]).len(),
        3,
        "a sweep that `--set` replaces keeps the entries that still match"
    );
}

const SWEPT: &str = r#"
repeat = 2

[target]
use   = "vsns"
start = "once"

[load]
agents = 10
time   = "30s"

[[load.cycle]]
call = "ping"

[sweep]
"load.agents"     = [1, 2, 4, 8]
"target.with.hub" = ["wait", "off"]

[[variant]]
name = "ets"

[[variant]]
name   = "mnesia"
target = { with = { state = "mnesia" } }
"#;

#[test]
fn trials_that_share_a_target_start_are_consecutive() {
    let plan = read(SWEPT, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let hub = |place: usize| plan.trials[place].point["target.with.hub"].as_str().unwrap();
    let agents = |place: usize| plan.trials[place].point["load.agents"].as_u64().unwrap();
    let shares = |place: usize| plan.shares_start(&plan.trials[place], &plan.trials[place - 1]);
    assert_eq!(plan.trials.len(), 32);
    let blocks: Vec<usize> = (1..32).filter(|place| !shares(*place)).collect();
    assert_eq!(blocks, [4, 8, 12, 16, 20, 24, 28], "four loads on each start");
    for block in (0..32).step_by(8) {
        assert_eq!(hub(block), hub(block + 4), "both variants play a point before the next one");
        assert_ne!(plan.trials[block].variant, plan.trials[block + 4].variant);
        let loads = |from: usize| (from..from + 4).map(agents).collect::<Vec<_>>();
        assert_eq!(loads(block), loads(block + 4), "in the same order");
    }
    let first: Vec<u64> = (0..4).map(agents).collect();
    let second: Vec<u64> = (16..20).rev().map(agents).collect();
    assert_eq!(first, second, "the second repeat backwards");
}

#[test]
fn loads_of_a_stopped_sweep_rise_on_each_start() {
    let stop = "stop = { metric = \"outcomes.timeout\", at_least = 10, over = \"load.agents\" }\n\n[[variant]]";
    let plan = read(&SWEPT.replacen("[[variant]]", stop, 1), &[]).unwrap_or_else(|problems| panic!("{problems}"));
    for trials in plan.trials.chunks(4) {
        assert!(trials.iter().is_sorted_by_key(|trial| trial.point["load.agents"].as_u64()));
    }
}

#[test]
fn audited_keys_need_a_reset_between_trials_of_one_start() {
    let text = SWEPT.replace(
        "call = \"ping\"",
        "call = \"save\"\nwith = { space = \"a\", key = \"k\", value = \"v\" }\naudit = true",
    );
    let source = experiment::source::Source { name: "experiment.toml".to_owned(), text };
    let mut catalog = known::catalog();
    let hooks = &mut catalog.targets.get_mut("vsns").unwrap().hooks;
    hooks.insert("reset".to_owned(), "hooks/reset".to_owned());
    assert_eq!(experiment::read(&source, &[], &catalog).err().map(|problems| problems.render(false)), None);
    catalog.targets.get_mut("vsns").unwrap().hooks.remove("reset");
    let problems = experiment::read(&source, &[], &catalog).err().map(|problems| problems.render(false)).unwrap();
    assert!(problems.contains("audited keys need a start each"), "{problems}");
}
