//! Tests of the room above.
