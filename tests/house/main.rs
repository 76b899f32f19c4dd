//! The rules of the house, read from the source itself. A message names file, line and rule.
//! Each rule is also tried on a small bad sample, so that it cannot pass because it sees nothing.

#![expect(clippy::unwrap_used, reason = "all of this is a test; clippy knows that of functions marked as tests only")]

mod dependencies;
mod ratchet;
mod rooms;
mod rows;
mod source;
mod style;

/// Fails with one line for each breach.
fn assert_kept(breaches: &[String]) {
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}
