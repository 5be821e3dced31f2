//! `[lab]` of a trial: the hosts, their profiles, their networks, and the ports of the target.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::keys::section;
use crate::manifest::Manifest;
use crate::plan::check_context::CheckContext;
use crate::plan::target::TargetKind;
use crate::problem::{Problem, nearest_hint};
use crate::profile::{self, Link, Profile};
use crate::section::Section;
use crate::tier::{self, Tier, TierHosts};
use crate::tree::{Node, TextSpan};

section! {
    /// Hosts on which the target's processes run.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Lab = LAB {
        /// Empty: this machine, unlimited.
        hosts: Whole { min: 1, max: 256 } => hosts: Vec<Host> = |_| Vec::new(),
            "Number of hosts, named n1, n2, …", ["nodes", "members"];
        profile: Text, "Profile of each host; `plimsoll profiles` lists them";
        host: Tables(HOST), "Individual hosts, instead of `hosts`; addressed by name or role";
        ssh: TEXTS, "Hosts to reach over ssh: [\"pi@10.0.0.11\", …], instead of `hosts`";
        #[serde(skip_serializing_if = "Option::is_none")]
        pods: Table(PODS) => pods: Option<LabPods> = |lab| lab.section("pods").map(|section| LabPods::read(&section)),
            "Pods of a running target as hosts, named pod1, pod2, …, instead of `hosts`", ["kubernetes", "k8s"];
        /// Every duration of the plan is already in the lab's time: divided by `speed`.
        speed = "1": Positive => f64,
            "Time dilation for the whole lab: 0.5 runs everything at half the speed";
        => profiles: Vec<Profile>,
            "Profiles that hosts name, each once, as written: not yet slowed by `speed`";
        network: Either(
            &[Table(NETWORK), Tables(NETWORK)],
            "[[lab.network]] for each network, or [lab.network] for the only one",
        ) => networks: Vec<Network> = |_| Vec::new(),
            "Networks between virtual hosts, by name; clients are on the first; default: one for all",
            ["networks"];
        #[serde(skip_serializing_if = "Vec::is_empty")]
        port: Tables(PORT) => ports: Vec<Port> = |_| Vec::new(),
            "Ports of the target, by name, that are slower than the links of virtual hosts", ["ports"];
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tier: Map(&Table(tier::TIER)) => tiers: Vec<Tier> = |_| Vec::new(),
            "Storage tiers for folders of the target, by name: other limits for `sata` and `nvme`, the size of \
             `memory`, the path of `pmem`, or a tier of your own",
            ["tiers"];
        #[serde(skip_serializing_if = "Vec::is_empty")]
        => balancers: Vec<String> = |_| Vec::new(),
            "Hosts that are not members but pass the load on to them: clients connect there, by the target's `service`";
        #[serde(skip_serializing_if = "Option::is_none")]
        => members: Option<MemberDemand>,
            "Memory and CPUs of this machine that members need, if the target says so";
        generator_cpus: Whole { min: 0, max: 1024 } => Option<u32>,
            "CPUs of this machine that only the clients use; 0: they share all with the hosts; default: half of them",
            ["client_cpus"];
        electricity_per_kwh: Positive,
            "Price of a kWh, in the profiles' currency; if given, the price of a cycle includes electricity",
            ["kwh", "energy_price"];
        measure_storage: Boolean => bool,
            "Whether to measure each host's storage before the first trial on these hosts; default: if a host's \
             profile has a disk, or folders of the target are on tiers";
        quick_start = "false": Boolean => bool,
            "Whether virtual hosts have this machine's core and disk speed until the target is ready, and only then \
             their profile's";
        #[serde(skip_serializing_if = "Option::is_none")]
        => electricity_per_kwh: Option<f64> = |lab| lab.number("electricity_per_kwh"),
            "Price of a kWh, in the profiles' currency; `None`: electricity is not in the price of a cycle";
    }
}

