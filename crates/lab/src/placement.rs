//! Placement of a lab on this machine: an envelope of limits for each host, the CPUs and the
//! network of the clients, or the reason why the lab does not fit.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use experiment::plan;
use experiment::profile::{Link, Profile};
use experiment::quantity::show_bytes;
use experiment::tier::TierMedium;
use linux::cgroup::{Controller, Hierarchies};
use linux::procfs;
use runner::Envelope;
use runner::machine::score;
use runner::probes::memory_bytes;
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_getaffinity, sched_setaffinity};

use crate::Error;
use crate::session::RunnerSession;
use crate::tiers::on_host;

/// Usable share of the CPUs. If hosts request more, they wait for each other, and no core gets its
/// promised share.
const USABLE: f64 = 0.8;

/// Smallest share of a core that a host may have. The kernel's shortest quota is too coarse for
/// less.
const SMALLEST_SHARE: f64 = 0.01;

/// Tolerance for rounding errors.
const ROUNDING: f64 = 1e-9;

/// The capacity of this machine for a lab.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MachineCapacity {
    /// Kernel numbers of the CPUs that this program may use, ascending.
    pub cpus: Vec<u32>,
    /// Available memory, bytes.
    pub memory_bytes: u64,
    /// Speed of one core, rounds/s, from [`score`]. Measured only for profiles that give no speed.
    pub score: Option<f64>,
    /// Whether hosts may run on the clients' CPUs, because the controller `cpuset` is missing.
    pub shares_cpus: bool,
}

/// Returns this machine's capacity: the CPUs that this program may use, the available memory and,
/// if the lab's profiles need it, a core's score. Measuring the score takes a second.
#[must_use]
pub fn room(lab: &plan::Lab) -> MachineCapacity {
    // Measured once, so that all trials use the same score.
    static SCORE: OnceLock<f64> = OnceLock::new();
    let cpus = sched_getaffinity(None).map(|set| {
        let numbers = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
        numbers.filter_map(|cpu| u32::try_from(cpu).ok()).collect()
    });
    let memory = procfs::text(Path::new("/proc/meminfo")).unwrap_or_default();
    MachineCapacity {
        cpus: cpus.unwrap_or_default(),
        memory_bytes: memory_bytes(&memory, "MemAvailable:").unwrap_or(u64::MAX),
        shares_cpus: Hierarchies::detect().of(Controller::Cpuset).is_none(),
        score: needs_score(lab).then(|| *SCORE.get_or_init(score)),
    }
}

/// The placement of a lab.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// CPUs that only the clients use. Empty if the clients share all CPUs with the hosts.
    pub generator_cpus: Vec<u32>,
    /// Limits of each host, in the lab's order.
    pub envelopes: Vec<Envelope>,
}

impl Placement {
    /// Returns the CPU weight of all hosts together. A single other process group weighs 1. Hosts
    /// that share their CPUs with the clients also weigh 1, so that hosts and clients can each use
    /// half of the time.
    #[must_use]
    pub fn weight(&self) -> usize {
        if self.generator_cpus.is_empty() { 1 } else { self.envelopes.len() }
    }
}

/// Whether the machine's score must be measured.
#[must_use]
pub fn needs_score(lab: &plan::Lab) -> bool {
    lab.is_virtual() && lab.profiles.iter().any(|profile| profile.core_speed.is_none() && profile.score.is_some())
}

/// Places a lab's virtual hosts. An ssh host gets an envelope without limits.
///
/// # Errors
/// [`Error::DoesNotFit`], with the largest `lab.speed` that would fit.
pub fn place(lab: &plan::Lab, room: &MachineCapacity) -> Result<Placement, Error> {
    if !lab.is_virtual() {
        return Ok(Placement { generator_cpus: Vec::new(), envelopes: vec![Envelope::default(); lab.hosts.len()] });
    }
    let (hosts_cpus, generator_cpus) = divide(lab, room)?;
    if generator_cpus.is_empty() {
        fits(lab, room, hosts_cpus.len())?;
    } else {
        // Hosts of generators use the clients' CPUs, so both groups are checked separately.
        fits(&lab.with_generators_only(false), room, hosts_cpus.len())?;
        fits(&lab.with_generators_only(true), room, generator_cpus.len())?;
    }
    let cpus = if generator_cpus.is_empty() { Vec::new() } else { hosts_cpus };
    let envelopes = lab.hosts.iter().map(|host| match (host.is_real(), host.is_generator) {
        (true, _) => Envelope::default(),
        (false, true) => Envelope { cpus: generator_cpus.clone(), ..envelope(lab, host, room) },
        (false, false) => Envelope { cpus: cpus.clone(), ..envelope(lab, host, room) },
    });
    Ok(Placement { envelopes: envelopes.collect(), generator_cpus })
}

