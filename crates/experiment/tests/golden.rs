//! Golden files: experiments and manifests that must be accepted for ever, and the plans of a few
//! of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use experiment::catalog::Catalog;
use experiment::example::{Example, example};
use experiment::plan::{Plan, Rate, Retry, StepOrder, TargetKind, Trial, Warmup, When};
use experiment::timeline;
use known::{catalog, catalog_of_today, files, here, source};

fn plan(path: &std::path::Path, catalog: &Catalog) -> Plan {
    experiment::read(&source(path), &[], catalog).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
}

fn golden(name: &str) -> Plan {
    plan(&here().join("golden").join(name), &catalog())
}

#[test]
fn golden_and_bundled_files_are_accepted() {
    let golden = files(&here().join("golden"));
    assert!(golden.len() >= 14);
    let (frozen, today) = (catalog(), catalog_of_today());
    let golden = golden.iter().map(|path| (path, &frozen));
    let bundled = files(&here().join("../../experiments"));
    for (path, catalog) in golden.chain(bundled.iter().map(|path| (path, &today))) {
        let plan = plan(path, catalog);
        assert!(!plan.possible().is_empty() && !timeline::print(&plan).is_empty());
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan, "{}", path.display());
    }
}

#[test]
fn balancers_are_hosts_that_are_not_members() {
    let plan = plan(&here().join("../../experiments/24-production-load.toml"), &catalog_of_today());
    for trial in &plan.trials {
        let balancers: &[&str] = if trial.variant.as_deref() == Some("pi2c") { &["proxy"] } else { &[] };
        assert_eq!(trial.lab.balancers, balancers, "{:?}", trial.variant);
    }
}

#[test]
fn every_target_folder_has_a_good_manifest() {
    let mut found = 0;
    for folder in std::fs::read_dir(here().join("../../targets")).unwrap() {
        let path = folder.unwrap().path().join("target.toml");
        if path.exists() {
            experiment::manifest::parse("x", &source(&path))
                .unwrap_or_else(|problems| panic!("{}", problems.render(false)));
            found += 1;
        }
    }
    assert!(found >= 2);
}

#[test]
fn every_bundled_profile_is_valid_and_cites_its_source() {
    let profiles = files(&here().join("../../profiles"));
    assert!(profiles.len() >= 8);
    for path in profiles {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let profile = experiment::profile::parse(&name, &source(&path))
            .unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        assert!(!profile.source.is_empty(), "{name}");
    }
}

#[test]
fn a_slow_lab_stretches_every_time() {
    let normal = golden("13-safe-load.toml");
    let lab = &normal.possible()[0].lab;
    assert_eq!((lab.speed, lab.profiles.len(), lab.profiles[0].cores), (0.5, 1, Some(4)));
    assert_eq!((lab.networks[0].link.rate_bits_per_s, lab.networks[0].link.delay_s), (Some(1e8), Some(0.001)));
    assert!(lab.measure_storage && lab.is_emulated());
    let load = normal.possible()[0].load.as_ref().unwrap();
    assert_eq!((load.time_s, load.timeout_s, load.drain_s, load.reconnect_s), (120.0, 20.0, 10.0, 0.2));
    assert_eq!((load.warmup, load.rate.as_ref()), (Warmup::Seconds(20.0), Some(&Rate::Constant(50.0))));
    let slow = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let path = here().join("golden/10-member-dies.toml");
        experiment::read(&source(&path), &sets, &catalog()).unwrap_or_else(|p| panic!("{}", p.render(false)))
    };
    let faults = &slow(&["lab.speed=0.1"]).trials[0].faults;
    assert_eq!(faults[0].when, When::Every { first_s: 450.0, every_s: 600.0 });
    assert_eq!(faults[0].for_s, Some(200.0));
    assert_eq!(faults[1].when, When::After { fault: "killed".into(), healed: true, plus_s: 50.0 });
}

#[test]
fn the_plan_of_a_crash() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&golden("03-name-service-crash.toml")).unwrap());
}