section! {
    /// `[lab.pods]`: Kubernetes pods that Plimsoll did not start, to be broken and watched.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct LabPods = PODS {
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Text => Option<String>, "kubectl context: cluster and user; default: the current one";
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Text => Option<String>, "Namespace of the pods; default: the context's";
        selector = required: Text => String, "Label selector of the pods: \"app=echo\"", ["labels"];
        count = "1": Whole { min: 1, max: 256 } => u32,
            "Number of ready pods to use, in the order of their names", ["pods", "replicas"];
        image = required: Text => String,
            "Image with a shell, head, mktemp, a C library like this machine's, and for faults ip and tc (iproute2) \
             and nft; it runs beside the pod's containers, and the runner is sent there";
        wait = "2m": TIME => wait_s: f64, "Time limit for a pod to be ready again after one was deleted";
    }
}

section! {
    /// One host of the lab.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Host = HOST {
        name: Name => String, "Name; default: n1, n2, …";
        #[serde(rename = "role", with = "one_or_several")]
        role: Either(&[Text, TEXTS], "a role of the target, or a list of them") => roles: Vec<String> = |host| host_roles(host),
            "Roles of the target that run here: one, or a list; default: all", ["roles"];
        count = "1": Whole { min: 1, max: 256 }, "Number of such hosts";
        /// Name of one of [`Lab::profiles`].
        profile: Text => Option<String>, "Profile; default: the lab's";
        ssh: Text => Option<String>, "user@address of a host that is reached over ssh";
        networks: List(&Name) => Vec<String>, "Networks of the host, by name; default: the first", ["network"];
        routes = "false": Boolean => bool, "Whether it forwards packets between its networks";
        #[serde(skip_serializing_if = "is_no")]
        => is_generator: bool = |_| false, "Whether the host is only for a generator of the fleet";
        #[serde(skip_serializing_if = "is_no")]
        => is_pod: bool = |_| false, "Whether it is a pod that Plimsoll did not start";
    }
}

fn is_no(is: &bool) -> bool {
    !is
}

/// A list of texts that is written as null if empty, and as a text if it has one element.
mod one_or_several {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(String),
        Several(Vec<String>),
    }

    pub fn serialize<S: Serializer>(list: &[String], to: S) -> Result<S::Ok, S::Error> {
        match list {
            [] => to.serialize_none(),
            [one] => one.serialize(to),
            several => several.serialize(to),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        Ok(match Option::deserialize(from)? {
            None => Vec::new(),
            Some(Written::One(one)) => vec![one],
            Some(Written::Several(several)) => several,
        })
    }
}

/// Returns the texts of `role`, each with its place.
fn role_nodes<'a>(host: &Section<'a>) -> Vec<&'a Node> {
    let role = host.node("role");
    role.and_then(|node| node.list()).map_or_else(|| role.into_iter().collect(), |list| list.iter().collect())
}

fn host_roles(host: &Section<'_>) -> Vec<String> {
    role_nodes(host).into_iter().filter_map(Node::text).map(ToOwned::to_owned).collect()
}

section! {
    const NETWORK {
        name: Name, "Name, for `networks` of a host; required in [[lab.network]]";
        link: BIT_RATE, "Bits/s of each host's link to it, unless its profile has less", ["rate", "bandwidth"];
        delay: TIME, "Delay of each packet of a host, unless its profile has more", ["latency"];
        loss_pct: Number, "Packets lost, percent, unless the profile has more", ["loss"];
    }
}

section! {
    const PORT {
        name = required: Name, "Name in target.toml, such as \"distribution\"";
        rate: BIT_RATE, "Bits/s of TCP from and to the port on a host's link, in each direction", ["link", "bandwidth"];
        delay: TIME, "Delay of each packet of the port that leaves a host", ["latency"];
    }
}

/// A network between hosts: `[[lab.network]]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Name of the network.
    pub name: String,
    /// Best case of every link to the network.
    #[serde(default, skip_serializing_if = "Link::is_unlimited")]
    pub link: Link,
}

/// Memory and CPU that the members of a target need on this machine, from `[needs]` in its
/// `target.toml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemberDemand {
    /// Name of the target.
    pub target: String,
    /// Names of the virtual hosts that are members.
    pub hosts: Vec<String>,
    /// Bytes that an idle member needs.
    pub memory_bytes: Option<u64>,
    /// Number of members that a CPU can carry.
    pub per_cpu: Option<u64>,
}

impl Host {
    /// Whether the host runs this role of the target.
    #[must_use]
    pub fn runs(&self, role: &str) -> bool {
        self.roles.is_empty() || self.roles.iter().any(|own| own == role)
    }

