//! The meaning of every field, by the path of its mapping as in `shape.rs`, in a file for each area. Whoever reads a new field adds
//! it to the file of its area:
//!
//! ```text
//! name [what may be written] = what holds without it (or REQUIRED), eg an example on one line:
//!     what it does, in a sentence or two without the closing full stop;
//! ```

macro_rules! fields {
    ($($path:literal { $($name:ident [$($kind:expr),+] = $default:expr, eg $example:literal: $($says:literal)+;)* })*) => {
        /// The fields of this area by the path of their mapping.
        pub(super) const ALL: &[(&str, &[Field])] = &[$(
            ($path, &[$(Field {
                name: stringify!($name),
                kinds: &[$($kind),+],
                default: $default,
                example: $example,
                says: concat!($($says),+),
            }),*]),
        )*];
    };
}

mod analysis;
mod assign;
mod guard;
mod hosted;
mod process;
mod routes;
mod service;
mod steps;
mod strategy;

use super::{
    Field, Kind,
    Kind::{Whole, Word},
    REQUIRED,
};

/// Every field by the path of its mapping.
pub(super) fn all() -> impl Iterator<Item = &'static (&'static str, &'static [Field])> {
    let areas = [
        process::ALL,
        routes::ALL,
        service::ALL,
        assign::ALL,
        strategy::ALL,
        steps::ALL,
        guard::ALL,
        analysis::ALL,
        hosted::ALL,
    ];
    areas.into_iter().flatten()
}

/// Requests of a window and the like: as many as one likes.
const MANY: Kind = Whole(1, 1_000_000_000);

/// How an attempt fails.
const CONDITION: Kind = Word(&["connect-failure", "refused-stream", "reset", "timeout", "5xx"]);

/// Mappings in which exactly one field is written.
pub(super) const ONE_OF: &[&str] = &[
    "routes[].match[].path",
    "routes[].filters.rewrite.path",
    "services.<name>.strategy.canary.steps[]",
    "services.<name>.strategy.canary.steps[].analysis.args[].valueFrom",
    "analysisTemplates.<name>.metrics[].provider",
];
