//! Compiled expectations and captures of a step: references to parts of the step's request and
//! answer, and checks of texts.

use std::sync::Arc;

use experiment::plan::{Expected, SlotContent};
use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};
use wire::pointer::CompiledPointer;
use wire::session::SessionProtocol;
use wire::values::lua::{Function, Program};
use wire::values::{Argument, CompiledTemplate, ValueSource};

/// Fields of the answer that a step needs.
#[derive(Debug, Default)]
pub struct WantedFields(pub Vec<String>);

impl WantedFields {
    /// Returns the index of a field. Adds the field if it is new.
    pub fn number(&mut self, field: &str) -> usize {
        self.0.iter().position(|known| known == field).unwrap_or_else(|| {
            self.0.push(field.to_owned());
            self.0.len() - 1
        })
    }
}

/// A field of an answer, or a place in the field's JSON.
#[derive(Debug, Clone)]
pub struct CompiledField {
    /// Index of the field in [`WantedFields`].
    pub want: usize,
    /// Place in the JSON. `None` for the whole text.
    pub place: Option<CompiledPointer>,
}

/// Reused memory for values that are read from an answer.
#[derive(Debug, Default)]
pub struct ExtractedFields {
    field: Vec<u8>,
    place: Vec<u8>,
}

impl CompiledField {
    /// Compiles `FIELD` or `FIELD/JSON/POINTER`.
    pub fn compile(text: &str, wants: &mut WantedFields) -> Result<Self, String> {
        let (field, place) = experiment::pointer::split(text);
        Ok(Self { want: wants.number(field), place: place.map(CompiledPointer::compile).transpose()? })
    }

    /// Returns the text of the field or place in the answer. Returns `None` if the field or place
    /// is absent, or if a place is wanted and the field is not JSON.
    #[inline]
    pub fn read<'a, P: SessionProtocol>(
        &self,
        request: &'a P::Request,
        session: &'a P::Session,
        input: &'a [u8],
        found: &'a mut ExtractedFields,
    ) -> Option<&'a [u8]> {
        found.field.clear();
        let field = P::field(request, session, self.want, input, &mut found.field)?;
        match &self.place {
            None => Some(field),
            Some(place) => place.find(field, &mut found.place),
        }
    }

    /// Returns the text of the field or place as [`Self::read`] does, of the field's value with
    /// index `nth` if the answer has the field several times.
    fn read_nth<'a, P: SessionProtocol>(
        &self,
        nth: usize,
        request: &'a P::Request,
        session: &'a P::Session,
        input: &'a [u8],
        found: &'a mut ExtractedFields,
    ) -> Option<&'a [u8]> {
        if nth == 0 {
            return self.read::<P>(request, session, input, found);
        }
        let field = P::field_again(request, session, self.want, nth, input)?;
        match &self.place {
            None => Some(field),
            Some(place) => place.find(field, &mut found.place),
        }
    }
}

/// A part of an operation's request or answer.
#[derive(Debug, Clone)]
pub enum OperationPart {
    /// An argument, or a place in it.
    Argument(ArgumentPart),
    /// A field of the answer, or a place in it.
    Answer(CompiledField),
}

/// An argument of an operation, or a place in it.
#[derive(Debug, Clone)]
pub struct ArgumentPart {
    /// Index of the argument in the step.
    pub argument: usize,
    /// Place in the JSON. `None` for the whole text.
    pub place: Option<CompiledPointer>,
}

impl ArgumentPart {
    /// Appends the value. Returns false if the place does not exist or the argument is not JSON.
    pub fn write(
        &self,
        arguments: &[Argument],
        source: &ValueSource<'_>,
        found: &mut ExtractedFields,
        out: &mut Vec<u8>,
    ) -> bool {
        let template = &arguments[self.argument].template;
        let Some(place) = &self.place else {
            template.write(source, out);
            return true;
        };
        found.field.clear();
        template.write(source, &mut found.field);
        let value = place.find(&found.field, &mut found.place);
        out.extend_from_slice(value.unwrap_or_default());
        value.is_some()
    }
}