/// Divides the CPUs. Returns those of the hosts, then those that only the clients use.
fn divide(lab: &plan::Lab, room: &MachineCapacity) -> Result<(Vec<u32>, Vec<u32>), Error> {
    let all = room.cpus.len();
    let unasked = if room.shares_cpus { 0 } else { all / 2 };
    let clients = lab.generator_cpus.map_or(unasked, |asked| asked as usize);
    if clients > 0 && clients >= all {
        let what =
            format!("lab.generator_cpus = {clients} leaves no CPU for the hosts: expected fewer than {}", cpus_of(all));
        return Err(Error::DoesNotFit { what, speed: None });
    }
    let (hosts, clients) = room.cpus.split_at(all - clients);
    Ok((hosts.to_vec(), clients.to_vec()))
}

fn cpus_of(count: usize) -> String {
    if count == 1 { "this machine's only CPU".to_owned() } else { format!("this machine's {count} CPUs") }
}

/// Returns the speed of a profile's cores at `lab.speed` = 1, or `None` if it is this machine's
/// speed.
fn core_speed(profile: &Profile, room: &MachineCapacity) -> Option<f64> {
    let by_score = profile.score.zip(room.score).map(|(own, machine)| own / machine);
    profile.core_speed.or(by_score).or(profile.cores.map(|_| 1.0))
}

fn envelope(lab: &plan::Lab, host: &plan::Host, room: &MachineCapacity) -> Envelope {
    let nothing = Profile::default();
    let profile = lab.profile_of(host).unwrap_or(&nothing);
    let speed = lab.speed;
    // A host with all the machine's speed can be slowed down, but not sped up.
    let share = core_speed(profile, room).map(|share| share * speed).or_else(|| (speed < 1.0).then_some(speed));
    let link = networks(lab, host).fold(profile.link.clone(), |link, network| tighter(&link, &network.link));
    Envelope {
        cores: profile.cores,
        core_speed: share,
        cpus: Vec::new(),
        memory_bytes: profile.memory_bytes,
        link: link.at_speed(speed),
        disk: profile.disk.times(speed),
        tiers: on_host(lab, Some(host))
            .filter(|(tier, _)| tier.medium == TierMedium::Volume)
            .map(|(tier, _)| (tier.name.clone(), tier.limits_at(speed)))
            .collect(),
    }
}

/// Returns the networks to which a host is connected.
fn networks<'a>(lab: &'a plan::Lab, host: &'a plan::Host) -> impl Iterator<Item = &'a plan::Network> {
    let networks = lab.networks.iter().enumerate().filter(|(index, network)| match host.networks.as_slice() {
        [] => *index == 0,
        names => names.contains(&network.name),
    });
    networks.map(|(_, network)| network)
}

/// Combines two links: the lower rate, the longer delay and the higher loss.
fn tighter(a: &Link, b: &Link) -> Link {
    Link {
        rate_bits_per_s: a.rate_bits_per_s.into_iter().chain(b.rate_bits_per_s).reduce(f64::min),
        delay_s: a.delay_s.into_iter().chain(b.delay_s).reduce(f64::max),
        loss_pct: a.loss_pct.into_iter().chain(b.loss_pct).reduce(f64::max),
    }
}

/// The CPU demand of one profile's hosts.
struct ProfileDemand<'a> {
    profile: &'a Profile,
    hosts: usize,
    cores: f64,
    core_speed: f64,
}

