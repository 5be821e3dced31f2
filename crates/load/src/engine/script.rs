//! Compiled form of a load that the threads run: requests, expectations, captures, times, and the
//! assignment of agents to connections and services. All names are resolved to indexes. Read-only
//! while the load runs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use experiment::catalog;
use experiment::mistake::{Mistake, TrialPart};
use experiment::plan::{self, Expected, Load, Rate, SlotContent};
use transport::connections::{ConnectionSettings, OpeningRules};
use transport::program_worker::{DeathSignal, ProgramHost};
use transport::tls::TlsPeers;
use wire::excerpt;
use wire::feed_stream::FeedQueue;
use wire::protocols::Call;
use wire::session::SessionProtocol;
use wire::slot_names::SlotName;
use wire::values::encoding::{self, ChangedValue};
use wire::values::feeds::FeedRows;
use wire::values::files::ValueFiles;
use wire::values::lua::Program;
use wire::values::{Argument, CompiledTemplate, TemplateNames};

use super::agent_group::{AgentGroup, GroupId};
use super::agents::auditing::{self, Audit};
use super::agents::{Agent, AgentService, session_cookies};
use super::counters;
use super::expectation::{self, CaptureSlot, Expectation, OperationPart, WantedFields};
use super::ids::{StepId, indexed_by};
use super::load_settings;
use super::places::Places;
use super::sites;
use super::units::UnitCounter;
use crate::schedules::NS_PER_S;
use crate::schedules::pauses::StepPause;
use crate::schedules::replay::Replay;
use crate::{Error, LoadOrder, LoadPurpose};

/// Maximum number of value slots of an agent: the bits of `Agent::kept`.
const SLOTS: usize = 32;
/// Maximum number of feeds of a load: the bits of `Agent::needs`.
pub const FEEDS: usize = 64;
/// Chance of a step that each cycle performs.
pub const ALWAYS: u64 = u64::MAX;
/// Index of the first random stream for expectations. Arguments use the streams from 0 on.
const EXPECTATIONS: u64 = 1000;
/// Index of the first random stream for `set`.
const SET_VALUES: u64 = 2000;

/// A compiled load.
pub struct Script<P: SessionProtocol> {
    pub steps: Vec<CompiledStep>,
    /// Requests by service: every step's request to the first service, then to the second, and so
    /// on. A request may contain the service's name.
    requests: Vec<P::Request>,
    /// Names under which operations are counted.
    pub names: Arc<[String]>,
    /// Groups, in the order of their agents' numbers.
    pub groups: Vec<AgentGroup>,
    /// Number of slots of each agent.
    pub slots: usize,
    /// Names of the slots, indexed by slot.
    pub slot_names: Box<[SlotName]>,
    /// Number of counters that all agents share.
    pub counters: usize,
    /// Files that supply values.
    pub feeds: Vec<FeedRows>,
    /// Streamed feeds that any step uses, one bit per feed.
    streams: u64,
    /// Script that computes values, if any.
    pub program: Option<Arc<Program>>,
    /// No operation is intended at or after this time.
    pub end_ns: u64,
    /// Whether any group has fixed starts.
    pub is_paced: bool,
    /// Pause after a failed connect.
    pub reconnect_ns: u64,
    /// Reconnect policy of agents that lost their connection.
    pub reconnects: plan::Reconnects,
    /// Time that open operations get after the end of the load.
    pub drain_ns: u64,
    pub purpose: LoadPurpose,
    /// Whether the history is checked while the load runs.
    pub stops_at_violation: bool,
    /// Number of threads of the whole load, over all processes.
    pub threads: u32,
    /// Indexes of the threads that this process starts.
    pub mine: Range<u32>,
    /// Assignment of agents to connections, services and threads.
    pub places: Places,
    /// Length of a time slot in which outcomes are counted.
    pub slot_ns: u64,
    /// Whether connections are kept between operations.
    pub keep_alive: bool,
    /// Whether steps may go to sites.
    pub has_sites: bool,
    /// Whether agents may perform operations at once.
    pub has_lanes: bool,
    /// Whether an agent may use several connections.
    pub changes_connections: bool,
    /// Whether io_uring may be used.
    pub may_ring: bool,
    /// TLS settings of the services that use TLS, if any.
    pub peers: Option<TlsPeers>,
    /// Services, with their addresses and greetings.
    pub services: Arc<[P]>,
    /// Ties started programs to the life of this process.
    pub tether: Option<DeathSignal>,
    /// Hosts that run the services' own programs, one for each service. Empty if there are none.
    pub hosts: Arc<[ProgramHost]>,
}

