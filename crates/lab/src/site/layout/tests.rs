//! Tests of what each process is told, on three hosts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::manifest::{Metrics, Process as Wanted};

use super::*;
use crate::fixture::{Adjust as _, manifest, server, shell};
use crate::placeholders;

fn host(number: usize, role: Option<&str>, roles: &[&str]) -> Surveyed {
    let folder = |role: &&str| ((*role).to_owned(), PathBuf::from(format!("/data/{role}")));
    Surveyed {
        name: format!("n{number}"),
        address: format!("10.83.0.{number}"),
        role: role.map(str::to_owned),
        target: PathBuf::from("/run/plimsoll/target"),
        plimsoll: PathBuf::from("/run/plimsoll/plimsoll"),
        folders: roles.iter().map(folder).collect(),
        cores: Some(4),
        memory_mb: Some(512),
    }
}

fn saying(role: &str, text: &str) -> Wanted {
    Wanted { run: vec!["say".to_owned(), text.to_owned()], ..shell(role, &[]) }
}

fn lay_out(manifest: &Manifest, hosts: &[Surveyed]) -> Result<Layout, Error> {
    let parameters = &placeholders::parameters(manifest, &BTreeMap::new())?;
    let mut ports = Ports::new();
    for process in &manifest.processes {
        for name in &process.ports {
            ports.insert((process.role.clone(), name.clone()), 7000 + u16::try_from(ports.len()).unwrap());
        }
    }
    let service = Service::of(manifest)?;
    Basis { manifest, parameters, service, hosts, ports: &ports, logs: Path::new("/logs"), slowdown: 1.0 }.lay_out()
}

