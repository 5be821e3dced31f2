//! Keys of steps, by the place of the step: in a cycle, in a mix, or before the cycles.

use crate::keys::section;
use crate::plan::operation::OPERATION;
use crate::plan::parallel::BLOCK;

section! {
    const CYCLE {
        ..BLOCK: parallel, connections;
        ..OPERATION: call = (unless parallel), name, site, with, set, expect, keep, follow, stream, first_byte, think, repeat, probability_pct, every, units, parts, audit;
    }
}

section! {
    const SEQUENCE {
        ..BLOCK: parallel, connections;
        ..OPERATION: call = (unless parallel), name, site, with, set, expect, keep, follow, stream, first_byte, think, repeat, probability_pct, units, parts, audit;
    }
}

section! {
    const START {
        ..BLOCK: parallel, connections;
        ..OPERATION: call = (unless parallel), name, site, with, set, expect, keep, follow, stream, first_byte, think, repeat, units, parts, audit;
    }
}

section! {
    const MIX {
        ..OPERATION: call = (unless steps), name, site, with, set, expect, keep, follow, stream, first_byte, think, repeat, weight, units, parts,
            audit;
        steps: Tables(SEQUENCE),
            "Instead of one operation, a sequence of operations, done in this order", ["sequence", "cycle", "tasks"];
    }
}