    /// Whether the host exists without Plimsoll.
    #[must_use]
    pub fn is_real(&self) -> bool {
        self.ssh.is_some() || self.is_pod
    }
}

impl Lab {
    /// Returns the profile of a host.
    #[must_use]
    pub fn profile_of(&self, host: &Host) -> Option<&Profile> {
        let name = host.profile.as_ref()?;
        self.profiles.iter().find(|profile| profile.name == *name)
    }

    /// Returns the hosts that run a role of the target. They include hosts that run all roles.
    pub(super) fn that_run(&self, role: &str) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(move |host| !host.is_generator && host.runs(role))
    }

    /// Returns the lab with only its generator hosts, or only its other hosts.
    #[must_use]
    pub fn with_generators_only(&self, is_generator: bool) -> Self {
        let hosts = self.hosts.iter().filter(|host| host.is_generator == is_generator).cloned();
        let members = self.members.clone().filter(|_| !is_generator);
        Self { hosts: hosts.collect(), members, ..self.clone() }
    }

    /// Whether the hosts equal those of another lab. Ports may have other limits.
    #[must_use]
    pub fn has_same_hosts(&self, other: &Self) -> bool {
        let [own, other] = [self, other].map(|lab| Self { ports: Vec::new(), ..lab.clone() });
        own == other
    }

    /// Whether Plimsoll makes any of the hosts.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        self.hosts.iter().any(|host| !host.is_real())
    }

    /// Whether the results are those of a model and not of a real machine: a lab with a profile or
    /// a speed.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        (self.speed - 1.0).abs() > f64::EPSILON
            || self.hosts.iter().any(|host| !host.is_real() && host.profile.is_some())
    }
}

/// Reads the section. `target` is the target on the hosts, as far as it is known.
pub(super) fn read(section: &Section<'_>, target: Option<&TargetKind>, context: &mut CheckContext<'_>) -> Lab {
    let ways: Vec<&str> = ["hosts", "host", "pods", "ssh"].into_iter().filter(|key| section.has(key)).collect();
    if let [first, second, ..] = ways.as_slice() {
        context.problems.push(
            Problem::new(section.place(second), format!("`{first}` and `{second}` exclude each other"))
                .expected("the hosts a second time")
                .related(section.place(first), "the hosts a first time")
                .hint("`hosts` for a number of equal ones, [[lab.host]] for each by itself, `ssh` for real machines"),
        );
    }
    let networks = networks(section, context);
    let hosts = hosts(section, &networks, context);
    let profiles = profiles(section, &hosts, context);
    let has_disk = profiles.iter().any(|profile| profile.disk != profile::Disk::default());
    let mut lab = Lab {
        balancers: balancers(&hosts, target, context),
        hosts,
        profiles,
        networks,
        ports: read_ports(section, context),
        measure_storage: section.get("measure_storage").unwrap_or(has_disk),
        ..Lab::read(section)
    };
    lab.members = member_demand(&lab, target, context);
    only_virtual(section, &lab, context);
    ports_only_virtual(section, &lab, context);
    only_ours(section, &lab, target, context);
    roles(section, &lab, target, context);
    tier::check(section, &mut context.problems);
    lab
}

/// Adds the tiers that the target's folders are on. Unless the file says otherwise, tiers are
/// measured.
pub(super) fn add_tiers(
    root: &Section<'_>,
    target: Option<&TargetKind>,
    lab: &mut Lab,
    context: &mut CheckContext<'_>,
) {
    let Some(TargetKind::Folder { name, with }) = target else { return };
    let Some(manifest) = context.catalog.targets.get(name) else { return };
    let Some(target) = root.section("target") else { return };
    let hosts = match lab.hosts.iter().map(|host| host.is_real()).max() {
        None => TierHosts::ThisMachine,
        Some(false) => TierHosts::Virtual,
        Some(true) => TierHosts::Remote,
    };
    let section = root.section("lab");
    let folders = tier::folders_of(manifest, with);
    lab.tiers = tier::of_trial(folders, section.as_ref(), &target, hosts, &mut context.problems);
    let says = section.is_some_and(|section| section.has("measure_storage"));
    lab.measure_storage |= !says && !lab.tiers.is_empty();
}

