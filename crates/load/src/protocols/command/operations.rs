//! What an experiment may say where programs are run. Words only.

use experiment::catalog::{Effect, Field, Operation, Protocol};

/// The protocol as an experiment sees it.
pub static INFO: Protocol = Protocol {
    name: "command",
    schemes: &[],
    help: "a program of this machine for each operation, from start to end",
    operations: &[Operation {
        name: "run",
        help: "runs a program and waits for its end; an exit status other than 0 fails the operation, unless that very status is expected",
        takes: &[
            Field {
                name: "command",
                help: "the program and its arguments, cut at blanks, without a shell: '…' and \"…\" hold together, a backslash takes the \
                       next character as it is, and what a placeholder stands for is never cut",
                required: true,
            },
            Field {
                name: "stdin",
                help: "what it reads from its standard input; nothing if left out",
                required: false,
            },
        ],
        answers: &[
            Field {
                name: "status",
                help: "its exit status, `0` if all went well; `signal N` if a signal ended it; `not started`",
                required: false,
            },
            Field {
                name: "stdout",
                help: "its standard output, without line ends at its end; what is beyond 1 MiB is cut off",
                required: false,
            },
            Field { name: "stderr", help: "its standard error, likewise, or why it was not started", required: false },
            Field { name: "cut", help: "1 if one of them was longer than 1 MiB, else 0", required: false },
        ],
        effect: Effect::None,
    }],
};
