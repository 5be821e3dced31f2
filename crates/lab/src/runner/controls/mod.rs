//! The states that faults put a host into: kept by key, worked out into what holds now, and performed. What cannot be
//! performed is not imposed. It must not decide how a state is made: that is what the hands are for.

mod flapper;
mod hands;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::groups::Groups;
use super::{Control, Envelope, Refusal, Setup};
use experiment::profile::Disk;
use flapper::Flapper;
use hands::HostHands;
use state::{Carrier, Cuts, Links, State, Step};

/// What controls need done to a host. Each call says how it is to be from now on, not what changes.
pub(super) trait Hands: Send + Sync {
    /// Lets the target's processes stand still, or go on.
    fn freeze(&self, still: bool) -> Result<(), Refusal>;
    /// Drops these packets and no others.
    fn cut(&self, cuts: &Cuts) -> Result<(), Refusal>;
    /// Shapes the link.
    fn link(&self, links: &Links) -> Result<(), Refusal>;
    /// Takes the link up or down.
    fn carrier(&self, up: bool) -> Result<(), Refusal>;
    /// Lets the cores do this part of what the profile says.
    fn cpu(&self, of_profile: f64) -> Result<(), Refusal>;
    /// Limits the memory.
    fn memory(&self, bytes: Option<u64>) -> Result<(), Refusal>;
    /// Limits the disk.
    fn disk(&self, disk: &Disk) -> Result<(), Refusal>;
    /// Fills the disk but for so much, or not at all.
    fn fill(&self, leave_bytes: Option<u64>) -> Result<(), Refusal>;
    /// Sets the wall clock so far off.
    fn clock(&self, offset_s: f64) -> Result<(), Refusal>;
}

/// What is imposed on this host.
pub(super) struct Controls {
    envelope: Envelope,
    hands: Arc<dyn Hands>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// In the order in which they were imposed.
    list: Vec<(String, Control)>,
    /// What was performed last.
    now: State,
    flapper: Option<Flapper>,
}

impl Controls {
    /// Nothing imposed on this host.
    pub fn new(setup: &Setup, groups: Arc<Groups>) -> Self {
        Self::over(setup.envelope.clone(), Arc::new(HostHands::of(setup, groups)))
    }

    /// Nothing imposed on what these hands do.
    fn over(envelope: Envelope, hands: Arc<dyn Hands>) -> Self {
        let now = State::of(&[], &envelope);
        Self { envelope, hands, inner: Mutex::new(Inner { list: Vec::new(), now, flapper: None }) }
    }

    /// Imposes a fault under a key; of an earlier one with this key nothing stays.
    ///
    /// # Errors
    /// If it cannot be performed; then everything is as before.
    pub fn impose(&self, key: &str, control: &Control) -> Result<(), Refusal> {
        let mut inner = self.lock();
        let before = inner.list.clone();
        inner.list.retain(|(other, _)| other != key);
        inner.list.push((key.to_owned(), control.clone()));
        let wanted = State::of(&inner.list, &self.envelope);
        let was = inner.now.clone();
        let done = inner.go_to(&wanted, &self.hands, Manner::UntilRefused);
        if done.is_err() {
            inner.list = before;
            // What was not done yet is as it was; what cannot be undone is said no more about.
            let _ = inner.go_to(&was, &self.hands, Manner::AllTheSame);
        }
        done
    }

    /// Lifts it; harmless if there is none.
    ///
    /// # Errors
    /// The first thing that could not be undone; the rest is, and this is tried again with the next change.
    pub fn lift(&self, key: &str) -> Result<(), Refusal> {
        let mut inner = self.lock();
        inner.list.retain(|(other, _)| other != key);
        let wanted = State::of(&inner.list, &self.envelope);
        inner.go_to(&wanted, &self.hands, Manner::AllTheSame)
    }

    /// Lifts everything, as far as it can be.
    pub fn lift_all(&self) {
        let mut inner = self.lock();
        inner.list.clear();
        let wanted = State::of(&[], &self.envelope);
        let _ = inner.go_to(&wanted, &self.hands, Manner::AllTheSame);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Controls {
    fn drop(&mut self) {
        self.lift_all();
    }
}

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controls").field("list", &self.lock().list).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    UntilRefused,
    AllTheSame,
}

impl Inner {
    /// Performs what changes between now and `wanted`; `now` follows what was done.
    fn go_to(&mut self, wanted: &State, hands: &Arc<dyn Hands>, manner: Manner) -> Result<(), Refusal> {
        let mut first = None;
        for step in state::steps(&self.now, wanted) {
            match self.perform(&step, hands) {
                Ok(()) => self.now.follow(step),
                Err(refusal) => {
                    first.get_or_insert(refusal);
                    if manner == Manner::UntilRefused {
                        break;
                    }
                }
            }
        }
        first.map_or(Ok(()), Err)
    }

    fn perform(&mut self, step: &Step, hands: &Arc<dyn Hands>) -> Result<(), Refusal> {
        match step {
            Step::Still(still) => hands.freeze(*still),
            Step::Cut(cuts) => hands.cut(cuts),
            Step::Link(links) => hands.link(links),
            Step::Carrier(carrier) => self.carry(*carrier, hands),
            Step::Cpu(of_profile) => hands.cpu(*of_profile),
            Step::Memory(bytes) => hands.memory(*bytes),
            Step::Disk(disk) => hands.disk(disk),
            Step::Fill(leave_bytes) => hands.fill(*leave_bytes),
            Step::Clock(offset_s) => hands.clock(*offset_s),
        }
    }

    fn carry(&mut self, carrier: Carrier, hands: &Arc<dyn Hands>) -> Result<(), Refusal> {
        // One that flaps stops first, however its link stands.
        self.flapper = None;
        match carrier {
            Carrier::Up => hands.carrier(true),
            Carrier::Down => hands.carrier(false),
            Carrier::Flaps { down_s, up_s } => {
                hands.carrier(false)?;
                match Flapper::start(Arc::clone(hands), down_s, up_s) {
                    Ok(flapper) => self.flapper = Some(flapper),
                    Err(error) => {
                        hands.carrier(true)?;
                        let doing = "start the thread that flaps the link".to_owned();
                        return Err(Refusal::System { doing, error: error.to_string() });
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
