//! Tests on several hosts: all of a role at once, one role after the other, and the whole story of a start that failed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::Ordering;

use experiment::manifest::ReadyCheck;

use super::*;
use crate::fixture::hosts::{Lab, story};
use crate::fixture::{Adjust as _, Bench, Scratch, manifest, ourselves, server, shell};
use crate::runner::{Program, Setup, VERSION, beside};

fn as_set(words: &[String]) -> BTreeSet<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn role_by_role_on_all_hosts_and_back() {
    let bench = Bench::new();
    let beside = shell("beside", &["exec sleep 1000"]).after("server");
    let lab = Lab::new(&bench, &["", "", ""]);
    let mut site = lab.up(&manifest(vec![beside, server("server")])).unwrap();
    let ups = story(&site.poll());
    let expected =
        ["+n1", "+n2", "+n3", "+n1.server", "+n2.server", "+n3.server", "+n1.beside", "+n2.beside", "+n3.beside"];
    assert_eq!(ups, expected);
    assert_eq!(site.members().len(), 6);
    assert_eq!(site.member_hosts(), ["n1", "n2", "n3"]);
    let services = site.services();
    let port = services[0].strip_prefix("127.0.0.1:").unwrap();
    assert_eq!(services, ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map(|host| format!("{host}:{port}")));
    assert_eq!(site.service(), services[0]);
    for service in &services {
        assert_eq!(site.caller().call(service, "ping", &BTreeMap::new()), Ok(()));
    }
    site.stop().unwrap();
    let downs = story(&site.poll());
    assert_eq!(as_set(&downs[..3]), ["-n1.beside", "-n2.beside", "-n3.beside"].into());
    assert_eq!(as_set(&downs[3..6]), ["-n1.server", "-n2.server", "-n3.server"].into());
    assert_eq!(downs[6..], ["-n1", "-n2", "-n3"]);
    assert_eq!(bench.alive(), 0);
    assert_eq!(fs::read_dir(bench.registry.scratch().unwrap()).unwrap().count(), 0);
    // Once more is harmless.
    site.kill_all().unwrap();
    assert!(site.poll().is_empty() && site.member_hosts().is_empty());
}

#[test]
fn on_slow_hosts_everything_may_take_longer() {
    assert_eq!([0.1, 0.5, 1.0, 2.0, 0.0].map(slowdown), [10.0, 2.0, 1.0, 1.0, 1.0]);
    let bench = Bench::new();
    let mut lab = Lab::new(&bench, &[""]);
    lab.trial.lab.speed = 0.1;
    let site = lab.up(&manifest(vec![server("server").stop_within(0.5)])).unwrap();
    assert_eq!((site.posts[0].ready_within_s, site.posts[0].stop_within_s), (200.0, 5.0));
}

#[test]
fn what_a_host_takes_long_for_is_given_up_when_the_user_wants_an_end() {
    let folder = Scratch::new();
    let run = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let setup = Setup {
        version: VERSION.to_owned(),
        host: "n1".to_owned(),
        run,
        folder: folder.join("n1"),
        ..Setup::default()
    };
    let (input, to) = std::io::pipe().unwrap();
    let (from, output) = std::io::pipe().unwrap();
    let serving = beside(input, output);
    let long = Duration::from_secs(600);
    let session = Session::open(Box::new(to), Box::new(from), &setup, long, &Default::default()).unwrap();
    let program = Program { command: vec!["sleep".to_owned(), "600".to_owned()], ..Program::default() };
    let sessions = [session];
    let ran = interruptible(&sessions, &AtomicBool::new(true), || sessions[0].run(&program, "", long));
    assert!(matches!(ran, Err(Error::HostLost { .. })), "{ran:?}");
    assert_eq!(serving.join().unwrap(), 0, "it has ended what it was doing");
}

