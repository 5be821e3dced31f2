//! Sites of a load: servers beside the target that steps go to. An agent has a connection of its
//! own to each site that its group uses, and so has each of its lanes. These connections follow the
//! connections of the agents to the target.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use experiment::mistake::TrialPart;
use experiment::plan::{Load, Tls};
use transport::client::CallError;
use transport::conn_id::ConnId;
use transport::error::Error as OpenError;
use transport::tls::{TlsPeers, TlsTrust};
use wire::protobuf::sources;
use wire::session::SessionProtocol;

use super::agent_group::AgentGroup;
use super::agents::lanes::Lanes;
use super::agents::{AgentService, Agents, EventTime};
use super::ids::AgentId;
use super::script::Script;
use crate::{Error, LoadOrder};

/// Limit for each question about the types of messages.
const TO_DESCRIBE: Duration = Duration::from_secs(10);

/// Opens the services of the target, and then the sites of the load.
///
/// # Errors
/// The first invalid URL.
pub fn open_services<P: SessionProtocol>(orders: &LoadOrder) -> Result<Vec<P>, Error> {
    let sites = orders.load.sites.values().map(|site| &site.url);
    let open = |service: &String| {
        P::open(service).map_err(|reason| OpenError::Service { service: service.clone(), reason }.into())
    };
    orders.services.iter().chain(sites).map(open).collect()
}

/// Returns the names whose types of messages the steps need and that the services do not know, for
/// each place: the target, and the sites by their index among all services.
fn unknown_types<P: SessionProtocol>(orders: &LoadOrder, services: &[P]) -> BTreeMap<usize, Vec<String>> {
    let mut unknown: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for step in orders.load.all_steps() {
        let place = step.site.as_deref().and_then(|site| service_of(orders, site)).unwrap_or(0) as usize;
        if let Some(name) = services.get(place).and_then(|service| service.lacks_types(&step.with)) {
            unknown.entry(place).or_default().push(name);
        }
    }
    unknown
}

/// Gives the services the types of messages that the files of the load describe.
///
/// # Errors
/// A file that cannot be read or has a mistake.
pub fn read_types<P: SessionProtocol>(orders: &LoadOrder, services: &mut [P]) -> Result<(), Error> {
    if orders.load.proto.is_empty() {
        return Ok(());
    }
    let types = sources::read(&orders.load.proto, &orders.files);
    let types = Arc::new(types.map_err(|why| Error::Setting(format!("`load.proto`: {why}")))?);
    services.iter_mut().for_each(|service| service.learn_types(&types));
    Ok(())
}

/// Asks the target and the sites for the types of messages that the steps need, if no file
/// describes them. A target with several services is asked at the first that answers.
///
/// # Errors
/// If no service answers, or it does not describe its messages.
pub fn ask_types<P: SessionProtocol>(orders: &LoadOrder, services: &mut [P]) -> Result<(), Error> {
    if !orders.load.proto.is_empty() {
        return Ok(());
    }
    for (place, mut names) in unknown_types(orders, services) {
        names.sort_unstable();
        names.dedup();
        let trust = TlsTrust { tls: tls_of(orders, place).into_owned(), files: orders.files.clone() };
        let is_target = place < orders.services.len();
        let alike = if is_target { 0..orders.services.len() } else { place..place + 1 };
        let urls = orders.services.iter().chain(orders.load.sites.values().map(|site| &site.url));
        let asked = urls.skip(alike.start).take(alike.len());
        let mut answers = asked.map(|url| transport::client::ask_types::<P>(url, &trust, &names, TO_DESCRIBE));
        let first = answers.next().unwrap_or_else(|| Err(CallError::Invalid("there is no service".to_owned())));
        let types = first.or_else(|error| answers.find_map(Result::ok).ok_or(error));
        let types = types.map_err(|error| Error::Setting(error.to_string()))?;
        services[alike].iter_mut().for_each(|service| service.learn_types(&types));
    }
    Ok(())
}