impl ProfileDemand<'_> {
    #[expect(clippy::cast_precision_loss, reason = "a few hundred hosts")]
    fn sum(&self) -> f64 {
        self.hosts as f64 * self.cores * self.core_speed
    }

    fn words(&self, speed: f64) -> String {
        let hosts = if self.hosts == 1 { String::new() } else { format!("{} × ", self.hosts) };
        let cores = if self.cores > 1.0 { format!("{} cores", self.cores) } else { "1 core".to_owned() };
        format!("{hosts}{} with {cores} at {}", self.profile.name, three_digits(self.core_speed * speed))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred CPUs")]
fn claims<'a>(lab: &'a plan::Lab, room: &MachineCapacity, cpus: usize) -> Vec<ProfileDemand<'a>> {
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    for profile in lab.hosts.iter().filter(|host| !host.is_real()).filter_map(|host| host.profile.as_deref()) {
        *hosts.entry(profile).or_default() += 1;
    }
    let claims = lab.profiles.iter().filter_map(|profile| {
        Some(ProfileDemand {
            profile,
            hosts: *hosts.get(profile.name.as_str())?,
            cores: profile.cores.map_or(cpus as f64, f64::from),
            core_speed: core_speed(profile, room)?,
        })
    });
    claims.collect()
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred CPUs")]
fn fits(lab: &plan::Lab, room: &MachineCapacity, cpus: usize) -> Result<(), Error> {
    if let (true, None) = (needs_score(lab), room.score) {
        let what = "a profile has a score but no speed, and this machine's own score is unknown".to_owned();
        return Err(Error::DoesNotFit { what, speed: None });
    }
    let claims = claims(lab, room, cpus);
    let usable = USABLE * cpus as f64;
    let asked: f64 = claims.iter().map(ProfileDemand::sum).sum();
    let fastest = claims.iter().map(|claim| claim.core_speed).fold(0.0, f64::max);
    let slowest = claims.iter().map(|claim| claim.core_speed).fold(f64::INFINITY, f64::min);
    let largest = rounded_down((usable / asked).min(1.0 / fastest));
    let mut wrong = too_much_cpu(lab.speed, &claims, asked, cpus, usable);
    let memory = too_much_memory(lab, room).or_else(|| too_hungry(lab, room));
    let slower_helps = memory.is_none() && !wrong.is_empty() && slowest * largest + ROUNDING >= SMALLEST_SHARE;
    let smallest = rounded_up(SMALLEST_SHARE / slowest);
    wrong.extend(too_small(lab.speed, &claims, (smallest <= largest).then_some(smallest)));
    wrong.extend(memory);
    wrong.extend(too_many_members(lab, cpus));
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::DoesNotFit { what: wrong.join("; "), speed: slower_helps.then_some(largest) })
}

