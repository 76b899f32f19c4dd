//! Conditions in expr-lang: bounded, tried when parsed, evaluated to true, false or an error.

/// A checked condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    source: String,
}

/// Why a text is not a condition, or gave no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConditionError(pub String);

impl Condition {
    /// Parses and tries a condition against typical results.
    ///
    /// # Errors
    /// When it is too large or nested too deeply, does not parse, or can never give a verdict.
    pub fn parse(_source: &str) -> Result<Self, ConditionError> {
        todo!()
    }

    /// As written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }
}
