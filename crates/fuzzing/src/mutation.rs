//! A seeded mutator that makes small changes to inputs of a corpus. It has no coverage feedback;
//! the fuzzers in `fuzz/` have.

use fastrand::Rng;

/// Maximum number of edits per input.
const EDITS: usize = 6;
/// Longest input, bytes.
const LONGEST: usize = 64 * 1024;

/// Typical pieces of the formats that are fuzzed.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"\r\n\r\n",
    b"0\r\n\r\n",
    b":",
    b": ",
    b";",
    b",",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b"=",
    b"..",
    b".",
    b"#",
    b"-",
    b"-1",
    b"0",
    b"1",
    b"2",
    b"ff",
    b"1e999",
    b"1e-999",
    b"nan",
    b"inf",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"[[fault]]\n",
    b"4294967295",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9999999999999999999999",
    b"0.1",
    b"0x",
    b"FFFFFFFFFFFFFFFF",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"chunked",
    b"$-1\r\n",
    b"$1\r\n",
    b"*1\r\n",
    b"%1\r\n",
    b"|1\r\n",
    b">1\r\n",
    b"-ERR ",
    b"END",
    b"\\",
    b"\\u00e9",
    b"~1",
    b"/0",
    b"/",
    b"\"not\":",
    b"at_s\n",
    b"{seq}",
    b"{agent}",
    b"{bytes:",
    b"{zipf:1..",
    b"{uniform:",
    b"{env:X}",
    b"{base64:",
    b"{pad:8:",
    b"Tag=a/ok/latency,",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x05",
    b"\x7f\xff\xff\xff",
    b"\x80",
    b"\xc3\xa9",
    b"\xf0\x9d\x84\x9e",
    b"\xef\xbb\xbf",
];

/// A generator of mutated inputs.
#[derive(Debug, Clone)]
pub struct Mutator {
    random: Rng,
}

impl Mutator {
    /// Makes a mutator. The same seed and corpus give the same inputs.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed) }
    }

    /// Returns a changed input of the corpus.
    pub fn input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = self.one_of(corpus).to_vec();
        for _ in 0..self.random.usize(1..=EDITS) {
            self.edit(&mut input, corpus);
        }
        input.truncate(LONGEST);
        input
    }

    fn one_of<'a>(&mut self, corpus: &'a [Vec<u8>]) -> &'a [u8] {
        match corpus.len() {
            0 => b"",
            count => &corpus[self.random.usize(..count)],
        }
    }

    fn edit(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.random.usize(..=input.len());
        // The edited part is mostly short, and sometimes of any length.
        let longest = if self.random.u8(..8) == 0 { input.len() - at } else { (input.len() - at).min(8) };
        let end = at + self.random.usize(..=longest);
        match self.random.u8(..10) {
            0 if at < input.len() => input[at] ^= 1 << self.random.u8(..8),
            1 if at < input.len() => input[at] = self.random.u8(..),
            2 => drop(input.drain(at..end)),
            3 => input.truncate(at),
            4 => {
                let again = input[at..end].to_vec();
                drop(input.splice(at..at, again));
            }
            5 => {
                let again = input[at..end].repeat(self.random.usize(2..200));
                drop(input.splice(at..end, again.into_iter().take(LONGEST)));
            }
            6 => {
                let other = self.one_of(corpus);
                let (from, to) = self.range(other.len());
                drop(input.splice(at..end, other[from..to].iter().copied()));
            }
            7 => {
                let (from, to) = self.range(input.len());
                let moved = input[from..to].to_vec();
                drop(input.splice(at..end, moved));
            }
            _ => {
                let piece = PIECES[self.random.usize(..PIECES.len())];
                drop(input.splice(at..end, piece.iter().copied()));
            }
        }
    }

    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.random.usize(..=length);
        (from, self.random.usize(from..=length))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs() {
        let corpus = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), b"{seq}".to_vec()];
        let inputs = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..200).map(|_| mutator.input(&corpus)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        let different: BTreeSet<_> = inputs(1).into_iter().collect();
        assert!(different.len() > 150, "{}", different.len());
    }

    #[test]
    fn an_empty_corpus_gives_inputs() {
        let mut mutator = Mutator::new(1);
        assert!((0..100).any(|_| !mutator.input(&[]).is_empty()));
    }
}
