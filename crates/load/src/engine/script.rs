//! Orders compiled into what the threads play: requests, expectations, captures and times, all resolved to numbers. Read-only
//! while the load runs; nothing here touches the network.

use std::collections::BTreeMap;
use std::sync::Arc;

use experiment::plan::{self, Expected, Kept, Order};

use super::agent::{Agent, Place};
use super::audit::{self, Audit};
use super::expectation::{self, Expectation, Keep};
use super::field::{Part, Wants};
use super::places::{Places, by_service};
use super::sealed::peers;
use super::settings::{self, ns};
use crate::protocols::{Call, Protocol};
use crate::schedules::closed::Closed;
use crate::schedules::{self, Schedule};
use crate::tls::Peers;
use crate::values::feeds::Feed;
use crate::values::lua::Program;
use crate::values::{Argument, Names, Template};
use crate::{Error, Orders, Purpose};

pub const NS_PER_S: u64 = 1_000_000_000;
/// Slots that agents may fill.
const SLOTS: usize = 32;
/// Streams of random numbers: arguments count from 0, expectations from here.
const EXPECTATIONS: u64 = 1000;

/// A compiled load.
pub struct Script<P: Protocol> {
    /// The steps.
    pub steps: Vec<Step>,
    /// The request of every step to the first service, then those to the second, …: a request may name where it goes.
    requests: Vec<P::Request>,
    /// Names that operations are counted under.
    pub names: Arc<[String]>,
    /// How agents go through the steps.
    pub order: Order,
    /// Whether a wrong answer ends its cycle.
    pub wrong_ends_cycle: bool,
    /// Sums of the weights, for a mix.
    pub weights: Vec<u64>,
    /// Slots of an agent.
    pub slots: usize,
    /// Files that values come from.
    pub feeds: Vec<Feed>,
    /// The script that values come from, if there is one.
    pub program: Option<Arc<Program>>,
    /// Agents in all.
    pub agents: u32,
    /// When operations start.
    pub schedule: Box<dyn Schedule>,
    /// Bounds the operations that are due and have not begun.
    pub backlog: Option<plan::Backlog>,
    /// How often an operation is attempted at most, and the pause between.
    pub tries: u32,
    /// Pause between attempts.
    pub wait_ns: u64,
    /// Of each attempt.
    pub timeout_ns: u64,
    /// Pause after a failed connect.
    pub reconnect_ns: u64,
    /// Given to open operations at the end.
    pub drain_ns: u64,
    /// What for.
    pub purpose: Purpose,
    /// Every random choice follows from it.
    pub seed: u64,
    /// Threads.
    pub threads: u32,
    /// Who goes where.
    pub places: Places,
    /// Length of an outcome slot.
    pub slot_ns: u64,
    /// Whether connections are kept between operations.
    pub keep_alive: bool,
    /// Whether an io_uring may carry bytes.
    pub may_ring: bool,
    /// The services that are spoken to by TLS, if any are.
    pub peers: Option<Peers>,
    /// Where to connect to, and what is said first there.
    pub services: Vec<P>,
    /// What ties programs to this process.
    pub tether: Option<crate::attendant::Tether>,
}

/// A compiled step.
pub struct Step {
    /// Number of its name.
    pub name: usize,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// What the answer has to be.
    pub expects: Vec<Expectation>,
    /// Which of the expectations is about the status, if one is.
    pub status: Option<usize>,
    /// What is kept of it.
    pub keeps: Vec<Keep>,
    /// Whether any of these takes more than comparing or copying bytes.
    pub looks_closely: bool,
    /// Whether its request takes calling a script.
    pub asks_script: bool,
    /// Done in every n-th cycle.
    pub every: u64,
    /// What of it goes to the history, if anything.
    pub audit: Option<Audit>,
}

