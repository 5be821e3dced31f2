//! `[load] sites`: further servers of a load, their place in the plan, and loads that have none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use experiment::plan::{Load, Plan, Site, Tls};
use experiment::timeline;
use known::read;

fn file(target: &str, load: &str, more: &str) -> String {
    format!(
        "[target]\n{target}\n[load]\nagents = 10\ntime = \"1m\"\n{load}\n[[load.cycle]]\ncall = \"get\"\n\
         with = {{ path = \"/\" }}\n{more}"
    )
}

const TARGET: &str = "url = \"https://shop.example\"\ntls = { ca = \"ca.pem\", server_name = \"shop\" }";
const SITES: &str = "sites = { auth = \"https://auth.example/v1\", files = { url = \"https://cdn.example\", tls = { insecure = true } } }";
const STEP: &str =
    "site = \"auth\"\n[[load.cycle]]\nname = \"image\"\ncall = \"get\"\nsite = \"files\"\nwith = { path = \"/i\" }\n";

fn plan(target: &str, load: &str, more: &str) -> Plan {
    read(&file(target, load, more), &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

fn problems(target: &str, load: &str, more: &str) -> String {
    read(&file(target, load, more), &[]).expect_err("a mistake")
}

#[test]
fn sites_are_in_the_plan() {
    let plan = plan(TARGET, SITES, STEP);
    let load = plan.trials[0].load.as_ref().unwrap();
    let insecure = Tls { insecure: true, ..Tls::default() };
    assert_eq!(load.sites["auth"], Site { url: "https://auth.example/v1".into(), tls: None });
    assert_eq!(load.sites["files"].tls, Some(insecure.clone()));
    let of_target = &plan.trials[0].target.tls;
    assert_eq!(load.sites["auth"].tls(of_target), Tls { ca: Some("ca.pem".into()), ..Tls::default() });
    assert_eq!(load.sites["files"].tls(of_target), insecure);
    assert_eq!(load.steps.iter().map(|step| step.site.as_deref()).collect::<Vec<_>>(), [Some("auth"), Some("files")]);
    assert_eq!((load.further_connections(), load.outcome_places(3)), (20, 4));
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan, "{json}");
    let listing = timeline::print(&plan);
    assert!(listing.contains("auth = https://auth.example/v1"), "{listing}");
}

#[test]
fn a_load_without_sites_has_none_in_its_plan() {
    let plan = plan("url = \"http://127.0.0.1:8080\"", "", "");
    let json = serde_json::to_value(&plan.trials[0].load).unwrap();
    assert!(json.get("sites").is_none() && json["steps"][0].get("site").is_none(), "{json}");
    assert_eq!((Load::default().further_connections(), Load::default().outcome_places(3)), (0, 3));
}

#[test]
fn groups_and_preparations_use_the_sites_of_the_load() {
    let text = "[target]\nurl = \"http://127.0.0.1:8080\"\n[[prepare]]\ncall = \"post\"\nsite = \"auth\"\nwith = { path = \"/\" }\n\
                [load]\ntime = \"1m\"\nsites.auth = \"http://127.0.0.1:9001\"\n\
                [[load.group]]\nname = \"a\"\nagents = 3\n[[load.group.cycle]]\ncall = \"get\"\nsite = \"auth\"\nwith = { path = \"/\" }\n\
                [[load.group]]\nname = \"b\"\nagents = 2\n[[load.group.mix]]\nname = \"b\"\ncall = \"get\"\nwith = { path = \"/\" }\n";
    let plan = read(text, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let load = plan.trials[0].load.as_ref().unwrap();
    assert_eq!((load.sites.len(), load.groups[0].sites.len(), load.further_connections()), (1, 1, 3));
    assert_eq!(plan.trials[0].prepare[0].step.site.as_deref(), Some("auth"));
}

#[test]
fn sites_need_http_and_hosts_that_clients_reach() {
    let vsns = file("url = \"vsns://127.0.0.1:1\"", "sites.a = \"vsns://127.0.0.1:2\"", "")
        .replace("\"get\"", "\"load\"")
        .replace("{ path = \"/\" }", "{ space = \"s\", key = \"k\" }");
    let told = read(&vsns, &[]).expect_err("a mistake");
    assert!(told.contains("the protocol `vsns` has no sites"), "{told}");
    let told = problems("use = \"echo\"", "sites.a = \"http://127.0.0.1:9001\"", "[lab]\nhosts = 1\n");
    assert!(told.contains("clients of virtual hosts reach only hosts of the lab"), "{told}");
}
