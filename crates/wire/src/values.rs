//! Values to send: templates, compiled into pieces. A value is a pure function of the agent, its
//! cycle, the agent's kept values and feed rows, and one random number per operation. A retry
//! therefore sends the same value, and a value can be written again instead of being stored.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use experiment::plan::Load;
use experiment::template::{self, Arithmetic, Filter, RangeBound, Template, TemplatePart, TimeFormat};
use fastrand::Rng;
use serde_json::Value as Json;

pub mod allowed;
pub mod csv_text;
pub mod digests;
pub mod encoding;
pub mod feeds;
pub mod files;
pub mod layout;
#[cfg(feature = "scripts")]
pub mod lua;
#[cfg(not(feature = "scripts"))]
#[path = "values/without_lua.rs"]
pub mod lua;
pub mod words;
pub mod zipf;

use crate::cookies::RequestCookies;
use crate::redirection::Redirection;

use allowed::{AllowedBytes, NotSendable};
use digests::DigestKind;
use encoding::{Encoding, PlaceReader, ValuePlace};
use feeds::{FeedPart, FeedRows, TakenRecord};
use files::{ValueFile, ValueFiles};
use zipf::Zipf;

/// Returns the load with environment variables of this process filled in, for use by another
/// process.
#[must_use]
pub fn with_environment(load: &Load) -> Load {
    fn fill(value: &mut Json) {
        match value {
            Json::String(text) => *text = template::with_environment(text, &|name| std::env::var(name).ok()),
            Json::Array(values) => values.iter_mut().for_each(fill),
            Json::Object(values) => values.values_mut().for_each(fill),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
    let filled = serde_json::to_value(load).and_then(|mut load| {
        fill(&mut load);
        serde_json::from_value(load)
    });
    // A load can always be serialised, since the plan contains it.
    filled.unwrap_or_else(|_| load.clone())
}

/// Returns the environment variables of this process that the load's templates use.
#[must_use]
pub fn environment_of(load: &Load) -> BTreeMap<String, String> {
    let taken = RefCell::new(BTreeMap::new());
    let note = |name: &str| {
        taken.borrow_mut().extend(std::env::var(name).ok().map(|value| (name.to_owned(), value)));
        None
    };
    for text in load.all_steps().flat_map(|step| step.with.values().chain(step.set.values())) {
        let _ = template::with_environment(text, &note);
    }
    taken.into_inner()
}

/// All inputs of a value.
#[derive(Clone, Copy)]
pub struct ValueSource<'a> {
    /// Number of the agent, from 1.
    pub agent: u64,
    /// Number of the agent's cycle, from 1.
    pub seq: u64,
    /// Number of the copy of the load to which the agent belongs, from 1.
    pub copy: u64,
    /// Number of the operation among the repetitions of its step, from 1.
    pub repeat: u64,
    /// Random number of the operation.
    pub draw: u64,
    /// Numbers that the operation has taken from counters, by counter.
    pub counters: &'a [u64],
    /// Intended start of the operation, nanoseconds since 1970.
    pub unix_ns: u64,
    /// Values that the agent has kept, by slot.
    pub slots: &'a [Vec<u8>],
    /// Slots that were filled in this cycle, one bit per slot.
    pub kept: u32,
    /// All feeds.
    pub feeds: &'a [FeedRows],
    /// The agent's current record of each feed.
    pub records: &'a [TakenRecord],
}

impl ValueSource<'_> {
    /// Returns the number that the operation has taken from a counter.
    fn number_of(&self, counter: u16) -> u64 {
        self.counters.get(usize::from(counter)).copied().unwrap_or(1)
    }

    /// Inputs for templates that use none.
    pub const NOTHING: Self = Self {
        agent: 0,
        seq: 0,
        copy: 1,
        repeat: 1,
        draw: 0,
        counters: &[],
        unix_ns: 0,
        slots: &[],
        kept: 0,
        feeds: &[],
        records: &[],
    };
}

