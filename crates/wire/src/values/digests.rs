//! Digests of values, for requests that are signed or checked: MD5, SHA-1, SHA-256 and HMAC.

use hmac::{Hmac, KeyInit as _, Mac as _};
use md5::{Digest as _, Md5};
use sha1::Sha1;
use sha2::Sha256;

/// A digest without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestKind {
    /// MD5 (RFC 1321).
    Md5,
    /// SHA-1 (FIPS 180-4).
    Sha1,
    /// SHA-256 (FIPS 180-4).
    Sha256,
}

impl DigestKind {
    /// Returns the length of the digest, bytes.
    pub fn length(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// Replaces the bytes of `out` from `start` by their digest, in hexadecimal digits if `is_hex`.
    pub fn apply(self, out: &mut Vec<u8>, start: usize, is_hex: bool) {
        match self {
            Self::Md5 => put(&Md5::digest(&out[start..]), out, start, is_hex),
            Self::Sha1 => put(&Sha1::digest(&out[start..]), out, start, is_hex),
            Self::Sha256 => put(&Sha256::digest(&out[start..]), out, start, is_hex),
        }
    }
}

/// Returns the SHA-256 digest of texts after each other, in hexadecimal digits.
pub fn sha256(texts: &[&[u8]]) -> String {
    let mut digest = Sha256::new();
    texts.iter().for_each(|text| digest.update(text));
    let mut digits = Vec::new();
    put(&digest.finalize(), &mut digits, 0, true);
    String::from_utf8(digits).unwrap_or_default()
}

/// Length of an HMAC with SHA-256, bytes.
pub const HMAC_LENGTH: usize = 32;

/// Replaces the bytes of `out` from `start` by their HMAC with SHA-256 (RFC 2104). The value and
/// then the key are in `out`; the key begins at `key`.
pub fn hmac_sha256(out: &mut Vec<u8>, start: usize, key: usize, is_hex: bool) {
    // A key may have any length, so it is never refused.
    let Ok(mut hmac) = Hmac::<Sha256>::new_from_slice(&out[key..]) else { return };
    hmac.update(&out[start..key]);
    put(&hmac.finalize().into_bytes(), out, start, is_hex);
}

/// Replaces the bytes of `out` from `start` by a digest.
fn put(digest: &[u8], out: &mut Vec<u8>, start: usize, is_hex: bool) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.truncate(start);
    if !is_hex {
        return out.extend_from_slice(digest);
    }
    out.extend(digest.iter().flat_map(|byte| [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)])));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(kind: DigestKind, text: &str) -> String {
        let mut out = format!("<{text}").into_bytes();
        kind.apply(&mut out, 1, true);
        assert_eq!(out.len(), 1 + 2 * kind.length());
        String::from_utf8(out.split_off(1)).unwrap()
    }

    fn hmac(key: &[u8], text: &[u8]) -> String {
        let mut out = [b"<", text, key].concat();
        hmac_sha256(&mut out, 1, 1 + text.len(), true);
        assert_eq!(out.len(), 1 + 2 * HMAC_LENGTH);
        String::from_utf8(out.split_off(1)).unwrap()
    }

    #[test]
    fn digests_of_the_standards() {
        // RFC 1321 A.5, and the examples of FIPS 180 for `abc`.
        assert_eq!(digest(DigestKind::Md5, ""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(digest(DigestKind::Md5, "abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(digest(DigestKind::Sha1, "abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(
            digest(DigestKind::Sha256, "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn codes_of_rfc_4231() {
        assert_eq!(hmac(&[0x0b; 20], b"Hi There"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        assert_eq!(
            hmac(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }
}
