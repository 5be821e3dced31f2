//! An update as bytes: an event of Server-Sent Events (HTML standard, section 9.2), compressed at
//! most once for all readers.

use std::cell::OnceCell;
use std::sync::Arc;

use flate2::{Compress, Compression, FlushCompress};
use serde::Serialize;

/// Minimum size in bytes of an update that is compressed. A shorter update becomes a stored block
/// of the gzip stream.
const LARGE: usize = 1024;
/// Start of a gzip stream (RFC 1952): deflate, no name, no time.
pub const GZIP_HEAD: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Bytes of an update, shared by all readers.
pub struct Update {
    plain: Arc<[u8]>,
    packed: OnceCell<Arc<[u8]>>,
}

impl Update {
    /// Returns the update's bytes, uncompressed or as a part of a gzip stream.
    pub fn bytes(&self, as_gzip: bool) -> Arc<[u8]> {
        Arc::clone(if as_gzip { self.packed.get_or_init(|| packed(&self.plain).into()) } else { &self.plain })
    }
}

/// Returns an event with a JSON value in one line. If the event has no id, the reader keeps the
/// last id.
pub fn event(id: Option<u64>, name: &str, value: &impl Serialize) -> Update {
    // Texts and maps of texts can always be written as JSON.
    let data = serde_json::to_string(value).unwrap_or_default();
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    let plain = format!("{id}event: {name}\ndata: {data}\n\n").into_bytes().into();
    Update { plain, packed: OnceCell::new() }
}

/// Deflates the bytes independently of others, and ends at a byte boundary (a sync flush, RFC 1951
/// section 3.2.4). Updates deflated in this way form one stream in any order, so an update that was
/// compressed once fits into every reader's stream.
fn packed(plain: &[u8]) -> Vec<u8> {
    let level = if plain.len() < LARGE { Compression::none() } else { Compression::fast() };
    let mut stream = Compress::new(level, false);
    let mut packed = Vec::with_capacity(plain.len() / 2 + 256);
    loop {
        let read = usize::try_from(stream.total_in()).unwrap_or(usize::MAX);
        let rest = plain.get(read..).unwrap_or_default();
        // Compression in memory fails only if the compressor is used wrongly.
        let _ = stream.compress_vec(rest, &mut packed, FlushCompress::Sync);
        if packed.len() < packed.capacity() {
            return packed;
        }
        packed.reserve(packed.capacity());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn compressed_updates_concatenate_in_any_order() {
        let texts = ["short".to_owned(), "long ".repeat(20_000), String::new(), "ä\"<\n".repeat(999)];
        let updates = texts.each_ref().map(|text| event(Some(7), "parts", text));
        for order in [[0, 1, 2, 3], [3, 1, 0, 1]] {
            let mut stream = GZIP_HEAD.to_vec();
            order.iter().for_each(|at| stream.extend_from_slice(&updates[*at].bytes(true)));
            let mut plain = Vec::new();
            // The stream has no end, as the reader's connection has none.
            let _ = flate2::read::GzDecoder::new(stream.as_slice()).read_to_end(&mut plain);
            let expected: Vec<u8> = order.iter().flat_map(|at| updates[*at].bytes(false).to_vec()).collect();
            assert!(plain == expected);
        }
        assert!(updates[1].bytes(true).len() < 2_000);
        assert!(Arc::ptr_eq(&updates[1].bytes(true), &updates[1].bytes(true)), "compressed once");
    }
}
