//! Generators that are lost at random moments and in different ways, one after another. Each trial
//! is void with the right reason, and nothing is left behind. `PLIMSOLL_TEST_LOSSES` sets the
//! number. The tests print the time to notice each loss, which `scripts/siege.py` judges.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab_traces;
use crate::remote_machines::Machines;
use crate::sandbox::{Playing, Sandbox, json, signal};

/// Way in which a generator is lost.
#[derive(Debug, Clone, Copy)]
enum Loss {
    /// The generator is killed.
    Killed,
    /// The generator is stopped, and its stream stays open.
    Stopped,
    /// The generator's host stops completely.
    Frozen,
    /// The generator's host loses its power.
    Powerless,
    /// The network to the generator's machine is cut.
    Unplugged,
}

const ALL: [Loss; 5] = [Loss::Killed, Loss::Stopped, Loss::Frozen, Loss::Powerless, Loss::Unplugged];

impl Loss {
    fn reason(self) -> &'static str {
        match self {
            Self::Killed | Self::Powerless => "its stream ended",
            Self::Stopped | Self::Frozen | Self::Unplugged => "it sent nothing for 3 s",
        }
    }
}

/// Writes an experiment with a load of ten minutes, in this lab, by this fleet.
fn experiment(sandbox: &Sandbox, lab: &str, fleet: &str, more: &str) -> String {
    let text = format!(
        "title = \"A fleet\"\nasks = \"Who is lost?\"\n[target]\nuse = \"echo\"\n[lab]\nmeasure_storage = false\n{lab}\n\
         [load]\nagents = 12\nrate = 90\ntime = \"10m\"\nwarmup = \"0s\"\ntimeout = \"60s\"\n\
         [[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/{{seq}}\" }}\n[fleet]\ngenerators = 3\n{fleet}\n{more}"
    );
    sandbox.file("fleet.toml", text)
}

fn events(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("trials/001/events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits for the end of a run after the loss of its second generator. Returns the time from the
/// loss until it was noticed. The loss began at `begun`, or with the run's fault.
fn noticed(sandbox: &Sandbox, mut playing: Playing, loss: Loss, begun: Option<Instant>) -> Duration {
    playing.wait_for_event("generator_lost");
    let seen = begun.map(|begun| begun.elapsed());
    playing.wait();
    let run = sandbox.run_folder();
    let results = json(&run.join("analysis.json"));
    assert_eq!(results["verdict"]["is"], "void", "{loss:?}: {results:#}");
    let events = events(&run);
    let of = |name: &str| {
        events.iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("{loss:?}: no {name}"))
    };
    let lost = of("generator_lost");
    assert!(lost["reason"].as_str().unwrap().contains(loss.reason()), "{loss:?}: {lost}");
    // A process has no number that identifies its generator.
    if !matches!(loss, Loss::Killed | Loss::Stopped) {
        assert!(lost["generator"].as_str().unwrap().ends_with('2'), "{loss:?}: {lost}");
    }
    assert_eq!(sandbox.leftovers(), [""; 0], "{loss:?}");
    let at_s = |event: &Value| event["at_s"].as_f64().unwrap();
    seen.unwrap_or_else(|| Duration::from_secs_f64((at_s(lost) - at_s(of("fault_begun"))).max(0.0)))
}

/// Loses the second of three generators. Returns `None` if this machine cannot do so.
fn lose(loss: Loss, random: &mut fastrand::Rng) -> Option<Duration> {
    let after = Duration::from_millis(random.u64(200..3000));
    // The ssh machines take their own turn.
    let turn = if matches!(loss, Loss::Unplugged) { None } else { Some(lab_traces::turn()?) };
    let before = turn.as_ref().map(|_| lab_traces::inventory());
    let fault = |kind: &str| {
        let at_ms = 1000 + after.as_millis();
        format!("[[fault]]\nname = \"lost\"\nkind = \"{kind}\"\non = \"gen2\"\nat = \"{at_ms}ms\"\nfor = \"5m\"\n")
    };
    let (mut sandbox, mut machines) = (Sandbox::new(), None);
    let virtual_fleet = "by = \"virtual\"";
    let file = match loss {
        Loss::Killed | Loss::Stopped => experiment(&sandbox, "hosts = 1", virtual_fleet, ""),
        Loss::Frozen => experiment(&sandbox, "hosts = 1", virtual_fleet, &fault("host_freeze")),
        Loss::Powerless => experiment(&sandbox, "hosts = 1", virtual_fleet, &fault("host_crash")),
        Loss::Unplugged => {
            let all = machines.insert(Machines::make(&sandbox, 3)?);
            sandbox.beside(all);
            experiment(
                &sandbox,
                "ssh = [\"10.84.0.1\"]",
                "by = \"ssh\"\nhosts = [\"10.84.0.2\", \"root@10.84.0.3\"]",
                "",
            )
        }
    };
    let mut playing = sandbox.start_run(&[&file]);
    playing.wait_for_records();
    let begun = match loss {
        Loss::Frozen | Loss::Powerless => None,
        Loss::Killed | Loss::Stopped | Loss::Unplugged => {
            playing.wait_for_load(after);
            let begun = Instant::now();
            match loss {
                Loss::Killed => signal("KILL", sandbox.processes("generator")[1]),
                Loss::Stopped => signal("STOP", sandbox.processes("generator")[1]),
                _ => machines.iter().for_each(|machines| machines.unplug(3)),
            }
            Some(begun)
        }
    };
    let noticed = noticed(&sandbox, playing, loss, begun);
    if let Some(machines) = &machines {
        assert_eq!(machines.leftovers(), [""; 0], "{loss:?}");
    }
    if let Some(before) = &before {
        assert_eq!(lab_traces::added_since(before), [""; 0], "{loss:?}");
    }
    Some(noticed)
}

#[test]
fn randomly_lost_generators_void_their_trials() {
    let losses: usize = std::env::var("PLIMSOLL_TEST_LOSSES").map_or(2, |count| count.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(losses as u64);
    let (mut played, mut latest) = (0, Duration::ZERO);
    for number in 0..losses {
        let loss = ALL[random.usize(0..ALL.len())];
        let Some(noticed) = lose(loss, &mut random) else { continue };
        println!("{number}: {loss:?}, noticed after {:.1} s", noticed.as_secs_f64());
        (played, latest) = (played + 1, latest.max(noticed));
    }
    println!("campaign: losses={played} latest_ms={}", latest.as_millis());
}