/// A compiled step.
pub struct CompiledStep {
    /// Index of the step's name in [`Script::names`].
    pub name: usize,
    /// Name of the protocol's operation.
    pub call: &'static str,
    pub arguments: Vec<Argument>,
    /// Slots that the arguments use, one bit per slot. All of them must be filled.
    pub needs: u32,
    /// Whether the step belongs to sessions with a cookie jar.
    pub keeps_cookies: bool,
    /// Place of the step's site among those of its group, if the step does not go to the target.
    pub site: Option<u16>,
    /// Whether the step follows redirects.
    pub follows: bool,
    /// Most operations of the step's block that are open at once; 0 if it is no block.
    pub at_once: u16,
    /// Index of the step behind the block.
    pub block_end: usize,
    /// Expectations of the answer.
    pub expects: Vec<Expectation>,
    /// The same expectations as text: field and expected value.
    pub expected: Vec<(String, String)>,
    /// Index in `expects` of the expectation of the status, if any.
    pub status: Option<usize>,
    /// Values to keep from the request and the answer.
    pub keeps: Vec<CaptureSlot>,
    /// Whether evaluating the expectations and captures takes more than comparing or copying bytes.
    pub is_costly: bool,
    /// Whether a script computes an argument of the request.
    pub asks_script: bool,
    /// Interval at which the step is performed, cycles.
    pub every: u64,
    /// The step is performed in cycles whose draw is below this, or in all if this is [`ALWAYS`].
    pub chance: u64,
    /// Number of times that the step is performed in a row.
    pub repeat: u16,
    /// Steps of the sequence to which the step belongs. A cycle performs a sequence.
    pub sequence: Range<usize>,
    /// Pause after the step, unless a schedule starts the next operation.
    pub pause: StepPause,
    /// Parts of the operation that go to the history, if the operation is audited.
    pub audit: Option<Audit>,
    /// Streamed feeds that the step uses, one bit per feed.
    pub streams: u64,
    /// Counters from which each operation takes a number, one bit per counter.
    pub counters: u64,
    /// Counter of the operation's units, if it has any.
    pub units: Option<Box<UnitCounter>>,
    /// Whether the answer is timed while it arrives: its first byte, and the messages of a stream.
    pub times_answer: bool,
}

indexed_by!(StepId, Vec<CompiledStep>, CompiledStep);

impl<P: SessionProtocol> Script<P> {
    /// Compiles the load for the services in `orders`, which may be asked for the types of their
    /// messages.
    ///
    /// # Errors
    /// The first invalid setting or step.
    pub fn compile(orders: &LoadOrder) -> Result<Self, Error> {
        let mut services = Self::open(orders)?;
        sites::ask_types(orders, &mut services)?;
        Self::compile_for(orders, services)
    }

    /// Compiles the load without sending anything. Steps whose messages only the services describe
    /// are checked as far as possible.
    ///
    /// # Errors
    /// The first invalid setting or step.
    pub fn check(orders: &LoadOrder) -> Result<Self, Error> {
        Self::compile_for(orders, Self::open(orders)?)
    }

    /// Opens the services, and gives them the types of messages from files.
    fn open(orders: &LoadOrder) -> Result<Vec<P>, Error> {
        load_settings::check(orders)?;
        let mut services = sites::open_services(orders)?;
        sites::read_types(orders, &mut services)?;
        Ok(services)
    }

