//! Counts wrong tokens by where they come from, so that nobody can try them out: after a few, a pause.
//! Bounded: beyond so many addresses, all others share one count.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Wrong tokens that are answered at once.
const ALLOWED: u32 = 10;
/// Each of them is forgotten after this time; so one more attempt is answered.
const FORGOTTEN: Duration = Duration::from_secs(6);
/// Addresses that are counted apart.
const ADDRESSES_MAX: usize = 1_024;

/// Where a request came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    /// Over the network, or loopback.
    Ip(IpAddr),
    /// Over a Unix socket.
    Local,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Local => f.write_str("unix socket"),
        }
    }
}

/// Recent failures by address; none stands for all addresses that have no count of their own.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<HashMap<Option<Peer>, (u32, Instant)>>);

impl Failures {
    /// How long this peer has to wait before a token of it is looked at; none: not at all.
    pub(super) fn wait(&self, peer: Peer, now: Instant) -> Option<Duration> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let &(count, since) = counts.get(&Some(peer)).or_else(|| counts.get(&None))?;
        let left = count.saturating_sub(forgotten(since, now));
        (left >= ALLOWED).then(|| FORGOTTEN.saturating_sub(now.duration_since(since)).max(Duration::from_secs(1)))
    }

    /// This peer has sent a wrong token.
    pub(super) fn add(&self, peer: Peer, now: Instant) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= ADDRESSES_MAX {
            counts.retain(|_, (count, since)| *count > forgotten(*since, now));
        }
        let has_room = counts.len() < ADDRESSES_MAX || counts.contains_key(&Some(peer));
        let entry = counts.entry(has_room.then_some(peer)).or_insert((0, now));
        let left = entry.0.saturating_sub(forgotten(entry.1, now));
        *entry = (left.saturating_add(1).min(ALLOWED), now);
    }
}

fn forgotten(since: Instant, now: Instant) -> u32 {
    u32::try_from(now.duration_since(since).as_secs() / FORGOTTEN.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u32) -> Peer {
        Peer::Ip(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn a_few_are_free_then_one_at_a_time() {
        let (failures, start) = (Failures::default(), Instant::now());
        for _ in 0..ALLOWED {
            assert_eq!(failures.wait(peer(1), start), None);
            failures.add(peer(1), start);
        }
        assert_eq!(failures.wait(peer(1), start), Some(FORGOTTEN));
        assert_eq!(failures.wait(peer(2), start), None, "others are not held back");
        let later = start + FORGOTTEN;
        assert_eq!(failures.wait(peer(1), later), None);
        failures.add(peer(1), later);
        assert!(failures.wait(peer(1), later).is_some());
        assert_eq!(failures.wait(peer(1), later + FORGOTTEN * 20), None);
    }

    #[test]
    fn many_addresses_do_not_fill_the_memory_and_get_no_free_tries() {
        let (failures, start) = (Failures::default(), Instant::now());
        for number in 0..5_000 {
            failures.add(peer(number), start);
        }
        assert!(failures.0.lock().unwrap().len() <= ADDRESSES_MAX + 1);
        assert!(failures.wait(peer(9_999), start).is_some(), "a new address shares the count of the rest");
        assert_eq!(failures.wait(peer(3), start), None);
    }
}
