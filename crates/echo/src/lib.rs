//! The built-in target: a server that answers at once, late, or not at all, as told.
