//! Tests of whom faults hit where clients go to a proxy: the members, and the proxy only by its name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan;
use serde_json::json;

use super::with;
use crate::fixture::stage::Stage;
use crate::runner::Control;

/// A proxy on n1, members on n2, n3, n4.
fn stage() -> Stage {
    Stage::behind_a_proxy(3)
}

fn hit(stage: &mut Stage, kind: &str, on: &str, seed: u64) -> String {
    let fault = plan::Fault { seed, ..with(kind, on, json!({})) };
    let on = stage.begin(&fault, 1).unwrap();
    stage.heal(&fault, 1).unwrap();
    on
}

#[test]
fn groups_are_of_members() {
    let mut stage = stage();
    assert_eq!(stage.site.member_hosts(), ["n2", "n3", "n4"]);
    assert_eq!(stage.site.fronts(), ["n1"]);
    for kind in ["host_freeze", "pause"] {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..40 {
            seen.insert(hit(&mut stage, kind, "one", seed));
            assert_eq!(hit(&mut stage, kind, "all", seed), "n2, n3, n4");
            assert!(!hit(&mut stage, kind, "minority", seed).contains("n1"));
            assert_eq!(hit(&mut stage, kind, "majority", seed).split(", ").filter(|host| *host != "n1").count(), 2);
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["n2", "n3", "n4"], "{kind}");
    }
}

#[test]
fn the_proxy_is_hit_by_its_name_alone() {
    let mut stage = stage();
    stage.begin(&with("host_crash", "n1", json!({})), 1).unwrap();
    assert_eq!(stage.done(), ["n1 crash"]);
    let mut stage = self::stage();
    let refused = stage.begin(&with("kill", "n1", json!({})), 1).err().unwrap();
    assert_eq!(refused.to_string(), "no member `n1`");
    stage.begin(&with("kill", "n1", json!({"process": "proxy"})), 1).unwrap();
    stage.begin(&with("kill", "n3", json!({})), 1).unwrap();
    assert_eq!(stage.done(), ["n1 proxy signal 9", "n3 member signal 9"]);
}

#[test]
fn a_member_is_called_itself_and_clients_go_to_the_proxy() {
    let stage = stage();
    let [service] = stage.site.services().try_into().unwrap();
    assert!(service.starts_with("127.0.0.1:"), "{service}");
    let called = stage.site.service_of("n3");
    assert!(called.starts_with("127.0.0.3:") && !called.ends_with(":0"), "{called}");
    // Who is down does not matter to clients that go to the proxy.
    assert_eq!(stage.site.services_but(&["n3".to_owned()]), [service]);
}

#[test]
fn a_partition_parts_members_and_the_proxy_goes_with_the_clients() {
    let mut stage = stage();
    let cut = |host: &str, from: &[&str], to: &[&str]| {
        format!("{host} impose it#1 {}", json!({"control": "cut", "from": from, "to": to}))
    };
    let (proxy, n2, n3, n4) = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4");
    let halves = with("partition", "n2", json!({}));
    assert_eq!(stage.begin(&halves, 1).unwrap(), "n2");
    // It still reaches both sides, as clients do.
    assert_eq!(stage.done(), [cut("n2", &[n3, n4], &[]), cut("n3", &[n2], &[]), cut("n4", &[n2], &[])]);
    stage.heal(&halves, 1).unwrap();
    stage.done();

    stage.begin(&with("partition", "n2", json!({"clients": "majority"})), 1).unwrap();
    // This machine's clients have 127.0.0.1 here, too.
    assert_eq!(stage.done()[0], cut("n2", &[n3, n4, proxy, proxy], &[proxy, proxy]));

    // Named, it is a host like any other.
    stage.begin(&with("partition", "n1", json!({})), 1).unwrap();
    assert_eq!(stage.done()[0], cut("n1", &[n2, n3, n4], &[]));
}

#[test]
fn a_member_goes_and_comes_with_its_host() {
    let mut stage = stage();
    let crash = plan::Fault { for_s: Some(1.0), ..with("host_crash", "one", json!({})) };
    let on = stage.begin(&crash, 1).unwrap();
    stage.heal(&crash, 1).unwrap();
    assert_eq!(stage.done(), [format!("{on} crash"), format!("{on} boot"), format!("{on} start member")]);
    stage.site.impose("it#9", &[("n1".to_owned(), Control::Freeze)]).unwrap();
}
