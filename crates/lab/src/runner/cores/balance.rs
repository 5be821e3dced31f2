//! Which threads go to which core. Pure.

/// A core, and what is on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Slot {
    pub threads: Vec<Thread>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    pub id: u32,
    /// Share of the time in which it ran or waited to run, 0 to 1.
    pub demand: f64,
    /// It was moved lately, or is new, and stays.
    pub stays: bool,
}

/// A thread goes to another core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    pub thread: u32,
    pub to: usize,
}

/// The sum of the demands on a core is the mean number of threads that want it. Up to this, it is one at a time, and another
/// core would not help it: it would only add its quota to that of the first.
const ONE_AT_A_TIME: f64 = 1.35;
/// A move must make the fuller of the two cores that much emptier.
const WORTH_IT: f64 = 0.3;
/// Moves at once; the rest is for the next look.
const AT_ONCE: usize = 32;

/// Moves that make the fullest core emptier, one after the other: from the fullest to the emptiest, that thread which leaves
/// the two most equal; of those that do, the one that runs least, for it takes the least of the other core's quota with it.
pub fn moves(slots: &[Slot]) -> Vec<Move> {
    let mut slots = slots.to_vec();
    let mut moves = Vec::new();
    while moves.len() < AT_ONCE {
        let Some((from, to)) = extremes(&slots) else { break };
        let (full, empty) = (demand(&slots[from]), demand(&slots[to]));
        let after = |thread: &Thread| (full - thread.demand).max(empty + thread.demand);
        let movable = slots[from].threads.iter().enumerate().filter(|(_, thread)| !thread.stays);
        let best = movable.min_by(|(_, a), (_, b)| {
            after(a).total_cmp(&after(b)).then(a.demand.total_cmp(&b.demand)).then(a.id.cmp(&b.id))
        });
        let Some((index, _)) = best.filter(|(_, thread)| full - after(thread) >= WORTH_IT) else { break };
        let mut thread = slots[from].threads.swap_remove(index);
        moves.push(Move { thread: thread.id, to });
        thread.stays = true;
        slots[to].threads.push(thread);
    }
    moves
}

/// The fullest slot and the emptiest, if there is something to be had.
fn extremes(slots: &[Slot]) -> Option<(usize, usize)> {
    let by_demand = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
    let demands = || slots.iter().map(demand).enumerate();
    let (to, _) = demands().min_by(by_demand)?;
    let (from, full) = demands().max_by(by_demand)?;
    (full > ONE_AT_A_TIME && from != to).then_some((from, to))
}

fn demand(slot: &Slot) -> f64 {
    slot.threads.iter().map(|thread| thread.demand).sum()
}