/// A compiled template.
#[derive(Debug, Clone, PartialEq)]
pub struct CompiledTemplate {
    pieces: Box<[TemplatePiece]>,
    /// Distinguishes the random numbers of an operation's templates from each other.
    stream: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum TemplatePiece {
    Text(Box<[u8]>),
    /// A constant value, such as one from the environment. It is never split into words.
    Env(Box<[u8]>),
    Agent(Arithmetic),
    Seq(Arithmetic),
    Copy(Arithmetic),
    Repeat(Arithmetic),
    Counter {
        counter: u16,
        arithmetic: Arithmetic,
    },
    Bytes(u32),
    RandomBytes(u32),
    File(Arc<ValueFile>),
    Uniform {
        from: u64,
        to: u64,
    },
    Zipf(Zipf),
    Decimal {
        from: i64,
        to: i64,
        decimals: u8,
    },
    Between {
        from: PieceBound,
        to: PieceBound,
    },
    Choice(Box<[Box<[u8]>]>),
    Uuid,
    Now(TimeFormat),
    Feed {
        feed: u16,
        part: FeedPart,
    },
    Slot(u8),
    Whole(CompiledTemplate),
    Script(lua::Function),
    Encoded {
        encoding: Encoding,
        of: Box<[TemplatePiece]>,
    },
    Pad {
        width: u8,
        of: Box<[TemplatePiece]>,
    },
    Digest {
        kind: DigestKind,
        is_hex: bool,
        of: Box<[TemplatePiece]>,
    },
    /// The last piece is the key.
    Hmac {
        is_hex: bool,
        of: Box<[TemplatePiece; 2]>,
    },
}

/// A bound of a range of whole numbers: arithmetic on a value, or on 0.
#[derive(Debug, Clone, PartialEq)]
struct PieceBound {
    of: Option<Box<TemplatePiece>>,
    arithmetic: Arithmetic,
}

impl PieceBound {
    fn compile(bound: RangeBound, names: &TemplateNames<'_>) -> Result<Self, String> {
        let of = bound.of.map(|of| TemplatePiece::compile(*of, names)).transpose()?;
        Ok(Self { of: of.map(Box::new), arithmetic: bound.arithmetic })
    }

    /// Returns the bound. A value that is no whole number counts as 0. `out` is memory for the
    /// value, and is left as it was.
    fn number(&self, source: &ValueSource<'_>, random: &mut Rng, out: &mut Vec<u8>) -> u64 {
        let start = out.len();
        if let Some(of) = &self.of {
            of.write(source, random, out);
        }
        let value = std::str::from_utf8(&out[start..]).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        out.truncate(start);
        self.arithmetic.apply(value)
    }
}

/// Definitions of the names in templates.
#[derive(Default)]
pub struct TemplateNames<'a> {
    /// Names of the cycle's slots, indexed by slot.
    pub slots: &'a [String],
    /// Feeds, indexed by feed.
    pub feeds: &'a [FeedRows],
    /// Files whose bytes are values, if there can be any.
    pub files: Option<&'a ValueFiles>,
    /// Names of the counters that all agents share, indexed by counter.
    pub counters: &'a [String],
    /// The script, if there is one.
    pub program: Option<&'a Arc<lua::Program>>,
    /// Names that refer to another argument of the same operation.
    pub own: BTreeMap<&'a str, CompiledTemplate>,
}

/// An argument of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    pub name: String,
    pub template: CompiledTemplate,
}

/// A piece of a template, as far as it is known before the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateShare<'a> {
    /// Literal text, or the bytes of a file.
    Literal(&'a [u8]),
    /// A constant value, such as one from the environment.
    Constant(&'a [u8]),
    /// A value that is written for each operation.
    Variable,
}

/// Writes the pieces of a template one by one, in their order, with the random numbers of the whole
/// template.
pub struct PieceWriter<'a> {
    pieces: &'a [TemplatePiece],
    source: &'a ValueSource<'a>,
    random: Rng,
}

impl PieceWriter<'_> {
    /// Appends the value of the piece with this index.
    pub fn write(&mut self, piece: usize, out: &mut Vec<u8>) {
        if let Some(piece) = self.pieces.get(piece) {
            piece.write(self.source, &mut self.random, out);
        }
    }
}

/// The arguments of an operation, ready to be written.
#[derive(Clone, Copy)]
pub struct OperationValues<'a> {
    /// Inputs of the values.
    pub source: ValueSource<'a>,
    pub arguments: &'a [Argument],
    /// Cookies of the session, if it has a jar.
    pub cookies: Option<RequestCookies<'a>>,
    /// The redirects that the operation has followed, if any.
    pub redirection: Option<&'a Redirection>,
}

impl OperationValues<'_> {
    /// Appends the value of the argument with index `index`.
    pub fn write(&self, index: usize, out: &mut Vec<u8>) {
        if let Some(argument) = self.arguments.get(index) {
            argument.template.write(&self.source, out);
        }
    }

    /// Appends the value of the argument with index `index`, if the value's variable text is
    /// allowed.
    pub fn write_allowed(&self, index: usize, allowed: &AllowedBytes, out: &mut Vec<u8>) -> Result<(), NotSendable> {
        self.arguments.get(index).map_or(Ok(()), |argument| argument.template.write_allowed(&self.source, allowed, out))
    }
}

impl CompiledTemplate {
    /// Compiles `text`. `stream` is the index of the template among the templates of its operation.
    pub fn compile(text: &str, stream: u64, names: &TemplateNames<'_>) -> Result<Self, String> {
        Self::compile_for(ValuePlace::Plain, text, stream, names)
    }

