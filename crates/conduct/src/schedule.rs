//! Schedule of faults: the time at which each fault begins and is healed. Pure; the caller supplies
//! the time.

use experiment::catalog::Heals;
use experiment::plan::{Fault, When};

/// One occurrence of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    /// Index into the trial's faults, which the actions of its steps follow.
    pub fault: usize,
    /// Number of the occurrence, from 1.
    pub number: u32,
}

#[derive(Debug)]
struct ScheduledFault {
    plan: Fault,
    heals: Heals,
    due_s: Option<f64>,
    occurred: u32,
}

#[derive(Debug)]
struct Active {
    occurrence: Occurrence,
    heal_s: Option<f64>,
}

/// The faults of one trial, and their current state.
#[derive(Debug)]
pub struct FaultSchedule {
    entries: Vec<ScheduledFault>,
    active: Vec<Active>,
    end_s: f64,
}

impl FaultSchedule {
    /// Returns a schedule of these faults, each with its way of healing. No fault begins at or
    /// after `end_s`, the end of the load.
    #[must_use]
    pub fn new(faults: impl IntoIterator<Item = (Fault, Heals)>, end_s: f64) -> Self {
        let entries = faults
            .into_iter()
            .map(|(plan, heals)| {
                let due_s = match plan.when {
                    _ if plan.standing => None,
                    When::At(at_s) => Some(at_s),
                    When::Every { first_s, .. } => Some(first_s),
                    When::After { .. } => None,
                };
                ScheduledFault { plan, heals, due_s, occurred: 0 }
            })
            .collect();
        Self { entries, active: Vec::new(), end_s }
    }

    /// Adds faults that have no time of their own: a step of an exercise begins them.
    #[must_use]
    pub fn with_steps(mut self, faults: impl IntoIterator<Item = (Fault, Heals)>) -> Self {
        let faults = faults.into_iter();
        self.entries.extend(faults.map(|(plan, heals)| ScheduledFault { plan, heals, due_s: None, occurred: 1 }));
        self
    }

    /// Returns the planned fault of an occurrence.
    #[must_use]
    pub fn plan(&self, occurrence: Occurrence) -> &Fault {
        &self.entries[occurrence.fault].plan
    }

    /// Returns the next second at which [`FaultSchedule::due`] or [`FaultSchedule::heal_due`] has
    /// occurrences to return.
    #[must_use]
    pub fn next_s(&self) -> Option<f64> {
        let begins = self.entries.iter().filter_map(|entry| entry.due_s).filter(|at_s| *at_s < self.end_s);
        let heals = self.active.iter().filter_map(|active| active.heal_s);
        begins.chain(heals).min_by(f64::total_cmp)
    }

    /// Removes and returns the next fault that must act before the load.
    pub fn next_standing(&mut self) -> Option<Occurrence> {
        let fault = self.entries.iter().position(|entry| entry.plan.standing && entry.occurred == 0)?;
        self.entries[fault].occurred = 1;
        Some(Occurrence { fault, number: 1 })
    }