/// Opens all services and sites, and reports those that cannot be opened.
pub fn open_all<P: SessionProtocol>(orders: &LoadOrder, report: &mut impl FnMut(TrialPart, String)) -> Vec<P> {
    let services = orders.services.iter().map(|service| (service, TrialPart::Service));
    let sites = orders.load.sites.iter().map(|(name, site)| (&site.url, TrialPart::Site(name.clone())));
    let mut opened = Vec::new();
    for (service, part) in services.chain(sites) {
        match P::open(service) {
            Ok(open) => opened.push(open),
            Err(reason) => report(part, reason),
        }
    }
    if are_in_place(orders, opened.len())
        && let Err(error) = peers(orders, &opened)
    {
        report(TrialPart::Tls, error.to_string());
    }
    opened
}

/// Whether each site has its index if only `opened` services could be opened.
pub fn are_in_place(orders: &LoadOrder, opened: usize) -> bool {
    let sites = orders.load.sites.len();
    sites == 0 || opened == orders.services.len() + sites
}

/// Returns the index among all services of the site with this name.
pub fn service_of(orders: &LoadOrder, site: &str) -> Option<u32> {
    let place = orders.load.sites.keys().position(|name| name == site)?;
    u32::try_from(orders.services.len() + place).ok()
}

/// Returns the services of the sites that a group uses, in the order of their names. A step's place
/// in this list gives the agent's connection.
pub fn services_of(orders: &LoadOrder, group: &Load) -> Vec<u32> {
    group.used_sites().into_iter().filter_map(|site| service_of(orders, site)).collect()
}

/// Returns the TLS settings of the service with this index.
pub fn tls_of(orders: &LoadOrder, service: usize) -> Cow<'_, Tls> {
    let site = service.checked_sub(orders.services.len()).and_then(|place| orders.load.sites.values().nth(place));
    site.map_or(Cow::Borrowed(&orders.tls), |site| Cow::Owned(site.tls(&orders.tls)))
}

/// Returns the TLS settings of the services that use TLS, if any.
///
/// # Errors
/// If a file cannot be read, or a name is invalid.
pub fn peers<P: SessionProtocol>(orders: &LoadOrder, services: &[P]) -> Result<Option<TlsPeers>, Error> {
    let trust = |service| TlsTrust { tls: tls_of(orders, service).into_owned(), files: orders.files.clone() };
    let trusts: Vec<TlsTrust> = (0..services.len()).map(trust).collect();
    let hosts: Vec<(&TlsTrust, Option<&str>)> = trusts.iter().zip(services.iter().map(P::tls_host)).collect();
    TlsPeers::of(&hosts, P::ALPN).map_err(|reason| Error::Setting(format!("TLS: {reason}")))
}

/// Returns the host by which cookies of the service are stored: its name or address in lower case,
/// without the port (RFC 6265, 8.5). The services of the target count as one host.
pub fn cookie_host<P: SessionProtocol>(services: &[P], service: usize) -> String {
    let Some(service) = services.get(service) else { return String::new() };
    let authority = service.authority();
    let host = service.tls_host().unwrap_or_else(|| authority.rsplit_once(':').map_or(authority, |(host, _)| host));
    host.trim_matches(['[', ']']).to_ascii_lowercase()
}

/// Connections of a thread's agents beside one for each agent: to sites, and of lanes. Empty if
/// each agent has one connection.
#[derive(Debug, Default)]
pub struct SiteConnections {
    /// Number of agents.
    agents: usize,
    /// Connections of each agent and lane.
    own: Vec<OwnConnections>,
    /// Agents of the further connections, in the order of the connections.
    owners: Vec<AgentId>,
    /// Earliest time of the next connect of each connection of the thread.
    after_ns: Vec<u64>,
}

/// Connections of an agent or lane.
#[derive(Debug, Clone, Copy)]
struct OwnConnections {
    to_target: ConnId,
    /// First of the connections to sites, which follow each other.
    to_sites: usize,
}

impl SiteConnections {
    /// Creates the connections of the agents of thread `thread`.
    pub fn new<P: SessionProtocol>(script: &Script<P>, thread: u32, lanes: &Lanes) -> Self {
        if !script.changes_connections {
            return Self::default();
        }
        let agents = lanes.agents();
        let (mut own, mut of_lanes, mut owners) = (Vec::new(), Vec::new(), Vec::new());
        for (index, number) in script.places.agents_of(thread).enumerate() {
            let group = &script.groups[script.group_of(number)];
            let id = AgentId::at(index);
            let mut next = |count: usize| {
                let first = agents + owners.len();
                owners.extend(std::iter::repeat_n(id, count));
                first
            };
            let first = OwnConnections { to_target: ConnId::at(index), to_sites: next(group.sites.len()) };
            own.push(first);
            // The first lane uses the connections of its agent.
            of_lanes.extend((group.lanes > 0).then_some(first));
            for _ in 1..group.lanes {
                let to_target = ConnId::at(next(1));
                of_lanes.push(OwnConnections { to_target, to_sites: next(group.sites.len()) });
            }
        }
        own.append(&mut of_lanes);
        Self { agents, own, after_ns: vec![0; agents + owners.len()], owners }
    }