#[test]
fn timelines() {
    for name in [
        "01-first-run",
        "02-name-service-complex",
        "03-name-service-crash",
        "04-what-a-crash-costs",
        "05-pi-cluster-vs-xeon",
        "06-cluster-size",
        "10-member-dies",
        "12-pacemaker-cluster-sizes",
        "13-safe-load",
        "14-what-runs-already",
    ] {
        insta::assert_snapshot!(name, timeline::print(&golden(&format!("{name}.toml"))));
    }
}

#[test]
fn trials_are_interleaved_and_seeded() {
    let plan = golden("05-pi-cluster-vs-xeon.toml");
    assert_eq!(plan.trials.len(), 9 * 2 * 3);
    let told = |index: usize| {
        let trial = &plan.trials[index];
        (
            trial.id.as_str(),
            trial.variant.as_deref().unwrap(),
            trial.point["load.agents"].as_u64().unwrap(),
            trial.repeat,
        )
    };
    assert_eq!([0, 1, 2, 18].map(|index| told(index).0), ["001", "002", "003", "019"]);
    assert_eq!([0, 1, 2, 18].map(|index| (told(index).2, told(index).3)), [(1, 1), (1, 1), (2, 1), (1, 2)]);
    assert_ne!(told(0).1, told(1).1, "both variants at a point, then the next point");
    assert_eq!([told(0).1, told(1).1], [told(19).1, told(18).1], "each second repeat is the one before backwards");
    let seed = |index: usize| plan.trials[index].seed;
    assert_eq!(seed(0), seed(1), "variants of a repeat draw the same numbers");
    assert_ne!(seed(0), seed(2), "points do not");
    assert_ne!(seed(0), seed(18), "repeats do not");
    assert_eq!(golden("05-pi-cluster-vs-xeon.toml"), plan, "and all of it again the same");
}

#[test]
fn defaults_and_forms() {
    let first = golden("01-first-run.toml");
    let trial = &first.trials[0];
    let load = trial.load.as_ref().unwrap();
    assert_eq!(
        (trial.target.protocol.as_str(), load.order, load.warmup),
        ("http", StepOrder::Cycle, Warmup::Seconds(1.0))
    );
    assert_eq!((load.drain_s, load.timeout_s, load.reconnect_s, load.threads), (5.0, 10.0, 0.1, None));
    assert_eq!((&load.rate, load.backlog), (&None, None));
    assert_eq!(load.retry, Retry::FailFast);
    let member = golden("10-member-dies.toml");
    let faults = &member.trials[0].faults;
    assert_eq!(faults[0].when, When::Every { first_s: 45.0, every_s: 60.0 });
    assert_eq!(faults[1].when, When::After { fault: "killed".into(), healed: true, plus_s: 5.0 });
    assert_eq!((faults[1].seed, faults[0].for_s, faults[0].label.as_str()), (7, Some(20.0), "kill"));
    let names: Vec<&str> = member.trials[0].lab.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["proxy", "n2", "n3", "n4"]);
    let started = golden("14-what-runs-already.toml");
    assert_eq!(started.title, "14-what-runs-already");
    assert!(
        matches!(&started.trials[0].target.kind, TargetKind::Started { within_s, ready: Some(_), .. } if *within_s == 90.0)
    );
    assert_eq!(started.trials[0].load.as_ref().unwrap().retry, Retry::Wait { wait_s: 0.05 });
    let safe = golden("13-safe-load.toml");
    assert_eq!(safe.find.as_ref().unwrap().limits.len(), 2);
    assert_eq!(
        safe.possible()[0].load.as_ref().unwrap().steps[0].with["header.authorization"],
        "Bearer {env:DOCKET_TOKEN}"
    );
    assert_eq!(golden("12-pacemaker-cluster-sizes.toml").trials[3].steps[2].within_s, 60.0);
    let modes = golden("08-mnesia-modes.toml");
    let is_that = |trial: &Trial| matches!(&trial.target.kind, TargetKind::Folder { with, .. } if with["write"] == "sync_dirty" && with["read"] == "async_dirty");
    assert!(modes.trials.iter().any(is_that));
}

