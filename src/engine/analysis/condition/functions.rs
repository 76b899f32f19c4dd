//! The functions of conditions: a bounded part of expr-lang's own, and the six that Argo Rollouts adds.
//! Has no function whose result can be much larger than its arguments.

use std::sync::LazyLock;

use expr::{Environment, Error, Value};

/// All functions that a condition may call, sorted. Argo's documentation uses no other ones.
pub(super) const NAMES: [&str; 37] = [
    "abs",
    "all",
    "any",
    "asFloat",
    "asInt",
    "ceil",
    "count",
    "default",
    "filter",
    "find",
    "first",
    "float",
    "floor",
    "hasPrefix",
    "hasSuffix",
    "indexOf",
    "int",
    "isInf",
    "isNaN",
    "isNil",
    "last",
    "len",
    "lower",
    "map",
    "max",
    "mean",
    "median",
    "min",
    "none",
    "one",
    "round",
    "string",
    "sum",
    "take",
    "trim",
    "type",
    "upper",
];

/// Those among them that evaluate something for each element of a list.
pub(super) const FOR_EACH: [&str; 9] = ["all", "any", "count", "filter", "find", "map", "none", "one", "sum"];

/// Shared by all conditions.
pub(super) static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.add_function("asInt", |call| one("asInt", &call.args).and_then(as_int));
    environment.add_function("asFloat", |call| one("asFloat", &call.args).and_then(as_float));
    environment.add_function("isNaN", |call| is("isNaN", &call.args, f64::is_nan));
    environment.add_function("isInf", |call| is("isInf", &call.args, f64::is_infinite));
    environment.add_function("isNil", |call| Ok(Value::Bool(one("isNil", &call.args)?.is_nil())));
    environment.add_function("default", |call| match call.args.as_slice() {
        [Value::Nil, otherwise] => Ok(otherwise.clone()),
        [value, _] => Ok(value.clone()),
        _ => Err(fault("default() takes a value and what stands in for nil")),
    });
    environment
});

fn one<'v>(name: &str, args: &'v [Value]) -> expr::Result<&'v Value> {
    match args {
        [value] => Ok(value),
        _ => Err(fault(&format!("{name}() takes one argument, not {}", args.len()))),
    }
}

fn as_int(value: &Value) -> expr::Result<Value> {
    match value {
        Value::Integer(_) => Ok(value.clone()),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "as in Go; what is not finite has no integer and is refused"
        )]
        Value::Float(number) if number.is_finite() => Ok(Value::Integer(*number as i64)),
        Value::String(text) => text.parse().map(Value::Integer).map_err(|_| cannot("asInt", value)),
        _ => Err(cannot("asInt", value)),
    }
}

fn as_float(value: &Value) -> expr::Result<Value> {
    match value {
        Value::Float(_) => Ok(value.clone()),
        #[expect(clippy::cast_precision_loss, reason = "as in Go")]
        Value::Integer(number) => Ok(Value::Float(*number as f64)),
        Value::String(text) => text.parse().map(Value::Float).map_err(|_| cannot("asFloat", value)),
        _ => Err(cannot("asFloat", value)),
    }
}

fn is(name: &str, args: &[Value], test: impl Fn(f64) -> bool) -> expr::Result<Value> {
    match one(name, args)? {
        Value::Float(number) => Ok(Value::Bool(test(*number))),
        Value::Integer(_) => Ok(Value::Bool(false)),
        value => Err(fault(&format!("{name}() takes a number, not {value}"))),
    }
}

fn cannot(name: &str, value: &Value) -> Error {
    fault(&format!("{name}() can make no number of {value}"))
}

fn fault(text: &str) -> Error {
    Error::ExprError(text.to_owned())
}

#[cfg(test)]
mod tests {
    use expr::Context;

    use super::*;

    fn eval(text: &str) -> expr::Result<Value> {
        ENVIRONMENT.eval(text, &Context::default())
    }

    #[test]
    fn every_function_exists_and_the_lists_are_sorted() {
        assert!(NAMES.is_sorted() && FOR_EACH.is_sorted());
        for name in NAMES {
            let error = eval(&format!("{name}()")).unwrap_err().to_string();
            assert!(!error.contains("Unknown function") && !error.contains("feature"), "{name}: {error}");
        }
        assert!(FOR_EACH.iter().all(|name| NAMES.contains(name)));
    }

    #[test]
    fn argos_functions_do_as_in_argo() {
        for text in [
            "asInt('7') == 7",
            "asInt(7.9) == 7",
            "asInt(-7.9) == -7",
            "asFloat('0.5') == 0.5",
            "asFloat(1) == 1.0",
            "isNaN(asFloat('NaN'))",
            "isInf(1.0 / 0)",
            "isInf(-1.0 / 0)",
            "not isNaN(1)",
            "isNil(nil)",
            "not isNil(0)",
            "default(nil, 3) == 3",
            "default(2, 3) == 2",
        ] {
            assert_eq!(eval(text).unwrap(), Value::Bool(true), "{text}");
        }
        for text in
            ["asInt('x')", "asInt('1.5')", "asInt(0.0 / 0)", "asFloat(nil)", "isNaN('x')", "default(1)", "isNil()"]
        {
            assert!(eval(text).is_err(), "{text}");
        }
    }
}
