//! Work done by `ok` operations: units, and the statuses of the parts that answers report. An
//! answer is read in one pass without building a tree, because it may be megabytes long.

use std::fmt;

use experiment::plan::{Step, UnitAmount};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use wire::pointer::PointerStep;
use wire::session::SessionProtocol;

use super::expectation::{CompiledField, ExtractedFields, WantedFields};

/// Maximum number of different statuses, which bounds memory. Usual answers have a handful.
const STATUSES: usize = 64;
/// Longest status, in bytes.
const LONGEST: usize = 40;
/// Name under which statuses beyond [`STATUSES`] are counted.
const OTHERS: &str = "others";

/// Counter of the units in a step's answers.
#[derive(Debug)]
pub struct UnitCounter {
    amount: Option<CompiledAmount>,
    parts: Option<CompiledParts>,
}

#[derive(Debug)]
enum CompiledAmount {
    Fixed(u64),
    Told(CompiledField),
}

/// Location of the parts in an answer.
#[derive(Debug)]
struct CompiledParts {
    /// Field that contains the parts, without a pointer.
    field: CompiledField,
    steps: Box<[PartStep]>,
}

#[derive(Debug)]
enum PartStep {
    /// `*`: every member or element.
    Any,
    One(PointerStep),
}

/// Number of parts for each status.
#[derive(Debug, Default)]
pub struct StatusCounts {
    /// Every status that ever occurred, with its count since the last reset.
    counts: Vec<(Box<str>, u64)>,
    ok: u64,
    all: u64,
    /// Whether each part of the answer took effect, in order.
    fates: Vec<Option<bool>>,
}

impl StatusCounts {
    fn clear(&mut self) {
        self.counts.iter_mut().for_each(|(_, count)| *count = 0);
        (self.ok, self.all) = (0, 0);
        self.fates.clear();
    }

    /// Returns for each part of the last answer whether the part took effect, or `None` if its
    /// status does not decide it.
    pub fn fates(&self) -> &[Option<bool>] {
        &self.fates
    }

    fn count(&mut self, status: &str, is_ok: bool, many: u64) {
        self.all += many;
        self.ok += if is_ok { many } else { 0 };
        if let Some((_, count)) = self.counts.iter_mut().find(|(known, _)| **known == *status) {
            *count += many;
        } else if self.counts.len() < STATUSES {
            self.counts.push((status.into(), many));
        } else {
            self.count_other(many);
        }
    }

    #[cold]
    fn count_other(&mut self, many: u64) {
        match self.counts.iter_mut().find(|(known, _)| **known == *OTHERS) {
            Some((_, count)) => *count += many,
            None => self.counts.push((OTHERS.into(), many)),
        }
    }

    /// Adds the counts of an answer.
    pub fn add(&mut self, other: &Self) {
        for (status, count) in other.counts.iter().filter(|(_, count)| *count > 0) {
            self.count(status, is_ok(status), *count);
        }
    }

    /// Returns each status with its count, and resets all counts.
    pub fn take(&mut self) -> Vec<(String, u64)> {
        let occurred = self.counts.iter().filter(|(_, count)| *count > 0);
        let taken = occurred.map(|(status, count)| (status.to_string(), *count)).collect();
        self.clear();
        taken
    }
}