    /// Compiles `text`, as [`Self::compile`] does, for a part of a request.
    pub fn compile_for(place: ValuePlace, text: &str, stream: u64, names: &TemplateNames<'_>) -> Result<Self, String> {
        let parsed = Template::parse(text).map_err(|error| format!("`{text}`: {error}"))?;
        let mut reader = PlaceReader::new(place);
        let pieces = parsed.parts.into_iter().map(|part| {
            let encoding = reader.part(&part);
            Ok(TemplatePiece::compile(part, names)?.encoded(encoding))
        });
        Ok(Self { pieces: pieces.collect::<Result<_, String>>()?, stream: stream.wrapping_add(1) })
    }

    /// Makes a template of constant text.
    pub fn constant(text: &[u8]) -> Self {
        Self { pieces: Box::new([TemplatePiece::Text(text.into())]), stream: 0 }
    }

    /// Returns the text of a constant template.
    pub fn as_constant(&self) -> Option<&[u8]> {
        match &*self.pieces {
            [] => Some(b""),
            [TemplatePiece::Text(text) | TemplatePiece::Env(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the length of every value, if the length is constant.
    pub fn fixed_length(&self) -> Option<usize> {
        fixed_length(&self.pieces)
    }

    /// Returns the constant parts of the template.
    pub fn literals(&self) -> Vec<&[u8]> {
        let mut literals: Vec<&[u8]> = Vec::new();
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Text(text) | TemplatePiece::Env(text) => literals.push(text),
                TemplatePiece::File(file) => literals.push(&file.bytes),
                TemplatePiece::Choice(texts) => literals.extend(texts.iter().map(|text| &**text)),
                TemplatePiece::Whole(template) => literals.extend(template.literals()),
                _ => {}
            }
        }
        literals
    }

    /// Returns the name of the file, if the template is only a file.
    pub fn as_file(&self) -> Option<&str> {
        if let [TemplatePiece::File(file)] = &*self.pieces { Some(&file.name) } else { None }
    }

    /// Returns the constant text at the beginning of every value.
    pub fn begins_with(&self) -> &[u8] {
        match self.pieces.first() {
            Some(TemplatePiece::Text(text) | TemplatePiece::Env(text)) => text,
            Some(TemplatePiece::File(file)) => &file.bytes,
            _ => b"",
        }
    }

    /// Whether values have variable text, which may be any bytes.
    pub fn is_from_outside(&self) -> bool {
        self.pieces.iter().any(TemplatePiece::is_from_outside)
    }

    /// Appends the value, as [`Self::write`] does, if the value's variable text is allowed.
    pub fn write_allowed(
        &self,
        source: &ValueSource<'_>,
        allowed: &AllowedBytes,
        out: &mut Vec<u8>,
    ) -> Result<(), NotSendable> {
        let mut random = Rng::with_seed(mix(source.draw ^ mix(self.stream)));
        for piece in &self.pieces {
            let begin = out.len();
            piece.write(source, &mut random, out);
            if piece.is_from_outside() {
                allowed.check(&out[begin..])?;
            }
            if piece.is_json() && std::str::from_utf8(&out[begin..]).is_err() {
                return Err(NotSendable::InJson);
            }
        }
        Ok(())
    }

    /// Whether a value is escaped for a JSON string. Such a value must be UTF-8, which
    /// [`Self::write_allowed`] checks.
    pub fn has_json(&self) -> bool {
        self.pieces.iter().any(TemplatePiece::is_json)
    }

    /// Whether every slot that this template uses was filled in this cycle.
    pub fn is_filled(&self, source: &ValueSource<'_>) -> bool {
        self.pieces.iter().all(|piece| piece.is_filled(source))
    }

    /// Returns the slots that this template uses, one bit per slot.
    pub fn slots(&self) -> u32 {
        let is_used = |slot: &u32| {
            let source = ValueSource { kept: !(1 << slot), ..ValueSource::NOTHING };
            !self.is_filled(&source)
        };
        (0..u32::BITS).filter(is_used).fold(0, |slots, slot| slots | 1 << slot)
    }

    /// Whether the template contains an environment variable.
    pub fn has_environment(&self) -> bool {
        self.pieces.iter().any(TemplatePiece::has_environment)
    }

    /// Whether writing the value calls a script.
    pub fn asks_script(&self) -> bool {
        self.pieces.iter().any(TemplatePiece::asks_script)
    }

    /// Returns what is known of each piece before the load.
    pub fn shares(&self) -> impl Iterator<Item = TemplateShare<'_>> {
        self.pieces.iter().map(|piece| match piece {
            TemplatePiece::Text(text) => TemplateShare::Literal(text),
            TemplatePiece::File(file) => TemplateShare::Literal(&file.bytes),
            TemplatePiece::Env(text) => TemplateShare::Constant(text),
            _ => TemplateShare::Variable,
        })
    }

    /// Returns a writer of the template's pieces. Pieces that are written in their order, each
    /// once, have the same values as in [`Self::write`].
    pub fn piece_writer<'a>(&'a self, source: &'a ValueSource<'a>) -> PieceWriter<'a> {
        PieceWriter { pieces: &self.pieces, source, random: Rng::with_seed(mix(source.draw ^ mix(self.stream))) }
    }

    /// Returns the slot's content, if the template is only a slot.
    pub fn as_slot<'a>(&self, source: &ValueSource<'a>) -> Option<&'a [u8]> {
        match &*self.pieces {
            [TemplatePiece::Slot(slot)] => source.slots.get(usize::from(*slot)).map(Vec::as_slice),
            _ => None,
        }
    }

    /// Appends the value. A slot that was not filled in this cycle is empty.
    pub fn write(&self, source: &ValueSource<'_>, out: &mut Vec<u8>) {
        let mut random = Rng::with_seed(mix(source.draw ^ mix(self.stream)));
        for piece in &self.pieces {
            piece.write(source, &mut random, out);
        }
    }
}

