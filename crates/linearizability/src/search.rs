//! Search for a linearization of any sequential model, after Wing and Gong (1993) with Lowe's cache
//! of visited configurations (2017).
//!
//! A configuration is the set of calls that have been linearized, and the state. Four rules keep
//! the search small:
//!
//! - A call that leaves the state as it is and is possible now is linearized at once.
//! - An optional call must be followed directly by a call that depends on the new state. Otherwise
//!   the linearization without the optional call is as good.
//! - Of two configurations that differ only in optional calls, one with fewer of them covers the
//!   other.
//! - A state may not be left for good while a call needs it.

use crate::operation::NEVER;
use crate::visited::Visited;

/// An object as a sequential program. States are numbers that the model gives out.
pub trait SequentialModel {
    /// Returns the state after the call, or `None` if its answer is impossible in `state`.
    fn step(&mut self, state: u32, call: usize) -> Option<u32>;

    /// Whether the call leaves every state as it is.
    fn observes(&self, call: usize) -> bool;

    /// Whether the answer or the effect of the call depends on the state.
    fn depends(&self, call: usize) -> bool;

    /// Returns the state in which alone the call is possible, if there is just one.
    fn needs(&self, _call: usize) -> Option<u32> {
        None
    }

    /// Returns the state that the call leaves, if it is always the same. A model that answers
    /// `needs` for a state must name every call that leaves this state.
    fn makes(&self, _call: usize) -> Option<u32> {
        None
    }

    /// Tells whether `call` can become possible after `state`.
    fn outlook(&self, _state: u32, _call: usize) -> Outlook {
        Outlook::Open
    }

    /// Returns a number that is equal for calls which do the same, if the model can tell.
    fn label(&self, _call: usize) -> Option<u64> {
        None
    }
}

/// Whether a call can become possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// The call can, or the model cannot tell.
    Open,
    /// The call can only if this other one is linearized before it.
    After(usize),
    Never,
}

/// CallInterval of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallInterval {
    pub start_ns: i64,
    /// `None` for an optional call: it may take effect at any time after its start, or never.
    pub end_ns: Option<i64>,
}

/// State with the optional calls that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinalState {
    pub state: u32,
    /// Numbers of the optional calls, sorted.
    pub used: Vec<usize>,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Searched {
    /// Linearizations exist. Holds one final state, or all of them if they were asked for.
    Possible(Vec<FinalState>),
    Impossible,
    /// The limit was reached.
    Unfinished,
}

/// Extent of a search.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Limit of configurations.
    pub limit: usize,
    /// Whether to find every final state.
    pub all: bool,
}

/// Most final states that are kept.
const FINAL_STATES: usize = 1_024;

/// Ranks among which the next open observation is looked for.
const LOOK_AHEAD: usize = 64;

const NO_STATE: u32 = u32::MAX;

/// A call that took effect.
#[derive(Debug)]
struct Sure {
    call: usize,
    start: i64,
    end: i64,
    observes: bool,
    depends: bool,
    needs: u32,
    makes: u32,
}

#[derive(Debug)]
struct Optional {
    call: usize,
    start: i64,
    depends: bool,
    needs: u32,
    makes: u32,
    /// Optional call with the same label before this one. Must be used first.
    twin: Option<usize>,
}

/// A configuration on the path from the first one, and how it was reached.
#[derive(Debug)]
struct Level {
    choice: Choice,
    left_state: u32,
    left_base: usize,
    trail: usize,
    first_choice: usize,
    cursor: usize,
}

#[derive(Debug, Clone, Copy)]
struct Choice {
    /// Rank of a sure call, or number of an optional call plus the number of sure calls.
    code: u32,
    state: u32,
}

enum Entered {
    Complete,
    Covered,
    Open,
}

/// Searches for linearizations of `calls` from the states `from`. Each of them may have used
/// optional calls already.
pub fn search(
    model: &mut impl SequentialModel,
    calls: &[CallInterval],
    from: &[FinalState],
    extent: Extent,
) -> Searched {
    search_counting(model, calls, from, extent).0
}

