//! Questions for the leader: the target's hook `leader` runs before a fault of the leader is due,
//! so that a slow hook does not delay the fault. Pure; the caller supplies the time.

use crate::conductor::Action;
use crate::schedule::Occurrence;

/// Seconds between the first question and its fault, while the hook's duration is not known.
const FIRST_LEAD_S: f64 = 5.0;

/// Seconds added to 1.5 times the hook's duration, so that the answer comes before the fault.
const MARGIN_S: f64 = 0.1;

/// The questions of a trial, and the answers to them.
#[derive(Debug, Default)]
pub struct LeaderQuestions {
    /// Longest duration of the hook so far, seconds.
    took_s: Option<f64>,
    questions: Vec<Question>,
}

/// A question for the leader, asked for one fault.
#[derive(Debug)]
struct Question {
    occurrence: Occurrence,
    asked_s: f64,
    /// Whether the hook runs.
    is_open: bool,
    answer: Option<Result<String, String>>,
    /// Whether the fault waits for the answer.
    is_due: bool,
}

impl LeaderQuestions {
    /// Returns the time at which to ask for a fault that is due at `due_s`. `None` if the hook
    /// runs, or was started late enough.
    fn ask_s(&self, occurrence: Occurrence, due_s: f64) -> Option<f64> {
        let ask_s = due_s - self.took_s.map_or(FIRST_LEAD_S, |took_s| 1.5 * took_s + MARGIN_S);
        match self.of(occurrence) {
            // Once the hook's duration is known, the target is asked again as late as possible,
            // because the leader may change.
            Some(question) if question.is_open || question.asked_s >= ask_s => None,
            _ => Some(ask_s),
        }
    }

    fn of(&self, occurrence: Occurrence) -> Option<&Question> {
        self.questions.iter().find(|question| question.occurrence == occurrence)
    }

    /// Returns the next second at which [`LeaderQuestions::ask`] has actions to return, for faults
    /// that are due at these times.
    pub fn next_s(&self, faults: impl IntoIterator<Item = (Occurrence, f64)>) -> Option<f64> {
        faults.into_iter().filter_map(|(occurrence, due_s)| self.ask_s(occurrence, due_s)).min_by(f64::total_cmp)
    }

    /// Returns the questions that are due at `now_s`, for faults that are due at these times.
    pub fn ask(&mut self, now_s: f64, faults: impl IntoIterator<Item = (Occurrence, f64)>) -> Vec<Action> {
        let mut actions = Vec::new();
        for (occurrence, due_s) in faults {
            if self.ask_s(occurrence, due_s).is_some_and(|at_s| at_s <= now_s) {
                actions.push(self.open(occurrence, now_s));
            }
        }
        actions
    }

    fn open(&mut self, occurrence: Occurrence, now_s: f64) -> Action {
        let known = self.questions.iter().position(|question| question.occurrence == occurrence);
        let earlier = known.map(|index| self.questions.remove(index));
        let (answer, is_due) = earlier.map_or((None, false), |earlier| (earlier.answer, earlier.is_due));
        self.questions.push(Question { occurrence, asked_s: now_s, is_open: true, answer, is_due });
        Action::AskLeader(occurrence)
    }

    /// Handles a fault of the leader that is due. If the leader is known, returns the action that
    /// begins the fault. Otherwise the fault waits for the answer.
    pub fn begin(&mut self, occurrence: Occurrence, now_s: f64) -> Option<Action> {
        let asked = self.of(occurrence).is_none().then(|| self.open(occurrence, now_s));
        let question = self.questions.iter_mut().find(|question| question.occurrence == occurrence)?;
        question.is_due = question.answer.is_none();
        if question.is_due { asked } else { Some(Action::BeginFault(occurrence)) }
    }

    /// Handles the hook's answer.
    pub fn named(&mut self, occurrence: Occurrence, answer: Result<String, String>, now_s: f64) -> Option<Action> {
        let question = self.questions.iter_mut().find(|question| question.occurrence == occurrence)?;
        let took_s = now_s - question.asked_s;
        self.took_s = Some(self.took_s.map_or(took_s, |longest_s| longest_s.max(took_s)));
        (question.answer, question.is_open) = (Some(answer), false);
        std::mem::take(&mut question.is_due).then_some(Action::BeginFault(occurrence))
    }

    /// Returns the answer for a fault that begins.
    #[must_use]
    pub fn answer(&self, occurrence: Occurrence) -> Option<&Result<String, String>> {
        self.of(occurrence)?.answer.as_ref()
    }

    /// Drops the questions for faults that `is_meant` selects. Returns the faults that waited for
    /// an answer.
    pub fn forget(&mut self, is_meant: impl Fn(Occurrence) -> bool) -> Vec<Occurrence> {
        let (meant, others) =
            std::mem::take(&mut self.questions).into_iter().partition(|question| is_meant(question.occurrence));
        self.questions = others;
        meant.into_iter().filter(|question: &Question| question.is_due).map(|question| question.occurrence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Occurrence = Occurrence { fault: 0, number: 1 };
    const SECOND: Occurrence = Occurrence { fault: 0, number: 2 };

    fn named(name: &str) -> Result<String, String> {
        Ok(name.to_owned())
    }

    #[test]
    fn the_leader_is_known_when_its_fault_is_due() {
        let mut questions = LeaderQuestions::default();
        assert_eq!(questions.next_s([(FIRST, 20.0)]), Some(15.0));
        assert_eq!(questions.ask(15.0, [(FIRST, 20.0)]), [Action::AskLeader(FIRST)]);
        assert_eq!(questions.next_s([(FIRST, 20.0)]), None, "it is being asked");
        assert_eq!(questions.named(FIRST, named("n1"), 16.0), None);
        assert_eq!(questions.next_s([(FIRST, 20.0)]), Some(18.4), "it took a second");
        assert_eq!(questions.ask(18.4, [(FIRST, 20.0)]), [Action::AskLeader(FIRST)]);
        assert_eq!(questions.named(FIRST, named("n2"), 19.4), None);
        assert_eq!(questions.begin(FIRST, 20.0), Some(Action::BeginFault(FIRST)));
        assert_eq!(questions.answer(FIRST), Some(&named("n2")), "the later answer counts");
        assert_eq!(questions.forget(|of| of == FIRST), [], "none waits");
        assert_eq!(questions.next_s([(SECOND, 40.0)]), Some(38.4), "only the first is asked for twice");
    }

    #[test]
    fn a_fault_waits_for_an_answer_that_is_late() {
        let mut questions = LeaderQuestions::default();
        assert_eq!(questions.begin(FIRST, 4.0), Some(Action::AskLeader(FIRST)), "nobody was asked before");
        assert_eq!(questions.begin(FIRST, 4.0), None, "it is asked once");
        assert_eq!(questions.named(FIRST, named("n1"), 6.0), Some(Action::BeginFault(FIRST)));
        assert_eq!(questions.begin(SECOND, 9.0), Some(Action::AskLeader(SECOND)));
        assert_eq!(questions.forget(|_| true), [SECOND], "the load is over");
        assert_eq!(questions.named(SECOND, named("n1"), 11.0), None);
    }
}
