//! Hosts that are broken, hostile or hang: hosts behind a fake `ssh` with several modes, and
//! virtual hosts whose shims are stopped forever. Each run ends in bounded time and memory, and
//! names the host.

use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lab_traces;
use crate::sandbox::{PlayedWithin, Sandbox, children, signal};

/// Maximum memory of a run that gets nonsense.
const MOST_KIB: u64 = 200 << 10;
/// Time limit for every mode. The longest deadline in a mode is one minute, and this machine may be
/// busy.
const IN_TIME: Duration = Duration::from_secs(400);

/// The fake `ssh`. It answers as a real host does, except where its mode differs, and never runs
/// the given script.
const FAKE: &str = r#"#!/bin/sh
for script; do :; done
case " $* " in *" -G "*) echo "hostname 127.0.0.1"; exit 0;; esac
case $script in
  *mktemp*) part=guard;;
  *--version*) part=send;;
  *"tar -xof"*) part=folder;;
  *) part=runner;;
esac
guard() {
  echo "plimsoll system $(uname -sm)"; echo "plimsoll from 127.0.0.1 1 127.0.0.1 22"; echo "plimsoll free 99999999"
  echo "plimsoll folder /nowhere/plimsoll-run"
}
ready() {
  echo "plimsoll runner"; read -r setup
  echo '{"said":"ready","version":"x","pid":7,"folder":"/nowhere","notices":[]}'
}
figures() { read -r order; echo '{"said":"done","number":1,"answer":{"is":"figures","figures":{"cores":2}}}'; }
zeros() { yes ,0 | tr -d '\n' | head -c "$1"; }
# Without an end, but with pauses, which leave the machine to others: in half a minute more than may be held.
pour() { while head -c 4000000 /dev/zero; do sleep 0.1; done; }
case $MODE.$part in
  "a line without an end.guard") exec head -c 400000000000 /dev/zero;;
  "lines without an end.guard") exec yes "hello there";;
  "notices without an end.runner")
    ready; exec yes '{"said":"ready","version":"x","pid":7,"folder":"/nowhere","notices":["a","b","c"]}';;
  "complaints without an end.guard") guard; exec yes "complaint" >&2;;
  "complaints without an end.runner") exec yes "complaint" >&2;;
  "output without an end.send") pour; exit 1;;
  "a giant line.runner") ready; exec head -c 400000000 /dev/zero;;
  "a giant array.runner")
    ready; printf '{"said":"done","number":1,"answer":{"is":"ports","ports":[0'; zeros 300000000; echo ']}}'; exec sleep 1000;;
  "no answer to a folder.folder") exec sleep 1000;;
  "no answer to a folder.runner") ready; figures; exec sleep 2;;
  "many arrays.runner")
    ready; while printf '{"said":"done","number":1,"answer":{"is":"ports","ports":[0'; do zeros 900000; echo ']}}'; done;;
  "no answer.runner") ready; exec sleep 1000;;
  "an answer, then none.guard") guard; exec sleep 1000;;
  "an answer, then none.runner") ready; figures; exec sleep 1000;;
  "closed at once.guard") exit 0;;
  "garbage.runner") ready; exec yes "$(printf '\200\377\033]0;x\007\t\314\230\302\233 {"said":\001\r')";;
  "escape sequences.runner")
    printf '\033]0;owned\007\033[2J\n' >&2; printf '\033]0;owned\007\n'; echo "plimsoll runner"
    printf '\033[2J\302\2332J\342\200\256hello\n'
    echo '{"said":"failed","reason":"\u001b]0;owned\u0007 \u009b2J \u202eno room"}';;
  "lying numbers.runner")
    ready; figures; while read -r order; do
      number=${order#*\"number\":}; number=${number%%,*}
      echo '{"said":"done","number":'"$number"',"answer":{"is":"ports","ports":[0,65535]}}'
    done;;
  *.guard) guard; exec cat >/dev/null;;
  *.send | *.folder) exec cat >/dev/null;;
  *.runner) ready; exec cat >/dev/null;;
esac
"#;

/// Name of each mode, and the text that the output must contain besides the host's name.
const MODES: &[(&str, &str)] = &[
    // The longest comes first.
    ("an answer, then none", "no answer within"),
    ("a line without an end", "more than 256 KiB"),
    ("lines without an end", "more than 256 KiB"),
    ("notices without an end", "unsolicited messages"),
    ("complaints without an end", "ssh says: complaint"),
    // Output until the deadline.
    ("output without an end", "host n1"),
    ("a giant line", "a line is longer than 1 MiB"),
    ("a giant array", "a line is longer than 1 MiB"),
    ("many arrays", "more than 65536 values"),
    ("no answer", "no answer within 20 s"),
    ("no answer to a folder", "no longer answers"),
    ("closed at once", "login shell"),
    ("garbage", "host n1"),
    ("escape sequences", "no room"),
    ("lying numbers", "invalid list of ports"),
];