/// Effort of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub configurations: usize,
    /// Greatest end such that some order fits all calls with lesser ends.
    pub reached: i64,
}

/// Searches, and returns the effort, too.
pub(crate) fn search_counting(
    model: &mut impl SequentialModel,
    calls: &[CallInterval],
    from: &[FinalState],
    extent: Extent,
) -> (Searched, Effort) {
    let mut search = StateSearch::new(model, calls, extent);
    for initial in from {
        if let Some(end) = search.run(initial) {
            return (end, search.effort());
        }
    }
    let effort = search.effort();
    let searched = if search.finals.is_empty() { Searched::Impossible } else { Searched::Possible(search.finals) };
    (searched, effort)
}

struct StateSearch<'m, M> {
    model: &'m mut M,
    extent: Extent,
    /// Sorted by end. The position is the rank.
    sure: Vec<Sure>,
    /// Sorted by start.
    optional: Vec<Optional>,
    /// Rank of each call, or [`NO_STATE`] for an optional one.
    ranks: Vec<u32>,
    /// Per rank: the highest rank that may be linearized while this one is not.
    reach: Vec<usize>,
    /// Ring of the ranks that are not linearized, in the order of their starts. The last element is
    /// its head.
    next: Vec<u32>,
    previous: Vec<u32>,
    /// Bit per rank: linearized.
    done: Vec<u64>,
    /// Bit per optional call: used.
    used: Vec<u64>,
    /// Lowest rank that is not linearized.
    base: usize,
    state: u32,
    /// Linearized ranks, in order.
    trail: Vec<u32>,
    levels: Vec<Level>,
    choices: Vec<Choice>,
    /// Per state: open sure calls that need it.
    wanted: Vec<u32>,
    /// Per state: open calls that make it.
    makers: Vec<u32>,
    /// Per state: optional calls that need it.
    hoped: Vec<u32>,
    /// Whether a call depends on the state and needs no particular one.
    has_vague: bool,
    visited: Visited,
    steps: usize,
    /// Highest base so far.
    deepest: usize,
    finals: Vec<FinalState>,
}

impl<'m, M: SequentialModel> StateSearch<'m, M> {
    fn new(model: &'m mut M, calls: &[CallInterval], extent: Extent) -> Self {
        let sure = sure_calls(model, calls);
        let optional = optional_calls(model, calls);
        let (next, previous, reach) = order_by_start(&sure);
        let mut ranks = vec![NO_STATE; calls.len()];
        sure.iter().enumerate().for_each(|(rank, call)| ranks[call.call] = rank as u32);
        let mut search = Self {
            model,
            ranks,
            extent,
            reach,
            next,
            previous,
            done: vec![0; sure.len().div_ceil(64)],
            used: vec![0; optional.len().div_ceil(64)],
            base: 0,
            state: 0,
            trail: Vec::with_capacity(sure.len()),
            levels: Vec::new(),
            choices: Vec::new(),
            wanted: Vec::new(),
            makers: Vec::new(),
            hoped: Vec::new(),
            has_vague: false,
            visited: Visited::new(),
            steps: 0,
            deepest: 0,
            finals: Vec::new(),
            sure,
            optional,
        };
        search.count_states();
        search
    }

    fn count_states(&mut self) {
        for call in &self.sure {
            tally(&mut self.wanted, call.needs);
            tally(&mut self.makers, call.makes);
        }
        for call in &self.optional {
            tally(&mut self.makers, call.makes);
            tally(&mut self.hoped, call.needs);
        }
        let states = self.wanted.len().max(self.makers.len()).max(self.hoped.len());
        self.wanted.resize(states, 0);
        self.makers.resize(states, 0);
        self.hoped.resize(states, 0);
        let is_vague = |depends: bool, needs: u32| depends && needs == NO_STATE;
        self.has_vague = self.sure.iter().any(|call| is_vague(call.depends, call.needs))
            || self.optional.iter().any(|call| is_vague(call.depends, call.needs));
    }