    /// Returns the next occurrence of each fault whose time is known, with that time.
    pub fn coming(&self) -> impl Iterator<Item = (Occurrence, f64)> + '_ {
        self.entries.iter().enumerate().filter_map(|(fault, entry)| {
            let due_s = entry.due_s.filter(|at_s| *at_s < self.end_s)?;
            Some((Occurrence { fault, number: entry.occurred + 1 }, due_s))
        })
    }

    /// Removes and returns the occurrences that are due to begin at or before `now_s`, earliest
    /// first.
    pub fn due(&mut self, now_s: f64) -> Vec<Occurrence> {
        let mut due: Vec<(f64, Occurrence)> = Vec::new();
        for (fault, entry) in self.entries.iter_mut().enumerate() {
            let Some(at_s) = entry.due_s.filter(|at_s| *at_s <= now_s && *at_s < self.end_s) else { continue };
            entry.occurred += 1;
            entry.due_s = match entry.plan.when {
                When::Every { every_s, .. } => Some(at_s + every_s),
                When::At(_) | When::After { .. } => None,
            };
            due.push((at_s, Occurrence { fault, number: entry.occurred }));
        }
        due.sort_by(|a, b| a.0.total_cmp(&b.0));
        due.into_iter().map(|(_, occurrence)| occurrence).collect()
    }

    /// Removes and returns the occurrences that are due to be healed at or before `now_s`.
    pub fn heal_due(&mut self, now_s: f64) -> Vec<Occurrence> {
        let (due, active) = std::mem::take(&mut self.active)
            .into_iter()
            .partition(|active: &Active| active.heal_s.is_some_and(|heal_s| heal_s <= now_s));
        self.active = active;
        due.into_iter().map(|active| active.occurrence).collect()
    }

    /// Removes and returns all active occurrences, latest first: the last fault is healed first.
    pub fn heal_all(&mut self) -> Vec<Occurrence> {
        self.heal_those(|_| true)
    }

    /// Handles an occurrence that began to act at `at_s`, and whose injection was complete at
    /// `done_s`. Gives faults that follow it their time. The occurrence is healed `for` after
    /// `at_s`, or after `done_s` if a program injects it: it may act only once the program ends.
    pub fn begun(&mut self, occurrence: Occurrence, at_s: f64, done_s: f64) {
        let entry = &self.entries[occurrence.fault];
        let name = entry.plan.name.clone();
        match entry.heals {
            Heals::ByItself => {
                self.wake(&name, false, at_s);
                self.wake(&name, true, at_s);
            }
            Heals::AfterFor => {
                let from_s = if entry.plan.is_program() { done_s } else { at_s };
                let heal_s = entry.plan.for_s.map(|for_s| from_s + for_s);
                self.active.push(Active { occurrence, heal_s });
                self.wake(&name, false, at_s);
            }
        }
    }

    /// Handles the start of a program that injects a step's fault. The fault's duration counts from
    /// the program's end.
    pub fn program_begun(&mut self, occurrence: Occurrence) {
        if self.entries[occurrence.fault].heals == Heals::AfterFor {
            self.active.push(Active { occurrence, heal_s: None });
        }
    }

    /// Handles the end of a program that injects a step's fault.
    pub fn program_ended(&mut self, occurrence: Occurrence, at_s: f64) {
        let heal_s = self.entries[occurrence.fault].plan.for_s.map(|for_s| at_s + for_s);
        for active in self.active.iter_mut().filter(|active| active.occurrence == occurrence) {
            active.heal_s = heal_s;
        }
    }

    /// Removes and returns the active occurrences that `is_meant` selects, latest first.
    pub fn heal_those(&mut self, is_meant: impl Fn(Occurrence) -> bool) -> Vec<Occurrence> {
        let (meant, others) =
            std::mem::take(&mut self.active).into_iter().partition(|active| is_meant(active.occurrence));
        self.active = others;
        meant.into_iter().rev().map(|active: Active| active.occurrence).collect()
    }

    /// Handles an occurrence that was healed. Gives faults that follow its healing their time.
    pub fn healed(&mut self, occurrence: Occurrence, at_s: f64) {
        let name = self.entries[occurrence.fault].plan.name.clone();
        self.wake(&name, true, at_s);
    }

    fn wake(&mut self, name: &str, was_healed: bool, at_s: f64) {
        for entry in &mut self.entries {
            if let When::After { fault, healed, plus_s } = &entry.plan.when
                && fault == name
                && *healed == was_healed
            {
                entry.due_s = Some(at_s + plus_s);
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use experiment::catalog::Heals;
    use experiment::plan::{Fault, When};

    use super::{FaultSchedule, Occurrence};

    fn fault(name: &str, when: When, for_s: Option<f64>) -> Fault {
        Fault {
            name: name.to_owned(),
            kind: "kill".to_owned(),
            when,
            for_s,
            seed: 1,
            label: name.to_owned(),
            colour: "#000000".to_owned(),
            ..Fault::default()
        }
    }

    #[test]
    fn a_fault_at_a_time_begins_once_and_heals_after_for() {
        let mut schedule = FaultSchedule::new([(fault("a", When::At(5.0), Some(2.0)), Heals::AfterFor)], 60.0);
        assert_eq!(schedule.next_s(), Some(5.0));
        assert!(schedule.due(4.999).is_empty());
        let occurrence = Occurrence { fault: 0, number: 1 };
        assert_eq!(schedule.due(5.01), [occurrence]);
        assert_eq!(schedule.next_s(), None);
        schedule.begun(occurrence, 5.01, 5.01);
        assert_eq!(schedule.next_s(), Some(7.01));
        assert!(schedule.heal_due(7.0).is_empty());
        assert_eq!(schedule.heal_due(7.02), [occurrence]);
        assert!(schedule.heal_all().is_empty());
    }

    #[test]
    fn a_periodic_fault_ends_with_the_load() {
        let every = When::Every { first_s: 10.0, every_s: 10.0 };
        let mut schedule = FaultSchedule::new([(fault("a", every, None), Heals::ByItself)], 30.0);
        let mut begun = Vec::new();
        for second in 0..100 {
            for occurrence in schedule.due(f64::from(second)) {
                schedule.begun(occurrence, f64::from(second), f64::from(second));
                begun.push((second, occurrence.number));
            }
        }
        assert_eq!(begun, [(10, 1), (20, 2)]);
    }

    #[test]
    fn a_fault_follows_another_that_began_or_healed() {
        let after = |healed| When::After { fault: "first".to_owned(), healed, plus_s: 1.0 };
        let faults = [
            (fault("first", When::At(5.0), Some(3.0)), Heals::AfterFor),
            (fault("on_begun", after(false), None), Heals::ByItself),
            (fault("on_healed", after(true), None), Heals::ByItself),
        ];
        let mut schedule = FaultSchedule::new(faults, 60.0);
        let first = schedule.due(5.0)[0];
        schedule.begun(first, 5.0, 5.0);
        assert_eq!(schedule.next_s(), Some(6.0));
        assert_eq!(schedule.due(6.0), [Occurrence { fault: 1, number: 1 }]);
        assert_eq!(schedule.heal_due(8.0), [first]);
        assert_eq!(schedule.next_s(), None);
        schedule.healed(first, 8.0);
        assert_eq!(schedule.due(9.0), [Occurrence { fault: 2, number: 1 }]);
    }

    #[test]
    fn a_self_healing_fault_counts_as_healed_at_once() {
        let after = When::After { fault: "first".to_owned(), healed: true, plus_s: 0.0 };
        let faults =
            [(fault("first", When::At(1.0), None), Heals::ByItself), (fault("next", after, None), Heals::ByItself)];
        let mut schedule = FaultSchedule::new(faults, 60.0);
        let first = schedule.due(1.0)[0];
        schedule.begun(first, 1.0, 1.0);
        assert_eq!(schedule.due(1.0), [Occurrence { fault: 1, number: 1 }]);
    }

    #[test]
    fn faults_are_healed_in_reverse_order() {
        let faults = [
            (fault("a", When::At(1.0), None), Heals::AfterFor),
            (fault("b", When::At(2.0), Some(50.0)), Heals::AfterFor),
        ];
        let mut schedule = FaultSchedule::new(faults, 60.0);
        let due = schedule.due(2.0);
        for occurrence in &due {
            schedule.begun(*occurrence, 2.0, 2.0);
        }
        assert_eq!(schedule.heal_all(), [due[1], due[0]]);
    }
}