    fn compile_for(orders: &LoadOrder, services: Vec<P>) -> Result<Self, Error> {
        let load = &orders.load;
        let peers = sites::peers(orders, &services)?;
        let feeds = load.feeds.iter().map(|feed| FeedRows::read(feed, &orders.files)).collect::<Result<Vec<_>, _>>()?;
        let names = operation_names(load);
        let (slots, counters) = (slots(load)?, counters::names(load)?);
        let slot_names = names_of_slots(&slots)?;
        let program = load.script.as_ref().map(|file| Program::read(file, &orders.files, &slots)).transpose()?;
        let files = ValueFiles::new(&orders.files);
        let (mut compiled, mut groups, mut before) = (Vec::new(), Vec::new(), 0);
        for population in load.populations() {
            let first = compiled.len();
            let compiler = ScriptCompiler {
                services: &services,
                orders,
                hosts: &orders.hosts,
                load: population,
                first,
                closes: !load.connections.keep_alive,
                names: &names,
                slots: &slots,
                feeds: &feeds,
                files: &files,
                counters: &counters,
                program: program.as_ref(),
            };
            for number in 0..population.steps.len() {
                compiled.push(compiler.step(number)?);
            }
            let mut group = AgentGroup::compile(population, (before, first..compiled.len()), &feeds, orders)?;
            let kept = compiled[group.on_start.clone()].iter().flat_map(|(step, _)| &step.keeps);
            group.lasting = kept.fold(0, |slots, keep| slots | 1 << keep.slot);
            groups.push(group);
            before += population.agents;
        }
        let (steps, by_step): (Vec<CompiledStep>, Vec<Vec<P::Request>>) = compiled.into_iter().unzip();
        let places = Places::of(load, orders.services.len());
        let places = orders.slice.map_or(Ok(places), |slice| slice.places(orders, places))?;
        Ok(Self {
            streams: steps.iter().fold(0, |streams, step| streams | step.streams),
            steps,
            requests: by_service(by_step),
            names: names.into(),
            slots: slots.len(),
            slot_names,
            counters: counters.len(),
            feeds,
            program,
            end_ns: groups.iter().map(|group| group.schedule.end_ns()).max().unwrap_or(0),
            is_paced: groups.iter().any(|group| group.kind.is_fixed()),
            groups,
            reconnect_ns: ns(load.reconnect_s),
            reconnects: load.reconnects,
            drain_ns: ns(load.drain_s),
            purpose: orders.purpose,
            stops_at_violation: orders.load.stop_at_violation && orders.purpose == LoadPurpose::Measure,
            threads: places.threads,
            mine: orders.slice.map_or(0..places.threads, |slice| slice.mine()),
            places,
            slot_ns: ns(orders.slot_s).max(1),
            keep_alive: load.connections.keep_alive,
            has_sites: !load.sites.is_empty(),
            has_lanes: has_lanes(load),
            changes_connections: !load.sites.is_empty() || has_lanes(load),
            may_ring: !orders.without_ring,
            peers,
            services: services.into(),
            tether: orders.tether,
            hosts: orders.hosts.clone().into(),
        })
    }

    /// Implements [`crate::mistakes`] for a protocol.
    pub fn mistakes(orders: &LoadOrder) -> Vec<Mistake> {
        let (load, mut found) = (&orders.load, Vec::new());
        let mut note = |part: TrialPart, reason: String| found.push(Mistake { part, reason, is_note: false });
        let mut services: Vec<P> = sites::open_all(orders, &mut note);
        if !sites::are_in_place(orders, services.len()) {
            return found;
        }
        if let Err(error) = sites::read_types(orders, &mut services) {
            note(TrialPart::Load, error.to_string());
            return found;
        }
        let (mut feeds, mut lacking) = (Vec::new(), Vec::new());
        for feed in &load.feeds {
            match FeedRows::read_regular(feed, &orders.files) {
                Ok(read) => feeds.push(read),
                Err(error) => note(TrialPart::Feed(feed.name.clone()), error.to_string()),
            }
            if !matches!(feeds.last(), Some(Some(read)) if read.name() == feed.name) {
                lacking.push(format!("{{feed.{}.", feed.name));
            }
        }
        let feeds: Vec<FeedRows> = feeds.into_iter().flatten().collect();
        let names = operation_names(load);
        let (slots, counters) = match slots(load).and_then(|slots| Ok((slots, counters::names(load)?))) {
            Ok(found) => found,
            Err(error) => {
                note(TrialPart::Load, error.to_string());
                return found;
            }
        };
        let program = match load.script.as_ref().map(|file| Program::read(file, &orders.files, &slots)).transpose() {
            Ok(program) => program,
            Err(error) => {
                note(TrialPart::Script, error.to_string());
                return found;
            }
        };
        let (mut notes, files) = (session_cookies::notes_on_unused_jars(load), ValueFiles::new(&orders.files));
        for population in load.populations() {
            let compiler = ScriptCompiler {
                services: &services,
                orders,
                hosts: &[],
                load: population,
                first: 0,
                closes: !load.connections.keep_alive,
                names: &names,
                slots: &slots,
                feeds: &feeds,
                files: &files,
                counters: &counters,
                program: program.as_ref(),
            };
            for (number, step) in population.steps.iter().enumerate().filter(|(_, step)| step.program.is_none()) {
                let text = serde_json::to_string(step).unwrap_or_default();
                if lacking.iter().any(|feed| text.contains(feed)) {
                    continue;
                }
                if let Err(Error::Step { reason, .. }) = compiler.step(number) {
                    note(part_of(step, &reason), reason);
                }
                notes.extend(compiler.changed_values(step));
            }
            if let Some(Rate::Replay { replay, stretch }) = population.rate.as_ref().map(Rate::starts)
                && let Err(error) = Replay::read(&orders.files.path(replay), *stretch, 1, 0)
            {
                note(TrialPart::Schedule(replay.clone()), error.to_string());
            }
        }
        found.extend(notes);
        found
    }