impl<P: Protocol> Script<P> {
    /// Compiles the orders for its services.
    ///
    /// # Errors
    /// Whatever makes no sense, by step.
    pub fn compile(orders: &Orders) -> Result<Self, Error> {
        let load = &orders.load;
        settings::check(orders)?;
        let open =
            |service: &String| P::open(service).map_err(|reason| Error::Service { service: service.clone(), reason });
        let services: Vec<P> = orders.services.iter().map(open).collect::<Result<_, _>>()?;
        let peers = peers(orders, &services)?;
        let feeds = load.feeds.iter().map(|feed| Feed::read(feed, &orders.files)).collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<String> = load.steps.iter().map(|step| step.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let slots = slots(load)?;
        let program = load.script.as_ref().map(|file| Program::read(file, &orders.files, &slots)).transpose()?;
        let compiler =
            Compiler { services: &services, load, names: &names, slots, feeds: &feeds, program: program.as_ref() };
        let compiled = (0..load.steps.len()).map(|number| compiler.step(number)).collect::<Result<Vec<_>, _>>()?;
        let slots = compiler.slots.len();
        let (steps, by_step): (Vec<Step>, Vec<Vec<P::Request>>) = compiled.into_iter().unzip();
        let (tries, wait_s) = match load.retry {
            plan::Retry::FailFast => (1, 0.0),
            plan::Retry::Wait { wait_s } => (u32::MAX, wait_s),
            plan::Retry::Tries { tries, wait_s } => (tries.max(1), wait_s),
        };
        let places = Places::of(load, services.len())?;
        let (ramp_ns, think_ns) = (ns(load.ramp_s), ns(load.think_s));
        let end_ns = match orders.purpose {
            Purpose::Measure => ns(load.time_s),
            Purpose::Prepare { .. } => u64::MAX,
        };
        let closed = Closed { agents: load.agents, ramp_ns, think_ns, spread_pct: load.think_spread_pct, end_ns };
        Ok(Self {
            steps,
            requests: by_service(by_step),
            names: names.into(),
            order: load.order,
            wrong_ends_cycle: load.when_failed == plan::WhenFailed::NextCycle,
            weights: sums(load),
            slots,
            feeds,
            program,
            agents: load.agents,
            schedule: schedules::of(load, closed, orders.seed, &orders.files)?,
            backlog: load.backlog,
            tries,
            wait_ns: ns(wait_s),
            timeout_ns: ns(load.timeout_s),
            reconnect_ns: ns(load.reconnect_s),
            drain_ns: ns(load.drain_s),
            purpose: orders.purpose,
            seed: orders.seed,
            threads: places.threads,
            places,
            slot_ns: ns(orders.slot_s).max(1),
            keep_alive: load.connections.keep_alive,
            may_ring: !orders.without_ring,
            peers,
            services,
            tether: orders.tether,
        })
    }

    /// Where agent `number` (from 1) goes.
    pub fn place_of(&self, number: u32) -> Place {
        let service = self.places.service_of(number);
        Place { service, requests: service * u32::try_from(self.steps.len()).unwrap_or(0) }
    }

    /// The request of the agent's step.
    #[inline]
    pub fn request(&self, agent: &Agent) -> &P::Request {
        &self.requests[agent.place.requests as usize + usize::from(agent.step)]
    }
}

fn sums(load: &plan::Load) -> Vec<u64> {
    let mut sum = 0;
    let add = |step: &plan::Step| {
        sum += u64::from(step.weight.max(1));
        sum
    };
    load.steps.iter().map(add).collect()
}

/// Every slot that a step keeps something in.
fn slots(load: &plan::Load) -> Result<Vec<String>, Error> {
    let mut slots: Vec<String> = load.steps.iter().flat_map(|step| step.keep.keys().cloned()).collect();
    slots.sort_unstable();
    slots.dedup();
    if slots.len() > SLOTS {
        return Err(Error::Setting(format!("a cycle keeps at most {SLOTS} values; this one has {}", slots.len())));
    }
    Ok(slots)
}

struct Compiler<'a, P> {
    services: &'a [P],
    load: &'a plan::Load,
    names: &'a [String],
    slots: Vec<String>,
    feeds: &'a [Feed],
    program: Option<&'a Arc<Program>>,
}