#[test]
fn the_hosts_of_a_role_do_not_wait_for_each_other() {
    let bench = Bench::new();
    let seen = bench.folder.join("seen");
    fs::create_dir(&seen).unwrap();
    // None of them is ready before all have been started.
    let all = (1..=3).map(|number| format!("[ -e {}/n{number} ]", seen.display())).collect::<Vec<_>>().join(" && ");
    let serve = ourselves("fixture::serve").join(" ");
    let script = format!(": > {}/{{name}}; until {all}; do sleep 0.02; done; exec {serve}", seen.display());
    let waiting = server("server").running(["sh", "-c", &script].map(str::to_owned).to_vec());
    let site = Lab::new(&bench, &["", "", ""]).up(&manifest(vec![waiting])).unwrap();
    assert_eq!(site.members().len(), 3);
}

#[test]
fn hosts_with_roles_run_nothing_else() {
    let bench = Bench::new();
    let lab = Lab::new(&bench, &["beside", "server", "server"]);
    let mut beside = shell("beside", &["exec sleep 1000"]);
    beside.ready.check = ReadyCheck::Http("http://{host.server}:{port.server.service}/".to_owned());
    let mut site = lab.up(&manifest(vec![server("server"), beside.after("server")])).unwrap();
    assert_eq!(story(&site.poll())[3..], ["+n2.server", "+n3.server", "+n1.beside"]);
    assert_eq!(site.member_hosts(), ["n2", "n3"]);
    assert_eq!(site.services().len(), 2);
    drop(site);
    assert_eq!(bench.alive(), 0);
}

#[test]
fn a_role_that_the_target_does_not_have_is_named_with_its_host() {
    let bench = Bench::new();
    let failed = Lab::new(&bench, &["", "sever"]).up(&manifest(vec![server("server")])).err().unwrap();
    assert_eq!(failed.error.to_string(), "host n2: `test` has no role `sever`; it has server");
    assert_eq!(story(&failed.observed), ["+n1", "+n2", "-n1", "-n2"]);
}

#[test]
fn one_that_dies_ends_the_start_and_its_story_is_told() {
    let bench = Bench::new();
    let serve = ourselves("fixture::serve").join(" ");
    // The others would be ready only long after.
    let script = format!("[ {{name}} = n2 ] && exit 7; sleep 1000; exec {serve}");
    let dying = server("server").running(["sh", "-c", &script].map(str::to_owned).to_vec());
    let failed = Lab::new(&bench, &["", "", ""]).up(&manifest(vec![dying])).err().unwrap();
    let Error::DiedAtStart { role, how, .. } = &*failed.error else { panic!("{}", failed.error) };
    assert_eq!((role.as_str(), how.as_str()), ("server on n2", "exit 7"));
    let told = story(&failed.observed);
    assert_eq!(told[..6], ["+n1", "+n2", "+n3", "+n1.server", "+n2.server", "+n3.server"]);
    let downs = ["!n2.server", "-n1.server", "-n3.server", "-n1", "-n2", "-n3"];
    assert_eq!(as_set(&told[6..]), downs.into());
    assert_eq!(bench.alive(), 0);
}

#[test]
fn a_program_that_is_missing_on_one_host_does_not_hide_what_started_on_the_others() {
    let bench = Bench::new();
    let lab = Lab::new(&bench, &["", ""]);
    // A link that is there on n1 only.
    let link = bench.folder.join("n1");
    std::os::unix::fs::symlink("/bin/sleep", &link).unwrap();
    let program = format!("{}/{{name}}", bench.folder.display());
    let failed = lab.up(&manifest(vec![server("server").running(vec![program, "1000".to_owned()])])).err().unwrap();
    assert!(matches!(&*failed.error, Error::Missing { .. }), "{}", failed.error);
    assert_eq!(story(&failed.observed), ["+n1", "+n2", "+n1.server", "-n1.server", "-n1", "-n2"]);
    assert_eq!(bench.alive(), 0);
}