    /// Searches from one state. Returns the result if the search as a whole is over.
    fn run(&mut self, initial: &FinalState) -> Option<Searched> {
        self.state = initial.state;
        for number in 0..self.optional.len() {
            if initial.used.contains(&self.optional[number].call) {
                self.set_used(number, true);
            }
        }
        let first = Choice { code: NO_STATE, state: initial.state };
        let is_hopeless = (0..self.wanted.len() as u32).any(|state| state != self.state && self.is_stranded(state));
        self.levels.push(Level {
            choice: first,
            left_state: initial.state,
            left_base: 0,
            trail: 0,
            first_choice: 0,
            cursor: 0,
        });
        let mut end = None;
        if is_hopeless {
            self.leave();
        } else {
            end = self.open_level(false);
        }
        while end.is_none()
            && let Some(level) = self.levels.last_mut()
        {
            if let Some(&choice) = self.choices.get(level.cursor) {
                level.cursor += 1;
                end = self.take(choice);
            } else {
                self.leave();
            }
        }
        (0..self.optional.len()).for_each(|number| {
            if initial.used.contains(&self.optional[number].call) {
                self.set_used(number, false);
            }
        });
        end
    }

    /// Linearizes a chosen call.
    fn take(&mut self, choice: Choice) -> Option<Searched> {
        self.steps += 1;
        if self.steps > self.extent.limit {
            return Some(Searched::Unfinished);
        }
        let (left_state, left_base) = (self.state, self.base);
        let (trail, first_choice) = (self.trail.len(), self.choices.len());
        self.levels.push(Level { choice, left_state, left_base, trail, first_choice, cursor: first_choice });
        self.state = choice.state;
        let sure = self.sure.len();
        let is_optional = choice.code as usize >= sure;
        if is_optional {
            self.set_used(choice.code as usize - sure, true);
        } else {
            self.linearize(choice.code as usize);
        }
        if left_state != self.state && self.is_stranded(left_state) {
            self.leave();
            return None;
        }
        self.open_level(is_optional)
    }

    /// Fills the newest level with choices. Leaves it if it leads nowhere new.
    fn open_level(&mut self, after_optional: bool) -> Option<Searched> {
        match self.enter(after_optional) {
            Entered::Open => None,
            Entered::Covered => {
                self.leave();
                None
            }
            Entered::Complete => {
                self.add_final();
                if !self.extent.all {
                    return Some(Searched::Possible(std::mem::take(&mut self.finals)));
                }
                if self.finals.len() > FINAL_STATES {
                    return Some(Searched::Unfinished);
                }
                self.leave();
                None
            }
        }
    }

    fn effort(&self) -> Effort {
        let reached = self.sure.get(self.deepest).map_or(NEVER, |call| call.end);
        Effort { configurations: self.steps, reached }
    }

    fn enter(&mut self, after_optional: bool) -> Entered {
        let before = self.trail.len();
        self.observe();
        self.deepest = self.deepest.max(self.base);
        if self.base == self.sure.len() {
            return Entered::Complete;
        }
        if !self.may_observe() {
            return Entered::Covered;
        }
        let must_depend = after_optional && self.trail.len() == before;
        if !self.visit(must_depend) {
            return Entered::Covered;
        }
        self.list_choices(must_depend);
        Entered::Open
    }

    /// Linearizes every call that is possible now and leaves the state as it is.
    fn observe(&mut self) {
        let head = self.sure.len();
        let mut rank = self.next[head] as usize;
        while rank != head && self.sure[rank].start <= self.horizon() {
            let following = self.next[rank] as usize;
            let call = &self.sure[rank];
            if call.observes && self.model.step(self.state, call.call).is_some() {
                self.linearize(rank);
            }
            rank = following;
        }
    }

    /// Whether the open observation that ends first may still become possible.
    fn may_observe(&self) -> bool {
        let last = (self.base + LOOK_AHEAD).min(self.sure.len());
        let mut open = (self.base..last).filter(|&rank| self.sure[rank].observes && !bit(&self.done, rank));
        open.next().is_none_or(|rank| match self.model.outlook(self.state, self.sure[rank].call) {
            Outlook::Open => true,
            Outlook::After(call) => {
                !self.ranks.get(call).is_some_and(|&rank| rank != NO_STATE && bit(&self.done, rank as usize))
            }
            Outlook::Never => false,
        })
    }

