//! What the runner says: whole lines, one after the other, whoever speaks. It must not decide what is said.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use crate::runner::said::PIECE_BYTES;
use crate::runner::{Answer, LINE_BYTES, Refusal, Said};

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
        if line.len() > LINE_BYTES {
            // Whoever hears it would take us for broken.
            if let Said::Done { number, .. } | Said::Refused { number, .. } = said {
                self.refused(*number, Refusal::system("answer", &"what there is to say is too long"));
            }
            return;
        }
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = output.as_mut().map(|output| output.write_all(&line).and_then(|()| output.flush()));
        if matches!(heard, Some(Err(_))) {
            *output = None;
        }
    }

    pub fn done(&self, number: u64) {
        self.say(&Said::Done { number, answer: Answer::Nothing });
    }

    /// What came of an order. What a program printed is said in pieces, so that none is longer than a line may be.
    pub fn answer(&self, number: u64, answer: Answer) {
        let Answer::Ran { how, output, errors } = answer else { return self.say(&Said::Done { number, answer }) };
        let rest = |text: String, to_errors| {
            let mut text = text.as_str();
            while text.len() > PIECE_BYTES / 2 {
                let end = (0..=PIECE_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
                let (piece, more) = text.split_at(end);
                self.say(&Said::Printed { number, to_errors, text: piece.to_owned() });
                text = more;
            }
            text.to_owned()
        };
        let (output, errors) = (rest(output, false), rest(errors, true));
        self.say(&Said::Done { number, answer: Answer::Ran { how, output, errors } });
    }

    pub fn refused(&self, number: u64, why: Refusal) {
        self.say(&Said::Refused { number, why });
    }
}