    /// Whether any session has a cookie jar.
    pub fn has_cookies(&self) -> bool {
        self.steps.iter().any(|step| step.keeps_cookies)
    }

    /// Whether any step follows redirects.
    pub fn follows(&self) -> bool {
        self.steps.iter().any(|step| step.follows)
    }

    /// Whether the answers of any step are timed while they arrive.
    pub fn times_answers(&self) -> bool {
        self.steps.iter().any(|step| step.times_answer)
    }

    /// Returns the largest number of connections from the threads of this process to one service.
    pub fn most_to_a_service(&self) -> u32 {
        let mut of_services = vec![0; self.places.services as usize];
        for service in self.mine.clone().flat_map(|thread| self.places.connections_of(thread)) {
            of_services[service as usize] += 1;
        }
        of_services.into_iter().max().unwrap_or(0)
    }

    /// Returns whether each operation has expectations, in the order of the names.
    pub fn has_expectations(&self) -> Vec<bool> {
        let is_checked = |name: usize| self.steps.iter().any(|step| step.name == name && !step.expects.is_empty());
        (0..self.names.len()).map(is_checked).collect()
    }

    /// Returns the group of agent `number` (from 1).
    pub fn group_of(&self, number: u32) -> GroupId {
        GroupId::at(self.groups.partition_point(|group| group.before < number).saturating_sub(1))
    }

    /// Returns the initial service of agent `number` (from 1).
    pub fn place_of(&self, number: u32) -> AgentService {
        self.place_at(self.places.service_of(number))
    }

    /// Returns the service with index `service` as an [`AgentService`].
    pub fn place_at(&self, service: u32) -> AgentService {
        AgentService { service, requests: service * u32::try_from(self.steps.len()).unwrap_or(0) }
    }

    /// Returns the agent's cycle number that decides which steps with `every` the cycle performs.
    /// At a rate, agents take turns and are all at about the same cycle. Each agent then counts
    /// from a different number, so that agents do not all perform a rare step at the same time.
    pub fn turn_of(&self, agent: &Agent) -> u64 {
        let is_spread = self.groups[agent.group].kind.is_fixed() && self.purpose == LoadPurpose::Measure;
        agent.cycle + u64::from(if is_spread { agent.place_in_group } else { 0 })
    }

    /// Returns the settings of a thread's connections.
    pub fn connection_settings(&self, thread: u32) -> ConnectionSettings {
        ConnectionSettings {
            services: self.services_of_connections(thread),
            opening: OpeningRules::of(&self.services),
            peers: self.peers.as_ref().map(TlsPeers::for_a_thread),
            numbers: (thread.saturating_sub(self.mine.start), self.mine.len().max(1) as u32),
            is_pipelined: self.places.is_pipelined(),
            tether: self.tether,
            hosts: Arc::clone(&self.hosts),
        }
    }

    /// Returns the streamed feeds from which a cycle that begins with the agent's step needs a
    /// record, one bit per feed.
    pub fn streams_of(&self, agent: &Agent) -> u64 {
        if self.streams == 0 {
            return 0;
        }
        let done = self.steps[agent.step].sequence.clone().filter(|place| self.performs(agent, *place));
        done.fold(0, |streams, place| streams | self.steps[place].streams)
    }