impl TemplatePiece {
    /// Whether the text may be any bytes. Numbers and random bytes are only letters, digits, `-`
    /// and `_`.
    fn is_from_outside(&self) -> bool {
        match self {
            Self::Encoded { encoding, .. } => *encoding == Encoding::Json,
            Self::Text(_)
            | Self::Env(_)
            | Self::Agent(_)
            | Self::Seq(_)
            | Self::Copy(_)
            | Self::Repeat(_)
            | Self::Counter { .. }
            | Self::Bytes(_)
            | Self::File(_)
            | Self::Uniform { .. }
            | Self::Decimal { .. }
            | Self::Between { .. }
            | Self::Choice(_)
            | Self::Uuid
            | Self::Zipf(_) => false,
            Self::Digest { is_hex, .. } | Self::Hmac { is_hex, .. } => !is_hex,
            Self::Whole(template) => template.is_from_outside(),
            Self::RandomBytes(_)
            | Self::Now(_)
            | Self::Feed { .. }
            | Self::Slot(_)
            | Self::Script(_)
            | Self::Pad { .. } => true,
        }
    }

    fn is_json(&self) -> bool {
        matches!(self, Self::Encoded { encoding: Encoding::Json, .. })
    }

    /// Returns the piece with its value encoded. Numbers and random bytes need no encoding.
    fn encoded(self, encoding: Option<Encoding>) -> Self {
        let is_constant = matches!(self, Self::Text(_) | Self::Env(_));
        if let (Self::Choice(texts), Some(encoding)) = (&self, encoding) {
            let encoded = texts.iter().map(|text| {
                let mut text = text.to_vec();
                encoding.apply(&mut text, 0);
                text.into()
            });
            return Self::Choice(encoded.collect());
        }
        match encoding {
            Some(encoding) if is_constant || encoding == Encoding::Base64 || self.may_need_encoding() => {
                Self::Encoded { encoding, of: Box::new([self]) }.folded()
            }
            _ => self,
        }
    }

    fn may_need_encoding(&self) -> bool {
        match self {
            Self::Text(_) | Self::Env(_) | Self::File(_) | Self::Choice(_) | Self::Encoded { .. } => true,
            Self::Whole(template) => template.pieces.iter().any(Self::may_need_encoding),
            _ => self.is_from_outside(),
        }
    }