/// Generator that misbehaves as its mode says. Otherwise it answers until it is asked to end; it
/// never plays.
const GENERATOR: &str = r#"#!/bin/sh
while read -r order; do case $MODE.$order in
  "a giant interval."*setup*) printf '{"says":"interval","number":0,"of":{"a":[0'; yes ,0 | tr -d '\n' | head -c 300000000; echo ']}}';;
  "a long refusal."*setup*) printf '{"says":"refused","reason":"\\u001b]0;'; head -c 900000 /dev/zero | tr '\0' x; echo '"}';;
  *setup*) echo '{"says":"ready","version":3,"cores":1}';;
  *ping*)
    t0=${order##*:}; t0=${t0%\}}; t=$t0
    case $MODE in "a clock of another century") t=9223372036854775808;; "an answer to no ping") t0=${t0}1;; esac
    echo '{"says":"pong","t0_ns":'"$t0"',"t1_ns":'"$t"',"t2_ns":'"$t"'}';;
  *\"end\"*) exit;;
esac; done
"#;

/// Name of each generator mode, and the text that the output must contain.
const GENERATORS: &[(&str, &str)] = &[
    ("a giant interval", "sent an invalid message"),
    ("a long refusal", "xxxx…"),
    ("a clock of another century", "its clock was not measured"),
    ("no results", "although it answers"),
    ("an answer to no ping", "answered a ping that was not sent"),
];

/// Returns an error if a generator mode does not end as expected.
fn judged_generator(mode: &str, says: &str) -> Result<(), String> {
    let mut sandbox = Sandbox::new();
    sandbox.set("MODE", mode);
    let program = sandbox.program("generator", GENERATOR);
    let file = sandbox.file(
        "hostile.toml",
        format!(
            "title = \"t\"\nasks = \"a\"\n[target]\nuse = \"echo\"\n[load]\nagents = 1\ntime = \"1s\"\n[[load.cycle]]\n\
             call = \"get\"\nwith = {{ path = \"/\" }}\n[fleet]\ngenerators = 1\nby = \"command\"\nstart = [\"{program}\"]\n"
        ),
    );
    let PlayedWithin { played, peak_kib } = sandbox.start_run(&[&file]).wait_within(IN_TIME);
    let Some(played) = played else { return Err(format!("not ended within {} s", IN_TIME.as_secs())) };
    let events = fs::read_to_string(sandbox.run_folder().join("trials/001/events.jsonl")).unwrap_or_default();
    let said = played.stdout + &played.stderr + &events;
    match () {
        () if peak_kib > MOST_KIB => Err(format!("it had {} MiB", peak_kib >> 10)),
        () if !said.contains(says) => Err(format!("exit {}, and nothing of `{says}` in: {said}", played.code)),
        () if said.contains('\x1b') => Err(format!("it shows what moves a cursor: {said:?}")),
        // The output repeats the generator's text in a few places.
        () if said.len() > 100_000 => Err(format!("{} bytes are said of it", said.len())),
        () if !sandbox.leftovers().is_empty() => Err(format!("left over: {:?}", sandbox.leftovers())),
        () => Ok(()),
    }
}

#[test]
fn hostile_generators_cannot_hang_a_run_or_exhaust_memory() {
    let failed: Vec<String> = std::thread::scope(|scope| {
        GENERATORS
            .iter()
            .map(|(mode, says)| {
                scope.spawn(move || judged_generator(mode, says).err().map(|why| format!("{mode}: {why}")))
            })
            .collect::<Vec<_>>()
            .into_iter()
            .filter_map(|played| played.join().unwrap())
            .collect()
    });
    println!("campaign: generators={} generators_contained={}", GENERATORS.len(), GENERATORS.len() - failed.len());
    assert!(failed.is_empty(), "{failed:#?}");
}

fn measured(mode: &str) -> (Sandbox, PlayedWithin) {
    let mut sandbox = Sandbox::new();
    let programs = sandbox.path().join("programs");
    fs::create_dir(&programs).unwrap();
    sandbox.program("programs/ssh", FAKE);
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    sandbox.set("PATH", path);
    sandbox.set("MODE", mode);
    // Shortens the time limits for connecting, sending and starting.
    sandbox.set("PLIMSOLL_SSH_PATIENCE", "0.25");
    let file = sandbox.file(
        "hostile.toml",
        "title = \"t\"\nasks = \"a\"\n[target]\nuse = \"echo\"\n[lab]\nssh = [\"hostile.invalid\"]\n\
         [load]\nagents = 1\ntime = \"1s\"\n[[load.cycle]]\ncall = \"get\"\nwith = { path = \"/\" }\n",
    );
    let measured = sandbox.start_run(&[&file]).wait_within(IN_TIME);
    (sandbox, measured)
}

