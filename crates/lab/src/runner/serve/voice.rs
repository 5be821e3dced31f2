//! What the runner says: whole lines, one after the other, whoever speaks. It must not decide what is said.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use crate::runner::{Answer, Refusal, Said};

/// Standard output.
pub struct Voice {
    /// `None` once nobody listens.
    output: Mutex<Option<Box<dyn Write + Send>>>,
}

impl Voice {
    pub fn new(output: Box<dyn Write + Send>) -> Arc<Self> {
        Arc::new(Self { output: Mutex::new(Some(output)) })
    }

    /// Says a line. That nobody listens is noticed at the input's end.
    pub fn say(&self, said: &Said) {
        let Ok(mut line) = serde_json::to_vec(said) else { return };
        line.push(b'\n');
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = output.as_mut().map(|output| output.write_all(&line).and_then(|()| output.flush()));
        if matches!(heard, Some(Err(_))) {
            *output = None;
        }
    }

    pub fn done(&self, number: u64) {
        self.say(&Said::Done { number, answer: Answer::Nothing });
    }

    pub fn refused(&self, number: u64, why: Refusal) {
        self.say(&Said::Refused { number, why });
    }
}
