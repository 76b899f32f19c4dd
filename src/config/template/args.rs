//! Arguments of templates and what is given for them: values, the versions' names, and secrets by where they are found.

use std::path::Path;

use super::TEMPLATES_MAX;
use crate::{
    config::{
        diagnostic::{Code, Span},
        report::{At, Report},
        service, shape, suggest,
        yaml::Value,
    },
    engine::analysis::ask::{BuiltIn, Part, SecretSource, Text},
};

/// An argument as written.
#[derive(Debug)]
pub(super) struct Arg {
    pub(super) name: String,
    pub(super) value: Option<Text>,
    pub(super) span: Span,
}

/// What the arguments of a run are.
pub(super) struct Values(Vec<(String, Text)>);

pub(super) fn args(at: &At<'_>, folder: &Path, report: &mut Report) -> Vec<Arg> {
    let mut read: Vec<Arg> = Vec::new();
    for item in report.items(at, TEMPLATES_MAX).unwrap_or_default() {
        let Some(fields) = report.fields(&item, &shape::ARG) else { continue };
        let Some(name_at) = fields.need(report, "name", "name the argument: `name: limit`") else { continue };
        let Some(name) = service::name(&name_at, report) else { continue };
        let (value_at, from_at) = (fields.get("value"), fields.get("valueFrom"));
        if let (Some(value), Some(from)) = (&value_at, &from_at) {
            report
                .error(Code::Conflict, &from.key_span, "an argument has either `value` or `valueFrom`")
                .related(&value.key_span, "the other is here")
                .help("keep one of them");
        }
        // A value that is refused already must not be called missing as well.
        let value = value_at.map(|at| report.text_or_empty(&at, &[]).unwrap_or_default());
        let value = value.or_else(|| from_at.map(|at| from(&at, folder, report).unwrap_or_default()));
        if read.iter().any(|arg| arg.name == name) {
            report
                .error(Code::Conflict, &name_at.span(), "this argument is in the list twice")
                .help("keep one of them");
            continue;
        }
        read.push(Arg { name, value, span: name_at.span() });
    }
    read
}

fn from(at: &At<'_>, folder: &Path, report: &mut Report) -> Option<Text> {
    if let Value::Map(fields) = &at.node.value {
        let help = |key: &str| match key {
            "secretKeyRef" => Some(
                "mount the secret and write `valueFrom: { file: /run/secrets/token }`, or put it into the environment and write `valueFrom: { env: TOKEN }`",
            ),
            "fieldRef" => Some(
                "write what it holds as `value`; `{{service}}`, `{{canary.name}}`, `{{stable.name}}`, `{{step}}` and `{{weight}}` are known",
            ),
            _ => None,
        };
        if let Some((field, help)) = fields.iter().find_map(|field| Some((field, help(&field.key)?))) {
            let message = format!("`{}` needs a cluster, and there is none here", field.key);
            report.error(Code::NotSupportedYet, &field.key_span, message).help(help);
            return None;
        }
    }
    let fields = report.fields(at, &shape::VALUE_FROM)?;
    let mut present = shape::VALUE_FROM.fields.iter().filter_map(|name| fields.get(name));
    let (Some(first), None) = (present.next(), present.next()) else {
        report
            .error(Code::Conflict, &at.key_span, "`valueFrom` says one place where the value is found")
            .help("write `valueFrom: { env: TOKEN }` or `valueFrom: { file: /run/secrets/token }`");
        return None;
    };
    let part = match &*first.name {
        "env" => Part::Secret(SecretSource::Env(report.filled(&first, "a name of the environment")?)),
        "file" => {
            let file = report.filled(&first, "a file")?;
            Part::Secret(SecretSource::File(folder.join(file).display().to_string()))
        }
        _ => Part::BuiltIn(report.word(&first, &[("Latest", BuiltIn::Canary), ("Stable", BuiltIn::Stable)])?),
    };
    Some(Text(vec![part]))
}

/// Reports arguments that no template declares, and those without a value. A misspelt one is read as what was meant.
pub(super) fn check_given(given: &mut [Arg], declared: &[&Arg], is_broken: bool, report: &mut Report) {
    let declared: Vec<&str> = declared.iter().map(|arg| &*arg.name).collect();
    for arg in given {
        if arg.value.is_none() {
            report
                .error(Code::MissingField, &arg.span, format!("the argument `{}` has no value here", arg.name))
                .help("add `value: …`");
        }
        if is_broken || declared.contains(&&*arg.name) {
            continue;
        }
        let near = suggest::closest(&arg.name, declared.iter().copied());
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if declared.is_empty() => "the templates of this step have no arguments".to_owned(),
            None => {
                format!("they take {}", declared.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
            }
        };
        report
            .error(Code::BadReference, &arg.span, format!("no template of this step has an argument `{}`", arg.name))
            .help(help);
        if let Some(near) = near {
            near.clone_into(&mut arg.name);
        }
    }
}

impl Values {
    /// What is given goes before defaults, and templates must not differ in those where nothing is given.
    pub(super) fn of(given: &[Arg], declared: &[&Arg], report: &mut Report) -> Self {
        let mut values: Vec<(String, Text)> = Vec::new();
        for arg in given {
            // What has no value is reported already.
            values.push((arg.name.clone(), arg.value.clone().unwrap_or_default()));
        }
        let is_given = |name: &str| given.iter().any(|arg| arg.name == name);
        for arg in declared.iter().filter(|arg| !is_given(&arg.name)) {
            let Some(value) = &arg.value else { continue };
            match values.iter().find(|(name, _)| *name == arg.name) {
                None => values.push((arg.name.clone(), value.clone())),
                Some((_, other)) if other == value => {}
                Some(_) => {
                    report
                        .error(
                            Code::Conflict,
                            &arg.span,
                            format!("two templates of one run give the argument `{}` different values", arg.name),
                        )
                        .help("give it a value where the templates are used, or rename one of the two");
                }
            }
        }
        Self(values)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    pub(super) fn get(&self, name: &str) -> Option<Text> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }
}
