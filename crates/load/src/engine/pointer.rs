//! Finds the place that a JSON pointer names (RFC 6901) in a text that has to be JSON, without building a tree of it: what is not on
//! the way is only skipped. The text is read to its end, because half of a text is no JSON. It must not know what is compared.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A compiled pointer.
#[derive(Debug, Clone)]
pub struct Pointer(Box<[Step]>);

#[derive(Debug, Clone)]
struct Step {
    /// In an object.
    name: Box<str>,
    /// In an array.
    index: Option<usize>,
}

impl Pointer {
    /// Compiles `/items/0/id`.
    pub fn compile(text: &str) -> Result<Self, String> {
        let parsed = experiment::pointer::Pointer::parse(text).map_err(|error| format!("`{text}`: {error}"))?;
        let step = |name: String| Step { index: experiment::pointer::index(&name), name: name.into() };
        Ok(Self(parsed.steps.into_iter().map(step).collect()))
    }

    /// What stands there: of a text what it says, of everything else how it is written. `None` if nothing does, or if `json` is not
    /// JSON. Of two members of one name the last counts, as with most readers (RFC 8259, 4).
    pub fn find<'a>(&self, json: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let mut found = None;
        let mut reader = serde_json::Deserializer::from_slice(json);
        Way { steps: &self.0, found: &mut found }.deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        said(found?, scratch)
    }
}

/// What a JSON value says: texts without quotes and escapes.
fn said<'a>(written: &'a str, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let Some(text) = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Some(written.as_bytes());
    };
    if !text.contains('\\') {
        return Some(text.as_bytes());
    }
    let text: String = serde_json::from_str(written).ok()?;
    scratch.clear();
    scratch.extend_from_slice(text.as_bytes());
    Some(scratch)
}

/// The rest of the way from a value, and what is found at its end.
struct Way<'p, 'json> {
    steps: &'p [Step],
    found: &'p mut Option<&'json str>,
}

impl<'json> DeserializeSeed<'json> for Way<'_, 'json> {
    type Value = ();

    fn deserialize<D: Deserializer<'json>>(self, value: D) -> Result<(), D::Error> {
        *self.found = None;
        if self.steps.is_empty() {
            *self.found = Some(<&'json RawValue>::deserialize(value)?.get());
            return Ok(());
        }
        value.deserialize_any(self)
    }
}

impl<'json> Visitor<'json> for Way<'_, 'json> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'json>>(self, mut members: A) -> Result<(), A::Error> {
        let Some((step, rest)) = self.steps.split_first() else { return Ok(()) };
        while let Some(is_it) = members.next_key_seed(Named(&step.name))? {
            if is_it {
                members.next_value_seed(Way { steps: rest, found: &mut *self.found })?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'json>>(self, mut elements: A) -> Result<(), A::Error> {
        let Some((step, rest)) = self.steps.split_first() else { return Ok(()) };
        for number in 0.. {
            let element = if step.index == Some(number) {
                elements.next_element_seed(Way { steps: rest, found: &mut *self.found })?
            } else {
                elements.next_element::<IgnoredAny>()?.map(|_| ())
            };
            if element.is_none() {
                break;
            }
        }
        Ok(())
    }

    // Below what is neither object nor array there is nothing.

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Whether a member is the one of that name.
struct Named<'p>(&'p str);

impl<'json> DeserializeSeed<'json> for Named<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'json>>(self, name: D) -> Result<bool, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Named<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests;
