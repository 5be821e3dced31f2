//! Timers of a thread's agents. The wheel cannot cancel a timer, so a timer that fires may no
//! longer have a purpose.

use crate::engine::ids::AgentId;
use crate::engine::timer_wheel::Wheel;

/// Purpose of a timer. The timer's id follows from the purpose and the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentTimer {
    Wake(AgentId),
    Timeout(AgentId),
    Heartbeat,
    /// A start of the place with this id is due.
    Arrival(AgentId),
}

impl AgentTimer {
    /// Returns the agent to which the timer belongs.
    pub fn agent(self) -> Option<AgentId> {
        match self {
            Self::Wake(id) | Self::Timeout(id) | Self::Arrival(id) => Some(id),
            Self::Heartbeat => None,
        }
    }
}

/// The timers of a thread's agents.
pub struct AgentTimers {
    wheel: Wheel,
    agents: usize,
}

impl AgentTimers {
    /// Creates the timers of `agents` agents. In a paced load, each agent also has an arrival
    /// timer.
    pub fn new(agents: usize, is_paced: bool) -> Self {
        let timers_each = if is_paced { 3 } else { 2 };
        Self { wheel: Wheel::new(agents * timers_each + 1), agents }
    }

    /// Returns a time before which no timer is due, and whether a timer is due at exactly that
    /// time.
    pub fn next(&self) -> (u64, bool) {
        (self.wheel.soonest_ns(), self.wheel.is_exact())
    }

    /// Removes a timer that is due and returns it with its due time.
    #[inline]
    pub fn take(&mut self, now_ns: u64) -> Option<(AgentTimer, u64)> {
        self.wheel.pop(now_ns).map(|(number, due_ns)| (self.timer(number), due_ns))
    }

    pub fn set(&mut self, timer: AgentTimer, due_ns: u64) {
        let number = match timer {
            AgentTimer::Wake(id) => id.index() * 2,
            AgentTimer::Timeout(id) => id.index() * 2 + 1,
            AgentTimer::Heartbeat => self.agents * 2,
            AgentTimer::Arrival(id) => self.agents * 2 + 1 + id.index(),
        };
        self.wheel.set(u32::try_from(number).unwrap_or(u32::MAX), due_ns);
    }

    fn timer(&self, number: u32) -> AgentTimer {
        let number = number as usize;
        if let Some(index) = number.checked_sub(self.agents * 2 + 1) {
            return AgentTimer::Arrival(AgentId::at(index));
        }
        match (number / 2, number % 2) {
            (index, _) if index == self.agents => AgentTimer::Heartbeat,
            (index, 0) => AgentTimer::Wake(AgentId::at(index)),
            (index, _) => AgentTimer::Timeout(AgentId::at(index)),
        }
    }
}