    /// Returns the time before which the next call must start: the least end of an open sure call.
    fn horizon(&self) -> i64 {
        self.sure.get(self.base).map_or(NEVER, |call| call.end)
    }

    fn list_choices(&mut self, must_depend: bool) {
        let (head, horizon) = (self.sure.len(), self.horizon());
        let first = self.choices.len();
        let mut rank = self.next[head] as usize;
        while rank != head && self.sure[rank].start <= horizon {
            let call = &self.sure[rank];
            if !call.observes
                && (call.depends || !must_depend)
                && let Some(state) = self.model.step(self.state, call.call)
            {
                self.choices.push(Choice { code: rank as u32, state });
            }
            rank = self.next[rank] as usize;
        }
        self.choices[first..].sort_unstable_by_key(|choice| choice.code);
        for (number, call) in self.optional.iter().enumerate() {
            if call.start > horizon {
                break;
            }
            let is_free = !bit(&self.used, number) && call.twin.is_none_or(|twin| bit(&self.used, twin));
            if is_free
                && self.may_help(call.makes)
                && (call.depends || !must_depend)
                && let Some(state) = self.model.step(self.state, call.call)
                && state != self.state
            {
                self.choices.push(Choice { code: (head + number) as u32, state });
            }
        }
    }

    fn linearize(&mut self, rank: usize) {
        let (next, previous) = (self.next[rank], self.previous[rank]);
        self.next[previous as usize] = next;
        self.previous[next as usize] = previous;
        self.done[rank / 64] |= 1 << (rank % 64);
        let call = &self.sure[rank];
        if call.needs != NO_STATE {
            self.wanted[call.needs as usize] -= 1;
        }
        if call.makes != NO_STATE {
            self.makers[call.makes as usize] -= 1;
        }
        self.trail.push(rank as u32);
        while self.base < self.sure.len() && bit(&self.done, self.base) {
            self.base += 1;
        }
    }

    /// Undoes the newest level.
    fn leave(&mut self) {
        let Some(level) = self.levels.pop() else { return };
        while self.trail.len() > level.trail {
            let Some(rank) = self.trail.pop() else { return };
            let rank = rank as usize;
            let (next, previous) = (self.next[rank], self.previous[rank]);
            self.next[previous as usize] = rank as u32;
            self.previous[next as usize] = rank as u32;
            self.done[rank / 64] &= !(1 << (rank % 64));
            let call = &self.sure[rank];
            if call.needs != NO_STATE {
                self.wanted[call.needs as usize] += 1;
            }
            if call.makes != NO_STATE {
                self.makers[call.makes as usize] += 1;
            }
        }
        let code = level.choice.code;
        if code != NO_STATE && code as usize >= self.sure.len() {
            self.set_used(code as usize - self.sure.len(), false);
        }
        self.choices.truncate(level.first_choice);
        self.state = level.left_state;
        self.base = level.left_base;
    }

    fn set_used(&mut self, number: usize, used: bool) {
        let mask = 1 << (number % 64);
        let makes = self.optional[number].makes;
        if used {
            self.used[number / 64] |= mask;
        } else {
            self.used[number / 64] &= !mask;
        }
        if makes != NO_STATE {
            let makers = &mut self.makers[makes as usize];
            *makers = if used { *makers - 1 } else { *makers + 1 };
        }
    }

    /// Whether a call that depends on the state may follow an optional call that makes this one.
    fn may_help(&self, state: u32) -> bool {
        let waits = |counts: &[u32]| counts.get(state as usize).is_none_or(|count| *count > 0);
        self.has_vague || state == NO_STATE || waits(&self.wanted) || waits(&self.hoped)
    }

    /// Whether an open call needs a state that no open call makes.
    fn is_stranded(&self, state: u32) -> bool {
        let state = state as usize;
        state < self.wanted.len() && self.wanted[state] > 0 && self.makers[state] == 0
    }

