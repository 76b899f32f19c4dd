//! A worker's buffers between two uses: so connections that wait hold none, and busy ones allocate none.

use std::cell::RefCell;

/// Room for a request or a response of usual size.
pub(super) const SMALL: usize = 16 * 1024;
/// Room to read large bodies with few system calls.
pub(super) const LARGE: usize = 256 * 1024;
/// What has grown beyond this is let go.
const USUAL_MAX: usize = 2 * SMALL;
/// How many of each are kept.
const SMALL_KEPT: usize = 64;
const LARGE_KEPT: usize = 4;

/// Empty buffers; the one last used is used first, since it is still in the cache.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Spare {
    small: RefCell<Vec<Vec<u8>>>,
    large: RefCell<Vec<Vec<u8>>>,
}

impl Spare {
    pub(super) fn take(&self) -> Vec<u8> {
        self.small.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(SMALL))
    }

    pub(super) fn take_large(&self) -> Vec<u8> {
        self.large.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(LARGE))
    }

    /// Keeps a buffer that is no longer needed, unless there are enough.
    pub(super) fn give(&self, mut buffer: Vec<u8>) {
        let (kept, max) = match buffer.capacity() {
            LARGE.. => (&self.large, LARGE_KEPT),
            SMALL..=USUAL_MAX => (&self.small, SMALL_KEPT),
            _ => return,
        };
        let mut kept = kept.borrow_mut();
        if kept.len() < max {
            buffer.clear();
            kept.push(buffer);
        }
    }
}