/// A line for each post: its host, its role, what it is told.
fn told(layout: &Layout) -> String {
    let line = |post: &Post| {
        let words = post.start.arguments.iter().map(|word| word.to_string_lossy().into_owned());
        format!("n{} {}: {}", post.host + 1, post.start.role, words.collect::<Vec<_>>().join(" "))
    };
    layout.posts.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn without_roles_every_host_runs_all_of_them_role_by_role() {
    let server = Wanted {
        run: ["say", "{name} {index} {host}:{port.service} all {hosts} {names} peers [{peers}] first {first}"]
            .map(str::to_owned)
            .to_vec(),
        ..server("server")
    };
    let with =
        saying("beside", "{cores} cores {memory_mb} MiB {target} {plimsoll} {host.server} {port.server.service}");
    let manifest = manifest(vec![Wanted { after: Some("server".to_owned()), ..with }, server]);
    let hosts = [1, 2, 3].map(|number| host(number, None, &["server", "beside"]));
    let layout = lay_out(&manifest, &hosts).unwrap();
    let expected = "\
n1 server: n1 0 10.83.0.1:7000 all 10.83.0.1,10.83.0.2,10.83.0.3 n1,n2,n3 peers [10.83.0.2,10.83.0.3] first 10.83.0.1
n2 server: n2 1 10.83.0.2:7000 all 10.83.0.1,10.83.0.2,10.83.0.3 n1,n2,n3 peers [10.83.0.1,10.83.0.3] first 10.83.0.1
n3 server: n3 2 10.83.0.3:7000 all 10.83.0.1,10.83.0.2,10.83.0.3 n1,n2,n3 peers [10.83.0.1,10.83.0.2] first 10.83.0.1
n1 beside: 4 cores 512 MiB /run/plimsoll/target /run/plimsoll/plimsoll 10.83.0.1 7000
n2 beside: 4 cores 512 MiB /run/plimsoll/target /run/plimsoll/plimsoll 10.83.0.1 7000
n3 beside: 4 cores 512 MiB /run/plimsoll/target /run/plimsoll/plimsoll 10.83.0.1 7000";
    assert_eq!(told(&layout), expected);
    let services: Vec<_> = layout.posts.iter().filter_map(|post| post.service.as_deref()).collect();
    assert_eq!(services, ["10.83.0.1:7000", "10.83.0.2:7000", "10.83.0.3:7000"]);
    let checks: Vec<_> = layout.posts.iter().map(|post| post.check.to_string()).collect();
    assert_eq!(checks[1], "call `ping` to 10.83.0.2:7000");
    assert_eq!(checks[4], "a connection to 10.83.0.2:7000");
    assert_eq!(layout.posts[1].start.log, Path::new("/logs/n2.server.log"));
    assert_eq!(layout.posts[1].start.folder.as_deref(), Some(Path::new("/data/server")));
}

#[test]
fn with_roles_each_host_runs_its_own_and_clients_go_to_the_serving_one() {
    let balancer = Wanted {
        run: ["say", "{name} {index} to {hosts.web} first {host.web} port {port.http} as {hosts} peers [{peers}]"]
            .map(str::to_owned)
            .to_vec(),
        after: Some("web".to_owned()),
        ..server("balancer")
    };
    let mut web = saying("web", "{name} {index} of {names}, behind {host.balancer}:{port.balancer.service}");
    web.ports = vec!["http".to_owned()];
    web.ready.check = ReadyCheck::Tcp("http".to_owned());
    let mut manifest = manifest(vec![balancer, web]);
    manifest.about.service = "balancer.service".to_owned();
    manifest.about.members = "balancer".to_owned();
    let url = "http://{host}:{port.service}/{name}/metrics".to_owned();
    manifest.metrics = Some(Metrics { url, keep: vec!["served".to_owned()] });
    let hosts =
        [host(1, Some("web"), &["web"]), host(2, Some("balancer"), &["balancer"]), host(3, Some("web"), &["web"])];
    let layout = lay_out(&manifest, &hosts).unwrap();
    let expected = "\
n1 web: n1 0 of n1,n3, behind 10.83.0.2:7000
n3 web: n3 1 of n1,n3, behind 10.83.0.2:7000
n2 balancer: n2 0 to 10.83.0.1,10.83.0.3 first 10.83.0.1 port 7001 as 10.83.0.2 peers []";
    assert_eq!(told(&layout), expected);
    let services: Vec<_> = layout.posts.iter().filter_map(|post| post.service.as_deref()).collect();
    assert_eq!(services, ["10.83.0.2:7000"]);
    let [endpoint] = layout.endpoints.as_slice() else { panic!("{:?}", layout.endpoints) };
    assert_eq!((endpoint.host.as_str(), endpoint.url.as_str()), ("n2", "http://10.83.0.2:7000/n2/metrics"));
    // Hooks are run where the members are.
    let [hooks] = layout.hook_hosts.as_slice() else { panic!("{:?}", layout.hook_hosts) };
    let told = |name: &str| hooks.environment[name].to_string_lossy().into_owned();
    assert_eq!((hooks.host, told("PLIMSOLL_HOST"), told("PLIMSOLL_NAME")), (1, "10.83.0.2".into(), "n2".into()));
    assert_eq!((told("PLIMSOLL_HOSTS"), told("PLIMSOLL_NAMES")), ("10.83.0.2".into(), "n2".into()));
    assert_eq!((told("PLIMSOLL_PORT_HTTP"), told("PLIMSOLL_DATA")), ("7001".into(), "/data/balancer".into()));
}

#[test]
fn members_behind_a_proxy_are_asked_and_clients_go_to_the_proxy() {
    let http = |role: &str| Wanted {
        ports: vec!["http".to_owned()],
        data: true,
        ..saying(role, "{port.http}").ready_when(ReadyCheck::Call("ping".to_owned()), 20.0)
    };
    let mut manifest = manifest(vec![http("proxy").after("member"), http("member")]);
    manifest.about.service = "proxy.http".to_owned();
    manifest.about.members = "member".to_owned();
    let url = "http://{host}:{port.member.http}/metrics".to_owned();
    manifest.metrics = Some(Metrics { url, keep: vec!["served".to_owned()] });
    let dealt = [
        host(1, Some("proxy"), &["proxy"]),
        host(2, Some("member"), &["member"]),
        host(3, Some("member"), &["member"]),
    ];
    let layout = lay_out(&manifest, &dealt).unwrap();
    assert_eq!(told(&layout), "n2 member: 7001\nn3 member: 7001\nn1 proxy: 7000");
    let of = |field: fn(&Post) -> Option<&str>| layout.posts.iter().map(field).collect::<Vec<_>>();
    assert_eq!(of(|post| post.service.as_deref()), [None, None, Some("10.83.0.1:7000")]);
    assert_eq!(of(|post| post.member.as_deref()), [Some("10.83.0.2:7001"), Some("10.83.0.3:7001"), None]);
    // A member that waited for the proxy would never be ready.
    let checks: Vec<_> = layout.posts.iter().map(|post| post.check.to_string()).collect();
    assert_eq!(
        checks,
        ["call `ping` to 10.83.0.2:7001", "call `ping` to 10.83.0.3:7001", "call `ping` to 10.83.0.1:7000"]
    );
    let endpoints: Vec<_> = layout.endpoints.iter().map(|endpoint| endpoint.url.as_str()).collect();
    assert_eq!(endpoints, ["http://10.83.0.2:7001/metrics", "http://10.83.0.3:7001/metrics"]);
    let [_, second] = layout.hook_hosts.as_slice() else { panic!("{:?}", layout.hook_hosts) };
    let told = |name: &str| second.environment[name].to_string_lossy().into_owned();
    assert_eq!((second.host, told("PLIMSOLL_NAME"), told("PLIMSOLL_HOST")), (2, "n3".into(), "10.83.0.3".into()));
    assert_eq!((told("PLIMSOLL_NAMES"), told("PLIMSOLL_HOSTS")), ("n2,n3".into(), "10.83.0.2,10.83.0.3".into()));
    assert_eq!((told("PLIMSOLL_PORT_HTTP"), told("PLIMSOLL_DATA")), ("7001".into(), "/data/member".into()));

    // A host without a role runs both, and is a member.
    let layout = lay_out(&manifest, &[host(1, None, &["proxy", "member"])]).unwrap();
    assert_eq!(
        layout.posts.iter().map(|post| post.member.as_deref()).collect::<Vec<_>>(),
        [Some("10.83.0.1:7001"), None]
    );
    let error = lay_out(&manifest, &dealt[..1]).err().unwrap();
    assert_eq!(error.to_string(), "target.toml: its members run `member`, and no host of the lab has this role");
}

#[test]
fn a_role_that_nobody_runs_is_missed_only_where_it_is_asked_for() {
    let asking = Wanted { run: vec!["say".to_owned(), "{host.db}".to_owned()], ..server("server") };
    let mut wanted = manifest(vec![asking, saying("db", "x")]);
    let hosts = [host(1, Some("server"), &["server"])];
    let error = lay_out(&wanted, &hosts).err().unwrap();
    assert_eq!(error.to_string(), "target.toml: `server` asks for {host.db}, and no host runs `db`");
    wanted.processes[0].run.pop();
    assert_eq!(told(&lay_out(&wanted, &hosts).unwrap()), "n1 server: ");
    let error = lay_out(&wanted, &[host(1, Some("db"), &["db"])]).err().unwrap();
    assert_eq!(error.to_string(), "target.toml: clients go to `server`, and no host of the lab has this role");
}

#[test]
fn what_is_not_known_of_a_host_is_no_placeholder() {
    let asking = Wanted { run: vec!["say".to_owned(), "{cores}".to_owned()], ..server("server") };
    let unknown = Surveyed { cores: None, ..host(1, None, &["server"]) };
    assert!(matches!(lay_out(&manifest(vec![asking]), &[unknown]), Err(Error::Placeholder { .. })));
}

#[test]
fn the_hosts_that_serve_are_asked_for_their_own_figures() {
    let mut manifest = manifest(vec![server("server"), shell("beside", &[])]);
    let hosts = [host(1, Some("beside"), &["beside"]), host(2, Some("server"), &["server"])];
    assert_eq!(lay_out(&manifest, &hosts).unwrap().endpoints, []);
    let metrics = |url: &str| Metrics { url: url.to_owned(), keep: vec!["up".to_owned()] };
    manifest.metrics = Some(metrics("http://{host}:{port.service}/metrics"));
    let wanted = Endpoint {
        host: "n2".to_owned(),
        url: "http://10.83.0.2:7000/metrics".to_owned(),
        keep: vec!["up".to_owned()],
    };
    assert_eq!(lay_out(&manifest, &hosts).unwrap().endpoints, [wanted]);
    manifest.metrics = Some(metrics("http://{host}:{port.none}/"));
    assert!(matches!(lay_out(&manifest, &hosts), Err(Error::Placeholder { .. })));
}
