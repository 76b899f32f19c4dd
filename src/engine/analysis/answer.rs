//! What somebody else answered to a question, as conditions see it. Judges nothing.

use std::fmt::Write as _;

use expr::Value;

/// Most characters of an answer that are remembered.
const SHOWN_MAX: usize = 200;

/// A value of JSON, with numbers that JSON lacks.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Nothing.
    Nil,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number, NaN and the infinities included.
    Number(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Answer>),
    /// Values by name, in order.
    Map(Vec<(String, Answer)>),
}

/// What came of a question that was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A value for the conditions.
    Value(Answer),
    /// A plain no that needs no condition, as of a command that exits with another code than 0; what was said with it.
    Failed(String),
}

impl Answer {
    /// Numbers, as most metric stores give them.
    #[must_use]
    pub fn numbers(numbers: impl IntoIterator<Item = f64>) -> Self {
        Self::List(numbers.into_iter().map(Self::Number).collect())
    }

    /// Nothing, or a list, text or mapping of nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Nil => true,
            Self::Text(text) => text.trim().is_empty(),
            Self::List(items) => items.iter().all(|item| *item == Self::Nil),
            Self::Map(fields) => fields.is_empty(),
            Self::Bool(_) | Self::Integer(_) | Self::Number(_) => false,
        }
    }

    /// Not a number, or a list with such a one: a ratio of nothing to nothing.
    #[must_use]
    pub fn has_nan(&self) -> bool {
        match self {
            Self::Number(number) => number.is_nan(),
            Self::List(items) => items.iter().any(Self::has_nan),
            _ => false,
        }
    }

    /// As JSON would write it, cut when long.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        match text.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }

    fn write(&self, text: &mut String) {
        // Twice the characters are always more than are shown.
        if text.len() > 8 * SHOWN_MAX {
            return;
        }
        match self {
            Self::Nil => text.push_str("nil"),
            Self::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Self::Integer(number) => text.push_str(&number.to_string()),
            Self::Number(number) => text.push_str(&number.to_string()),
            Self::Text(value) => {
                // Writing into a string cannot fail.
                let _ = write!(text, "{value:?}");
            }
            Self::List(items) => {
                text.push('[');
                for (at, item) in items.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { ", " });
                    item.write(text);
                }
                text.push(']');
            }
            Self::Map(fields) => {
                text.push('{');
                for (at, (name, value)) in fields.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { ", " });
                    text.push_str(name);
                    text.push_str(": ");
                    value.write(text);
                }
                text.push('}');
            }
        }
    }

    pub(super) fn value(&self) -> Value {
        match self {
            Self::Nil => Value::Nil,
            Self::Bool(value) => Value::Bool(*value),
            Self::Integer(number) => Value::Integer(*number),
            Self::Number(number) => Value::Float(*number),
            Self::Text(text) => Value::String(text.clone()),
            Self::List(items) => Value::Array(items.iter().map(Self::value).collect()),
            Self::Map(fields) => fields.iter().map(|(name, value)| (name.clone(), value.value())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_shown_as_json_writes_it_and_never_at_length() {
        let answer = Answer::Map(vec![
            ("a".to_owned(), Answer::numbers([0.5, f64::NAN])),
            ("b".to_owned(), Answer::List(vec![Answer::Nil, Answer::Bool(true), Answer::Text("x".to_owned())])),
        ]);
        assert_eq!(answer.in_words(), "{a: [0.5, NaN], b: [nil, true, \"x\"]}");
        let long = Answer::List(vec![Answer::Text("äöü".repeat(50)); 10_000]);
        assert_eq!(long.in_words().chars().count(), SHOWN_MAX + 1);
    }

    #[test]
    fn emptiness_and_not_a_number_are_seen_where_they_are() {
        for empty in [Answer::Nil, Answer::List(vec![]), Answer::List(vec![Answer::Nil]), Answer::Text(" ".to_owned())]
        {
            assert!(empty.is_empty() && !empty.has_nan(), "{empty:?}");
        }
        assert!(!Answer::Number(0.0).is_empty() && !Answer::Bool(false).is_empty());
        assert!(Answer::numbers([1.0, f64::NAN]).has_nan() && !Answer::numbers([f64::INFINITY]).has_nan());
    }
}