    fn compile(part: TemplatePart, names: &TemplateNames<'_>) -> Result<Self, String> {
        Ok(match part {
            TemplatePart::Text(text) => Self::Text(text.into_bytes().into()),
            TemplatePart::Agent(arithmetic) => Self::Agent(arithmetic),
            TemplatePart::Seq(arithmetic) => Self::Seq(arithmetic),
            TemplatePart::Copy(arithmetic) => Self::Copy(arithmetic),
            TemplatePart::Repeat(arithmetic) => Self::Repeat(arithmetic),
            TemplatePart::Counter { name, arithmetic } => {
                let place = names.counters.iter().position(|counter| *counter == name);
                let counter = place.and_then(|place| u16::try_from(place).ok());
                Self::Counter { counter: counter.ok_or("a counter is not possible here")?, arithmetic }
            }
            TemplatePart::Bytes(count) => Self::Bytes(count),
            TemplatePart::RandomBytes(count) => Self::RandomBytes(count),
            TemplatePart::File(name) => {
                let files = names.files.ok_or_else(|| format!("`{name}`: there are no files here"))?;
                Self::File(files.get(&name)?)
            }
            TemplatePart::Uniform { from, to } => Self::Uniform { from, to },
            TemplatePart::Decimal { from, to, decimals } => Self::Decimal { from, to, decimals },
            TemplatePart::Between { from, to } => {
                Self::Between { from: PieceBound::compile(from, names)?, to: PieceBound::compile(to, names)? }
            }
            TemplatePart::Choice(texts) => {
                Self::Choice(texts.into_iter().map(|text| text.into_bytes().into()).collect())
            }
            TemplatePart::Uuid => Self::Uuid,
            TemplatePart::Now(time) => Self::Now(time),
            TemplatePart::Zipf { from, to, exponent } => Self::Zipf(Zipf::new(from, to, exponent)),
            TemplatePart::Feed { feed, column } => feed_cell(&feed, &column, names)?,
            TemplatePart::Slot(name) => match names.own.get(name.as_str()) {
                Some(template) => Self::Whole(template.clone()),
                None => Self::Slot(slot_number(&name, names)?),
            },
            TemplatePart::Script(name) => {
                let program =
                    names.program.ok_or_else(|| format!("`lua.{name}` needs a script, but the load has none"))?;
                Self::Script(lua::Program::function(program, &name)?)
            }
            TemplatePart::Env(name) => {
                let value = std::env::var(&name).map_err(|_| format!("the environment has no `{name}`"))?;
                Self::Env(value.into_bytes().into())
            }
            TemplatePart::Value(text) => Self::Env(text.into_bytes().into()),
            TemplatePart::Filtered { of, filters } => {
                let (mut piece, mut filters) = (Self::compile(*of, names)?, filters.into_iter().peekable());
                while let Some(filter) = filters.next() {
                    let is_hex = filters.next_if_eq(&Filter::Unhex).is_none();
                    piece = piece.filtered(filter, is_hex, names)?;
                }
                piece
            }
            TemplatePart::Base64(of) => {
                Self::Encoded { encoding: Encoding::Base64, of: compile_all(of, names)? }.folded()
            }
            TemplatePart::Pad { width, of } => Self::Pad { width, of: compile_all(of, names)? }.folded(),
        })
    }

    /// Returns the piece with its value filtered. `is_hex` is whether a digest is written in
    /// hexadecimal digits.
    fn filtered(self, filter: Filter, is_hex: bool, names: &TemplateNames<'_>) -> Result<Self, String> {
        let kind = match filter {
            Filter::Md5 => DigestKind::Md5,
            Filter::Sha1 => DigestKind::Sha1,
            Filter::Sha256 => DigestKind::Sha256,
            Filter::HmacSha256(key) => {
                let of = Box::new([self, Self::compile(*key, names)?]);
                return Ok(Self::Hmac { is_hex, of }.folded());
            }
            other => return Ok(self.encoded(Encoding::of(&other))),
        };
        Ok(Self::Digest { kind, is_hex, of: Box::new([self]) }.folded())
    }

    /// Returns the pieces of which the piece is made.
    fn inner(&self) -> &[Self] {
        match self {
            Self::Encoded { of, .. } | Self::Pad { of, .. } | Self::Digest { of, .. } => of,
            Self::Hmac { of, .. } => &**of,
            _ => &[],
        }
    }

    /// Replaces the piece by its value, if the value is constant.
    fn folded(self) -> Self {
        let of = self.inner();
        // The bytes of a file may not be UTF-8, which is checked when they are written.
        let is_constant = |piece: &Self| match piece {
            Self::Text(_) | Self::Env(_) => true,
            Self::File(_) => !self.is_json(),
            _ => false,
        };
        if of.is_empty() || !of.iter().all(is_constant) {
            return self;
        }
        let mut value = Vec::new();
        self.write(&ValueSource::NOTHING, &mut Rng::with_seed(0), &mut value);
        Self::Env(value.into())
    }

    fn is_filled(&self, source: &ValueSource<'_>) -> bool {
        match self {
            Self::Slot(slot) => source.kept >> slot & 1 == 1,
            Self::Whole(template) => template.is_filled(source),
            Self::Between { from, to } => {
                [from, to].into_iter().flat_map(|bound| &bound.of).all(|of| of.is_filled(source))
            }
            _ => self.inner().iter().all(|piece| piece.is_filled(source)),
        }
    }

    fn has_environment(&self) -> bool {
        match self {
            Self::Env(_) => true,
            Self::Whole(template) => template.has_environment(),
            _ => self.inner().iter().any(Self::has_environment),
        }
    }

    fn asks_script(&self) -> bool {
        match self {
            Self::Script(_) => true,
            Self::Whole(template) => template.asks_script(),
            _ => self.inner().iter().any(Self::asks_script),
        }
    }

