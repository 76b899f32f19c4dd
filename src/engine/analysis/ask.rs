//! Questions to others: what is asked of whom, with the places that are filled in when it is asked.
//! Says what to ask and never how; a secret is here only by the name under which it is found.

use std::time::Duration;

use crate::engine::{
    names::{Revision, ServiceName},
    time::Timestamp,
};

/// A question that is on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Whose question it is.
    pub ticket: Ticket,
    /// What is asked. Only secrets are left to be filled in.
    pub ask: Ask,
    /// When no answer is waited for any longer, and the measurement is an Error.
    pub timeout: Duration,
}

/// Whose question it is: an answer to a run that is over is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Of which service.
    pub service: ServiceName,
    /// In which attempt.
    pub revision: Revision,
    /// Of which run.
    pub run: RunKind,
    /// Of which metric.
    pub metric: String,
    /// When it was asked.
    pub asked: Timestamp,
}

/// Which of a service's runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunKind {
    /// That of an analysis step.
    Step,
    /// The one beside the steps.
    Background,
    /// One that a person started, which decides nothing.
    Manual,
}

/// A text with places to be filled in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text(pub Vec<Part>);

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// As it is.
    Plain(String),
    /// `{{args.name}}`, until the template is used.
    Arg(String),
    /// `{{service}}` and the like, until the question is asked.
    BuiltIn(BuiltIn),
    /// A secret, until the question leaves.
    Secret(SecretSource),
}

/// What is known without being told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BuiltIn {
    /// The service's name.
    Service,
    /// The stable version's name.
    Stable,
    /// The canary's name.
    Canary,
    /// The present step, from 1.
    Step,
    /// The canary's weight in percent, without the sign.
    Weight,
}

/// Where a secret is found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SecretSource {
    /// In the environment of the process, under this name.
    Env(String),
    /// In this file, without the line end behind it.
    File(String),
}

/// How HTTP is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Http {
    /// Header fields.
    pub headers: Vec<(String, Text)>,
    /// `Authorization`.
    pub auth: Option<Auth>,
    /// A PEM file of authorities to believe in place of the system's.
    pub ca: Option<String>,
    /// Believe anybody.
    pub insecure: bool,
}

/// Who we say we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// `Bearer TOKEN`.
    Bearer(Text),
    /// `Basic`, of a name and a password.
    Basic {
        /// The name.
        username: Text,
        /// The password.
        password: Text,
    },
}

/// A stretch of time that ends before now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// It begins so long before now.
    pub start: Duration,
    /// It ends so long before now.
    pub end: Duration,
    /// Between two points of it.
    pub step: Duration,
}

/// Whom and what.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// A Prometheus, or what speaks its API.
    Prometheus {
        /// `http://host:port`, with a path before `/api/v1` if there is one.
        address: Text,
        /// In PromQL.
        query: Text,
        /// A range query over this; an instant query at now without.
        range: Option<Range>,
        /// How.
        http: Http,
    },
    /// Any HTTP server.
    Web {
        /// GET, POST or PUT.
        method: &'static str,
        /// The whole URL.
        url: Text,
        /// What is sent, if anything.
        body: Option<Text>,
        /// What of a JSON answer counts; all of it without.
        json_path: Option<Text>,
        /// How.
        http: Http,
    },
    /// A command on this machine.
    Exec {
        /// The program and its arguments.
        command: Vec<Text>,
        /// Its environment, beside `PATH`.
        env: Vec<(String, Text)>,
    },
    /// Datadog.
    Datadog {
        /// `https://api.datadoghq.com` or that of another site.
        address: Text,
        /// `DD-API-KEY`.
        api_key: Text,
        /// `DD-APPLICATION-KEY`.
        app_key: Text,
        /// Version 2 of the API rather than version 1.
        v2: bool,
        /// So far back.
        interval: Duration,
        /// Queries by name.
        queries: Vec<(String, Text)>,
        /// What is made of several.
        formula: Option<Text>,
        /// How version 2 makes one number of many.
        aggregator: &'static str,
    },
    /// New Relic's `NerdGraph`.
    NewRelic {
        /// `https://api.newrelic.com/graphql` or that of another region.
        address: Text,
        /// The user key.
        api_key: Text,
        /// The account's number.
        account: Text,
        /// In NRQL.
        query: Text,
    },
    /// Graphite.
    Graphite {
        /// `http://host:port`.
        address: Text,
        /// The parameters of `/render`, as `target=…&from=-5min`.
        query: Text,
        /// How.
        http: Http,
    },
    /// `InfluxDB` 2.
    Influx {
        /// `http://host:port`.
        address: Text,
        /// The organisation.
        org: Text,
        /// The API token.
        token: Text,
        /// In Flux.
        query: Text,
        /// How.
        http: Http,
    },
    /// Amazon `CloudWatch`.
    CloudWatch {
        /// Where, when it is not Amazon's own address of the region.
        address: Option<Text>,
        /// The region.
        region: Text,
        /// The access key's id.
        access_key: Text,
        /// The access key's secret.
        secret_key: Text,
        /// Of temporary credentials.
        session_token: Option<Text>,
        /// So far back.
        interval: Duration,
        /// What is asked.
        queries: Vec<CloudWatchQuery>,
    },
}