/// Returns an error if a mode does not end as expected.
fn judged(mode: &str, says: &str) -> Result<(), String> {
    let (sandbox, PlayedWithin { played, peak_kib }) = measured(mode);
    let Some(played) = played else { return Err(format!("not ended within {} s", IN_TIME.as_secs())) };
    let (said, code) = (played.stdout + &played.stderr, played.code);
    if peak_kib > MOST_KIB {
        return Err(format!("it had {} MiB", peak_kib >> 10));
    }
    if code != 3 || !said.contains("host n1") || !said.contains(says) {
        return Err(format!("exit {code}, and nothing of `{says}` in: {said}"));
    }
    let events = fs::read_to_string(sandbox.run_folder().join("trials/001/events.jsonl")).unwrap_or_default();
    let moves = |c: char| (c.is_control() && c != '\n' && c != '\t') || ('\u{202a}'..='\u{202e}').contains(&c);
    if said.contains(moves) || events.contains(moves) {
        return Err(format!("it shows what moves a cursor: {said:?} {events:?}"));
    }
    match sandbox.leftovers() {
        left if left.is_empty() => Ok(()),
        left => Err(format!("left over: {left:?}")),
    }
}

#[test]
fn hostile_hosts_cannot_hang_a_run_or_exhaust_memory() {
    let (next, failed) = (Mutex::new(MODES.iter()), Mutex::new(Vec::new()));
    let play = || {
        while let Some((mode, says)) = { next.lock().unwrap().next() } {
            let begun = Instant::now();
            let judged = judged(mode, says);
            eprintln!("{mode}: {judged:?} after {:.1} s", begun.elapsed().as_secs_f64());
            failed.lock().unwrap().extend(judged.err().map(|why| format!("{mode}: {why}")));
        }
    };
    // Most of the modes wait for a deadline.
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(play))));
    let failed = failed.into_inner().unwrap();
    let well = MODES.len() - failed.len();
    // `make siege` reads this line.
    println!("campaign: modes={} contained={well}", MODES.len());
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Writes an experiment whose virtual hosts have faults that last longer than the test, on
/// different hosts.
fn broken_lab(sandbox: &Sandbox) -> String {
    let fault = |number: u32| {
        format!(
            "[[fault]]\nname = \"cut{number}\"\nkind = \"partition\"\non = \"n{number}\"\nat = \"{}ms\"\nfor = \"9m\"\n",
            100 * number
        )
    };
    let text = format!(
        "title = \"lab\"\nasks = \"Does it end?\"\n[target]\nuse = \"notebook\"\n\
         [lab]\nhosts = 4\nmeasure_storage = false\n\
         [load]\nagents = 2\ntime = \"10m\"\ntimeout = \"1s\"\nthink = \"10ms\"\nwarmup = \"0s\"\n\
         [[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n{}",
        (1..=4).map(fault).collect::<String>()
    );
    sandbox.file("lab.toml", text)
}

/// Plays the broken lab until all faults act, and then stops every shim forever, including the
/// switch's.
fn stopped(sandbox: &Sandbox) -> crate::sandbox::Playing {
    let mut playing = sandbox.start_run(&[&broken_lab(sandbox)]);
    for number in 1..=4 {
        playing.wait_for_event(&format!("\"fault_begun\",\"fault\":\"cut{number}\""));
    }
    let shims = children(playing.pid());
    assert!(shims.len() >= 5, "{shims:?}");
    for shim in shims {
        signal("STOP", shim);
    }
    playing
}

#[test]
fn an_interrupt_ends_a_run_with_stopped_shims() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let sandbox = Sandbox::new().with_shelves();
    let playing = stopped(&sandbox);
    playing.signal("INT");
    // The run waits for one host, and then for all others at the same time: 50 s. One after the
    // other took minutes.
    let PlayedWithin { played, .. } = playing.wait_within(IN_TIME);
    let played = played.expect("it ends by itself").exits(130);
    assert!(played.stderr.contains("no longer answers: no answer within"), "{}", played.stderr);
    assert_eq!(sandbox.leftovers(), [""; 0]);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn a_second_interrupt_ends_a_run_with_stopped_shims_at_once() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let sandbox = Sandbox::new().with_shelves();
    let mut playing = stopped(&sandbox);
    playing.signal("INT");
    playing.wait_for_words("stopping gracefully");
    playing.signal("INT");
    // The run does not wait for a host: the first heal alone could take 30 s, and then the run
    // would report that there was no answer.
    let PlayedWithin { played, .. } = playing.wait_within(IN_TIME);
    let played = played.expect("it ends at once").exits(130);
    assert!(!played.stderr.contains("no answer within"), "{}", played.stderr);
    assert_eq!(sandbox.leftovers(), [""; 0]);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}
