//! Keys of a section, each declared in one place. From each declaration, `section!` makes an entry
//! of the key table, which the checker, the JSON Schema and the reference use, and a field of the
//! plan with its reader.

use serde_json::{Value as Json, json};

use crate::quantity::Quantity;
use crate::tree::TomlTable;

/// A key of a section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// Name to the left of the `=`, or the section's name.
    pub name: &'static str,
    /// Type of the value.
    pub kind: KeyType,
    /// Whether the key may be left out.
    pub need: Need,
    /// Description: one line, without a full stop.
    pub help: &'static str,
    /// Names in other tools; only used to suggest the right name.
    pub elsewhere: &'static [&'static str],
}

/// Whether a key may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The key is required.
    Required,
    /// The key is required unless this other key is present.
    RequiredUnless(&'static str),
    /// The key is optional and has no default.
    Optional,
    /// The key is optional, with this default.
    Default(&'static str),
}

/// Type of a key's value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeyType {
    /// Any text but an empty one.
    Text,
    /// Any text.
    Argument,
    /// Small letters, digits, `_` and `-`.
    Name,
    /// A text, number or boolean; kept as text.
    Scalar,
    /// A text with placeholders; also a number or boolean.
    Template,
    /// A number and a unit; `zero` says whether `"0s"` is allowed.
    Duration { zero: bool },
    /// A size or rate: a number and a unit.
    Quantity(Quantity),
    /// A whole number.
    Whole { min: i64, max: i64 },
    /// Any number.
    Number,
    /// A number in the unit of a metric, or a text with a unit, such as "50ms".
    Figure,
    /// A number above 0.
    Positive,
    /// true or false.
    Boolean,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// Anything, kept as written.
    Any,
    /// A table with these keys.
    Table(&'static [Key]),
    /// A list of tables, each with these keys; a path selects one by `name`, `call`, `role` or
    /// index.
    Tables(&'static [Key]),
    /// A list of overlays. Every key but `name` is a section that may be incomplete.
    Overlays(&'static [Key]),
    /// A table with free keys.
    Map(&'static KeyType),
    /// A table with free keys that may have dots: `a.b = 1`, `"a.b" = 1` and `a = { b = 1 }` are
    /// equal. If values may be tables, a table that has one of their keys is a value, not a part of
    /// a path.
    Paths(&'static KeyType),
    /// A table with these keys, and with free keys as in [`KeyType::Paths`].
    PathsBeside(&'static [Key], &'static KeyType),
    /// A list.
    List(&'static KeyType),
    /// Any of these types. The text is the hint for a value that has none of these types.
    Either(&'static [KeyType], &'static str),
}

impl KeyType {
    /// Returns a description for hints, such as `a duration such as "30s"`.
    pub fn words(&self) -> String {
        match self {
            Self::Text | Self::Argument => "a text in quotes".to_owned(),
            Self::Name => "a name of small letters, digits, `_` and `-`".to_owned(),
            Self::Scalar => "a text, a number, or true or false".to_owned(),
            Self::Template => "a text in quotes, perhaps with placeholders such as {seq}".to_owned(),
            Self::Duration { .. } => "a duration such as \"30s\"".to_owned(),
            Self::Quantity(quantity) => quantity.words().to_owned(),
            Self::Whole { min, max } if *max >= i64::from(u32::MAX) => format!("a whole number, {min} or more"),
            Self::Whole { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number => "a number".to_owned(),
            Self::Figure => "a number in the metric's unit, or one with its own such as \"50ms\"".to_owned(),
            Self::Positive => "a number above 0".to_owned(),
            Self::Boolean => "true or false".to_owned(),
            Self::Choice(choices) => {
                let quoted: Vec<String> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
                crate::problem::join_words(&quoted, "or")
            }
            Self::Any => "a value".to_owned(),
            Self::Table(_) => "a table".to_owned(),
            Self::Tables(_) | Self::Overlays(_) => "a list of tables".to_owned(),
            Self::Map(of) | Self::Paths(of) => format!("a table, each value {}", of.words()),
            Self::PathsBeside(keys, _) => {
                let keys: Vec<String> = keys.iter().map(|key| format!("`{}`", key.name)).collect();
                format!("a table of paths and {}", crate::problem::join_words(&keys, "or"))
            }
            Self::List(of) => format!("a list, each element {}", of.words()),
            Self::Either(_, words) => (*words).to_owned(),
        }
    }

    /// Converts the text of a default to a value.
    pub fn default_value(&self, text: &str) -> Json {
        match self {
            Self::Whole { .. } | Self::Number | Self::Positive | Self::Boolean => {
                serde_json::from_str(text).unwrap_or_else(|_| json!(text))
            }
            Self::Either([first, ..], _) => first.default_value(text),
            _ => json!(text),
        }
    }

    /// Returns the keys of the section, if this is the type of a section; otherwise none.
    pub fn keys(&self) -> &'static [Key] {
        match self {
            Self::Table(keys) | Self::Tables(keys) | Self::Overlays(keys) | Self::PathsBeside(keys, _) => keys,
            Self::Either(kinds, _) => kinds.iter().map(Self::keys).find(|keys| !keys.is_empty()).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Returns the keys of each value in a table with free keys.
    pub fn below(&self) -> &'static [Key] {
        if let Self::Map(of) | Self::Paths(of) = self { of.keys() } else { &[] }
    }

    /// Whether the table is a value of this type, not a part of a path. A value has at least one of
    /// the type's keys, or another tool's name for such a key.
    pub fn is_value(&self, table: &TomlTable) -> bool {
        self.keys().iter().any(|key| {
            table.entries.iter().any(|entry| key.name == entry.key || key.elsewhere.contains(&entry.key.as_str()))
        })
    }
}

impl Key {
    pub(crate) const fn with(mut self, need: Need) -> Self {
        self.need = need;
        self
    }

    /// Whether the key must be in this table.
    pub fn is_required_in(&self, table: &TomlTable) -> bool {
        match self.need {
            Need::Required => true,
            Need::RequiredUnless(other) => table.get(other).is_none(),
            Need::Optional | Need::Default(_) => false,
        }
    }

    /// Returns the heading of the key's section: `[load]`, `[[fault]]`.
    pub fn heading(&self, path: &str) -> String {
        let sections = self.sections(path);
        sections.into_iter().last().map_or_else(|| format!("[{path}]"), |(heading, _)| heading)
    }

    /// Returns the sections that the key may be, with their headings and keys. A section that may
    /// occur once or several times is listed once.
    pub fn sections(&self, path: &str) -> Vec<(String, &'static [Self])> {
        let kinds = if let KeyType::Either(kinds, _) = &self.kind { *kinds } else { std::slice::from_ref(&self.kind) };
        let names = |keys: &'static [Self]| keys.iter().map(|key| key.name).collect::<Vec<_>>();
        let mut sections: Vec<(String, &'static [Self])> = Vec::new();
        for kind in kinds.iter().filter(|kind| !kind.keys().is_empty()) {
            let is_list = matches!(kind, KeyType::Tables(_) | KeyType::Overlays(_));
            sections.retain(|(_, keys)| names(keys) != names(kind.keys()));
            sections.push((if is_list { format!("[[{path}]]") } else { format!("[{path}]") }, kind.keys()));
        }
        sections
    }
}

/// A count of at least 1.
pub(crate) const COUNT: KeyType = KeyType::Whole { min: 1, max: u32::MAX as i64 };
/// A duration above 0.
pub(crate) const TIME: KeyType = KeyType::Duration { zero: false };
/// A duration that may be 0.
pub(crate) const PAUSE: KeyType = KeyType::Duration { zero: true };
pub(crate) const TEXTS: KeyType = KeyType::List(&KeyType::Text);
/// A program and its arguments, of which some may be empty.
pub(crate) const ARGUMENTS: KeyType = KeyType::List(&KeyType::Argument);
pub(crate) const SIZE: KeyType = KeyType::Quantity(Quantity::Size);
pub(crate) const BYTE_RATE: KeyType = KeyType::Quantity(Quantity::ByteRate);
pub(crate) const BIT_RATE: KeyType = KeyType::Quantity(Quantity::BitRate);

/// Declares the keys of a section, one per line, and with `struct` the type that is read from it:
///
/// ```text
/// section! {
///     /// `[load.retry]`.
///     struct RetryPause = RETRY {
///         tries: COUNT => Option<u32>, "Attempts in all", ["attempts"];
///         wait = "50ms": PAUSE => wait_s: f64, "Pause between attempts";
///     }
/// }
/// ```
///
/// - `wait = "50ms"` has a default. `wait = required` is required. `wait = (unless tries)` is
///   required if `tries` is absent. `: PAUSE` is the [`KeyType`].
/// - `=> wait_s: f64` is the field, in base units; if `wait_s:` is absent, the field has the key's
///   name. `= |section| …` replaces the reader [`crate::section::Section::get`]. A key without `=>`
///   has no field; other code reads it. A line that begins with `=>` is a field without a key.
///   Without a reader, the field is filled in later.
/// - The help comes next. The help is also the field's documentation. After the help come the key's
///   names in other tools.
/// - `..OTHER: name, file = required;` adds these keys of another section.
///
/// The struct's default is the result of reading an empty section.
macro_rules! section {
    (@need) => { Need::Optional };
    (@need required) => { Need::Required };
    (@need (unless $other:ident)) => { Need::RequiredUnless(stringify!($other)) };
    (@need $default:literal) => { Need::Default($default) };
    (@entry $key:ident [$($need:tt)?] $kind:expr, $help:literal $(, [$($other:literal),*])?) => {
        Key {
            name: stringify!($key),
            kind: $kind,
            need: section!(@need $($need)?),
            help: $help,
            elsewhere: &[$($($other),*)?],
        }
    };
    (@read $key:expr) => { |section: &$crate::section::Section<'_>| section.get($key).unwrap_or_default() };
    (@read $key:expr, $read:expr) => { $read };

    (@ $head:tt [$($keys:tt)*] $fields:tt
        ..$table:ident: $($key:ident $(= $need:tt)?),+; $($rest:tt)*) => {
        section!(@ $head
            [$($keys)* $(find_const($table, stringify!($key)) $(.with(section!(@need $need)))?,)+]
            $fields $($rest)*);
    };
    (@ $head:tt $keys:tt [$($fields:tt)*]
        $(#[$attr:meta])* => $field:ident: $type:ty $(= $read:expr)?, $help:literal; $($rest:tt)*) => {
        section!(@ $head $keys
            [$($fields)* $(#[$attr])* #[doc = $help] $field: $type = section!(@read "" $(, $read)?);]
            $($rest)*);
    };
    (@ $head:tt [$($keys:tt)*] [$($fields:tt)*]
        $(#[$attr:meta])* $key:ident $(= $need:tt)?: $kind:expr => $field:ident: $type:ty $(= $read:expr)?,
        $help:literal $(, [$($other:literal),*])?; $($rest:tt)*) => {
        section!(@ $head
            [$($keys)* section!(@entry $key [$($need)?] $kind, $help $(, [$($other),*])?),]
            [$($fields)* $(#[$attr])* #[doc = $help] $field: $type = section!(@read stringify!($key) $(, $read)?);]
            $($rest)*);
    };
    (@ $head:tt $keys:tt $fields:tt
        $(#[$attr:meta])* $key:ident $(= $need:tt)?: $kind:expr => $type:ty,
        $help:literal $(, [$($other:literal),*])?; $($rest:tt)*) => {
        section!(@ $head $keys $fields
            $(#[$attr])* $key $(= $need)?: $kind => $key: $type, $help $(, [$($other),*])?; $($rest)*);
    };
    (@ $head:tt [$($keys:tt)*] $fields:tt
        $key:ident $(= $need:tt)?: $kind:expr, $help:literal $(, [$($other:literal),*])?; $($rest:tt)*) => {
        section!(@ $head
            [$($keys)* section!(@entry $key [$($need)?] $kind, $help $(, [$($other),*])?),]
            $fields $($rest)*);
    };
    (@ [$table:ident] [$($keys:tt)*] []) => {
        pub(crate) const $table: &[$crate::keys::Key] = {
            #[allow(unused_imports, reason = "not every section has every kind")]
            use $crate::keys::{*, KeyType::*};
            &[$($keys)*]
        };
    };
    (@ [$(#[$meta:meta])* $vis:vis struct $name:ident = $table:ident] $keys:tt
        [$($(#[$attr:meta])* $field:ident: $type:ty = $read:expr;)*]) => {
        section!(@ [$table] $keys []);

        $(#[$meta])*
        $vis struct $name {
            $($(#[$attr])* $vis $field: $type,)*
        }

        impl $name {
            /// Reads the section. Wrong values have been reported and are treated as absent.
            pub(crate) fn read(section: &$crate::section::Section<'_>) -> Self {
                Self {
                    $($field: {
                        let read: fn(&$crate::section::Section<'_>) -> $type = $read;
                        read(section)
                    },)*
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $crate::section::Section::nothing($table, Self::read)
            }
        }
    };

    (const $table:ident { $($entries:tt)* }) => {
        section!(@ [$table] [] [] $($entries)*);
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident = $table:ident { $($entries:tt)* }) => {
        section!(@ [$(#[$meta])* $vis struct $name = $table] [] [] $($entries)*);
    };
}
pub(crate) use section;

/// Returns the key of that name. If there is none, a constant that uses it does not compile.
pub(crate) const fn find_const(keys: &[Key], name: &str) -> Key {
    let mut index = 0;
    while !is_same(keys[index].name.as_bytes(), name.as_bytes()) {
        index += 1;
    }
    keys[index]
}

/// Returns the keys of both lists. `COUNT` must be the sum of their lengths.
pub(crate) const fn joined<const COUNT: usize>(keys: &[Key], more: &[Key]) -> [Key; COUNT] {
    let mut all = [keys[0]; COUNT];
    let mut index = 0;
    while index < COUNT {
        all[index] = if index < keys.len() { keys[index] } else { more[index - keys.len()] };
        index += 1;
    }
    all
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Returns the key of that name.
pub(crate) fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name)
}

/// Returns the headings of all sections, anywhere below `keys`, that have a key of that name.
pub(crate) fn homes(keys: &'static [Key], name: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect_homes(keys, "", name, &mut found);
    found
}

fn collect_homes(keys: &'static [Key], path: &str, name: &str, found: &mut Vec<String>) {
    for key in keys {
        if matches!(key.kind, KeyType::Overlays(_)) {
            continue;
        }
        let below = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        for (heading, keys) in key.sections(&below) {
            if find(keys, name).is_some() {
                found.push(heading);
            }
            collect_homes(keys, &below, name, found);
        }
    }
}
