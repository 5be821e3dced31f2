//! Agent groups of a load, compiled: the steps, pace and start times of each group's agents. A load
//! without groups has a single group.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use experiment::plan::{self, Load, StepOrder};
use experiment::template::{self, TemplatePart};
use wire::values::feeds::FeedRows;
use wire::values::mix;

use super::ids::indexed_by;
use super::script::ns;
use super::sites;
use crate::schedules::closed::Closed;
use crate::schedules::presence::Presence;
use crate::schedules::{self, Schedule};
use crate::{Error, LoadOrder, LoadPurpose};

/// Makes the values of a preparation differ from the values of the load.
const PREPARE_SEED: u64 = 0x7072_6570_6172_6521;

/// Id of a group of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupId(u16);

impl GroupId {
    /// Returns the id of the group at this index. Every index fits into an id.
    pub const fn at(index: usize) -> Self {
        Self(index as u16)
    }

    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Origin of the starts of a group's operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopKind {
    /// Closed loop: each operation follows the agent's last operation.
    Closed,
    /// Open loop: a schedule starts each operation.
    OpenOperations,
    /// Open loop: a schedule starts each session, which is a cycle. Later operations of the session
    /// follow as in a closed loop.
    OpenSessions,
}

impl LoopKind {
    fn of(load: &Load) -> Self {
        match &load.rate {
            None => Self::Closed,
            Some(rate) if rate.is_of_sessions() => Self::OpenSessions,
            Some(_) => Self::OpenOperations,
        }
    }

    /// Whether the schedule fixes starts beforehand, so that a start is due even if all agents are
    /// busy.
    #[inline]
    pub fn is_fixed(self) -> bool {
        self != Self::Closed
    }

    /// Whether an operation takes a start of the schedule. `begins_cycle` says whether the
    /// operation begins a cycle.
    #[inline]
    pub fn is_scheduled(self, begins_cycle: bool) -> bool {
        match self {
            Self::Closed => false,
            Self::OpenOperations => true,
            Self::OpenSessions => begins_cycle,
        }
    }
}

/// A group of agents with the same steps and pace.
pub struct AgentGroup {
    /// Number of agents in the groups before this group. The numbers of the group's own agents
    /// follow.
    pub before: u32,
    /// Number of agents.
    pub agents: u32,
    /// Number of copies of the load, to which the agents are assigned in turn.
    pub copies: u32,
    /// Range of the group's steps among the steps of all groups.
    pub steps: Range<usize>,
    /// Range of the steps that each agent performs once, before its cycles.
    pub on_start: Range<usize>,
    /// Slots that these steps keep, one bit per slot. They last for all cycles.
    pub lasting: u32,
    /// Services of the sites that the group's steps go to. Each agent has a connection to each.
    pub sites: Vec<u32>,
    /// Most operations of an agent that are sent at once; 0 if no operations are.
    pub lanes: u32,
    /// Order in which agents perform the steps.
    pub order: StepOrder,
    /// Whether a wrong answer ends the agent's cycle.
    pub wrong_ends_cycle: bool,
    /// Running sums of the weights of the group's sequences: entries of a mix, or the whole cycle.
    pub weights: Vec<u64>,
    /// Index of the first step of each sequence.
    pub firsts: Vec<usize>,
    /// Maximum number of cycles in a row of which only the last has a step.
    pub shortest: u64,
    /// Whether the group's cycles take a row of each feed, indexed by feed.
    pub takes: Vec<bool>,
    /// Start times of operations or sessions. Agents of the group are numbered from 0.
    pub schedule: Box<dyn Schedule>,
    /// Times at which the agents are present, if they come and go.
    pub presence: Option<Presence>,
    pub kind: LoopKind,
    /// Whether operations are started by a timer and not by the end of the previous operation.
    pub is_timed: bool,
    /// Limit on the number of operations that are due and have not begun.
    pub backlog: Option<plan::Backlog>,
    /// Maximum number of attempts of an operation.
    pub tries: u32,
    /// Pause between two attempts.
    pub wait_ns: u64,
    /// Timeout of each attempt.
    pub timeout_ns: u64,
    /// Seed of all random choices of the group's agents.
    pub seed: u64,
    count: Option<CycleBound>,
}

indexed_by!(GroupId, Vec<AgentGroup>, AgentGroup);

/// A limit on the cycles of a group. Threads share the counters.
struct CycleBound {
    most: u64,
    /// Whether the limit applies to each agent, and not to all agents together.
    is_each: bool,
    begun: AtomicU64,
    /// Number of agents that may still get a cycle.
    working: AtomicU32,
}

