//! WHAT IS WANTED. YAML becomes [`Config`], or a list of diagnostics with file, line, column, excerpt and suggestion.

pub mod settings;

pub use settings::Config;
