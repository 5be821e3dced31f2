//! A pool of buffers for answers or requests that arrive or leave in pieces.

/// Maximum number of buffers in the pool, and maximum capacity of a buffer, bytes.
const SPARE: usize = 512;
const SPARE_BYTES: usize = 1024 * 1024;

/// Buffers for answers or requests that arrive or leave in pieces.
#[derive(Debug, Default)]
pub struct BufferPool(Vec<Vec<u8>>);

impl BufferPool {
    /// Returns an empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Returns a buffer to the pool.
    #[inline]
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && buffer.capacity() <= SPARE_BYTES && self.0.len() < SPARE {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}
