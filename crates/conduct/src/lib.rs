//! The conductor: plays a plan; interruptible anywhere.