impl AgentGroup {
    /// Compiles the group that follows `before` other agents and owns the given steps.
    ///
    /// # Errors
    /// If a recorded schedule cannot be read.
    pub fn compile(
        load: &Load,
        (before, steps): (u32, Range<usize>),
        feeds: &[FeedRows],
        orders: &LoadOrder,
    ) -> Result<Self, Error> {
        let (tries, wait_s) = match load.retry {
            plan::Retry::FailFast => (1, 0.0),
            plan::Retry::Wait { wait_s } => (u32::MAX, wait_s),
            plan::Retry::Tries { tries, wait_s } => (tries.max(1), wait_s),
        };
        let end_ns = match orders.purpose {
            LoadPurpose::Measure => ns(orders.load.time_s),
            LoadPurpose::Prepare { .. } => u64::MAX,
        };
        let closed = Closed { agents: load.agents, ramp_ns: ns(load.ramp_s), end_ns };
        // The values that a group draws do not depend on other groups.
        let name = load.name.as_deref().unwrap_or_default();
        let seed = name.bytes().fold(orders.seed, |seed, byte| mix(seed ^ mix(u64::from(byte))));
        let used = used_feeds(load);
        let certain = load.sequences().flatten().filter(|step| step.is_certain());
        let shortest = certain.map(|step| u64::from(step.every.max(1))).min().unwrap_or(1);
        let on_start = steps.start..steps.start + load.steps_on_start();
        let mut next = on_start.end;
        let first = |sequence: &[plan::Step]| {
            next += sequence.len();
            next - sequence.len()
        };
        let firsts = load.sequences().map(first).collect();
        Ok(Self {
            before,
            agents: load.agents,
            copies: load.copies.max(1),
            steps,
            order: load.order,
            wrong_ends_cycle: load.when_failed == plan::WhenFailed::NextCycle,
            weights: sums(load),
            firsts,
            on_start,
            lasting: 0,
            sites: sites::services_of(orders, load),
            lanes: if load.steps.iter().any(|step| step.at_once > 0) { load.at_once() } else { 0 },
            shortest,
            takes: feeds
                .iter()
                .map(|feed| load.name.is_none() || used.iter().any(|name| name == feed.name()))
                .collect(),
            is_timed: load.is_paced(),
            kind: LoopKind::of(load),
            presence: (!load.agent_stages.is_empty()).then(|| Presence::new(&load.agent_stages, end_ns)),
            schedule: schedules::of(load, closed, seed, &orders.files)?,
            backlog: load.backlog,
            tries,
            wait_ns: ns(wait_s),
            timeout_ns: ns(load.timeout_s),
            seed: match orders.purpose {
                LoadPurpose::Measure => seed,
                LoadPurpose::Prepare { .. } => mix(seed ^ PREPARE_SEED),
            },
            count: load.count.or(load.iterations).map(|most| CycleBound {
                most,
                is_each: load.count.is_none(),
                begun: AtomicU64::new(0),
                working: AtomicU32::new(load.agents),
            }),
        })
    }

    /// Returns the number, from 1, of the copy of the load to which the agent at this place
    /// belongs.
    #[inline]
    pub fn copy_of(&self, place_in_group: u32) -> u32 {
        place_in_group % self.copies + 1
    }

    /// Takes a cycle for an agent that has begun `begun` cycles. Returns false if the limit is
    /// reached. Threads share a counter only if the cycles of all agents are limited.
    pub fn take_cycle(&self, begun: u64) -> bool {
        let Some(bound) = &self.count else { return true };
        let is_left = match bound.is_each {
            true => begun < bound.most,
            false => bound.begun.fetch_add(1, Ordering::Relaxed) < bound.most,
        };
        if !is_left {
            bound.working.fetch_sub(1, Ordering::SeqCst);
        }
        is_left
    }

    /// Whether all cycles of the group are done, or `None` if the cycles have no limit.
    pub fn has_done_all(&self) -> Option<bool> {
        self.count.as_ref().map(|bound| bound.working.load(Ordering::SeqCst) == 0)
    }
}

fn sums(load: &Load) -> Vec<u64> {
    let mut sum = 0;
    let add = |steps: &[plan::Step]| {
        sum += steps.first().map_or(1, |step| u64::from(step.weight.max(1)));
        sum
    };
    load.sequences().map(add).collect()
}

/// Returns the feeds that any template of the steps names.
fn used_feeds(load: &Load) -> Vec<String> {
    let mut used = Vec::new();
    for step in load.steps.iter().filter_map(|step| serde_json::to_value(step).ok()) {
        template::visit_parts(&step, &mut |part| {
            if let TemplatePart::Feed { feed, .. } = part {
                used.push(feed.clone());
            }
        });
    }
    used
}