    /// Returns the agent's connection to the target.
    pub fn home(&self, id: AgentId) -> ConnId {
        self.own.get(id.index()).map_or(ConnId::at(id.index()), |own| own.to_target)
    }

    /// Returns the further connections of the agent with this connection to the target.
    pub fn further(&self, home: ConnId) -> impl Iterator<Item = ConnId> + use<> {
        let first = |place: usize| self.own[..self.agents].get(place).map_or(self.after_ns.len(), |own| own.to_sites);
        let none = self.own.is_empty();
        let places = if none { 0..0 } else { first(home.index())..first(home.index() + 1) };
        places.map(ConnId::at)
    }

    /// Returns the agent of a connection. If agents share the connection, returns its first agent.
    pub fn owner(&self, conn: ConnId) -> AgentId {
        match conn.index().checked_sub(self.agents) {
            Some(place) if !self.own.is_empty() => self.owners[place],
            _ => AgentId::at(conn.index()),
        }
    }

    /// Records the earliest time of the connection's next connect.
    pub fn set_connect_after(&mut self, conn: ConnId, after_ns: u64) {
        if let Some(own) = self.after_ns.get_mut(conn.index()) {
            *own = after_ns;
        }
    }
}

impl<P: SessionProtocol> Script<P> {
    /// Returns the service of each connection of a thread: first the connections of its agents to
    /// the target, then for each agent those to the sites of its group and those of its lanes.
    pub fn services_of_connections(&self, thread: u32) -> Vec<u32> {
        let mut services: Vec<u32> = self.places.connections_of(thread).collect();
        if !self.changes_connections {
            return services;
        }
        for number in self.places.agents_of(thread) {
            let AgentGroup { sites, lanes, .. } = &self.groups[self.group_of(number)];
            services.extend(sites);
            for _ in 1..*lanes {
                services.push(self.places.service_of(number));
                services.extend(sites);
            }
        }
        services
    }

    /// Returns the number of connections of the threads of this process beside one for each agent.
    pub fn further_connections(&self) -> u32 {
        if !self.changes_connections {
            return 0;
        }
        let numbers = self.mine.clone().flat_map(|thread| self.places.agents_of(thread));
        let of_agent = |number| {
            let AgentGroup { sites, lanes, .. } = &self.groups[self.group_of(number)];
            (sites.len() as u32 + 1) * (*lanes).max(1) - 1
        };
        numbers.map(of_agent).sum()
    }
}

impl<P: SessionProtocol> Agents<P> {
    /// Puts the agent or lane on its connection to the server of its step. A redirect to the
    /// authority of a site can be followed in the same way. Returns the time of the event for this
    /// connection.
    pub(super) fn change_connection(&mut self, id: AgentId, at: EventTime) -> EventTime {
        let own = self.sites.own[id.index()];
        let home_place = self.script.place_at(self.routes.service(own.to_target));
        let agent = &mut self.list[id];
        (agent.connection, agent.place) = match self.script.steps[agent.step].site {
            None => (own.to_target, home_place),
            Some(place) => (
                ConnId::at(own.to_sites + usize::from(place)),
                // All sites are one place of outcomes, behind the services of the target.
                AgentService { service: self.script.places.services, ..home_place },
            ),
        };
        EventTime { connect_after_ns: self.sites.after_ns[agent.connection.index()], ..at }
    }

    /// Moves the agent or lane on a connection to another member of the target. Those on other
    /// connections find the member when they return.
    pub(super) fn move_agents(&mut self, conn: ConnId, place: AgentService) {
        let owner = self.sites.owner(conn);
        for id in std::iter::once(owner).chain(self.lanes.of(owner)) {
            if self.list[id].connection == conn {
                self.list[id].place = place;
            }
        }
    }
}