impl OperationPart {
    /// Compiles `request.FIELD` or `answer.FIELD`, optionally with a JSON pointer:
    /// `answer.FIELD/JSON/POINTER`.
    pub fn compile(text: &str, arguments: &[Argument], wants: &mut WantedFields) -> Result<Self, String> {
        if let Some(part) = text.strip_prefix("request.") {
            let (name, place) = experiment::pointer::split(part);
            let argument = arguments.iter().position(|argument| argument.name == name);
            let argument = argument.ok_or_else(|| format!("the operation has no argument `{name}` to keep"))?;
            let place = place.map(CompiledPointer::compile).transpose()?;
            Ok(Self::Argument(ArgumentPart { argument, place }))
        } else if let Some(field) = text.strip_prefix("answer.") {
            CompiledField::compile(field, wants).map(Self::Answer)
        } else {
            Err(format!("`{text}` is neither request.FIELD nor answer.FIELD"))
        }
    }
}

/// A field of the answer, or a place in it, with its expected value.
pub struct Expectation {
    pub field: CompiledField,
    pub check: TextCheck,
}

/// A check of a text.
pub enum TextCheck {
    /// The text equals the template's value.
    Exactly(CompiledTemplate),
    /// The text meets all conditions. Boxed because most steps have no conditions.
    Compared(Box<CompiledCondition>),
}

/// Conditions on a text.
pub struct CompiledCondition {
    matches: Option<Regex>,
    contains: Option<CompiledTemplate>,
    one_of: Option<Box<[CompiledTemplate]>>,
    lua: Option<Function>,
    not: Option<TextCheck>,
}

/// A value to keep, and its slot.
pub struct CaptureSlot {
    /// Index of the slot in the load.
    pub slot: u8,
    /// Source of the value.
    pub what: OperationPart,
    /// Pattern of the part to keep. Without a pattern, the whole value is kept.
    pub matches: Option<Regex>,
}

/// Compiler for the parts of a check.
pub struct ExpectationCompiler<'a> {
    /// Compiles a template of the step.
    pub template: &'a mut dyn FnMut(&str) -> Result<CompiledTemplate, String>,
    pub program: Option<&'a Arc<Program>>,
}

impl Expectation {
    /// Compiles the expectation of a step for a field.
    pub fn compile(
        field: &str,
        expected: &Expected,
        wants: &mut WantedFields,
        compiler: ExpectationCompiler<'_>,
    ) -> Result<Self, String> {
        Ok(Self { field: CompiledField::compile(field, wants)?, check: TextCheck::compile(expected, compiler)? })
    }

    /// Whether the answer has the field and the field passes the check. If the answer has the field
    /// several times, one of its values must be as required, and none may be excluded. `value` is
    /// memory for rendered values.
    pub fn holds<P: SessionProtocol>(
        &self,
        (request, session, input): (&P::Request, &P::Session, &[u8]),
        source: &ValueSource<'_>,
        found: &mut ExtractedFields,
        value: &mut Vec<u8>,
    ) -> bool {
        let excludes = self.check.excludes();
        let mut is_met = false;
        let mut nth = 0;
        while let Some(got) = self.field.read_nth::<P>(nth, request, session, input, found) {
            if excludes && !self.check.admits(got, source, value) {
                return false;
            }
            is_met = is_met || self.check.is_met(got, source, value);
            if is_met && !excludes {
                return true;
            }
            nth += 1;
        }
        is_met
    }

    /// Whether the check takes more than comparing bytes.
    pub fn is_costly(&self) -> bool {
        let takes_more = match &self.check {
            TextCheck::Exactly(template) => template.asks_script(),
            TextCheck::Compared(_) => true,
        };
        takes_more || self.field.place.is_some()
    }
}

impl CaptureSlot {
    /// Compiles the capture of a step into a slot.
    pub fn compile(
        slot: u8,
        kept: &SlotContent,
        arguments: &[Argument],
        wants: &mut WantedFields,
    ) -> Result<Self, String> {
        let (what, matches) = match kept {
            SlotContent::Whole(what) => (what, None),
            SlotContent::Part { from, matches } => (from, Some(pattern(matches)?)),
        };
        Ok(Self { slot, what: OperationPart::compile(what, arguments, wants)?, matches })
    }

    /// Appends the part of the answer to keep. If the answer has the field several times, keeps the
    /// first value that matches the pattern. Returns false if there is none.
    pub fn write_answer<P: SessionProtocol>(
        &self,
        field: &CompiledField,
        (request, session, input): (&P::Request, &P::Session, &[u8]),
        found: &mut ExtractedFields,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut nth = 0;
        while let Some(got) = field.read_nth::<P>(nth, request, session, input, found) {
            let kept = match &self.matches {
                None => Some(got),
                Some(pattern) => part(pattern, got),
            };
            if let Some(kept) = kept {
                out.extend_from_slice(kept);
                return true;
            }
            nth += 1;
        }
        false
    }