impl<P: Protocol> Compiler<'_, P> {
    fn step(&self, number: usize) -> Result<(Step, Vec<P::Request>), Error> {
        let step = &self.load.steps[number];
        self.compile(number, step).map_err(|reason| Error::Step { step: step.name.clone(), reason })
    }

    fn compile(&self, number: usize, step: &plan::Step) -> Result<(Step, Vec<P::Request>), String> {
        let operation = P::INFO
            .operations
            .iter()
            .find(|operation| operation.name == step.call)
            .ok_or_else(|| format!("`{}` has no operation `{}`", P::INFO.name, step.call))?;
        let arguments = self.arguments(number, step)?;
        let mut wants = Wants::default();
        let expects = self.expects(number, step, &arguments, &mut wants)?;
        let keeps = self.keeps(step, &arguments, &mut wants)?;
        let audit = match &step.audit_as {
            Some(told) => {
                Some(audit::told(told, &arguments, &mut wants, |text, stream| self.text(number, text, stream))?)
            }
            None if step.audit => Some(audit::known(operation, &arguments, &mut wants)?),
            None => None,
        };
        let closes = !self.load.connections.keep_alive;
        let call = Call { number, operation, arguments: &arguments, wants: &wants.0, closes };
        let requests = self.services.iter().map(|service| service.compile(&call)).collect::<Result<_, _>>()?;
        let is_status = |expectation: &Expectation| {
            let field = &expectation.field;
            // What the status must not be does not make a failure an answer.
            wants.0[field.want] == "status" && field.place.is_none() && expectation.check.is_positive()
        };
        let status = expects.iter().position(is_status);
        let name = self.names.iter().position(|name| *name == step.name).unwrap_or(0);
        let every = u64::from(step.every.max(1));
        let asks_script = arguments.iter().any(|argument| argument.template.asks_script());
        // What a script gave may have to be written again.
        let looks_closely =
            asks_script || expects.iter().any(Expectation::looks_closely) || keeps.iter().any(Keep::looks_closely);
        Ok((Step { name, arguments, expects, status, keeps, looks_closely, asks_script, every, audit }, requests))
    }

    fn arguments(&self, number: usize, step: &plan::Step) -> Result<Vec<Argument>, String> {
        let names = self.names_of_values();
        let kept = self.kept_before(number);
        let compile = |(stream, (name, text)): (usize, (&String, &String))| {
            check_slots(text, &kept, &[])?;
            let template = Template::compile(text, stream as u64, &names)?;
            Ok(Argument { name: name.clone(), template })
        };
        step.with.iter().enumerate().map(compile).collect()
    }

    /// A slot that only this very step fills from its request stands for that argument.
    fn expects(
        &self,
        number: usize,
        step: &plan::Step,
        arguments: &[Argument],
        wants: &mut Wants,
    ) -> Result<Vec<Expectation>, String> {
        let kept = self.kept_before(number);
        let mut own = BTreeMap::new();
        for (slot, what) in step.keep.iter().filter(|(slot, _)| !kept.contains(&slot.as_str())) {
            let Kept::Whole(what) = what else { continue };
            let argument =
                what.strip_prefix("request.").and_then(|name| arguments.iter().find(|argument| argument.name == name));
            if let Some(argument) = argument {
                own.insert(slot.as_str(), argument.template.clone());
            }
        }
        let own_slots: Vec<&str> = own.keys().copied().collect();
        let names = Names { slots: &self.slots, feeds: self.feeds, program: self.program, own };
        let mut stream = EXPECTATIONS;
        let mut template = |text: &str| {
            check_slots(text, &kept, &own_slots)?;
            stream += 1;
            Template::compile(text, stream - 1, &names)
        };
        let compile = |(field, expected): (&String, &Expected)| {
            let compiler = expectation::Compiler { template: &mut template, program: self.program };
            Expectation::compile(field, expected, wants, compiler)
        };
        step.expect.iter().map(compile).collect()
    }

    fn keeps(&self, step: &plan::Step, arguments: &[Argument], wants: &mut Wants) -> Result<Vec<Keep>, String> {
        let keep = |(slot, kept): (&String, &Kept)| {
            let place = self.slots.iter().position(|known| known == slot);
            let slot = place.and_then(|place| u8::try_from(place).ok()).ok_or("too many slots")?;
            Keep::compile(slot, kept, arguments, wants)
        };
        let mut keeps = step.keep.iter().map(keep).collect::<Result<Vec<_>, String>>()?;
        // What was sent is kept before slots that it was made of are filled from the answer.
        keeps.sort_by_key(|keep| matches!(keep.what, Part::Answer(_)));
        Ok(keeps)
    }

    /// A text of step `number` beside its arguments.
    fn text(&self, number: usize, text: &str, stream: u64) -> Result<Template, String> {
        check_slots(text, &self.kept_before(number), &[])?;
        Template::compile(text, stream, &self.names_of_values())
    }

    fn names_of_values(&self) -> Names<'_> {
        Names { slots: &self.slots, feeds: self.feeds, program: self.program, own: BTreeMap::new() }
    }

    /// Slots that are filled when step `number` begins. A mix has no earlier steps.
    fn kept_before(&self, number: usize) -> Vec<&str> {
        match self.load.order {
            Order::Mix => Vec::new(),
            Order::Cycle => {
                self.load.steps[..number].iter().flat_map(|step| step.keep.keys().map(String::as_str)).collect()
            }
        }
    }
}

fn check_slots(text: &str, kept: &[&str], own: &[&str]) -> Result<(), String> {
    let parsed = experiment::template::Template::parse(text).map_err(|error| format!("`{text}`: {error}"))?;
    for part in &parsed.parts {
        if let experiment::template::Part::Slot(slot) = part
            && !kept.contains(&slot.as_str())
            && !own.contains(&slot.as_str())
        {
            return Err(format!("`{text}`: no earlier step of the cycle keeps `{slot}`"));
        }
    }
    Ok(())
}