    /// Returns the streamed feeds that any step uses.
    pub fn streams(&self) -> impl Iterator<Item = &Arc<FeedQueue>> {
        let feeds = self.feeds.iter().zip(0..).filter(|(_, number)| self.streams >> number & 1 == 1);
        feeds.filter_map(|(feed, _)| feed.stream())
    }

    /// Returns the request of the agent's step.
    #[inline]
    pub fn request(&self, agent: &Agent) -> &P::Request {
        &self.requests[agent.place.requests as usize + agent.step.index()]
    }
}

/// Returns the argument that the reason names, or else the whole step.
fn part_of(step: &plan::Step, reason: &str) -> TrialPart {
    let name = reason.split('`').skip(1).step_by(2).find_map(|name| step.with.get_key_value(name));
    match name {
        Some((argument, text)) => {
            TrialPart::Argument { step: step.name.clone(), argument: argument.clone(), text: text.clone() }
        }
        None => TrialPart::Step(step.name.clone()),
    }
}

/// Returns the names of all slots that steps fill.
fn slots(load: &Load) -> Result<Vec<String>, Error> {
    let mut slots: Vec<String> = load.all_steps().flat_map(|step| step.keep.keys().cloned()).collect();
    slots.sort_unstable();
    slots.dedup();
    if slots.len() > SLOTS {
        return Err(Error::Setting(format!(
            "a cycle may keep at most {SLOTS} values, but this cycle keeps {}",
            slots.len()
        )));
    }
    Ok(slots)
}

/// Returns the slots' names in the form that values refer to.
fn names_of_slots(slots: &[String]) -> Result<Box<[SlotName]>, Error> {
    let names: Option<_> = slots.iter().map(|slot| SlotName::of(slot)).collect();
    names.ok_or_else(|| Error::Setting("too many names of slots in this process".to_owned()))
}

/// Compiler of a group's steps.
struct ScriptCompiler<'a, P> {
    /// Services of the target, and then the sites.
    services: &'a [P],
    orders: &'a LoadOrder,
    /// Hosts that run the services' programs.
    hosts: &'a [ProgramHost],
    load: &'a Load,
    /// Index of the group's first step among the steps of all groups.
    first: usize,
    /// Whether each operation uses a new connection.
    closes: bool,
    names: &'a [String],
    slots: &'a [String],
    feeds: &'a [FeedRows],
    files: &'a ValueFiles,
    counters: &'a [String],
    program: Option<&'a Arc<Program>>,
}

