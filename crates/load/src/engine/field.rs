//! What a step speaks of: arguments of its request, fields of its answer, and places in them. It must not compare or keep.

use super::pointer::Pointer;
use crate::protocols::Protocol;
use crate::values::Argument;

/// Fields of the answer that are asked for, by number.
#[derive(Debug, Default)]
pub struct Wants(pub Vec<String>);

impl Wants {
    /// The number of a field, a new one if it has none yet.
    pub fn number(&mut self, field: &str) -> usize {
        self.0.iter().position(|known| known == field).unwrap_or_else(|| {
            self.0.push(field.to_owned());
            self.0.len() - 1
        })
    }
}

/// A field of an answer, or a place in it.
#[derive(Debug, Clone)]
pub struct Field {
    /// Number of the field.
    pub want: usize,
    /// Where in it, if it is to be read as JSON.
    pub place: Option<Pointer>,
}

/// Reused memory for what is read of an answer.
#[derive(Debug, Default)]
pub struct Found {
    field: Vec<u8>,
    place: Vec<u8>,
}

impl Field {
    /// `FIELD` or `FIELD/JSON/POINTER`.
    pub fn compile(text: &str, wants: &mut Wants) -> Result<Self, String> {
        let (field, place) = experiment::pointer::split(text);
        Ok(Self { want: wants.number(field), place: place.map(Pointer::compile).transpose()? })
    }

    /// What the answer has there; `None` if it has nothing, or if the field is not the JSON that it would have to be.
    #[inline]
    pub fn read<'a, P: Protocol>(
        &self,
        request: &'a P::Request,
        decoder: &'a P::Decoder,
        input: &'a [u8],
        found: &'a mut Found,
    ) -> Option<&'a [u8]> {
        found.field.clear();
        let field = P::field(request, decoder, self.want, input, &mut found.field)?;
        match &self.place {
            None => Some(field),
            Some(place) => place.find(field, &mut found.place),
        }
    }
}

/// A part of an operation.
#[derive(Debug, Clone)]
pub enum Part {
    /// The argument at that place.
    Argument(usize),
    /// Of its answer.
    Answer(Field),
}

impl Part {
    /// `request.FIELD`, `answer.FIELD` or `answer.FIELD/JSON/POINTER`.
    pub fn compile(text: &str, arguments: &[Argument], wants: &mut Wants) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("request.") {
            let place = arguments.iter().position(|argument| argument.name == name);
            Ok(Self::Argument(place.ok_or_else(|| format!("the request is given no `{name}` to keep"))?))
        } else if let Some(field) = text.strip_prefix("answer.") {
            Field::compile(field, wants).map(Self::Answer)
        } else {
            Err(format!("`{text}` is neither request.FIELD nor answer.FIELD"))
        }
    }
}
