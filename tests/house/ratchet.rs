//! What may be longer than the alarm, and why. An entry that is no longer needed fails the test.

/// Files over 600 lines.
pub const LONG_FILES: &[(&str, &str)] = &[];

/// Functions over 70 lines, as `file::function`.
pub const LONG_FUNCTIONS: &[(&str, &str)] =
    &[("src/engine/analysis/condition/tests.rs::scraps", "one list of words, each on its line")];
