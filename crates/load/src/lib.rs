//! The load engine: schedules (when), values (what), protocols (how).
