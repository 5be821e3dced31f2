//! From results to one page and a few words.
