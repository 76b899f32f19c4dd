//! A worker's buffers between two uses: so connections that wait hold none, and busy ones allocate none.

use std::cell::RefCell;

use http::HeaderMap;

/// Room for a request or a response of usual size.
pub(super) const SMALL: usize = 16 * 1024;
/// Room to read large bodies with few system calls.
pub(super) const LARGE: usize = 256 * 1024;
/// What has grown beyond this is let go.
const USUAL_MAX: usize = 2 * SMALL;
/// How many of each are kept.
const DESKS_KEPT: usize = 64;
const LARGE_KEPT: usize = 4;

/// The buffers of one request.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// What came from the client and was not used.
    pub(super) inbox: Vec<u8>,
    /// Of the request, the fields that rules look at.
    pub(super) fields: HeaderMap,
    /// For the upstream.
    pub(super) request: Vec<u8>,
    /// What came from the upstream and was not used.
    pub(super) response: Vec<u8>,
    /// For the client.
    pub(super) answer: Vec<u8>,
}

/// Empty buffers; those last used are used first, since they are still in the cache.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Spare {
    desks: RefCell<Vec<Desk>>,
    large: RefCell<Vec<Vec<u8>>>,
}

impl Spare {
    pub(super) fn take(&self) -> Desk {
        let new = || Vec::with_capacity(SMALL);
        let desk = self.desks.borrow_mut().pop();
        desk.unwrap_or_else(|| Desk {
            inbox: new(),
            fields: HeaderMap::new(),
            request: new(),
            response: new(),
            answer: new(),
        })
    }

    /// Keeps buffers that are no longer needed, unless there are enough or one has grown.
    pub(super) fn give(&self, mut desk: Desk) {
        let buffers = [&mut desk.inbox, &mut desk.request, &mut desk.response, &mut desk.answer];
        let mut is_usual = true;
        for buffer in buffers {
            buffer.clear();
            is_usual &= (SMALL..=USUAL_MAX).contains(&buffer.capacity());
        }
        let mut desks = self.desks.borrow_mut();
        if is_usual && desks.len() < DESKS_KEPT {
            desks.push(desk);
        }
    }

    pub(super) fn take_large(&self) -> Vec<u8> {
        self.large.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(LARGE))
    }

    pub(super) fn give_large(&self, mut buffer: Vec<u8>) {
        let mut large = self.large.borrow_mut();
        if large.len() < LARGE_KEPT {
            buffer.clear();
            large.push(buffer);
        }
    }
}