/// Returns the hosts that run the role that clients connect to, but not the role of members. The
/// manifest names both roles.
fn balancers(hosts: &[Host], target: Option<&TargetKind>, context: &CheckContext<'_>) -> Vec<String> {
    let Some(TargetKind::Folder { name, .. }) = target else { return Vec::new() };
    let Some(manifest) = context.catalog.targets.get(name) else { return Vec::new() };
    let (service, members) = (manifest.about.service_role(), manifest.about.members.as_str());
    let balancers = hosts.iter().filter(|host| !host.roles.is_empty() && host.runs(service) && !host.runs(members));
    balancers.map(|host| host.name.clone()).collect()
}

/// Returns the demand of each member according to the target.
fn member_demand(lab: &Lab, target: Option<&TargetKind>, context: &CheckContext<'_>) -> Option<MemberDemand> {
    let Some(TargetKind::Folder { name, .. }) = target else { return None };
    let manifest = context.catalog.targets.get(name)?;
    let (memory_bytes, per_cpu) = (manifest.needs.member_memory_bytes, manifest.needs.members_per_cpu);
    let members = lab.that_run(&manifest.about.members).filter(|host| !host.is_real());
    let hosts: Vec<String> = members.map(|host| host.name.clone()).collect();
    let says = !hosts.is_empty() && (memory_bytes.is_some() || per_cpu.is_some());
    says.then(|| MemberDemand { target: name.clone(), hosts, memory_bytes, per_cpu })
}

fn hosts(section: &Section<'_>, networks: &[Network], context: &mut CheckContext<'_>) -> Vec<Host> {
    let profile = section.text("profile").map(ToOwned::to_owned);
    let plain = |index: usize| Host { name: format!("n{}", index + 1), profile: profile.clone(), ..Host::default() };
    if section.has("host") {
        return each(section, profile.as_deref(), networks, context);
    }
    if let Some(list) = section.node("ssh").and_then(|node| node.list()) {
        let addresses = list.iter().filter_map(|node| node.text());
        return addresses.enumerate().map(|(index, ssh)| Host { ssh: Some(ssh.to_owned()), ..plain(index) }).collect();
    }
    if let Some(pods) = section.section("pods") {
        let numbers = 1..=LabPods::read(&pods).count;
        return numbers.map(|number| Host { name: format!("pod{number}"), is_pod: true, ..Host::default() }).collect();
    }
    let count = section.get("hosts").unwrap_or(usize::from(profile.is_some()));
    (0..count).map(plain).collect()
}

/// Reads `[[lab.host]]`. Hosts that share a name become `name1`, `name2`, …
fn each(
    section: &Section<'_>,
    profile: Option<&str>,
    networks: &[Network],
    context: &mut CheckContext<'_>,
) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for host in section.sections("host") {
        if !host.has("ssh") {
            wiring(&host, networks, context);
        }
        let count: usize = host.get("count").unwrap_or(1);
        for number in 1..=count {
            let name = match host.text("name") {
                None => format!("n{}", hosts.len() + 1),
                Some(name) if count == 1 => name.to_owned(),
                Some(name) => format!("{name}{number}"),
            };
            if hosts.iter().any(|known| known.name == name) {
                let problem = Problem::new(host.place("name"), format!("two hosts are called `{name}`"));
                context.problems.push(problem.expected("the second"));
            }
            hosts.push(Host {
                name,
                profile: host.text("profile").or(profile).map(ToOwned::to_owned),
                ..Host::read(&host)
            });
        }
    }
    hosts
}

/// Returns the profiles that hosts name, without duplicates, in the order of the hosts.
fn profiles(section: &Section<'_>, hosts: &[Host], context: &mut CheckContext<'_>) -> Vec<Profile> {
    let places: Vec<(&str, &TextSpan)> = section
        .sections("host")
        .into_iter()
        .chain([*section])
        .filter_map(|part| Some((part.text("profile")?, part.place("profile"))))
        .collect();
    for (name, place) in &places {
        if !context.catalog.profiles.contains_key(*name) {
            let hint = nearest_hint(name, context.catalog.profiles.keys().map(String::as_str));
            let problem = Problem::absent(place, format!("there is no profile `{name}`")).expected("unknown profile");
            context.problems.push(problem.hint("`plimsoll profiles` lists them").maybe(hint));
        }
    }
    let mut profiles: Vec<Profile> = Vec::new();
    for name in hosts.iter().filter_map(|host| host.profile.as_ref()) {
        if let Some(profile) = context.catalog.profiles.get(name)
            && !profiles.contains(profile)
        {
            profiles.push(profile.clone());
        }
    }
    profiles
}

