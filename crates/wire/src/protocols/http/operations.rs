//! Operations of HTTP, with their arguments and the fields of their answers.

use experiment::catalog::{Effect, Field, Operation};

const PATH: Field = Field {
    name: "path",
    help: "path and query, from the first `/`; for a forward proxy over HTTP/1.1, a complete http:// URL",
    required: true,
};
const METHOD: Field =
    Field { name: "method", help: "the method, such as PROPFIND: a literal text, sent as it is", required: true };
const BODY: Field = Field { name: "body", help: "the request's body", required: false };
const FORM: Field =
    Field { name: "form.*", help: "a field of an HTML form, such as form.user, instead of a body", required: false };
const MULTIPART: Field = Field {
    name: "multipart.*",
    help: "a part of a multipart body, such as multipart.photo, instead of a body; a file is {file:photo.jpg}",
    required: false,
};
const FILENAME: Field = Field {
    name: "filename.*",
    help: "the file's name that is sent for the part, such as filename.photo; default: the name of the part's file",
    required: false,
};
const PART_TYPE: Field = Field {
    name: "type.*",
    help: "the type of the part, such as type.photo; default: by the name of the part's file",
    required: false,
};
const HEADER: Field = Field { name: "header.*", help: "a header, such as header.accept", required: false };
const STATUS: Field = Field { name: "status", help: "the status code, such as 200", required: false };
const ANSWER_BODY: Field = Field { name: "body", help: "the answer's body", required: false };
const ANSWER_HEADER: Field = Field { name: "header.*", help: "a header of the answer", required: false };
const ANSWER_COOKIE: Field =
    Field { name: "cookie.*", help: "a cookie that the answer sets, such as cookie.sid: its value", required: false };

const fn operation(name: &'static str, help: &'static str) -> Operation {
    Operation {
        name,
        help,
        takes: &[PATH, BODY, FORM, MULTIPART, FILENAME, PART_TYPE, HEADER],
        answers: &[STATUS, ANSWER_BODY, ANSWER_HEADER, ANSWER_COOKIE],
        effect: Effect::None,
    }
}

/// An operation with any method.
const REQUEST: Operation = Operation {
    takes: &[METHOD, PATH, BODY, FORM, MULTIPART, FILENAME, PART_TYPE, HEADER],
    ..operation("request", "any other method, such as OPTIONS or PROPFIND")
};

/// Operations, which are the same in all versions of HTTP.
pub static OPERATIONS: [Operation; 7] = [
    operation("get", "GET"),
    operation("head", "HEAD: an answer without its body"),
    operation("post", "POST"),
    operation("put", "PUT"),
    operation("patch", "PATCH"),
    operation("delete", "DELETE"),
    REQUEST,
];
