//! Sites of a load: servers beside the target that steps go to. An agent has a connection of its
//! own to each site that its group uses. The connections to sites follow those to the target.

use std::borrow::Cow;

use experiment::mistake::TrialPart;
use experiment::plan::{Load, Tls};
use transport::conn_id::ConnId;
use transport::error::Error as OpenError;
use transport::tls::{TlsPeers, TlsTrust};
use wire::session::SessionProtocol;

use super::agents::{AgentService, Agents, EventTime};
use super::ids::AgentId;
use super::script::Script;
use crate::{Error, LoadOrder};

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

/// Connections of a thread's agents to sites. Empty if the load has no sites.
#[derive(Debug, Default)]
pub struct SiteConnections {
    /// Index of each agent's first connection to a site, among all connections of the thread.
    first: Vec<u32>,
    /// Agents of the connections to sites, in the order of the connections.
    owners: Vec<AgentId>,
    /// Earliest time of the next connect of each connection of the thread.
    after_ns: Vec<u64>,
}

impl SiteConnections {
    /// Creates the connections of thread `thread` with this number of agents.
    pub fn new<P: SessionProtocol>(script: &Script<P>, thread: u32, agents: usize) -> Self {
        if !script.has_sites {
            return Self::default();
        }
        let (mut first, mut owners) = (Vec::new(), Vec::new());
        for (index, number) in script.places.agents_of(thread).enumerate() {
            first.push((agents + owners.len()) as u32);
            owners.extend(script.groups[script.group_of(number)].sites.iter().map(|_| AgentId::at(index)));
        }
        Self { after_ns: vec![0; agents + owners.len()], first, owners }
    }

    /// Returns the agent of a connection. If agents share the connection, returns its first agent.
    pub fn owner(&self, conn: ConnId) -> AgentId {
        match self.first.len() {
            0 => AgentId::at(conn.index()),
            agents => match conn.index().checked_sub(agents) {
                None => AgentId::at(conn.index()),
                Some(place) => self.owners[place],
            },
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
    /// Returns the service of each connection of a thread: first the connections to the target,
    /// then for each agent those to the sites of its group.
    pub fn services_of_connections(&self, thread: u32) -> Vec<u32> {
        let mut services: Vec<u32> = self.places.connections_of(thread).collect();
        if self.has_sites {
            let agents = self.places.agents_of(thread);
            services.extend(agents.flat_map(|number| self.groups[self.group_of(number)].sites.iter().copied()));
        }
        services
    }

    /// Returns the number of connections from the threads of this process to sites.
    pub fn site_connections(&self) -> u32 {
        if !self.has_sites {
            return 0;
        }
        let numbers = self.mine.clone().flat_map(|thread| self.places.agents_of(thread));
        numbers.map(|number| self.groups[self.group_of(number)].sites.len() as u32).sum()
    }
}

impl<P: SessionProtocol> Agents<P> {
    /// Puts the agent on its connection to the server of its step. A redirect to the authority of a
    /// site can be followed in the same way. Returns the time of the event for this connection.
    pub(super) fn go_to_site(&mut self, id: AgentId, at: EventTime) -> EventTime {
        let home = ConnId::at(id.index());
        let home_place = self.script.place_at(self.routes.service(home));
        let agent = &mut self.list[id];
        (agent.connection, agent.place) = match self.script.steps[agent.step].site {
            None => (home, home_place),
            Some(place) => (
                ConnId::at(self.sites.first[id.index()] as usize + usize::from(place)),
                // All sites are one place of outcomes, behind the services of the target.
                AgentService { service: self.script.places.services, ..home_place },
            ),
        };
        EventTime { connect_after_ns: self.sites.after_ns[agent.connection.index()], ..at }
    }
}