    fn write(&self, source: &ValueSource<'_>, random: &mut Rng, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) | Self::Env(text) => out.extend_from_slice(text),
            Self::File(file) => out.extend_from_slice(&file.bytes),
            Self::RandomBytes(count) => {
                let start = out.len();
                out.resize(start + *count as usize, 0);
                random.fill(&mut out[start..]);
            }
            Self::Agent(arithmetic) => write_decimal(arithmetic.apply(source.agent), out),
            Self::Seq(arithmetic) => write_decimal(arithmetic.apply(source.seq), out),
            Self::Counter { counter, arithmetic } => write_decimal(arithmetic.apply(source.number_of(*counter)), out),
            Self::Copy(arithmetic) => write_decimal(arithmetic.apply(source.copy), out),
            Self::Repeat(arithmetic) => write_decimal(arithmetic.apply(source.repeat), out),
            Self::Bytes(count) => write(*count as usize, random, out),
            Self::Uniform { from, to } => write_decimal(random.u64(*from..=*to), out),
            Self::Zipf(zipf) => write_decimal(zipf.draw(random), out),
            Self::Decimal { from, to, decimals } => template::decimal_into(random.i64(*from..=*to), *decimals, out),
            Self::Between { from, to } => {
                let (from, to) = (from.number(source, random, out), to.number(source, random, out));
                write_decimal(random.u64(from..=to.max(from)), out);
            }
            Self::Choice(texts) => out.extend_from_slice(&texts[random.usize(..texts.len())]),
            Self::Uuid => {
                let uuid = uuid::Builder::from_random_bytes(random.u128(..).to_le_bytes()).into_uuid();
                let mut text = uuid::Uuid::encode_buffer();
                out.extend_from_slice(uuid.hyphenated().encode_lower(&mut text).as_bytes());
            }
            Self::Now(time) => {
                let steps = time.steps();
                let steps = if steps.start() < steps.end() { random.i64(steps) } else { *steps.start() };
                time.write(source.unix_ns, steps, out);
            }
            Self::Feed { feed, part } => {
                let feed = usize::from(*feed);
                if let Some((feed, taken)) = source.feeds.get(feed).zip(source.records.get(feed)) {
                    feed.write(taken, part, out);
                }
            }
            Self::Slot(slot) if source.kept >> slot & 1 == 1 => {
                if let Some(kept) = source.slots.get(usize::from(*slot)) {
                    out.extend_from_slice(kept);
                }
            }
            Self::Slot(_) => {}
            Self::Whole(template) => template.write(source, out),
            Self::Script(function) => function.write(source, random.u64(..), out),
            Self::Encoded { encoding, of } => {
                let start = out.len();
                of.iter().for_each(|piece| piece.write(source, random, out));
                encoding.apply(out, start);
            }
            Self::Pad { width, of } => {
                let start = out.len();
                of.iter().for_each(|piece| piece.write(source, random, out));
                template::pad_in_place(out, start, *width);
            }
            Self::Digest { kind, is_hex, of } => {
                let start = out.len();
                of.iter().for_each(|piece| piece.write(source, random, out));
                kind.apply(out, start, *is_hex);
            }
            Self::Hmac { is_hex, of } => {
                let start = out.len();
                of[0].write(source, random, out);
                let key = out.len();
                of[1].write(source, random, out);
                digests::hmac_sha256(out, start, key, *is_hex);
            }
        }
    }
}

fn compile_all(template: Template, names: &TemplateNames<'_>) -> Result<Box<[TemplatePiece]>, String> {
    template.parts.into_iter().map(|part| TemplatePiece::compile(part, names)).collect()
}

/// Returns the length of every value of these pieces, if the length is constant.
fn fixed_length(pieces: &[TemplatePiece]) -> Option<usize> {
    pieces.iter().try_fold(0, |sum, piece| match piece {
        TemplatePiece::Text(text) | TemplatePiece::Env(text) => Some(sum + text.len()),
        TemplatePiece::Bytes(count) | TemplatePiece::RandomBytes(count) => Some(sum + *count as usize),
        TemplatePiece::File(file) => Some(sum + file.bytes.len()),
        TemplatePiece::Uuid => Some(sum + uuid::fmt::Hyphenated::LENGTH),
        TemplatePiece::Encoded { encoding: Encoding::Base64, of } => {
            fixed_length(of).map(|length| sum + length.div_ceil(3) * 4)
        }
        TemplatePiece::Digest { kind, is_hex, .. } => Some(sum + kind.length() * (1 + usize::from(*is_hex))),
        TemplatePiece::Hmac { is_hex, .. } => Some(sum + digests::HMAC_LENGTH * (1 + usize::from(*is_hex))),
        TemplatePiece::Pad { width, of } => fixed_length(of).map(|length| sum + length.max(usize::from(*width))),
        _ => None,
    })
}

fn slot_number(name: &str, names: &TemplateNames<'_>) -> Result<u8, String> {
    let place = names.slots.iter().position(|slot| slot == name);
    place.and_then(|place| u8::try_from(place).ok()).ok_or_else(|| format!("no earlier step keeps `{name}`"))
}

fn feed_cell(feed: &str, column: &str, names: &TemplateNames<'_>) -> Result<TemplatePiece, String> {
    let place = names.feeds.iter().position(|known| known.name() == feed);
    let number =
        place.and_then(|place| u16::try_from(place).ok()).ok_or_else(|| format!("there is no feed `{feed}`"))?;
    let part = names.feeds[usize::from(number)].part(column)?;
    Ok(TemplatePiece::Feed { feed: number, part })
}