#[test]
fn examples_are_valid_experiments() {
    let catalog = catalog();
    for wanted in [
        Example::Url("http://localhost:8080/hello?x={y}".into()),
        Example::Url("vsns://127.0.0.1:7000".into()),
        Example::Target("echo".into()),
        Example::Target("vsns".into()),
        Example::Target("docket".into()),
    ] {
        let text = example(&wanted, &catalog).unwrap();
        let source = experiment::source::Source { name: "new.toml".into(), text: text.clone() };
        let plan = experiment::read(&source, &[], &catalog)
            .unwrap_or_else(|problems| panic!("{text}\n{}", problems.render(false)));
        assert_eq!(plan.trials.len(), 1);
    }
    insta::assert_snapshot!("example_url", example(&Example::Url("http://localhost:8080/".into()), &catalog).unwrap());
    insta::assert_snapshot!("example_target", example(&Example::Target("vsns".into()), &catalog).unwrap());
}

#[test]
fn one_member_down_never_hits_the_proxy() {
    let text = r#"
[target]
use = "docket"
[lab]
host = [{ name = "proxy", role = "balancer" }, { role = "member", count = 3 }]
[load]
agents = 1
time   = "30s"
[[load.cycle]]
call = "get"
with = { path = "/" }
[find]
highest   = "load.agents"
while     = [{ metric = "failed_pct", below = 1 }]
surviving = ["one member down"]
"#;
    let hit: Vec<String> = (1..20)
        .map(|seed| {
            known::read(&format!("seed = {seed}\n{text}"), &[]).unwrap().find.unwrap().templates[0].faults[0]
                .on
                .to_string()
        })
        .collect();
    let hit: std::collections::BTreeSet<&str> = hit.iter().map(String::as_str).collect();
    assert_eq!(hit.into_iter().collect::<Vec<_>>(), ["n2", "n3", "n4"]);
}

#[test]
fn command_targets_need_no_url() {
    let load = "[load]\nagents = 1\ntime = \"1s\"\n[[load.cycle]]\ncall = \"run\"\nwith = { command = \"true\" }\n";
    let plan = |target: &str| known::read(&format!("[target]\n{target}\nprotocol = \"command\"\n{load}"), &[]).unwrap();
    for (target, url) in [("", ""), ("url = \"tcp://127.0.0.1:5432\"", "tcp://127.0.0.1:5432")] {
        let plan = plan(target);
        assert_eq!(plan.trials[0].target.kind, TargetKind::Running { url: url.to_owned() });
        assert_eq!(plan.trials[0].target.protocol, "command");
        let shown = if url.is_empty() { "command" } else { url };
        assert!(timeline::print(&plan).contains(shown));
    }
}

#[test]
fn a_cluster_has_urls_and_other_parts() {
    let load = "[load]\nagents = 2\ntime = \"1s\"\nfailover = \"next\"\n[[load.cycle]]\ncall = \"get\"\nwith = { path = \"/\" }\n";
    let also = "also = { ports = [9090], units = [\"etcd@2\"], processes = [\"exporter\"], cgroups = [\"/jobs/7\"] }";
    let urls = ["http://127.0.0.1:2379", "http://127.0.0.1:2479"];
    let plan = known::read(&format!("[target]\nurls = {urls:?}\n{also}\n{load}"), &[]).unwrap();
    let target = &plan.trials[0].target;
    assert_eq!(
        (target.urls(), &target.kind),
        (urls.map(str::to_owned).to_vec(), &TargetKind::Running { url: urls[0].to_owned() })
    );
    assert_eq!((target.also.ports.as_slice(), target.also.units.as_slice()), (&[9090][..], &["etcd@2".to_owned()][..]));
    assert!(timeline::print(&plan).contains("and http://127.0.0.1:2479"));
    let alone = known::read(&format!("[target]\nurls = {:?}\n{load}", &urls[..1]), &[]).unwrap_err();
    assert!(alone.contains("`urls = […]`"), "{alone}");
}