impl<P: SessionProtocol> ScriptCompiler<'_, P> {
    fn step(&self, number: usize) -> Result<(CompiledStep, Vec<P::Request>), Error> {
        let step = &self.load.steps[number];
        self.compile(number, step).map_err(|reason| Error::Step { step: step.name.clone(), reason })
    }

    fn compile(&self, number: usize, step: &plan::Step) -> Result<(CompiledStep, Vec<P::Request>), String> {
        let mut known = P::INFO.operations.iter();
        let operation = match step.program {
            Some(_) if P::RUNS_PROGRAMS => known.next(),
            _ => known.find(|operation| operation.name == step.call),
        };
        let operation = operation.ok_or_else(|| format!("`{}` has no operation `{}`", P::INFO.name, step.call))?;
        let arguments = self.arguments(number, step)?;
        let mut wants = WantedFields::default();
        let expects = self.expects(number, step, &arguments, &mut wants)?;
        let keeps = self.keeps(step, &arguments, &mut wants)?;
        let audit = match &step.audit_as {
            Some(told) => Some(auditing::told_audit(told, &arguments, &mut wants, |text, stream| {
                self.text(number, text, stream)
            })?),
            None if step.audit => Some(auditing::known_audit(operation, &arguments, &mut wants)?),
            None => None,
        };
        let units = UnitCounter::compile(step, &mut wants)?.map(Box::new);
        let requests = self.requests(number, step, (operation, &arguments, &wants))?;
        let is_stream = requests.iter().any(P::is_stream);
        if step.stream.is_some() && !is_stream {
            return Err(format!(
                "`stream`: no answer to `{}` of `{}` is a stream of messages",
                step.call,
                P::INFO.name
            ));
        }
        let is_status = |expectation: &Expectation| {
            let field = &expectation.field;
            // An expectation that excludes a status does not turn a failure into an answer.
            wants.0[field.want] == "status" && field.place.is_none() && expectation.check.is_positive()
        };
        let status = expects.iter().position(is_status);
        let name = self.names.iter().position(|name| *name == step.name).unwrap_or(0);
        let asks_script = arguments.iter().any(|argument| argument.template.asks_script());
        // Keeping or auditing an argument may have to write the value of a script again.
        let is_costly = asks_script
            || expects.iter().any(Expectation::is_costly)
            || keeps.iter().any(CaptureSlot::is_costly)
            || units.as_ref().is_some_and(|units| units.is_costly());
        let expected = step.expect.iter().map(|(field, expected)| (field.clone(), expected.to_string())).collect();
        let compiled = CompiledStep {
            name,
            call: operation.name,
            needs: arguments.iter().fold(0, |slots, argument| slots | argument.template.slots()),
            keeps_cookies: self.load.cookies,
            site: step.site.as_deref().and_then(|site| {
                let place = self.load.used_sites().into_iter().position(|used| used == site)?;
                u16::try_from(place).ok()
            }),
            follows: step.follow.unwrap_or(self.load.follow) > 0,
            at_once: u16::try_from(step.at_once).unwrap_or(u16::MAX),
            block_end: self.first + self.block(number).end,
            arguments,
            expects,
            expected,
            status,
            keeps,
            is_costly,
            asks_script,
            every: u64::from(step.every.max(1)),
            chance: step.probability_pct.map_or(ALWAYS, chance),
            // A plan repeats a step at most 10,000 times.
            repeat: u16::try_from(step.repeat.max(1)).unwrap_or(u16::MAX),
            sequence: self.sequence(number),
            pause: StepPause::after(step, self.load),
            audit,
            streams: self.take_streams(),
            counters: counters::of_step(step, self.counters),
            units,
            times_answer: step.first_byte || is_stream,
        };
        Ok((compiled, requests))
    }

    /// Compiles the step's request for each service of the target. At a site, all are equal.
    fn requests(
        &self,
        number: usize,
        step: &plan::Step,
        (operation, arguments, wants): (&'static catalog::Operation, &[Argument], &WantedFields),
    ) -> Result<Vec<P::Request>, String> {
        let site = match &step.site {
            None => None,
            Some(name) => {
                Some(sites::service_of(self.orders, name).ok_or_else(|| format!("there is no site `{name}`"))?)
            }
        };
        let cookie_host = match self.orders.load.sites.is_empty() {
            true => String::new(),
            false => sites::cookie_host(self.services, site.unwrap_or(0) as usize),
        };
        let compile = |(index, service): (usize, &P)| {
            let service = site.and_then(|site| self.services.get(site as usize)).unwrap_or(service);
            let program = match (&step.program, self.hosts.get(index)) {
                (Some(program), Some(host)) => Some((program, &host.values)),
                (Some(_), None) => return Err("the target has no host to run the program on".to_owned()),
                (None, _) => None,
            };
            service.compile(&Call {
                number: self.first + number,
                operation,
                arguments,
                wants: &wants.0,
                program,
                closes: self.closes,
                cookies: self.load.cookies,
                cookie_host: &cookie_host,
                follow: step.follow.unwrap_or(self.load.follow),
                stream: step.stream.as_ref(),
            })
        };
        let of_target = self.services.iter().take(self.orders.services.len());
        of_target.enumerate().map(compile).collect()
    }

    /// Compiles the values that the step draws once for each operation. A value may use others.
    fn set_values<'s>(
        &'s self,
        number: usize,
        step: &'s plan::Step,
    ) -> Result<BTreeMap<&'s str, CompiledTemplate>, String> {
        let (kept, mut names) = (self.kept_before(number), self.names_of_values());
        let mut left: Vec<_> = step.set.iter().zip(SET_VALUES..).collect();
        while !left.is_empty() {
            let (mut later, count) = (Vec::new(), left.len());
            let mut reason = String::new();
            for ((name, text), stream) in left {
                let compiled: Vec<&str> = names.own.keys().copied().collect();
                match check_slots(text, &kept, &compiled) {
                    Ok(()) => {
                        let compiled = CompiledTemplate::compile(text, stream, &names);
                        let compiled = compiled.map_err(|reason| format!("`{name}`: {reason}"))?;
                        names.own.insert(name.as_str(), compiled);
                    }
                    Err(missing) => {
                        reason = format!("`{name}`: {missing}");
                        later.push(((name, text), stream));
                    }
                }
            }
            if later.len() == count {
                return Err(reason);
            }
            left = later;
        }
        Ok(names.own)
    }

    fn arguments(&self, number: usize, step: &plan::Step) -> Result<Vec<Argument>, String> {
        let names = TemplateNames { own: self.set_values(number, step)?, ..self.names_of_values() };
        let kept: Vec<&str> = self.kept_before(number).into_iter().chain(names.own.keys().copied()).collect();
        let compile = |(stream, (name, text)): (usize, (&String, &String))| {
            let compiled = check_slots(text, &kept, &[])
                .and_then(|()| {
                    let place = P::value_place(name, &step.with);
                    CompiledTemplate::compile_for(place, text, stream as u64, &names)
                })
                .map_err(|reason| format!("`{name}`: {reason}"));
            Ok(Argument { name: name.clone(), template: compiled? })
        };
        step.with.iter().enumerate().map(compile).collect()
    }

    /// Returns a note for each argument of the step in which a feed's values are not sent as they
    /// stand in its file.
    fn changed_values(&self, step: &plan::Step) -> Vec<Mistake> {
        let mut notes = Vec::new();
        for (name, text) in &step.with {
            for changed in encoding::changed_values(P::value_place(name, &step.with), text, self.feeds) {
                let ChangedValue { placeholder, value, sent } = changed;
                let (value, sent) = (excerpt::beginning(value.as_bytes(), 40), excerpt::beginning(sent.as_bytes(), 60));
                notes.push(Mistake {
                    part: TrialPart::Step(step.name.clone()),
                    reason: format!(
                        "`{}`: `{name}` encodes {{{placeholder}}}: `{value}` is sent as `{sent}`. If the file's values are \
                         encoded already, write {{{placeholder}|raw}}",
                        step.name
                    ),
                    is_note: true,
                });
            }
        }
        notes
    }

    /// Compiles the step's expectations. A slot that only this step fills, from an argument of its
    /// request, stands for that argument.
    fn expects(
        &self,
        number: usize,
        step: &plan::Step,
        arguments: &[Argument],
        wants: &mut WantedFields,
    ) -> Result<Vec<Expectation>, String> {
        let kept = self.kept_before(number);
        let mut own = self.set_values(number, step)?;
        for (slot, what) in step.keep.iter().filter(|(slot, _)| !kept.contains(&slot.as_str())) {
            let SlotContent::Whole(what) = what else { continue };
            let argument =
                what.strip_prefix("request.").and_then(|name| arguments.iter().find(|argument| argument.name == name));
            if let Some(argument) = argument {
                own.insert(slot.as_str(), argument.template.clone());
            }
        }
        let own_slots: Vec<&str> = own.keys().copied().collect();
        let names = TemplateNames { own, ..self.names_of_values() };
        let mut stream = EXPECTATIONS;
        let mut template = |text: &str| {
            check_slots(text, &kept, &own_slots)?;
            stream += 1;
            CompiledTemplate::compile(text, stream - 1, &names)
        };
        let compile = |(field, expected): (&String, &Expected)| {
            let compiler = expectation::ExpectationCompiler { template: &mut template, program: self.program };
            Expectation::compile(field, expected, wants, compiler)
        };
        step.expect.iter().map(compile).collect()
    }

    fn keeps(
        &self,
        step: &plan::Step,
        arguments: &[Argument],
        wants: &mut WantedFields,
    ) -> Result<Vec<CaptureSlot>, String> {
        let keep = |(slot, kept): (&String, &SlotContent)| {
            let place = self.slots.iter().position(|known| known == slot);
            let slot = place.and_then(|place| u8::try_from(place).ok()).ok_or("too many slots")?;
            CaptureSlot::compile(slot, kept, arguments, wants)
        };
        let mut keeps = step.keep.iter().map(keep).collect::<Result<Vec<_>, String>>()?;
        // The request's values are kept first, because the answer may overwrite slots that the
        // request uses.
        keeps.sort_by_key(|keep| matches!(keep.what, OperationPart::Answer(_)));
        Ok(keeps)
    }

    /// Compiles a text of step `number` that is not an argument.
    fn text(&self, number: usize, text: &str, stream: u64) -> Result<CompiledTemplate, String> {
        let own = self.set_values(number, &self.load.steps[number])?;
        check_slots(text, &self.kept_before(number), &own.keys().copied().collect::<Vec<_>>())?;
        CompiledTemplate::compile(text, stream, &TemplateNames { own, ..self.names_of_values() })
    }

    /// Returns the streamed feeds used by the templates that were compiled since the last call, one
    /// bit per feed.
    fn take_streams(&self) -> u64 {
        let used = self.feeds.iter().map(|feed| feed.take_use() && feed.stream().is_some());
        used.zip(0..).fold(0, |streams, (is_used, number)| streams | u64::from(is_used) << number)
    }

    fn names_of_values(&self) -> TemplateNames<'_> {
        TemplateNames {
            slots: self.slots,
            feeds: self.feeds,
            files: Some(self.files),
            counters: self.counters,
            program: self.program,
            own: BTreeMap::new(),
        }
    }

    /// Returns the slots that are filled when step `number` begins, by the steps that come before
    /// all cycles and by earlier steps of its sequence.
    fn kept_before(&self, number: usize) -> Vec<&str> {
        let first = self.sequence(number).start - self.first;
        let once = &self.load.steps[..first.min(self.load.steps_on_start())];
        // Operations that are sent at once do not wait for each other's values.
        let before = once.iter().chain(&self.load.steps[first..self.block(number).start]);
        before.flat_map(|step| step.keep.keys().map(String::as_str)).collect()
    }

    /// Returns the indexes in the group of the steps that are performed at once with step `number`.
    fn block(&self, number: usize) -> Range<usize> {
        let steps = &self.load.steps;
        let before = steps[..=number].iter().rev().take_while(|step| step.beside).count();
        let behind = steps[number + 1..].iter().take_while(|step| step.beside).count();
        number - before..number + 1 + behind
    }

    /// Returns the indexes of the steps in the sequence of step `number`, among the steps of all
    /// groups.
    fn sequence(&self, number: usize) -> Range<usize> {
        let mut start = self.first + self.load.steps_on_start();
        if self.first + number < start {
            return self.first..start;
        }
        for sequence in self.load.sequences() {
            if self.first + number < start + sequence.len() {
                return start..start + sequence.len();
            }
            start += sequence.len();
        }
        start..start
    }
}

