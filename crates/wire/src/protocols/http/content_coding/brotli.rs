//! Brotli (RFC 7932), with a pool for the memory of its decoder, which is made anew for each body.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use brotli_decompressor::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, HuffmanCode, SliceWrapper, SliceWrapperMut,
};

use super::CodingStep;

/// Maximum number of blocks in a pool, and the largest size of a block that is kept, in elements.
const BLOCKS: usize = 16;
const BLOCK_SIZE: usize = 256 * 1024;

/// A block of memory.
pub struct MemoryBlock<T>(Box<[T]>);

impl<T> Default for MemoryBlock<T> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<T> SliceWrapper<T> for MemoryBlock<T> {
    fn slice(&self) -> &[T] {
        &self.0
    }
}

impl<T> SliceWrapperMut<T> for MemoryBlock<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// Blocks that are free. Only one thread uses a pool; the lock lets it move there.
#[derive(Clone)]
pub struct MemoryPool<T> {
    free: Arc<Mutex<Vec<Box<[T]>>>>,
}

impl<T> Default for MemoryPool<T> {
    fn default() -> Self {
        Self { free: Arc::default() }
    }
}

impl<T> MemoryPool<T> {
    fn free(&self) -> MutexGuard<'_, Vec<Box<[T]>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone + Default> Allocator<T> for MemoryPool<T> {
    type AllocatedMemory = MemoryBlock<T>;

    fn alloc_cell(&mut self, len: usize) -> MemoryBlock<T> {
        let mut free = self.free();
        let Some(place) = free.iter().position(|block| block.len() == len) else {
            return MemoryBlock(vec![T::default(); len].into());
        };
        let mut block = free.swap_remove(place);
        block.fill(T::default());
        MemoryBlock(block)
    }

    fn free_cell(&mut self, data: MemoryBlock<T>) {
        if (1..=BLOCK_SIZE).contains(&data.0.len()) {
            let mut free = self.free();
            if free.len() == BLOCKS {
                free.remove(0);
            }
            free.push(data.0);
        }
    }
}

/// Memory of the decoder between two bodies.
#[derive(Default)]
pub struct BrotliMemory {
    bytes: MemoryPool<u8>,
    numbers: MemoryPool<u32>,
    codes: MemoryPool<HuffmanCode>,
}

impl BrotliMemory {
    /// Begins a body.
    pub fn begin(&self) -> BrotliStream {
        let (bytes, numbers, codes) = (self.bytes.clone(), self.numbers.clone(), self.codes.clone());
        BrotliStream { state: Box::new(BrotliState::new_strict(bytes, numbers, codes)), total: 0 }
    }
}

/// A body that is being decoded.
pub struct BrotliStream {
    state: Box<BrotliState<MemoryPool<u8>, MemoryPool<u32>, MemoryPool<HuffmanCode>>>,
    total: usize,
}

impl BrotliStream {
    /// Decodes a piece. Returns `None` if the data are broken.
    pub fn step(&mut self, input: &[u8], piece: &mut [u8]) -> Option<CodingStep> {
        let (mut left, mut read) = (input.len(), 0);
        let (mut room, mut written) = (piece.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut room,
            &mut written,
            piece,
            &mut self.total,
            &mut self.state,
        );
        let has_ended = match result {
            BrotliResult::ResultFailure => return None,
            BrotliResult::ResultSuccess => true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => false,
        };
        Some(CodingStep { read, written, has_ended })
    }
}
