//! What an experiment may say to a name service. Words only; nothing of the wire.

use experiment::catalog::{Effect, Field, Operation, Protocol};

const SPACE: Field = Field { name: "space", help: "the space; the empty one if left out", required: false };
const KEY: Field = Field { name: "key", help: "the name, up to 65535 bytes", required: true };
const STATUS: Field = Field { name: "status", help: "`ok`, `not_found`, …", required: false };
const TEXT: Field = Field { name: "text", help: "what the service says about a failure", required: false };

/// The protocol as an experiment sees it.
pub static INFO: Protocol = Protocol {
    name: "vsns",
    schemes: &["vsns"],
    help: "frames of the very simple name service over TCP",
    operations: &[
        Operation {
            name: "save",
            help: "stores a value under a key",
            takes: &[SPACE, KEY, Field { name: "value", help: "what to store", required: true }],
            answers: &[STATUS, TEXT],
            effect: Effect::Write,
        },
        Operation {
            name: "load",
            help: "reads the value of a key; `not_found` is an answer",
            takes: &[SPACE, KEY],
            answers: &[Field { name: "value", help: "what is stored", required: false }, STATUS, TEXT],
            effect: Effect::Read,
        },
        Operation {
            name: "remove",
            help: "removes a key",
            takes: &[SPACE, KEY],
            answers: &[Field { name: "removed", help: "1 if there was one, else 0", required: false }, STATUS, TEXT],
            effect: Effect::Remove,
        },
        Operation {
            name: "load_all",
            help: "reads a page of a space, in key order",
            takes: &[
                SPACE,
                Field { name: "after", help: "the key before the page; none if left out", required: false },
                Field { name: "limit", help: "most entries of the page, 1 to 65535; 100 if left out", required: false },
            ],
            answers: &[
                Field { name: "count", help: "entries of the page", required: false },
                Field { name: "more", help: "1 if further entries follow, else 0", required: false },
                STATUS,
                TEXT,
            ],
            effect: Effect::None,
        },
        Operation {
            name: "remove_all",
            help: "removes every key of a space",
            takes: &[SPACE],
            answers: &[Field { name: "count", help: "keys removed", required: false }, STATUS, TEXT],
            effect: Effect::RemoveAll,
        },
        Operation {
            name: "oops",
            help: "crashes the server on purpose",
            takes: &[],
            answers: &[STATUS, TEXT],
            effect: Effect::None,
        },
        Operation {
            name: "stats",
            help: "what the service says about itself, as JSON in `text`",
            takes: &[],
            answers: &[TEXT, STATUS],
            effect: Effect::None,
        },
        Operation {
            name: "ping",
            help: "an answer without looking at any data",
            takes: &[],
            answers: &[STATUS, TEXT],
            effect: Effect::None,
        },
    ],
};
