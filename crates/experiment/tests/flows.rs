//! Flow of a cycle: `repeat`, `probability_pct`, and sequences in a mix.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use experiment::plan::{Load, Plan, StepOrder};
use experiment::timeline;
use known::read;

fn file(load: &str) -> String {
    format!("[target]\nuse = \"vsns\"\n[load]\nagents = 10\ntime = \"1m\"\n{load}\n")
}

fn plan(load: &str) -> Plan {
    read(&file(load), &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

fn load(text: &str) -> Load {
    plan(text).trials[0].load.clone().unwrap()
}

const CYCLE: &str = "[[load.cycle]]\ncall = \"save\"\nwith = { space = \"s\", key = \"{repeat}\", value = \"v\" }\nrepeat = 4\n\
                     [[load.cycle]]\ncall = \"ping\"\nprobability_pct = 12.5\n";

const MIX: &str = "[[load.mix]]\ncall = \"ping\"\n\
                   [[load.mix]]\nweight = 3\nsteps = [\n\
                     { call = \"save\", with = { space = \"s\", key = \"k\", value = \"{bytes:8}\" }, keep = { sent = \"request.value\" } },\n\
                     { call = \"load\", with = { space = \"s\", key = \"k\" }, expect = { value = \"{sent}\" }, repeat = 2 },\n\
                   ]\n";

#[test]
fn steps_are_repeated_and_drawn() {
    let load = load(CYCLE);
    let flow: Vec<_> = load.steps.iter().map(|step| (step.repeat, step.probability_pct)).collect();
    assert_eq!(flow, [(4, None), (1, Some(12.5))]);
    assert_eq!(load.operations_per_cycle(), 4.125);
    assert!(timeline::print(&plan(CYCLE)).contains("save (4 times) → ping (in 12.5 %)"));
}

#[test]
fn a_mix_has_sequences() {
    let load = load(MIX);
    let flow: Vec<_> = load.steps.iter().map(|step| (step.name.as_str(), step.weight, step.follows)).collect();
    assert_eq!(flow, [("ping", 1, false), ("save", 3, false), ("load", 3, true)]);
    assert_eq!((load.order, load.sequences().map(<[_]>::len).collect::<Vec<_>>()), (StepOrder::Mix, vec![1, 2]));
    assert_eq!(load.operations_per_cycle(), 2.5);
    let plan = plan(MIX);
    let printed = timeline::print(&plan);
    assert!(printed.contains("at random: ping 1, save → load (2 times) 3"), "{printed}");
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    let set = read(&file(MIX), &["load.mix.1.steps.load.repeat=5"]).unwrap();
    assert_eq!(set.trials[0].load.as_ref().unwrap().steps[2].repeat, 5);
}

#[test]
fn each_agent_may_have_a_number_of_cycles() {
    let plan = plan("iterations = 2\n[[load.cycle]]\ncall = \"ping\"\n");
    let load = plan.trials[0].load.as_ref().unwrap();
    assert!(load.iterations == Some(2) && load.is_counted());
    assert!(timeline::print(&plan).contains("10 agents, no pause, 2 cycles each, timeout"));
    for other in ["rate = 5", "rate = { sessions = 5 }", "count = 5"] {
        let text = format!("iterations = 2\n{other}\n[[load.cycle]]\ncall = \"ping\"\n");
        let told = read(&file(&text), &[]).unwrap_err().to_string();
        assert!(told.contains("`iterations` and") && told.contains("exclude each other"), "{told}");
    }
}

#[test]
fn agents_have_steps_that_they_do_once() {
    let login = "[[load.on_start]]\nname = \"login\"\ncall = \"save\"\n\
                 with = { space = \"s\", key = \"{agent}\", value = \"{bytes:8}\" }\nkeep = { token = \"request.value\" }\n";
    let work = "call = \"load\"\nwith = { space = \"s\", key = \"{token}\" }\nthink = \"1s\"\n";
    for order in ["cycle", "mix"] {
        let text = format!("{login}[[load.{order}]]\n{work}");
        let plan = plan(&text);
        let load = plan.trials[0].load.as_ref().unwrap();
        assert_eq!(load.steps.iter().map(|step| step.once).collect::<Vec<_>>(), [true, false]);
        assert_eq!((load.steps_on_start(), load.sequences().count(), load.operations_per_cycle()), (1, 1, 1.0));
        let printed = timeline::print(&plan);
        assert!(printed.contains("once login, then"), "{printed}");
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }
    let every = format!("{login}every = 2\n[[load.cycle]]\n{work}");
    assert!(read(&file(&every), &[]).unwrap_err().to_string().contains("has no key `every`"));
    let unknown = format!("{login}[[load.cycle]]\n{}", work.replace("{token}", "{tokens}"));
    assert!(read(&file(&unknown), &[]).unwrap_err().to_string().contains("did you mean {token}?"));
}

#[test]
fn older_plans_have_no_flow() {
    let plan = serde_json::to_value(plan("[[load.cycle]]\ncall = \"ping\"\n")).unwrap();
    let step = &plan["trials"][0]["load"]["steps"][0];
    assert!(
        ["repeat", "probability_pct", "follows", "once", "think"].iter().all(|key| step.get(key).is_none()),
        "{step}"
    );
}

#[test]
fn mistakes_in_a_flow_are_reported() {
    let save = "call = \"save\", with = { space = \"s\", key = \"k\", value = \"v\" }";
    let table = [
        ("[[load.cycle]]\ncall = \"ping\"\nprobability_pct = 20\n".to_owned(), "a cycle may have no operation at all"),
        ("[[load.cycle]]\ncall = \"ping\"\nprobability_pct = 120\n".to_owned(), "at most 100 percent"),
        ("[[load.cycle]]\ncall = \"ping\"\nrepeat = 0\n".to_owned(), "a whole number from 1 to 10000"),
        (
            format!(
                "cycle = [{{ call = \"ping\" }}, {{ {save}, keep = {{ sent = \"request.value\" }}, probability_pct = 9 }}, \
                 {{ call = \"load\", with = {{ space = \"s\", key = \"{{sent}}\" }} }}]\n"
            ),
            "`sent` is kept by a step with `probability_pct`",
        ),
        (format!("mix = [{{ call = \"ping\", steps = [{{ {save} }}] }}]\n"), "`call` and `steps` exclude each other"),
        ("mix = [{ weight = 2, steps = [] }]\n".to_owned(), "`steps` is empty"),
        ("mix = [{ weight = 2 }]\n".to_owned(), "needs `call`"),
        ("mix = [{ steps = [{ call = \"ping\", weight = 2 }] }]\n".to_owned(), "has no key `weight`"),
        ("rate = 5\nmix = [{ steps = [{ call = \"ping\", think = \"1s\" }] }]\n".to_owned(), "`think` and a `rate`"),
    ];
    for (load, expected) in table {
        let told = read(&file(&load), &[]).unwrap_err().to_string();
        assert!(told.contains(expected), "{load}: {told}");
    }
}