/// One of `metricDataQueries`.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudWatchQuery {
    /// Its name in expressions.
    pub id: String,
    /// An expression over other queries.
    pub expression: Option<Text>,
    /// Its name in answers.
    pub label: Option<Text>,
    /// A metric.
    pub stat: Option<CloudWatchStat>,
    /// In seconds, of an expression.
    pub period: Option<u64>,
    /// Whether it is a part of the answer.
    pub return_data: Option<bool>,
}

/// `metricStat`.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudWatchStat {
    /// e.g. `AWS/ApplicationELB`.
    pub namespace: Option<Text>,
    /// The metric's name.
    pub metric: Text,
    /// Which of those of that name.
    pub dimensions: Vec<(String, Text)>,
    /// In seconds.
    pub period: u64,
    /// e.g. `Sum` or `p99`.
    pub stat: Text,
    /// e.g. `Count`.
    pub unit: Option<String>,
}

impl RunKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Step, Self::Background, Self::Manual];

    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Background => "background",
            Self::Manual => "manual",
        }
    }
}

impl BuiltIn {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Service, Self::Stable, Self::Canary, Self::Step, Self::Weight];

    /// How it is written between the braces.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Stable => "stable.name",
            Self::Canary => "canary.name",
            Self::Step => "step",
            Self::Weight => "weight",
        }
    }
}

impl Text {
    /// A text without places.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self(vec![Part::Plain(text.into())])
    }

    /// Puts what is known of an argument in the place of its name.
    pub fn bind(&mut self, arg: &dyn Fn(&str) -> Option<Self>) {
        let parts = std::mem::take(&mut self.0);
        self.0 = parts
            .into_iter()
            .flat_map(|part| match &part {
                Part::Arg(name) => arg(name).map_or(vec![part], |text| text.0),
                _ => vec![part],
            })
            .collect();
    }

    /// Puts what is known now in the place of built-in names.
    pub fn fill(&mut self, known: &dyn Fn(BuiltIn) -> String) {
        for part in &mut self.0 {
            if let Part::BuiltIn(name) = part {
                *part = Part::Plain(known(*name));
            }
        }
    }

    /// The whole text when nothing is left to be filled in.
    #[must_use]
    pub fn as_plain(&self) -> Option<String> {
        let plain = self.0.iter().map(|part| match part {
            Part::Plain(text) => Some(text.as_str()),
            _ => None,
        });
        plain.collect()
    }

    /// Whether a secret is a part of it.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Secret(_)))
    }
}

impl Ask {
    /// Whom, in a word for messages.
    #[must_use]
    pub const fn provider(&self) -> &'static str {
        match self {
            Self::Prometheus { .. } => "prometheus",
            Self::Web { .. } => "web",
            Self::Exec { .. } => "exec",
            Self::Datadog { .. } => "datadog",
            Self::NewRelic { .. } => "newRelic",
            Self::Graphite { .. } => "graphite",
            Self::Influx { .. } => "influxdb",
            Self::CloudWatch { .. } => "cloudWatch",
        }
    }

    /// Every text in it.
    pub fn texts_mut(&mut self) -> Vec<&mut Text> {
        match self {
            Self::Prometheus { address, query, http, .. } | Self::Graphite { address, query, http } => {
                [address, query].into_iter().chain(http.texts_mut()).collect()
            }
            Self::Web { url, body, json_path, http, .. } => {
                [url].into_iter().chain(body).chain(json_path).chain(http.texts_mut()).collect()
            }
            Self::Exec { command, env } => command.iter_mut().chain(env.iter_mut().map(|(_, text)| text)).collect(),
            Self::Datadog { address, api_key, app_key, queries, formula, .. } => {
                let queries = queries.iter_mut().map(|(_, text)| text);
                [address, api_key, app_key].into_iter().chain(queries).chain(formula).collect()
            }
            Self::NewRelic { address, api_key, account, query } => vec![address, api_key, account, query],
            Self::Influx { address, org, token, query, http } => {
                [address, org, token, query].into_iter().chain(http.texts_mut()).collect()
            }
            Self::CloudWatch { address, region, access_key, secret_key, session_token, queries, .. } => {
                let texts = [region, access_key, secret_key].into_iter().chain(address).chain(session_token);
                texts.chain(queries.iter_mut().flat_map(CloudWatchQuery::texts_mut)).collect()
            }
        }
    }
}

impl Http {
    fn texts_mut(&mut self) -> Vec<&mut Text> {
        let auth = match &mut self.auth {
            Some(Auth::Bearer(token)) => vec![token],
            Some(Auth::Basic { username, password }) => vec![username, password],
            None => Vec::new(),
        };
        self.headers.iter_mut().map(|(_, text)| text).chain(auth).collect()
    }
}

impl CloudWatchQuery {
    fn texts_mut(&mut self) -> Vec<&mut Text> {
        let stat = self.stat.iter_mut().flat_map(|stat| {
            let dimensions = stat.dimensions.iter_mut().map(|(_, text)| text);
            [&mut stat.metric, &mut stat.stat].into_iter().chain(&mut stat.namespace).chain(dimensions)
        });
        stat.chain(&mut self.expression).chain(&mut self.label).collect()
    }
}
