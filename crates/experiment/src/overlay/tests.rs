//! Overlays.