    /// Whether the capture takes more than copying bytes.
    pub fn is_costly(&self) -> bool {
        let place = match &self.what {
            OperationPart::Argument(part) => &part.place,
            OperationPart::Answer(field) => &field.place,
        };
        self.matches.is_some() || place.is_some()
    }
}

/// Compiles a regular expression over bytes, which can match any answer. Its character classes are
/// ASCII.
fn pattern(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).unicode(false).build().map_err(|error| format!("`{text}`: {error}"))
}

/// Returns the match of the pattern's first group, or the whole match if there is no group.
pub fn part<'a>(pattern: &Regex, text: &'a [u8]) -> Option<&'a [u8]> {
    if pattern.captures_len() == 1 {
        return pattern.find(text).map(|found| found.as_bytes());
    }
    pattern.captures(text)?.get(1).map(|group| group.as_bytes())
}

impl TextCheck {
    /// Compiles a check of a text.
    pub fn compile(expected: &Expected, compiler: ExpectationCompiler<'_>) -> Result<Self, String> {
        let ExpectationCompiler { template, program } = compiler;
        let comparison = match expected {
            Expected::Text(text) => return template(text).map(Self::Exactly),
            Expected::Compared(comparison) => comparison,
        };
        let one_of = |texts: &Vec<String>| {
            texts.iter().map(|text| template(text)).collect::<Result<Box<[CompiledTemplate]>, String>>()
        };
        let function = |name: &str| {
            let program =
                program.ok_or_else(|| format!("the function `{name}` needs a script, but the load has none"))?;
            Program::function(program, name)
        };
        Ok(Self::Compared(Box::new(CompiledCondition {
            one_of: comparison.one_of.as_ref().map(one_of).transpose()?,
            matches: comparison.matches.as_deref().map(pattern).transpose()?,
            contains: comparison.contains.as_deref().map(&mut *template).transpose()?,
            lua: comparison.lua.as_deref().map(function).transpose()?,
            not: match comparison.not.as_deref() {
                Some(not) => Some(Self::compile(not, ExpectationCompiler { template, program })?),
                None => None,
            },
        })))
    }

    /// Whether this cycle has filled every slot that the check uses.
    pub fn is_filled(&self, source: &ValueSource<'_>) -> bool {
        match self {
            Self::Exactly(template) => template.is_filled(source),
            Self::Compared(comparison) => comparison.is_filled(source),
        }
    }

    /// Whether the check requires some content, and does not only exclude content.
    pub fn is_positive(&self) -> bool {
        match self {
            Self::Exactly(_) => true,
            Self::Compared(comparison) => {
                comparison.matches.is_some()
                    || comparison.contains.is_some()
                    || comparison.one_of.is_some()
                    || comparison.lua.is_some()
            }
        }
    }

    /// Whether the check excludes some content.
    fn excludes(&self) -> bool {
        matches!(self, Self::Compared(comparison) if comparison.not.is_some())
    }

    /// Whether the text has the required content. `scratch` is memory for rendered values.
    #[inline]
    fn is_met(&self, text: &[u8], source: &ValueSource<'_>, scratch: &mut Vec<u8>) -> bool {
        match self {
            Self::Exactly(template) => with_value(template, source, scratch, |value| text == value),
            Self::Compared(comparison) => comparison.all(text, source, scratch),
        }
    }

    /// Whether the text has none of the excluded content.
    fn admits(&self, text: &[u8], source: &ValueSource<'_>, scratch: &mut Vec<u8>) -> bool {
        let Self::Compared(comparison) = self else { return true };
        comparison.not.as_ref().is_none_or(|not| not.is_unlike(text, source, scratch))
    }

    /// Whether the text passes the check.
    pub fn holds(&self, text: &[u8], source: &ValueSource<'_>, scratch: &mut Vec<u8>) -> bool {
        self.is_met(text, source, scratch) && self.admits(text, source, scratch)
    }

    /// Whether no condition of the check holds.
    fn is_unlike(&self, text: &[u8], source: &ValueSource<'_>, scratch: &mut Vec<u8>) -> bool {
        match self {
            Self::Exactly(_) => !self.holds(text, source, scratch),
            Self::Compared(comparison) => comparison.none(text, source, scratch),
        }
    }
}