    /// Records the configuration. Returns false if an earlier one covers it.
    fn visit(&mut self, must_depend: bool) -> bool {
        let (low, high) = (self.base / 64, self.reach[self.base] / 64);
        // A configuration with fewer choices is another one.
        let base = (self.base as u32) << 1 | u32::from(must_depend);
        self.visited.insert(base, self.state, &self.done[low..=high], &self.used)
    }

    fn add_final(&mut self) {
        let numbers = (0..self.optional.len()).filter(|&number| bit(&self.used, number));
        let mut used: Vec<usize> = numbers.map(|number| self.optional[number].call).collect();
        used.sort_unstable();
        let covers = |fewer: &[usize], more: &[usize]| fewer.iter().all(|call| more.binary_search(call).is_ok());
        let state = self.state;
        if self.finals.iter().any(|other| other.state == state && covers(&other.used, &used)) {
            return;
        }
        self.finals.retain(|other| other.state != state || !covers(&used, &other.used));
        self.finals.push(FinalState { state, used });
    }
}

fn bit(words: &[u64], position: usize) -> bool {
    words[position / 64] >> (position % 64) & 1 == 1
}

fn tally(counts: &mut Vec<u32>, state: u32) {
    if state != NO_STATE {
        let state = state as usize;
        if counts.len() <= state {
            counts.resize(state + 1, 0);
        }
        counts[state] += 1;
    }
}

fn sure_calls(model: &impl SequentialModel, calls: &[CallInterval]) -> Vec<Sure> {
    let ended =
        calls.iter().enumerate().filter_map(|(call, interval)| Some((call, interval.start_ns, interval.end_ns?)));
    let mut sure: Vec<Sure> = ended
        .map(|(call, start, end)| Sure {
            call,
            start,
            end,
            observes: model.observes(call),
            depends: model.depends(call),
            needs: model.needs(call).unwrap_or(NO_STATE),
            makes: model.makes(call).unwrap_or(NO_STATE),
        })
        .collect();
    sure.sort_by_key(|call| (call.end, call.start));
    sure
}

fn optional_calls(model: &impl SequentialModel, calls: &[CallInterval]) -> Vec<Optional> {
    let open = calls.iter().enumerate().filter(|(call, interval)| interval.end_ns.is_none() && !model.observes(*call));
    let mut order: Vec<(i64, usize)> = open.map(|(call, interval)| (interval.start_ns, call)).collect();
    order.sort_unstable();
    let labels: Vec<Option<u64>> = order.iter().map(|&(_, call)| model.label(call)).collect();
    let twin = |number: usize| {
        let label = labels[number]?;
        labels[..number].iter().rposition(|other| *other == Some(label))
    };
    let optional = |(number, &(start, call)): (usize, &(i64, usize))| Optional {
        call,
        start,
        depends: model.depends(call),
        needs: model.needs(call).unwrap_or(NO_STATE),
        makes: model.makes(call).unwrap_or(NO_STATE),
        twin: twin(number),
    };
    order.iter().enumerate().map(optional).collect()
}

/// Returns the ring of ranks in the order of their starts, and the reach of each rank.
fn order_by_start(sure: &[Sure]) -> (Vec<u32>, Vec<u32>, Vec<usize>) {
    let head = sure.len();
    let mut order: Vec<u32> = (0..head as u32).collect();
    order.sort_by_key(|&rank| sure[rank as usize].start);
    let (mut next, mut previous) = (vec![head as u32; head + 1], vec![head as u32; head + 1]);
    let mut last = head;
    for &rank in &order {
        next[last] = rank;
        previous[rank as usize] = last as u32;
        last = rank as usize;
    }
    next[last] = head as u32;
    previous[head] = last as u32;
    let mut started = order.iter().map(|&rank| rank as usize).peekable();
    let mut highest = 0;
    let reach = sure.iter().enumerate().map(|(rank, call)| {
        while let Some(other) = started.next_if(|&other| sure[other].start <= call.end) {
            highest = highest.max(other);
        }
        highest.max(rank)
    });
    (next, previous, reach.collect())
}
