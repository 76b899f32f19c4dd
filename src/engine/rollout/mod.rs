//! One service's rollout: its state, what moves it, what ends it. Knows nothing of other services.

mod added;
mod analyse;
mod by_hand;
mod clients;
mod command;
mod early;
mod endpoints;
mod experiment;
mod gates;
mod guard;
mod leave;
mod look;
mod machine;
mod permit;
mod routing;
mod state;
mod traffic;
mod wish;

pub(super) use state::{Log, Service};
pub(super) use wish::Recollection;
