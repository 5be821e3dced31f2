//! What an experiment may say to a server of lines. Words only; nothing of the wire.

use experiment::catalog::{Effect, Field, Operation, Protocol};

/// The protocol as an experiment sees it.
pub static INFO: Protocol = Protocol {
    name: "lines",
    schemes: &["tcp"],
    help: "lines of text over TCP, as memcached, SMTP and their like speak; tcp://host:port, and tcp://host:port?banner=1 where the \
           server speaks first, in so many lines",
    operations: &[Operation {
        name: "send",
        help: "sends a line and takes the lines of the answer",
        takes: &[
            Field { name: "line", help: "what is sent; it may have line ends of its own in it", required: true },
            Field {
                name: "end",
                help: "what is put behind it: \"\\r\\n\" for many; \"\\n\" if left out",
                required: false,
            },
            Field {
                name: "until",
                help: "what the last line of the answer begins with, several with | between; the answer is one line if left out",
                required: false,
            },
            Field {
                name: "fails",
                help: "what a line begins with that ends the answer, too, and says that it was not done: \"ERROR|SERVER_ERROR\"",
                required: false,
            },
        ],
        answers: &[
            Field { name: "line", help: "the first line of the answer, without its end", required: false },
            Field { name: "last", help: "the last line, without its end", required: false },
            Field { name: "text", help: "all lines, without the last one's end", required: false },
            Field { name: "status", help: "`ok`, or `refused` where the last line is one of `fails`", required: false },
        ],
        effect: Effect::None,
    }],
};