/// Reads `[[lab.network]]`, or `[lab.network]` for the link of the only network.
fn networks(section: &Section<'_>, context: &mut CheckContext<'_>) -> Vec<Network> {
    let network = |part: &Section<'_>| Network {
        name: part.text("name").unwrap_or(ONLY).to_owned(),
        link: Link {
            rate_bits_per_s: part.number("link"),
            delay_s: part.number("delay"),
            loss_pct: part.number("loss_pct"),
        },
    };
    if let Some(only) = section.section("network") {
        profile::check_loss(&only, &mut context.problems);
        return vec![network(&only)];
    }
    let mut networks: Vec<Network> = Vec::new();
    for part in section.sections("network") {
        profile::check_loss(&part, &mut context.problems);
        let Some(name) = part.text("name") else {
            let problem = Problem::absent(part.place, "this network has no name").expected("`name` is missing");
            context.problems.push(problem.hint("hosts name the networks that they are on"));
            continue;
        };
        if networks.iter().any(|known| known.name == name) {
            let problem = Problem::new(part.place("name"), format!("two networks are called `{name}`"));
            context.problems.push(problem.expected("the second"));
        }
        networks.push(network(&part));
    }
    networks
}

/// Name of a network without a name.
const ONLY: &str = "net";

/// Returns the names of the networks of a host, each with its place.
fn host_networks<'a>(host: &Section<'a>) -> Vec<(&'a str, &'a TextSpan)> {
    let list = host.node("networks").and_then(|node| node.list()).unwrap_or_default();
    list.iter().filter_map(|node| Some((node.text()?, &node.place))).collect()
}

/// Checks that the networks of a host exist, and that a router is on more than one.
fn wiring(host: &Section<'_>, networks: &[Network], context: &mut CheckContext<'_>) {
    let mut seen: BTreeMap<&str, &TextSpan> = BTreeMap::new();
    for (name, place) in host_networks(host) {
        if !networks.iter().any(|network| network.name == name) {
            let problem = Problem::absent(place, format!("there is no network `{name}`")).expected("unknown network");
            let known: BTreeSet<&str> = networks.iter().map(|network| network.name.as_str()).collect();
            let hint = nearest_hint(name, known);
            context.problems.push(problem.hint(format!("add [[lab.network]] with name = \"{name}\"")).maybe(hint));
        }
        if let Some(first) = seen.insert(name, place) {
            let problem = Problem::new(place, format!("this host is on `{name}` twice")).expected("the second time");
            context.problems.push(problem.related(first, "the first time"));
        }
    }
    if host.boolean("routes") && seen.len() < 2 {
        let problem = Problem::new(host.place("routes"), "a host that routes is on two networks at least");
        context.problems.push(problem.expected("nothing to route between").hint("networks = [\"…\", \"…\"]"));
    }
    // A host's link is limited as a whole.
    let limited = |name: &str| networks.iter().any(|network| network.name == name && !network.link.is_unlimited());
    if seen.len() > 1
        && let Some((name, place)) = seen.iter().find(|(name, _)| limited(name))
    {
        let problem =
            Problem::new(place, format!("the links of `{name}` are limited, and this host has others as well"));
        let problem = problem.expected("a host's link is limited as a whole");
        context.problems.push(problem.hint("limit it in the host's profile, or take the limits from the network"));
    }
}