fn too_much_cpu(speed: f64, claims: &[ProfileDemand<'_>], asked: f64, cpus: usize, usable: f64) -> Vec<String> {
    let mut wrong = Vec::new();
    for claim in claims.iter().filter(|claim| claim.core_speed * speed > 1.0 + ROUNDING) {
        let share = three_digits(claim.core_speed * speed);
        wrong.push(format!("a core of {} is {share} times as fast as one of this machine", claim.profile.name));
    }
    if asked * speed > usable + ROUNDING {
        let words: Vec<String> = claims.iter().map(|claim| claim.words(speed)).collect();
        let cpus = if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
        wrong.push(format!(
            "the hosts need {} of this machine's cores ({}), but can use at most {} on their {cpus}",
            three_digits(asked * speed),
            words.join(", "),
            three_digits(usable),
        ));
    }
    wrong
}

/// Explains that a core is too slow. `smallest` is the lowest `lab.speed` at which every core
/// is fast enough, if the hosts fit at that speed.
fn too_small(speed: f64, claims: &[ProfileDemand<'_>], smallest: Option<f64>) -> Option<String> {
    let claim = claims.iter().find(|claim| claim.core_speed * speed < SMALLEST_SHARE - ROUNDING)?;
    let remedy = match smallest {
        Some(smallest) => format!(": lab.speed must be at least {smallest}"),
        None => "; at a higher lab.speed the hosts do not fit".to_owned(),
    };
    Some(format!(
        "a core of {} would get {} of a core, below the minimum of {SMALLEST_SHARE}{remedy}",
        claim.profile.name,
        three_digits(claim.core_speed * speed)
    ))
}

fn too_much_memory(lab: &plan::Lab, room: &MachineCapacity) -> Option<String> {
    let hosts = lab.hosts.iter().filter(|host| !host.is_real());
    let asked = hosts.filter_map(|host| lab.profile_of(host)?.memory_bytes).fold(0_u64, u64::saturating_add);
    (asked > room.memory_bytes).then(|| {
        let (asked, there) = (show_bytes(asked), show_bytes(room.memory_bytes));
        format!("the hosts need {asked} of memory in total, but {there} is available")
    })
}

/// Explains that members on hosts without a memory limit use more memory than available.
fn too_hungry(lab: &plan::Lab, room: &MachineCapacity) -> Option<String> {
    let demand = lab.members.as_ref()?;
    let each = demand.memory_bytes?;
    let hosts = lab.hosts.iter().filter(|host| demand.hosts.contains(&host.name));
    let unlimited = hosts.filter(|host| lab.profile_of(host).is_none_or(|profile| profile.memory_bytes.is_none()));
    let unlimited = unlimited.count() as u64;
    let asked = each.saturating_mul(unlimited);
    (asked > room.memory_bytes).then(|| {
        format!(
            "each member of `{}` needs {} of memory, {unlimited} members need {}, but {} is available, enough for {}",
            demand.target,
            show_bytes(each),
            show_bytes(asked),
            show_bytes(room.memory_bytes),
            room.memory_bytes / each
        )
    })
}

fn too_many_members(lab: &plan::Lab, cpus: usize) -> Option<String> {
    let demand = lab.members.as_ref()?;
    let (per_cpu, members) = (demand.per_cpu?, demand.hosts.len() as u64);
    let most = per_cpu.saturating_mul(cpus as u64);
    (members > most).then(|| {
        let cpus = if cpus == 1 { "their 1 CPU".to_owned() } else { format!("their {cpus} CPUs") };
        format!(
            "the lab has {members} members of `{}`, but {cpus} can run at most {most} ({per_cpu} per CPU)",
            demand.target
        )
    })
}

/// Rounds to three significant digits.
fn three_digits(value: f64) -> f64 {
    let scale = scale(value);
    (value * scale).round() / scale
}

/// Rounds down to three significant digits.
fn rounded_down(value: f64) -> f64 {
    let scale = scale(value);
    (value * scale + ROUNDING).floor() / scale
}

/// Rounds up to three significant digits.
fn rounded_up(value: f64) -> f64 {
    let scale = scale(value);
    (value * scale - ROUNDING).ceil() / scale
}

/// Returns the factor that gives a number three digits before the decimal point.
fn scale(value: f64) -> f64 {
    if value > 0.0 && value.is_finite() { 10_f64.powf(2.0 - value.log10().floor()) } else { 1.0 }
}

// The clients' placement: the network from which they reach the hosts, and their CPUs. Threads that
// are started inside inherit both.

/// The clients' network and CPUs. The default is this program's own.
#[derive(Debug, Default)]
pub struct ClientPlacement {
    /// Network namespace. `None` for this program's own.
    pub(crate) network: Option<OwnedFd>,
    /// Session with the runner that holds the network namespace, if there is one.
    pub(crate) switch: Option<Arc<RunnerSession>>,
    /// CPUs of this machine. Empty for all.
    pub(crate) cpus: Vec<u32>,
    /// Notices for the user about how the lab was made.
    pub(crate) notices: Vec<String>,
}

impl ClientPlacement {
    /// Returns the CPUs that only the clients use. Empty if the clients share all CPUs with the
    /// hosts.
    #[must_use]
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Returns the reason why the network's switch is gone, if it was lost unexpectedly.
    pub(crate) fn lost_switch(&self) -> Option<String> {
        self.switch.as_ref()?.lost_by_itself()
    }

    /// Runs `work` on a thread in this placement. Threads that it starts inherit the placement.
    ///
    /// # Errors
    /// If the thread cannot be started or cannot enter the placement.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        if self.network.is_none() && self.cpus.is_empty() {
            return Ok(work());
        }
        std::thread::scope(|scope| {
            let there = std::thread::Builder::new().name("inside".to_owned()).spawn_scoped(scope, || {
                self.enter()?;
                Ok(work())
            });
            let there = there.map_err(Error::system("start a thread"))?;
            // Passes on a panic of the thread.
            there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn enter(&self) -> Result<(), Error> {
        if let Some(network) = &self.network {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|errno| Error::system("enter the lab's network")(errno.into()))?;
        }
        if !self.cpus.is_empty() {
            let mut set = CpuSet::new();
            for cpu in &self.cpus {
                set.set(*cpu as usize);
            }
            sched_setaffinity(None, &set).map_err(|errno| Error::system("take the clients' CPUs")(errno.into()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use experiment::plan::{Host, Lab, MemberDemand, Network};
    use experiment::profile::Disk;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn machine(cpus: u32) -> MachineCapacity {
        MachineCapacity { cpus: (0..cpus).collect(), memory_bytes: 16 * GIB, ..MachineCapacity::default() }
    }

    fn pi() -> Profile {
        Profile {
            name: "pi".into(),
            cores: Some(4),
            core_speed: Some(0.1),
            memory_bytes: Some(GIB),
            ..Profile::default()
        }
    }

    /// Returns a lab with `count` hosts of a profile, or of none.
    fn lab(count: usize, profile: Option<Profile>) -> Lab {
        let name = profile.as_ref().map(|profile| profile.name.clone());
        let host = |index: usize| Host { name: format!("n{}", index + 1), profile: name.clone(), ..Host::default() };
        Lab {
            hosts: (0..count).map(host).collect(),
            profiles: profile.into_iter().collect(),
            speed: 1.0,
            ..Lab::default()
        }
    }

    fn refused(lab: &Lab, room: &MachineCapacity) -> (String, Option<f64>) {
        match place(lab, room).unwrap_err() {
            Error::DoesNotFit { what, speed } => (what, speed),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn clients_get_the_last_cpus() {
        for (cpus, asked, clients, hosts) in [
            (1, None, vec![], vec![]),
            (2, None, vec![1], vec![0]),
            (3, None, vec![2], vec![0, 1]),
            (4, None, vec![2, 3], vec![0, 1]),
            (4, Some(1), vec![3], vec![0, 1, 2]),
            (4, Some(0), vec![], vec![]),
        ] {
            let lab = Lab { generator_cpus: asked, ..lab(2, None) };
            let placed = place(&lab, &machine(cpus)).unwrap();
            assert_eq!(placed.generator_cpus, clients, "{cpus} {asked:?}");
            assert!(placed.envelopes.iter().all(|envelope| envelope.cpus == hosts), "{cpus} {asked:?}");
        }
        let (what, speed) = refused(&Lab { generator_cpus: Some(2), ..lab(1, None) }, &machine(2));
        assert_eq!(
            (what.as_str(), speed),
            ("lab.generator_cpus = 2 leaves no CPU for the hosts: expected fewer than this machine's 2 CPUs", None)
        );
    }

    #[test]
    fn a_host_without_a_profile_is_only_slowed() {
        for (speed, share) in [(1.0, None), (0.5, Some(0.5)), (2.0, None)] {
            let placed = place(&Lab { speed, ..lab(1, None) }, &machine(2)).unwrap();
            assert_eq!(
                placed.envelopes,
                [Envelope { core_speed: share, cpus: vec![0], ..Envelope::default() }],
                "{speed}"
            );
        }
    }

    #[test]
    fn rates_and_delays_scale_with_the_lab_speed() {
        let profile = Profile {
            link: Link { rate_bits_per_s: Some(1e8), delay_s: Some(0.002), loss_pct: Some(1.0) },
            disk: Disk {
                size_bytes: Some(GIB),
                read_iops: Some(400.0),
                write_iops: Some(200.0),
                read_bytes_per_s: Some(2e7),
                write_bytes_per_s: Some(1e7),
            },
            ..pi()
        };
        let placed = place(&Lab { speed: 0.5, ..lab(1, Some(profile)) }, &machine(2)).unwrap();
        let expected = Envelope {
            cores: Some(4),
            core_speed: Some(0.05),
            cpus: vec![0],
            memory_bytes: Some(GIB),
            link: Link { rate_bits_per_s: Some(5e7), delay_s: Some(0.004), loss_pct: Some(1.0) },
            disk: Disk {
                size_bytes: Some(GIB),
                read_iops: Some(200.0),
                write_iops: Some(100.0),
                read_bytes_per_s: Some(1e7),
                write_bytes_per_s: Some(5e6),
            },
            ..Envelope::default()
        };
        assert_eq!(placed.envelopes, [expected]);
    }

    #[test]
    fn the_tighter_link_of_profile_and_network_applies() {
        let link = |rate: f64, delay_s: Option<f64>| Link { rate_bits_per_s: Some(rate), delay_s, loss_pct: None };
        let networks = vec![
            Network { name: "first".into(), link: link(1e8, Some(0.01)) },
            Network { name: "other".into(), link: link(1e3, None) },
        ];
        let profile = Profile { link: link(1e9, Some(0.001)), ..pi() };
        let mut lab = Lab { networks, ..lab(1, Some(profile)) };
        assert_eq!(
            place(&lab, &machine(2)).unwrap().envelopes[0].link,
            link(1e8, Some(0.01)),
            "the first without `networks`"
        );
        lab.hosts[0].networks = vec!["other".into()];
        assert_eq!(place(&lab, &machine(2)).unwrap().envelopes[0].link, link(1e3, Some(0.001)));
    }

    #[test]
    fn generators_must_fit_on_the_clients_cpus() {
        let mut lab = lab(2, Some(pi()));
        for number in [1, 2] {
            let profile = Some(pi().name);
            lab.hosts.push(Host { name: format!("gen{number}"), profile, is_generator: true, ..Host::default() });
        }
        let placed = place(&lab, &machine(2)).unwrap();
        let cpus: Vec<_> = placed.envelopes.iter().map(|envelope| envelope.cpus.clone()).collect();
        assert_eq!(cpus, [[0], [0], [1], [1]]);
        lab.hosts.push(Host { is_generator: true, ..lab.hosts[3].clone() });
        let (what, _) = refused(&lab, &machine(2));
        assert!(what.contains("1.2 of this machine's cores (3 × pi"), "{what}");
    }

    #[test]
    fn hosts_may_use_four_fifths_of_their_cpus() {
        // Two boards of 0.4 each use exactly 0.8 of the one CPU that the hosts have here.
        assert!(place(&lab(2, Some(pi())), &machine(2)).is_ok());
        for (hosts, cpus, speed) in [(3, 2, Some(0.666)), (4, 2, Some(0.5)), (4, 1, Some(0.5)), (8, 4, Some(0.5))] {
            let (what, largest) = refused(&lab(hosts, Some(pi())), &machine(cpus));
            assert_eq!(largest, speed, "{hosts} on {cpus}: {what}");
            let slower = Lab { speed: speed.unwrap(), ..lab(hosts, Some(pi())) };
            assert!(place(&slower, &machine(cpus)).is_ok(), "{hosts} on {cpus}");
        }
        let (what, _) = refused(&lab(4, Some(pi())), &machine(2));
        assert_eq!(
            what,
            "the hosts need 1.6 of this machine's cores (4 × pi with 4 cores at 0.1), but can use at most 0.8 on \
             their 1 CPU"
        );
        // Hosts without a profile use the remaining capacity.
        let mut mixed = lab(2, Some(pi()));
        mixed.hosts.push(Host { name: "free".into(), ..Host::default() });
        assert!(place(&mixed, &machine(2)).is_ok());
    }

    #[test]
    fn a_core_faster_than_the_machines_is_refused() {
        let fast = Profile { cores: Some(1), core_speed: Some(1.5), memory_bytes: None, ..pi() };
        let (what, speed) = refused(&lab(1, Some(fast)), &machine(16));
        assert_eq!((what.as_str(), speed), ("a core of pi is 1.5 times as fast as one of this machine", Some(0.666)));
        let as_is = Profile { cores: Some(1), core_speed: None, ..pi() };
        assert_eq!(place(&lab(1, Some(as_is)), &machine(16)).unwrap().envelopes[0].core_speed, Some(1.0));
    }

    #[test]
    fn shares_that_are_too_small_are_refused() {
        let (what, speed) = refused(&Lab { speed: 0.05, ..lab(1, Some(pi())) }, &machine(2));
        assert!(what.starts_with("a core of pi would get 0.005 of a core, below the minimum of 0.01"), "{what}");
        assert_eq!(speed, None, "a lower speed would not help");
        // With this many hosts, a speed at which they fit makes each core too slow.
        let (_, speed) = refused(&lab(30, Some(Profile { memory_bytes: None, ..pi() })), &machine(2));
        assert_eq!(speed, None);
    }

    #[test]
    fn profiles_beyond_the_machines_memory_are_refused() {
        let hungry = Profile { cores: None, core_speed: None, memory_bytes: Some(6 * GIB), ..pi() };
        assert!(place(&lab(2, Some(hungry.clone())), &machine(2)).is_ok());
        let (what, speed) = refused(&lab(3, Some(hungry)), &machine(2));
        assert_eq!((what.as_str(), speed), ("the hosts need 18GiB of memory in total, but 16GiB is available", None));
    }

    #[test]
    fn members_beyond_memory_or_cpus_are_refused() {
        let members = |count: usize, profile: Option<Profile>| {
            let lab = lab(count, profile);
            let hosts = lab.hosts.iter().map(|host| host.name.clone()).collect();
            let demand = MemberDemand { target: "ring".into(), hosts, memory_bytes: Some(2 * GIB), per_cpu: Some(3) };
            Lab { members: Some(demand), generator_cpus: Some(0), ..lab }
        };
        assert!(place(&members(8, None), &machine(4)).is_ok());
        let memory =
            "each member of `ring` needs 2GiB of memory, 9 members need 18GiB, but 16GiB is available, enough for 8";
        assert_eq!(refused(&members(9, None), &machine(4)), (memory.to_owned(), None));
        let cpus = "the lab has 7 members of `ring`, but their 2 CPUs can run at most 6 (3 per CPU)";
        assert_eq!(refused(&members(7, None), &machine(2)), (cpus.to_owned(), None));
        // If a profile limits the memory, its limit counts.
        let limited = Profile { cores: None, core_speed: None, memory_bytes: Some(GIB), ..pi() };
        assert!(place(&members(9, Some(limited)), &machine(4)).is_ok());
    }

    #[test]
    fn core_speed_is_the_ratio_of_scores() {
        let measured = Profile { core_speed: None, score: Some(500.0), cores: Some(2), ..pi() };
        let lab = lab(1, Some(measured));
        assert!(needs_score(&lab));
        assert_eq!(refused(&lab, &machine(4)).1, None);
        let placed = place(&lab, &MachineCapacity { score: Some(2000.0), ..machine(4) }).unwrap();
        assert_eq!(placed.envelopes[0].core_speed, Some(0.25));
    }

    #[test]
    fn ssh_hosts_are_not_limited() {
        let mut lab = lab(2, Some(Profile { memory_bytes: Some(999 * GIB), ..pi() }));
        for host in &mut lab.hosts {
            host.ssh = Some("pi@10.0.0.11".into());
        }
        let placed = place(&lab, &machine(1)).unwrap();
        assert_eq!(placed, Placement { generator_cpus: Vec::new(), envelopes: vec![Envelope::default(); 2] });
    }

    #[test]
    fn a_too_slow_core_names_the_lowest_possible_speed() {
        let (what, speed) = refused(&Lab { speed: 0.07, ..lab(1, Some(pi())) }, &machine(4));
        assert!(what.ends_with("0.007 of a core, below the minimum of 0.01: lab.speed must be at least 0.1"), "{what}");
        assert_eq!(speed, None);
        let (what, speed) =
            refused(&Lab { speed: 0.05, ..lab(60, Some(Profile { memory_bytes: None, ..pi() })) }, &machine(4));
        assert!(what.ends_with("at a higher lab.speed the hosts do not fit"), "{what}");
        assert_eq!(speed, None);
    }

    #[test]
    fn clients_share_cpus_without_cpusets_unless_asked() {
        let shared = MachineCapacity { shares_cpus: true, ..machine(4) };
        let placed = place(&lab(2, None), &shared).unwrap();
        assert!(placed.generator_cpus.is_empty() && placed.envelopes.iter().all(|envelope| envelope.cpus.is_empty()));
        let asked = place(&Lab { generator_cpus: Some(1), ..lab(2, None) }, &shared).unwrap();
        assert_eq!(asked.generator_cpus, [3]);
    }

    #[test]
    fn hosts_that_share_cpus_do_not_starve_the_clients() {
        // Regression test: with the weight of 16 neighbours, 16 busy hosts left the clients a
        // seventeenth of the time.
        let weight = |generator_cpus| {
            let lab = Lab { generator_cpus: Some(generator_cpus), ..lab(16, None) };
            place(&lab, &machine(2)).unwrap().weight()
        };
        assert_eq!([weight(0), weight(1)], [1, 16]);
    }
}