/// Whether a part with this status succeeded, by the rules of HTTP.
fn is_ok(status: &str) -> bool {
    status.len() == 3 && status.starts_with('2') && status.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a part with this status took effect. A part that the server refused did not take
/// effect. For a part on which the server failed, the effect is unknown.
fn fate(status: &str) -> Option<bool> {
    match is_ok(status) {
        true => Some(true),
        false => (status.len() == 3 && status.starts_with('4') && status != "408").then_some(false),
    }
}

impl UnitCounter {
    /// Whether the counter reads the status of each part.
    pub fn has_parts(&self) -> bool {
        self.parts.is_some()
    }

    /// Compiles the counter of a step, or `None` if the step counts no units.
    pub fn compile(step: &Step, wants: &mut WantedFields) -> Result<Option<Self>, String> {
        let in_answer =
            |text: &str| text.strip_prefix("answer.").map(str::to_owned).ok_or(format!("`{text}` is not answer.FIELD"));
        let amount = match &step.units {
            None => None,
            Some(UnitAmount::Fixed(units)) => Some(CompiledAmount::Fixed(*units)),
            Some(UnitAmount::Told(text)) => {
                Some(CompiledAmount::Told(CompiledField::compile(&in_answer(text)?, wants)?))
            }
        };
        let parts = |text: &String| CompiledParts::compile(&in_answer(text)?, wants);
        let parts = step.parts.as_ref().map(parts).transpose()?;
        Ok((amount.is_some() || parts.is_some()).then_some(Self { amount, parts }))
    }

    /// Whether counting must read answers.
    pub fn is_costly(&self) -> bool {
        self.parts.is_some() || matches!(self.amount, Some(CompiledAmount::Told(_)))
    }

    /// Returns the number of units of an operation with this answer, and sets `parts` to the
    /// answer's parts. Returns `None` if the answer lacks a needed field.
    pub fn count<P: SessionProtocol>(
        &self,
        request: &P::Request,
        session: &P::Session,
        input: &[u8],
        found: &mut ExtractedFields,
        parts: &mut StatusCounts,
    ) -> Option<u64> {
        parts.clear();
        if let Some(places) = &self.parts {
            places.count(places.field.read::<P>(request, session, input, found)?, parts)?;
        }
        let units = match &self.amount {
            None => return Some(parts.ok),
            Some(CompiledAmount::Fixed(units)) => *units,
            Some(CompiledAmount::Told(field)) => told(field.read::<P>(request, session, input, found)?)?,
        };
        // The units are shared equally among the parts.
        let done =
            if parts.all > 0 { u128::from(units) * u128::from(parts.ok) / u128::from(parts.all) } else { units.into() };
        u64::try_from(done).ok()
    }
}

/// Returns the number in a text, or the length of a JSON array.
fn told(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    if text.starts_with(b"[") {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let length = reader.deserialize_seq(ArrayLength).ok()?;
        reader.end().ok()?;
        return Some(length);
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

struct ArrayLength;

impl<'json> Visitor<'json> for ArrayLength {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'json>>(self, mut elements: A) -> Result<u64, A::Error> {
        let mut length = 0;
        while elements.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(length)
    }
}

impl CompiledParts {
    fn compile(text: &str, wants: &mut WantedFields) -> Result<Self, String> {
        let (field, place) = experiment::pointer::split(text);
        let place = place.ok_or_else(|| format!("`{text}` has no JSON pointer into `{field}`"))?;
        let parsed = experiment::pointer::Pointer::parse(place).map_err(|error| format!("`{place}`: {error}"))?;
        let step = |name: String| if name == "*" { PartStep::Any } else { PartStep::One(PointerStep::named(name)) };
        Ok(Self { field: CompiledField::compile(field, wants)?, steps: parsed.steps.into_iter().map(step).collect() })
    }

    /// Counts the parts. Returns `None` if the place does not exist or `json` is not valid to its
    /// end.
    fn count(&self, json: &[u8], counts: &mut StatusCounts) -> Option<()> {
        let mut reader = serde_json::Deserializer::from_slice(json);
        PartsBelow { steps: &self.steps, counts }.deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        (counts.all > 0).then_some(())
    }
}

/// Remaining pointer steps from a value to the parts.
struct PartsBelow<'p> {
    steps: &'p [PartStep],
    counts: &'p mut StatusCounts,
}

impl PartsBelow<'_> {
    fn below(&mut self) -> PartsBelow<'_> {
        PartsBelow { steps: self.steps.get(1..).unwrap_or_default(), counts: &mut *self.counts }
    }

    fn number(self, number: impl Into<i128>) {
        if self.steps.is_empty() {
            let (mut digits, number): (StatusText, i128) = (StatusText::default(), number.into());
            // The buffer fits any 64-bit number.
            let _ = fmt::Write::write_fmt(&mut digits, format_args!("{number}"));
            self.text(digits.as_str());
        }
    }

    fn text(self, status: &str) {
        if self.steps.is_empty() {
            // The status is printed in a table, but the target may send any text.
            let is_plain =
                status.len() <= LONGEST && status.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"');
            let status = if is_plain && !status.is_empty() { status } else { "not a status" };
            self.counts.fates.push(fate(status));
            self.counts.count(status, is_ok(status), 1);
        }
    }
}

/// A number in decimal, without allocation.
#[derive(Default)]
struct StatusText {
    bytes: [u8; 24],
    length: usize,
}

impl StatusText {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for StatusText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.length..self.length + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}