impl CompiledCondition {
    fn is_filled(&self, source: &ValueSource<'_>) -> bool {
        let texts = self.one_of.iter().flat_map(|texts| texts.iter());
        self.contains.iter().chain(texts).all(|template| template.is_filled(source))
            && self.not.as_ref().is_none_or(|not| not.is_filled(source))
    }

    fn all(&self, text: &[u8], source: &ValueSource<'_>, scratch: &mut Vec<u8>) -> bool {
        self.matches.as_ref().is_none_or(|pattern| pattern.is_match(text))
            && self.contains.as_ref().is_none_or(|part| has(text, part, source, scratch))
            && self.one_of.as_ref().is_none_or(|texts| is_one_of(text, texts, source, scratch))
            && self.lua.as_ref().is_none_or(|function| function.accepts(text, source, source.draw))
    }

    fn none(&self, text: &[u8], source: &ValueSource<'_>, scratch: &mut Vec<u8>) -> bool {
        self.matches.as_ref().is_none_or(|pattern| !pattern.is_match(text))
            && self.contains.as_ref().is_none_or(|part| !has(text, part, source, scratch))
            && self.one_of.as_ref().is_none_or(|texts| !is_one_of(text, texts, source, scratch))
            && self.lua.as_ref().is_none_or(|function| !function.accepts(text, source, source.draw))
            && self.not.as_ref().is_none_or(|not| !not.is_unlike(text, source, scratch))
    }
}

fn has(text: &[u8], part: &CompiledTemplate, source: &ValueSource<'_>, scratch: &mut Vec<u8>) -> bool {
    with_value(part, source, scratch, |value| memmem::find(text, value).is_some())
}

fn is_one_of(text: &[u8], texts: &[CompiledTemplate], source: &ValueSource<'_>, scratch: &mut Vec<u8>) -> bool {
    texts.iter().any(|one| with_value(one, source, scratch, |value| text == value))
}

/// Passes the template's value to `look`. Renders the value only if it is not in memory already.
#[inline]
fn with_value<R>(
    template: &CompiledTemplate,
    source: &ValueSource<'_>,
    scratch: &mut Vec<u8>,
    look: impl FnOnce(&[u8]) -> R,
) -> R {
    if let Some(value) = template.as_slot(source).or_else(|| template.as_constant()) {
        return look(value);
    }
    scratch.clear();
    template.write(source, scratch);
    look(scratch)
}

#[cfg(test)]
mod tests {
    use experiment::plan::TextCondition;
    use wire::testing::{names, source};