/// Reports settings that only virtual hosts can have.
fn only_virtual(section: &Section<'_>, lab: &Lab, context: &mut CheckContext<'_>) {
    let mut refuse = |place: &TextSpan, what: &str, expected: &str, hint: &str| {
        context.problems.push(Problem::new(place, what).expected(expected).hint(hint));
    };
    let real = section.has("ssh") || lab.hosts.iter().any(|host| host.is_real());
    let slowed = lab.speed > 0.0 && (lab.speed - 1.0).abs() > f64::EPSILON;
    if slowed && real {
        let what = "hosts that are reached over ssh run at their own speed";
        refuse(
            section.place("speed"),
            what,
            "only virtual hosts can be slowed",
            "remove `speed`, or make all hosts virtual",
        );
    } else if slowed && lab.hosts.is_empty() {
        let hint = "add `hosts = 1`, or remove `speed`";
        refuse(section.place("speed"), "without hosts nothing can be slowed", "only virtual hosts can be slowed", hint);
    }
    if lab.quick_start && !lab.is_virtual() {
        let what = "no host is slowed, so none can start quicker";
        refuse(section.place("quick_start"), what, "only virtual hosts can be slowed", "remove `quick_start`");
    }
    for key in ["network", "generator_cpus"] {
        if section.has(key) && !lab.hosts.is_empty() && !lab.is_virtual() {
            let what = format!("`{key}` is for virtual hosts");
            refuse(section.place(key), &what, "all hosts are reached over ssh", "these machines are used as they are");
        }
    }
    for host in section.sections("host").iter().filter(|host| host.has("ssh")) {
        for key in ["networks", "routes"].into_iter().filter(|key| host.has(key)) {
            let what = format!("`{key}` is for virtual hosts");
            refuse(
                host.place(key),
                &what,
                "this one is reached over ssh",
                "the network of a real machine is used as it is",
            );
        }
    }
}

/// Checks that the target has the roles of the hosts, and that hosts run the roles that every
/// target needs: the role that clients connect to, and that of members.
fn roles(section: &Section<'_>, lab: &Lab, target: Option<&TargetKind>, context: &mut CheckContext<'_>) {
    let Some(TargetKind::Folder { name: target, .. }) = target else { return };
    let Some(manifest) = context.catalog.targets.get(target) else { return };
    let known: BTreeSet<&str> = manifest.processes.iter().map(|process| process.role.as_str()).collect();
    let is_known = |host: &Host| host.roles.iter().all(|role| known.contains(role.as_str()));
    // A misspelt role would also be reported as missing.
    if !lab.hosts.is_empty() && lab.hosts.iter().all(is_known) {
        unmanned(section, lab, manifest, context);
    }
    for host in section.sections("host") {
        let nodes = role_nodes(&host);
        if host.has("role") && nodes.is_empty() {
            let problem = Problem::new(host.place("role"), "this host runs no role").expected("an empty list");
            context.problems.push(problem.hint("name the roles, or remove `role`: then it runs all of them"));
        }
        for (number, node) in nodes.iter().enumerate() {
            let Some(role) = node.text() else { continue };
            if nodes[..number].iter().any(|earlier| earlier.text() == Some(role)) {
                let problem = Problem::new(&node.place, format!("`{role}` is named twice"));
                context.problems.push(problem.expected("the second"));
            }
            if !known.contains(role) {
                let listed: Vec<String> = known.iter().map(|role| format!("`{role}`")).collect();
                let problem = Problem::new(&node.place, format!("`{target}` has no role `{role}`"));
                let problem = problem.expected("unknown role").hint(format!("its roles: {}", listed.join(", ")));
                context.problems.push(problem.maybe(nearest_hint(role, known.iter().copied())));
            }
        }
    }
}

/// Reports roles without a host.
fn unmanned(section: &Section<'_>, lab: &Lab, manifest: &Manifest, context: &mut CheckContext<'_>) {
    let about = &manifest.about;
    let service = about.service_role();
    let mut needed = vec![(about.members.as_str(), "its members run")];
    if service != about.members {
        needed.push((service, "clients go to"));
    }
    for (role, who) in needed.into_iter().filter(|(role, _)| lab.that_run(role).next().is_none()) {
        let what = format!("no host of this lab runs `{role}` of `{}`, which {who}", manifest.name);
        let hint = format!("add [[lab.host]] with role = \"{role}\"; a host without a role runs all of them");
        context.problems.push(Problem::absent(section.place("host"), what).expected("not among the roles").hint(hint));
    }
}