#[test]
fn ports_are_those_that_are_free_on_every_host() {
    let bench = Bench::new();
    let lab = Lab::new(&bench, &["", ""]);
    lab.strings[1].refuses_ports.store(3, Ordering::SeqCst);
    let site = lab.up(&manifest(vec![server("server")])).unwrap();
    assert_eq!(lab.strings[1].refuses_ports.load(Ordering::SeqCst), 0);
    drop(site);
    lab.strings[1].refuses_ports.store(usize::MAX, Ordering::SeqCst);
    let failed = lab.up(&manifest(vec![server("server")])).err().unwrap();
    assert!(matches!(*failed.error, Error::PortTaken { .. }), "{}", failed.error);
}

#[test]
fn hooks_are_run_where_the_service_is_up() {
    let bench = Bench::new();
    bench.folder.script(
        "hooks/inspect",
        r#"printf '{"name": "%s", "pid": %s, "all": "%s"}' "$PLIMSOLL_NAME" "$PLIMSOLL_PID_SERVER" "$PLIMSOLL_NAMES""#,
    );
    let mut manifest = manifest(vec![server("server")]);
    manifest.hooks.insert("inspect".to_owned(), "hooks/inspect".to_owned());
    let lab = Lab::new(&bench, &["", ""]);
    let mut site = lab.up(&manifest).unwrap();
    let members = site.members();
    let says = site.inspect().unwrap();
    assert_eq!((says["name"].as_str(), says["all"].as_str()), (Some("n1"), Some("n1,n2")));
    assert_eq!(says["pid"], members[0].pid);
    lab.strings[0].is_lost.store(true, Ordering::SeqCst);
    site.poll();
    let says = site.inspect().unwrap();
    assert_eq!((says["name"].as_str(), &says["pid"]), (Some("n2"), &members[1].pid.into()));
}

#[test]
fn a_real_host_that_lacks_something_is_named_before_anything_starts() {
    let bench = Bench::new();
    bench
        .folder
        .script("hooks/install", "[ $1 = check ] && [ -n \"$PLIMSOLL_TARGET\" ] && echo apt install it; exit 1");
    let mut manifest = manifest(vec![server("server")]);
    manifest.hooks.insert("install".to_owned(), "hooks/install".to_owned());
    let mut lab = Lab::new(&bench, &["", ""]);
    assert!(lab.up(&manifest).is_ok(), "virtual hosts have what this machine has");
    lab.strings[1].is_real = true;
    let failed = lab.up(&manifest).err().unwrap();
    let expected = "host n2: `test` is not installed completely there; what has to be done on it:\n  apt install it";
    assert_eq!(failed.error.to_string(), expected);
    assert_eq!(story(&failed.observed), ["+n1", "+n2", "-n1", "-n2"]);
    bench.folder.script("hooks/install", "echo no >&2; exit 3");
    let failed = lab.up(&manifest).err().unwrap();
    assert_eq!(failed.error.to_string(), "host n2: `install check` of `test` failed there: exit 3: no");
    bench.folder.script("hooks/install", "exit 0");
    assert!(lab.up(&manifest).is_ok());
}

#[test]
fn a_quick_start_is_over_before_the_target_is_up() {
    let bench = Bench::new();
    let up = |quick_start: bool, refused: Option<&'static str>| {
        let mut lab = Lab::new(&bench, &["", ""]);
        lab.trial.lab.quick_start = quick_start;
        *lab.strings[1].refuses.lock().unwrap() = refused;
        lab.up(&manifest(vec![server("server")])).map(|mut site| site.kill_all().unwrap())
    };
    // What a host refuses, it was asked for.
    for refused in [Some("n2 impose quick start"), Some("n2 lift quick start")] {
        assert!(up(false, refused).is_ok());
        assert!(up(true, refused).is_err_and(|not_up| not_up.error.to_string().contains("it cannot")));
    }
    assert!(up(true, None).is_ok());
    assert_eq!(bench.alive(), 0);
}