/// Spreads a number over all 64 bits, by the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const EACH: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x80 * EACH;

/// Appends `count` printable bytes: 6 random bits each.
pub fn write(count: usize, random: &mut Rng, out: &mut Vec<u8>) {
    out.reserve(count + 8);
    let end = out.len() + count;
    while out.len() < end {
        out.extend_from_slice(&eight(random.u64(..)).to_le_bytes());
    }
    out.truncate(end);
}

/// Maps the low 6 bits of each byte to the alphabet `A-Z a-z 0-9 - _`, all eight bytes in parallel
/// ("SIMD within a register"). Each range of the alphabet adds its offset to the bytes at or above
/// its start.
fn eight(random: u64) -> u64 {
    let index = random & (0x3f * EACH);
    let mut text = index + 0x41 * EACH;
    // From 26 on: 'a' - 26 - 'A' = 6 more.
    text += above(index, 26) * 6;
    // From 52 on: '0' - 52 is 75 less than 'a' - 26.
    text -= above(index, 52) * 75;
    // 62 is '-': 13 below the continuation of the digits. 63 is '_': 49 above the continuation of
    // '-'.
    text -= above(index, 62) * 13;
    text += above(index, 63) * 49;
    text
}

/// Returns 1 in each byte of `index` that is at least `from`. Bytes and `from` are below 64.
fn above(index: u64, from: u64) -> u64 {
    ((index + (0x80 - from) * EACH) & HIGH) >> 7
}