/// Reports hosts for a target that already runs or that a command on this machine starts.
fn only_ours(section: &Section<'_>, lab: &Lab, target: Option<&TargetKind>, context: &mut CheckContext<'_>) {
    if let Some(pods) = section.section("pods") {
        if !matches!(target, None | Some(TargetKind::Running { .. })) {
            let problem = Problem::new(pods.place, "pods need a target that is already running");
            context.problems.push(problem.expected("not with `use` or `start`").hint("give its `url` in [target]"));
        }
        return;
    }
    let how = match target {
        // The machines on which the target runs, to be watched and broken.
        Some(TargetKind::Running { .. }) if lab.hosts.iter().all(Host::is_real) => return,
        Some(TargetKind::Running { .. }) => "runs already",
        Some(TargetKind::Started { .. }) => "is started by a command on this machine",
        Some(TargetKind::Folder { .. }) | None => return,
    };
    if !lab.hosts.is_empty() {
        let key = ["hosts", "host", "ssh", "profile"].into_iter().find(|key| section.has(key)).unwrap_or_default();
        let problem = Problem::new(section.place(key), format!("a target that {how} cannot be put on hosts"));
        let hint = "remove the hosts, or make a target folder of it: `use = \"NAME\"`; machines that it runs on are named by `ssh`";
        context.problems.push(problem.expected("hosts are for a target with `use`").hint(hint));
    }
}

/// Checks that private folders are used only on virtual hosts.
pub(super) fn private_only_virtual(
    root: &Section<'_>,
    lab: &Lab,
    target: Option<&TargetKind>,
    context: &mut CheckContext<'_>,
) {
    let Some(TargetKind::Folder { name, .. }) = target else { return };
    let Some([folder, ..]) = context.catalog.targets.get(name).map(|manifest| manifest.private.as_slice()) else {
        return;
    };
    let (expected, hint) = if lab.hosts.is_empty() {
        ("without hosts it would write to this machine's", "add [lab] with `hosts = 1`, or more")
    } else if lab.hosts.iter().any(|host| host.is_real()) {
        ("a real machine has no private folders", "make all hosts virtual: `hosts = 3`, for example")
    } else {
        return;
    };
    let lab = root.section("lab").filter(|lab| lab.has("ssh"));
    let target = root.section("target");
    let Some(place) = lab.map(|lab| lab.place("ssh")).or(target.map(|target| target.place("use"))) else { return };
    let what = format!("`{name}` needs a {folder} of each host's own, which only virtual hosts have");
    context.problems.push(Problem::new(place, what).expected(expected).hint(hint));
}

/// `[[lab.port]]`: limits of every link for packets from and to a port of the target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Name in `target.toml`. If several roles have a port of this name, all of them are meant.
    pub name: String,
    /// Rate and delay, at the lab's speed.
    pub link: Link,
}

/// Reads `[[lab.port]]`.
fn read_ports(lab: &Section<'_>, context: &mut CheckContext<'_>) -> Vec<Port> {
    let mut ports: Vec<Port> = Vec::new();
    for section in lab.sections("port") {
        // A missing name has been reported.
        let Some(name) = section.text("name") else { continue };
        context.problems.extend(context.ports.refuse(name, section.place("name")));
        if ports.iter().any(|known| known.name == name) {
            let problem = Problem::new(section.place("name"), format!("the port `{name}` is slowed twice"));
            context.problems.push(problem.expected("the second time"));
        }
        if !section.has("rate") && !section.has("delay") {
            let problem = Problem::new(section.place, format!("the port `{name}` has no limit"));
            context.problems.push(problem.expected("neither `rate` nor `delay`").hint("rate = \"5mbit\", for example"));
        }
        let link = Link { rate_bits_per_s: section.number("rate"), delay_s: section.number("delay"), loss_pct: None };
        ports.push(Port { name: name.to_owned(), link });
    }
    ports
}

/// Checks that ports are limited only on virtual hosts.
fn ports_only_virtual(section: &Section<'_>, lab: &Lab, context: &mut CheckContext<'_>) {
    let Some(place) = section.sections("port").first().map(|port| port.place.clone()) else { return };
    let (what, expected, hint) = if lab.hosts.is_empty() {
        ("without hosts no port can be slowed", "only ports of virtual hosts can be slowed", "add `hosts = 1`")
    } else if lab.hosts.iter().all(|host| host.is_real()) {
        let hint = "these machines are used as they are; the fault `slow_port` can slow a port of them for a time";
        ("`port` is for virtual hosts", "all hosts are reached over ssh", hint)
    } else {
        return;
    };
    context.problems.push(Problem::new(&place, what).expected(expected).hint(hint));
}
