//! Orders compiled into what the threads play: requests, expectations, captures and times, all resolved to numbers. Read-only
//! while the load runs; nothing here touches the network.

use std::collections::BTreeMap;
use std::sync::Arc;

use experiment::plan::{self, Order};

use super::agent::{Agent, Place};
use super::audit::{self, Audit};
use crate::protocols::{Call, Protocol};
use crate::schedules::closed::Closed;
use crate::schedules::open::RATES;
use crate::schedules::{self, Schedule};
use crate::values::feeds::Feed;
use crate::values::{Argument, Names, Template};
use crate::{Error, Orders, Purpose};

pub const NS_PER_S: u64 = 1_000_000_000;
/// Slots that agents may fill.
const SLOTS: usize = 32;
/// Longest time of a timer: 100 days.
const LONGEST_S: f64 = 8_640_000.0;
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
    /// Agents in all.
    pub agents: u32,
    /// When operations start.
    pub schedule: Box<dyn Schedule>,
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
    /// Length of an outcome slot.
    pub slot_ns: u64,
    /// Where to connect to: `host:port` of every service.
    pub authorities: Vec<String>,
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
    /// Done in every n-th cycle.
    pub every: u64,
    /// What of it goes to the history, if anything.
    pub audit: Option<Audit>,
}

/// A field of the answer and the value that it must have.
pub struct Expectation {
    /// Number of the field.
    pub want: usize,
    /// The value.
    pub value: Template,
}

/// A value that is kept, and where.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    /// Where.
    pub slot: u8,
    /// What.
    pub what: Part,
}

/// A part of an operation.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// The argument at that place.
    Argument(usize),
    /// The wanted field of that number.
    Answer(usize),
}

impl<P: Protocol> Script<P> {
    /// Compiles the orders for its services.
    ///
    /// # Errors
    /// Whatever makes no sense, by step.
    pub fn compile(orders: &Orders) -> Result<Self, Error> {
        let load = &orders.load;
        check_settings(orders)?;
        let open =
            |service: &String| P::open(service).map_err(|reason| Error::Service { service: service.clone(), reason });
        let services: Vec<P> = orders.services.iter().map(open).collect::<Result<_, _>>()?;
        let feeds: Vec<Feed> =
            load.feeds.iter().map(|feed| Feed::read(feed, &orders.files)).collect::<Result<_, _>>()?;
        let mut names: Vec<String> = load.steps.iter().map(|step| step.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let compiler = Compiler { services: &services, load, names: &names, slots: slots(load)?, feeds: &feeds };
        let compiled = (0..load.steps.len()).map(|number| compiler.step(number)).collect::<Result<Vec<_>, _>>()?;
        let slots = compiler.slots.len();
        let (steps, by_step): (Vec<Step>, Vec<Vec<P::Request>>) = compiled.into_iter().unzip();
        let (tries, wait_s) = match load.retry {
            plan::Retry::FailFast => (1, 0.0),
            plan::Retry::Wait { wait_s } => (u32::MAX, wait_s),
            plan::Retry::Tries { tries, wait_s } => (tries.max(1), wait_s),
        };
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
            agents: load.agents,
            schedule: schedules::of(load.rate, closed),
            tries,
            wait_ns: ns(wait_s),
            timeout_ns: ns(load.timeout_s),
            reconnect_ns: ns(load.reconnect_s),
            drain_ns: ns(load.drain_s),
            purpose: orders.purpose,
            seed: orders.seed,
            threads: threads(load),
            slot_ns: ns(orders.slot_s).max(1),
            authorities: services.iter().map(|service| service.authority().to_owned()).collect(),
        })
    }

    /// Where agent `number` (from 1) goes.
    pub fn place_of(&self, number: u32) -> Place {
        let services = u32::try_from(self.authorities.len()).unwrap_or(u32::MAX).max(1);
        let service = number.wrapping_sub(1) % services;
        Place { service, requests: service * u32::try_from(self.steps.len()).unwrap_or(0) }
    }

    /// The request of the agent's step.
    #[inline]
    pub fn request(&self, agent: &Agent<P>) -> &P::Request {
        &self.requests[agent.place.requests as usize + usize::from(agent.step)]
    }
}