impl<'json> DeserializeSeed<'json> for PartsBelow<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'json>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'json> Visitor<'json> for PartsBelow<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'json>>(mut self, mut members: A) -> Result<(), A::Error> {
        match self.steps.first() {
            Some(PartStep::Any) => {
                while members.next_key::<IgnoredAny>()?.is_some() {
                    members.next_value_seed(self.below())?;
                }
            }
            Some(PartStep::One(step)) => {
                while let Some(is_it) = members.next_key_seed(step.member())? {
                    match is_it {
                        true => members.next_value_seed(self.below())?,
                        false => drop(members.next_value::<IgnoredAny>()?),
                    }
                }
            }
            // An object is not a status.
            None => while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {},
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'json>>(mut self, mut elements: A) -> Result<(), A::Error> {
        for number in 0.. {
            let is_it = match self.steps.first() {
                Some(PartStep::Any) => true,
                Some(PartStep::One(step)) => step.index() == Some(number),
                None => false,
            };
            let element = match is_it {
                true => elements.next_element_seed(self.below())?,
                false => elements.next_element::<IgnoredAny>()?.map(drop),
            };
            if element.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.text(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.number(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.number(value);
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.text("not a status");
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.text(value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.text("null");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(json: &str, place: &str) -> Option<Vec<(String, u64)>> {
        let parts = CompiledParts::compile(&format!("body{place}"), &mut WantedFields::default()).unwrap();
        let mut counts = StatusCounts::default();
        parts.count(json.as_bytes(), &mut counts)?;
        Some(counts.take())
    }

    fn some(counts: &[(&str, u64)]) -> Option<Vec<(String, u64)>> {
        Some(counts.iter().map(|(status, count)| ((*status).to_owned(), *count)).collect())
    }

    #[test]
    fn parts_of_a_bulk_answer() {
        let json = r#"{"took": 3, "errors": true, "items": [
            {"index": {"_id": "1", "status": 201}}, {"create": {"status": 429, "error": {"status": 1}}},
            {"index": {"status": 201}}, {"delete": {"status": "404"}}, {"index": {"_id": "5"}}]}"#;
        assert_eq!(counted(json, "/items/*/*/status"), some(&[("201", 2), ("429", 1), ("404", 1)]));
        assert_eq!(counted(json, "/items/*/index/status"), some(&[("201", 2)]));
        assert_eq!(counted(json, "/items/1/*/status"), some(&[("429", 1)]));
        assert_eq!(counted(json, "/items/*/*/_id"), some(&[("1", 1), ("5", 1)]));
        let odd = some(&[("true", 1), ("null", 1), ("-1", 1), ("not a status", 4), ("x", 2)]);
        assert_eq!(counted(r#"[true, null, -1, 0.5, "x", {}, [], "", "a\nb", "\"", "x"]"#, "/*"), odd);
    }

    #[test]
    fn refused_parts_had_no_effect_and_failed_parts_may() {
        let parts = CompiledParts::compile("body/items/*/status", &mut WantedFields::default()).unwrap();
        let mut counts = StatusCounts::default();
        let answer =
            r#"{"items": [{"status": 201}, {"status": 429}, {"status": 503}, {"status": 200}, {"status": "x"}]}"#;
        parts.count(answer.as_bytes(), &mut counts).unwrap();
        assert_eq!(counts.fates(), [Some(true), Some(false), None, Some(true), None]);
        assert_eq!(
            ["400", "404", "409", "408", "500", "299"].map(fate),
            [Some(false), Some(false), Some(false), None, None, Some(true)]
        );
        counts.clear();
        assert!(counts.fates().is_empty());
    }

    #[test]
    fn answers_without_readable_parts_give_no_counts() {
        for json in
            ["", "{}", r#"{"items": []}"#, r#"{"items": [{"index": {"status": 201}}"#, "{\"items\": [1]} x", "7"]
        {
            assert_eq!(counted(json, "/items/*/*/status"), None, "{json}");
        }
    }

    #[test]
    fn units_are_read_from_numbers_and_arrays() {
        for (text, units) in
            [("500", Some(500)), (" 7\n", Some(7)), ("[]", Some(0)), ("[[1, 2], {\"a\": [3]}]", Some(2))]
        {
            assert_eq!(told(text.as_bytes()), units, "{text}");
        }
        for text in ["", "-1", "1.5", "many", "[1, 2", "[1] 2", "{}"] {
            assert_eq!(told(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn statuses_are_counted_separately_up_to_a_limit() {
        let mut counts = StatusCounts::default();
        (0..1_000).for_each(|number: u32| counts.count(&number.to_string(), is_ok(&number.to_string()), 1));
        assert_eq!((counts.all, counts.ok, counts.counts.len()), (1_000, 100, STATUSES + 1));
        let mut sum = StatusCounts::default();
        sum.add(&counts);
        assert_eq!(sum.all, 1_000);
        assert_eq!(counts.take().iter().map(|(_, count)| count).sum::<u64>(), 1_000);
        assert_eq!((counts.take(), counts.all), (Vec::new(), 0));
        assert_eq!(
            ["200", "299", "300", "20", "2000", "2xx", "ok"].map(is_ok),
            [true, true, false, false, false, false, false]
        );
    }
}