/// Appends `number` in decimal.
pub fn write_decimal(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{names, source};

    fn written(template: &CompiledTemplate, source: &ValueSource<'_>) -> String {
        let mut out = Vec::new();
        template.write(source, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn compile(text: &str) -> CompiledTemplate {
        CompiledTemplate::compile(text, 0, &names()).unwrap()
    }

    #[test]
    fn numbers_and_texts() {
        let cases = [
            ("plain", "plain"),
            ("", ""),
            ("{agent}-{seq}", "3-12"),
            ("{seq%10}", "2"),
            ("{seq-20}", "0"),
            ("{seq+1}/{agent+100}", "13/103"),
            ("{{{seq}}}", "{12}"),
            ("{uniform:5..5}", "5"),
            ("{zipf:8..8}", "8"),
            ("{pad:8:{seq}}", "00000012"),
            ("{pad:4:{agent+12345}}", "12348"),
            ("k-{pad:5:a{seq}}-{agent}", "k-00a12-3"),
            ("{uniform:-5..-5}", "-5"),
            ("{uniform:0.50..0.50}", "0.50"),
            ("{uniform:-0.05..-0.05}", "-0.05"),
            ("{uniform:12.5..12.50}", "12.50"),
            ("{choice:a,a}", "a"),
            ("{base64:}", ""),
            ("{base64:k{seq}}", "azEy"),
            ("<{base64:{seq}{agent}-}>", "<MTIzLQ==>"),
            (r#"{base64:\{"a": {pad:3:{seq}}\}}"#, "eyJhIjogMDEyfQ=="),
            ("{base64:{base64:{seq}}}", "TVRJPQ=="),
        ];
        for (text, expected) in cases {
            assert_eq!(written(&compile(text), &source(3, 12)), expected, "{text}");
        }
        assert_eq!(written(&compile("{seq}"), &source(1, u64::MAX)), u64::MAX.to_string());
    }

    #[test]
    fn random_values_stay_between_their_bounds() {
        let of_operation = |draw| ValueSource { draw, ..source(1, 1) };
        let drawn = |text: &str| -> BTreeSet<String> {
            let template = compile(text);
            (0..500).map(|draw| written(&template, &of_operation(draw))).collect()
        };
        assert_eq!(drawn("{uniform:-0.2..0.1}").into_iter().collect::<Vec<_>>(), ["-0.1", "-0.2", "0.0", "0.1"]);
        assert_eq!(drawn("{choice:red,,b c}").into_iter().collect::<Vec<_>>(), ["", "b c", "red"]);
        let ids = drawn("{uuid}");
        assert!(ids.len() == 500 && ids.iter().all(|id| id.len() == 36 && id.as_bytes()[14] == b'4'), "{ids:?}");
        let days: Vec<String> = (1..=3).map(|day| format!("1970-01-0{day}")).collect();
        assert_eq!(drawn("{now+0d..2d:%F}").into_iter().collect::<Vec<_>>(), days);
        let own = BTreeMap::from([("day", compile("{uniform:1..9}"))]);
        let names = TemplateNames { own, ..TemplateNames::default() };
        let template = CompiledTemplate::compile("{day}-{uniform:day+1..12}-{day}", 3, &names).unwrap();
        for draw in 0..500 {
            let text = written(&template, &of_operation(draw));
            let days: Vec<u64> = text.split('-').map(|day| day.parse().unwrap()).collect();
            assert!(days[0] == days[2] && days[0] < days[1] && days[1] <= 12, "{text}");
        }
    }

    #[test]
    fn random_values_depend_only_on_operation_and_argument() {
        let first = CompiledTemplate::compile("{bytes:20} {uniform:1..1000000}", 0, &names()).unwrap();
        let second = CompiledTemplate::compile("{bytes:20} {uniform:1..1000000}", 1, &names()).unwrap();
        let (now, later) = (source(1, 1), ValueSource { draw: 100, ..source(1, 1) });
        assert_eq!(written(&first, &now), written(&first, &now));
        assert_ne!(written(&first, &now), written(&second, &now));
        assert_ne!(written(&first, &now), written(&first, &later));
    }

    #[test]
    fn slots() {
        let slots = vec!["a".to_owned(), "b".to_owned()];
        let own = BTreeMap::from([("mine", compile("<{seq}>"))]);
        let names = TemplateNames { slots: &slots, own, ..TemplateNames::default() };
        let template = CompiledTemplate::compile("{a}+{b}", 0, &names).unwrap();
        let kept = [b"left".to_vec(), b"right".to_vec()];
        let full = ValueSource { slots: &kept, kept: 3, ..source(1, 7) };
        let half = ValueSource { kept: 1, ..full };
        assert_eq!(written(&template, &full), "left+right");
        assert_eq!(written(&template, &half), "left+");
        assert!(template.is_filled(&full) && !template.is_filled(&half));
        let alone = CompiledTemplate::compile("{b}", 0, &names).unwrap();
        assert_eq!(alone.as_slot(&full), Some(&b"right"[..]));
        assert_eq!(written(&CompiledTemplate::compile("{mine}", 0, &names).unwrap(), &full), "<7>");
        let missing = CompiledTemplate::compile("{c}", 0, &names).unwrap_err();
        assert!(missing.contains("`c`"), "{missing}");
    }

    #[test]
    fn counters() {
        let counters = ["carts".to_owned(), "orders".to_owned()];
        let names = TemplateNames { counters: &counters, ..names() };
        let template = CompiledTemplate::compile("{counter:orders}-{counter:carts+10}-{counter:orders}", 0, &names);
        let source = ValueSource { counters: &[7, 8], ..source(1, 1) };
        assert_eq!(written(&template.unwrap(), &source), "8-17-8");
        assert!(CompiledTemplate::compile("{counter:carts}", 0, &crate::testing::names()).is_err());
    }

    #[test]
    fn the_environment_is_read_once() {
        let template = compile("{env:PATH}");
        assert_eq!(template.as_constant(), Some(std::env::var("PATH").unwrap().as_bytes()));
        assert!(CompiledTemplate::compile("{env:NO_SUCH_VARIABLE_HERE}", 0, &names()).is_err());
    }

    #[test]
    fn the_environment_is_found_inside_padding_and_base64() {
        for text in ["{env:PATH}", "{pad:20:{env:PATH}{seq}}", "{base64:{seq}{env:PATH}}"] {
            assert!(compile(text).has_environment(), "{text}");
        }
        assert!(!compile("{pad:20:{seq}}").has_environment());
    }

    #[test]
    fn fixed_lengths() {
        assert_eq!(compile("ab{bytes:10}").fixed_length(), Some(12));
        assert_eq!(compile("ab{seq}").fixed_length(), None);
        assert_eq!(compile("a{base64:{bytes:10}}{pad:20:{bytes:3}}").fixed_length(), Some(1 + 16 + 20));
        assert_eq!(compile("{base64:é}{pad:3:7}").as_constant(), None);
        assert_eq!(compile("{base64:é{pad:3:7}}").as_constant(), Some(&b"w6kwMDc="[..]));
    }

    #[test]
    fn every_index_has_its_letter() {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        for (index, letter) in alphabet.iter().enumerate() {
            let text = eight((index as u64 * EACH) | 0xc0c0_c0c0_c0c0_c0c0).to_le_bytes();
            assert_eq!(text, [*letter; 8], "index {index}");
        }
        let mixed = eight(u64::from_le_bytes([0, 63, 62, 26, 25, 52, 51, 61])).to_le_bytes();
        assert_eq!(&mixed, b"A_-aZ0z9");
    }

    #[test]
    fn length_is_exact_and_values_differ() {
        let mut random = Rng::with_seed(1);
        let mut seen = BTreeSet::new();
        for count in [0, 1, 7, 8, 9, 100] {
            let mut out = b"x".to_vec();
            write(count, &mut random, &mut out);
            assert_eq!(out.len(), count + 1);
        }
        for _ in 0..1000 {
            let mut out = Vec::new();
            write(16, &mut random, &mut out);
            assert!(seen.insert(out));
        }
    }
}