/// From each step's requests, one for each service, to each service's requests, one for each step.
fn by_service<R>(by_step: Vec<Vec<R>>) -> Vec<R> {
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

fn check_settings(orders: &Orders) -> Result<(), Error> {
    let load = &orders.load;
    if orders.services.is_empty() {
        return Err(Error::Setting("a load needs a service to go to".to_owned()));
    }
    if load.agents == 0 || load.steps.is_empty() {
        return Err(Error::Setting("a load needs at least one agent and one step".to_owned()));
    }
    let times = [load.ramp_s, load.time_s, load.timeout_s, load.drain_s, load.think_s, load.reconnect_s, orders.slot_s];
    if !times.iter().all(|time_s| time_s.is_finite() && *time_s >= 0.0) || load.timeout_s <= 0.0 || orders.slot_s <= 0.0
    {
        return Err(Error::Setting("a time of the load is negative, or `timeout` is 0".to_owned()));
    }
    if load.rate.is_some_and(|rate| !RATES.contains(&rate)) {
        let (slowest, fastest) = (RATES.start(), RATES.end());
        return Err(Error::Setting(format!("`rate` is from {slowest} to {fastest:e} operations/s")));
    }
    if load.rate.is_some() && load.think_s > 0.0 {
        return Err(Error::Setting(
            "`think` and `rate` exclude each other: a pause belongs to a closed loop".to_owned(),
        ));
    }
    Ok(())
}

fn ns(time_s: f64) -> u64 {
    (time_s.clamp(0.0, LONGEST_S) * NS_PER_S as f64).round() as u64
}

fn threads(load: &plan::Load) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let half = u32::try_from(cores / 2).unwrap_or(1).max(1);
    load.threads.unwrap_or(half).clamp(1, load.agents)
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
        let call = Call { number, operation, arguments: &arguments, wants: &wants.0 };
        let requests = self.services.iter().map(|service| service.compile(&call)).collect::<Result<_, _>>()?;
        let status = expects.iter().position(|expectation| wants.0[expectation.want] == "status");
        let name = self.names.iter().position(|name| *name == step.name).unwrap_or(0);
        let every = u64::from(step.every.max(1));
        Ok((Step { name, arguments, expects, status, keeps, every, audit }, requests))
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
            let argument =
                what.strip_prefix("request.").and_then(|name| arguments.iter().find(|argument| argument.name == name));
            if let Some(argument) = argument {
                own.insert(slot.as_str(), argument.template.clone());
            }
        }
        let own_slots: Vec<&str> = own.keys().copied().collect();
        let names = Names { slots: &self.slots, feeds: self.feeds, own };
        let compile = |(stream, (field, text)): (usize, (&String, &String))| {
            check_slots(text, &kept, &own_slots)?;
            let value = Template::compile(text, EXPECTATIONS + stream as u64, &names)?;
            Ok(Expectation { want: wants.number(field), value })
        };
        step.expect.iter().enumerate().map(compile).collect()
    }

    fn keeps(&self, step: &plan::Step, arguments: &[Argument], wants: &mut Wants) -> Result<Vec<Keep>, String> {
        let keep = |(slot, what): (&String, &String)| {
            let place = self.slots.iter().position(|known| known == slot);
            let slot = place.and_then(|place| u8::try_from(place).ok()).ok_or("too many slots")?;
            Ok(Keep { slot, what: part(what, arguments, wants)? })
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
        Names { slots: &self.slots, feeds: self.feeds, own: BTreeMap::new() }
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

/// Fields of the answer that are asked for, by number.
#[derive(Default)]
pub struct Wants(Vec<String>);

impl Wants {
    /// The number of a field, a new one if it has none yet.
    pub fn number(&mut self, field: &str) -> usize {
        self.0.iter().position(|known| known == field).unwrap_or_else(|| {
            self.0.push(field.to_owned());
            self.0.len() - 1
        })
    }
}

/// `request.FIELD` or `answer.FIELD`.
pub fn part(text: &str, arguments: &[Argument], wants: &mut Wants) -> Result<Part, String> {
    if let Some(name) = text.strip_prefix("request.") {
        let place = arguments.iter().position(|argument| argument.name == name);
        Ok(Part::Argument(place.ok_or_else(|| format!("the request is given no `{name}` to keep"))?))
    } else if let Some(field) = text.strip_prefix("answer.") {
        Ok(Part::Answer(wants.number(field)))
    } else {
        Err(format!("`{text}` is neither request.FIELD nor answer.FIELD"))
    }
}
