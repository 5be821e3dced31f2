//! What an experiment may say to an HTTP server. Words only; nothing of the wire.

use experiment::catalog::{Effect, Field, Operation, Protocol};

const PATH: Field = Field { name: "path", help: "path and query, from the first `/`", required: true };
const BODY: Field = Field { name: "body", help: "the request's body", required: false };
const HEADER: Field = Field { name: "header.*", help: "a header, such as header.accept", required: false };
const STATUS: Field = Field { name: "status", help: "the status code, such as 200", required: false };
const ANSWER_BODY: Field = Field { name: "body", help: "the answer's body", required: false };
const ANSWER_HEADER: Field = Field { name: "header.*", help: "a header of the answer", required: false };

const fn operation(name: &'static str, help: &'static str) -> Operation {
    Operation {
        name,
        help,
        takes: &[PATH, BODY, HEADER],
        answers: &[STATUS, ANSWER_BODY, ANSWER_HEADER],
        effect: Effect::None,
    }
}

/// The protocol as an experiment sees it.
pub static INFO: Protocol = Protocol {
    name: "http",
    schemes: &["http", "https"],
    help: "HTTP/1.1, with keep-alive and TLS",
    operations: &[
        operation("get", "GET"),
        operation("head", "HEAD: an answer without its body"),
        operation("post", "POST"),
        operation("put", "PUT"),
        operation("patch", "PATCH"),
        operation("delete", "DELETE"),
    ],
};
