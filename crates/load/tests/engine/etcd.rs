//! A real etcd under the engine: keys that are put, read, compared and removed, leases, a watch,
//! and failures.

use std::process::{Command, Stdio};
use std::time::Duration;

use experiment::plan::{Connections, Load};
use fixture::{KilledAtEnd, TestDir, free_address, until};
use load::client;
use load::{LoadOrder, TlsTrust};
use record::events::Outcome;

use crate::secret::Authority;
use crate::setting::{load, orders, pairs, play, step};

const PATIENCE: Duration = Duration::from_secs(20);

/// A cluster of one member, which ends with the test.
struct Member {
    _process: KilledAtEnd,
    service: String,
    _folder: TestDir,
}

impl Member {
    fn start() -> Self {
        Self::start_in(TestDir::new(), "http", "etcd", &TlsTrust::default(), &[])
    }

    /// Starts a member that shows a certificate of this authority.
    fn start_with_tls(authority: &Authority) -> Self {
        let folder = TestDir::new();
        let (certificate, key) = authority.identity_of("127.0.0.1");
        let files = [folder.write("certificate.pem", certificate), folder.write("key.pem", key)];
        let [certificate, key] = files.each_ref().map(|file| file.to_str().unwrap());
        let trust = TlsTrust { tls: authority.trusted(), ..TlsTrust::default() };
        // The member reads the files for each connection.
        Self::start_in(folder, "https", "etcds", &trust, &["--cert-file", certificate, "--key-file", key])
    }

    fn start_in(folder: TestDir, scheme: &str, protocol: &str, trust: &TlsTrust, options: &[&str]) -> Self {
        let [client, peer] = [free_address(), free_address()];
        let url = format!("{scheme}://{client}");
        let peer = format!("http://{peer}");
        let process = Command::new("etcd")
            .args(options)
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url, "--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("default={peer}")])
            .args(["--logger", "zap", "--log-outputs", "/dev/null", "--data-dir"])
            .arg(folder.join("data"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("needs etcd: scripts/need.sh target:etcd");
        let member =
            Self { _process: KilledAtEnd(process), service: format!("{protocol}://{client}"), _folder: folder };
        until("etcd answers", || {
            let client = client::connect_trusting("etcd", &member.service, trust, PATIENCE);
            client.is_ok_and(|mut client| client.call("get", &pairs(&["key=k"])).is_ok_and(|answer| answer.ok))
        });
        member
    }

    fn orders(&self, load: Load) -> LoadOrder {
        LoadOrder { protocol: "etcd".into(), ..orders(&self.service, load) }
    }
}

#[test]
fn keys_are_put_compared_and_removed() {
    let member = Member::start();
    let key = "key={agent}";
    let mut steps = vec![
        step("put", &[key, "value={seq} {bytes:20}"]),
        step("get", &[key]),
        step("cas", &[key, "from={saved}", "value=second-{seq}"]),
        step("update", &[key, "version={version}", "value=third-{seq}"]),
        step("cas", &[key, "value=never"]),
        step("delete", &[key]),
        step("get", &[key, "consistency=serializable"]),
    ];
    for (step, expect) in steps.iter_mut().zip([
        &[][..],
        &["value={saved}"],
        &["succeeded=true"],
        &["status=ok"],
        &["succeeded=false", "value=third-{seq}"],
        &["deleted=1"],
        &["status=not_found", "found=false"],
    ]) {
        step.expect = pairs(expect);
        step.audit = true;
    }
    steps[0].keep = pairs(&["saved=request.value"]);
    steps[2].keep = pairs(&["version=answer.version"]);
    for pipeline in [1, 4] {
        let load = Load { connections: Connections { keep_alive: true, pipeline }, ..load(4, 0.5, steps.clone()) };
        let run = play(member.orders(load));
        assert!(run.summary.ok > 14 && run.summary.wrong == 0 && run.summary.failed == 0, "{:?}", run.results());
        let history = run.history();
        for effect in ["write", "read", "remove", "cas"] {
            assert!(history.iter().any(|entry| entry.effect == effect && entry.outcome == Outcome::Ok), "{effect}");
        }
        let mut versions: Vec<u64> =
            history.iter().filter(|entry| entry.effect == "write").filter_map(|entry| entry.version).collect();
        let count = versions.len();
        versions.sort_unstable();
        versions.dedup();
        assert_eq!(versions.len(), count, "each write has a version of its own");
    }
}

#[test]
fn answers_and_failures_have_their_own_statuses() {
    let member = Member::start();
    let mut client = client::connect("etcd", &member.service, PATIENCE).unwrap();
    for (call, with, ok, status, field, value) in [
        ("put", &["key=a/1", "value=x"][..], true, "ok", "", None),
        ("put", &["key=a/2", "value=y"], true, "ok", "", None),
        ("range", &["prefix=a/", "limit=1"], true, "ok", "count", Some("2")),
        ("range", &["prefix=b/"], true, "ok", "count", Some("0")),
        ("watch", &["key=a/1", "start=1"], true, "ok", "value", Some("x")),
        ("update", &["key=a/1", "version=1", "value=z"], false, "changed", "", None),
        ("put", &["key=", "value=x"], false, "invalid_argument", "text", Some("etcdserver: key is not provided")),
        ("put", &["key=k", "value=x", "lease=7"], false, "lease_not_found", "", None),
        ("lease_grant", &["ttl=60"], true, "ok", "ttl", Some("60")),
        ("lease_keep_alive", &["id=7"], false, "lease_not_found", "", None),
        ("lease_revoke", &["id=7"], false, "lease_not_found", "", None),
    ] {
        let answer = client.call(call, &pairs(with)).unwrap();
        assert_eq!((answer.ok, answer.status.as_str()), (ok, status), "{call} {with:?}");
        if value.is_some() {
            let found = answer.field(field).map(|value| String::from_utf8_lossy(value).into_owned());
            assert_eq!(found.as_deref(), value, "{call} {with:?}");
        }
    }
}

#[test]
fn a_member_is_trusted_by_its_authority() {
    let authority = Authority::new();
    let member = Member::start_with_tls(&authority);
    let steps = || vec![step("put", &["key={agent}", "value={seq}"])];
    let trusting =
        |authority: &Authority| LoadOrder { tls: authority.trusted(), ..member.orders(load(2, 0.3, steps())) };
    let run = play(trusting(&authority));
    assert!(run.summary.ok > 2 && run.results().into_iter().eq(["ok"]), "{:?} {:?}", run.summary, run.results());
    let run = play(trusting(&Authority::new()));
    assert!(run.results().into_iter().eq(["tls: bad certificate"]), "{:?}", run.results());
}