/// Whether agents may perform operations at once.
fn has_lanes(load: &Load) -> bool {
    load.all_steps().any(|step| step.at_once > 0)
}

fn check_slots(text: &str, kept: &[&str], own: &[&str]) -> Result<(), String> {
    let parsed = experiment::template::Template::parse(text).map_err(|error| format!("`{text}`: {error}"))?;
    for part in parsed.all_parts() {
        if let experiment::template::TemplatePart::Slot(slot) = part
            && !kept.contains(&slot.as_str())
            && !own.contains(&slot.as_str())
        {
            return Err(format!("`{text}`: no earlier step of the cycle keeps `{slot}`"));
        }
    }
    Ok(())
}

/// Returns the bound below which draws of 64 bits are with this probability.
fn chance(pct: f64) -> u64 {
    if pct >= 100.0 { ALWAYS } else { (pct / 100.0 * ALWAYS as f64) as u64 }
}

/// Longest time of a timer, in seconds: 100 days.
const LONGEST_S: f64 = 8_640_000.0;

/// Converts seconds to nanoseconds.
pub fn ns(time_s: f64) -> u64 {
    (time_s.clamp(0.0, LONGEST_S) * NS_PER_S as f64).round() as u64
}

/// Returns the names of all operations, in the order in which they are counted.
pub fn operation_names(load: &Load) -> Vec<String> {
    let mut names: Vec<String> = load.all_steps().map(|step| step.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Transposes requests: from one list per step, with a request for each service, to the requests of
/// each service in the order of the steps.
pub fn by_service<R>(by_step: Vec<Vec<R>>) -> Vec<R> {
    let mut by_step: Vec<_> = by_step.into_iter().map(Vec::into_iter).collect();
    let mut requests = Vec::new();
    loop {
        let before = requests.len();
        requests.extend(by_step.iter_mut().filter_map(Iterator::next));
        if requests.len() == before {
            return requests;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_by_service() {
        assert_eq!(by_service(vec![vec!["a1", "b1"], vec!["a2", "b2"]]), ["a1", "a2", "b1", "b2"]);
        assert_eq!(by_service::<u8>(Vec::new()), [0; 0]);
    }
}