    use super::*;

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn texts(texts: &[&str]) -> Option<Vec<String>> {
        Some(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    fn not(expected: Expected) -> Option<Box<Expected>> {
        Some(Box::new(expected))
    }

    fn compile(expected: &Expected) -> Result<TextCheck, String> {
        TextCheck::compile(
            expected,
            ExpectationCompiler { template: &mut |text| CompiledTemplate::compile(text, 0, &names()), program: None },
        )
    }

    fn holds(expected: &Expected, text: &[u8]) -> bool {
        compile(expected).unwrap().holds(text, &source(3, 12), &mut b"left over".to_vec())
    }

    #[test]
    fn each_kind_of_comparison() {
        let compared = Expected::Compared;
        let matches = |pattern: &str| TextCondition { matches: text(pattern), ..TextCondition::default() };
        let contains = |part: &str| TextCondition { contains: text(part), ..TextCondition::default() };
        let one_of = |list: &[&str]| TextCondition { one_of: texts(list), ..TextCondition::default() };
        let unlike = |expected: Expected| TextCondition { not: not(expected), ..TextCondition::default() };
        let table: &[(Expected, &[&str], &[&str])] = &[
            ("ok".into(), &["ok"], &["", "ok ", "o"]),
            ("{agent}-{seq}".into(), &["3-12"], &["3-1", "3-122"]),
            (compared(matches("^ok")), &["ok", "okay"], &["", "not ok"]),
            (compared(matches(r"^\d{3}$")), &["200"], &["2000", "20", "٢٠٠"]),
            (compared(contains("rr")), &["error", "rr"], &["", "r r"]),
            (compared(contains("<{seq}>")), &["a<12>b"], &["a<1>2b"]),
            (compared(one_of(&["200", "2{agent}1"])), &["200", "231"], &["201", ""]),
            (compared(unlike("0".into())), &["", "00"], &["0"]),
            (compared(unlike(compared(contains("error")))), &["", "fine"], &["an error"]),
            (compared(unlike(compared(matches("^$")))), &["x"], &[""]),
            (compared(unlike(compared(one_of(&["a", "b"])))), &["c"], &["a", "b"]),
        ];
        for (expected, right, wrong) in table {
            assert!(right.iter().all(|text| holds(expected, text.as_bytes())), "{expected:?}");
            assert!(wrong.iter().all(|text| !holds(expected, text.as_bytes())), "{expected:?}");
        }
        assert!(holds(&compared(matches(r"(?s)a.\xff$")), b"a\n\xff"), "answers are bytes");
    }

    #[test]
    fn combined_conditions_must_all_hold() {
        let bad = TextCondition { contains: text("bad"), matches: text("[0-9]"), ..TextCondition::default() };
        let expected = Expected::Compared(TextCondition {
            contains: text("good"),
            one_of: texts(&["good", "good bad", "good 1", "goods"]),
            not: not(Expected::Compared(bad)),
            ..TextCondition::default()
        });
        for (text, is_right) in
            [("good", true), ("goods", true), ("good bad", false), ("good 1", false), ("good x", false)]
        {
            assert_eq!(holds(&expected, text.as_bytes()), is_right, "{text}");
        }
    }

    #[test]
    fn unfilled_slots_are_detected() {
        let slots = vec!["a".to_owned(), "b".to_owned()];
        let names = || wire::values::TemplateNames { slots: &slots, ..Default::default() };
        let kept = [b"x".to_vec(), b"y".to_vec()];
        let source = |kept_bits| ValueSource { slots: &kept, kept: kept_bits, ..source(1, 1) };
        let comparisons = [
            TextCondition { one_of: texts(&["{a}", "{b}"]), ..TextCondition::default() },
            TextCondition { contains: text("{a}"), not: not("{b}".into()), ..TextCondition::default() },
            TextCondition {
                contains: text("{a}"),
                not: not(Expected::Compared(TextCondition { contains: text("{b}"), ..TextCondition::default() })),
                ..TextCondition::default()
            },
        ];
        for comparison in comparisons {
            let expected = Expected::Compared(comparison);
            let compiler = ExpectationCompiler {
                template: &mut |text| CompiledTemplate::compile(text, 0, &names()),
                program: None,
            };
            let check = TextCheck::compile(&expected, compiler).unwrap();
            assert!(check.is_filled(&source(3)) && !check.is_filled(&source(1)) && !check.is_filled(&source(2)));
            assert!(check.holds(b"x", &source(3), &mut Vec::new()), "{expected:?}");
        }
    }

    #[test]
    fn positive_conditions_are_recognised() {
        let of = |comparison| compile(&Expected::Compared(comparison)).unwrap().is_positive();
        assert!(compile(&"404".into()).unwrap().is_positive());
        assert!(of(TextCondition { one_of: texts(&["404"]), ..TextCondition::default() }));
        assert!(of(TextCondition { matches: text("^4"), not: not("404".into()), ..TextCondition::default() }));
        assert!(!of(TextCondition { not: not("304".into()), ..TextCondition::default() }));
    }

    #[test]
    fn invalid_patterns_and_templates_are_refused() {
        let of = |comparison| compile(&Expected::Compared(comparison)).err().unwrap();
        assert!(of(TextCondition { matches: text("("), ..TextCondition::default() }).starts_with("`(`: "));
        assert!(of(TextCondition { one_of: texts(&["{"]), ..TextCondition::default() }).starts_with("`{`: "));
    }

    #[test]
    fn parts() {
        let of = |pattern_text: &str, text: &str| {
            let pattern = pattern(pattern_text).unwrap();
            part(&pattern, text.as_bytes()).map(|part| String::from_utf8(part.to_vec()).unwrap())
        };
        assert_eq!(of("id=([0-9]+)", "a id=7, id=8").as_deref(), Some("7"));
        assert_eq!(of("[0-9]+", "a id=17").as_deref(), Some("17"));
        assert_eq!(of("id=([0-9]+)", "id=x"), None);
        assert_eq!(of("a(b)?", "ac"), None, "a group that took no part");
    }
}
