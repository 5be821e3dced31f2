//! What an experiment may say to a Redis server. Words only; nothing of the wire.

use experiment::catalog::{Effect, Field, Operation, Protocol};

const KEY: Field = Field { name: "key", help: "the key", required: true };
const STATUS: Field = Field {
    name: "status",
    help: "`ok`, `not_found`, `nil`, or the first word of an error in small letters: `err`, `moved`, `readonly`, …",
    required: false,
};
const TEXT: Field = Field { name: "text", help: "what the server says about an error", required: false };

/// The protocol as an experiment sees it.
pub static INFO: Protocol = Protocol {
    name: "redis",
    schemes: &["redis"],
    help: "Redis and what speaks like it (Valkey, KeyDB, …): RESP over TCP; redis://host:port, \
           redis://host:port/DB, redis://USER:{env:PASSWORD}@host:port",
    operations: &[
        Operation {
            name: "get",
            help: "GET: reads the value of a key; `not_found` is an answer",
            takes: &[KEY],
            answers: &[Field { name: "value", help: "what is stored", required: false }, STATUS, TEXT],
            effect: Effect::Read,
        },
        Operation {
            name: "set",
            help: "SET: stores a value under a key",
            takes: &[KEY, Field { name: "value", help: "what to store", required: true }],
            answers: &[STATUS, TEXT],
            effect: Effect::Write,
        },
        Operation {
            name: "del",
            help: "DEL: removes a key",
            takes: &[KEY],
            answers: &[Field { name: "removed", help: "1 if there was one, else 0", required: false }, STATUS, TEXT],
            effect: Effect::Remove,
        },
        Operation {
            name: "incr",
            help: "INCR: adds 1 to the number under a key, which is 0 if there is none",
            takes: &[KEY],
            answers: &[Field { name: "value", help: "the number afterwards", required: false }, STATUS, TEXT],
            effect: Effect::None,
        },
        Operation {
            name: "ping",
            help: "PING: an answer without looking at any data",
            takes: &[],
            answers: &[STATUS, TEXT],
            effect: Effect::None,
        },
        Operation {
            name: "command",
            help: "any command that has one answer: not SUBSCRIBE, MONITOR and their like",
            takes: &[Field {
                name: "arguments",
                help: "the command and its arguments, cut at blanks; '…' and \"…\" hold together, a backslash takes the next \
                       character as it is, and what a placeholder stands for is never cut",
                required: true,
            }],
            answers: &[
                Field {
                    name: "value",
                    help: "what is answered; of a list every element on a line, those of lists in it as well",
                    required: false,
                },
                Field { name: "count", help: "elements of a list that is answered, pairs of a map", required: false },
                STATUS,
                TEXT,
            ],
            effect: Effect::None,
        },
    ],
};
