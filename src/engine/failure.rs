//! What counts as a version's failure, and what is done about one: another attempt, stable's answer, or the failure as
//! it is. Each attempt is charged to the version that made it, whatever the client gets to see.

use super::{names::Role, weight::Weight};

/// What a service's versions are charged with, and whether users see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailurePlan {
    /// Which answers are errors.
    pub count_as_error: CountAsError,
    /// Whether stable answers requests that the canary failed; absent: it does not.
    pub rescue: Option<Rescue>,
    /// What happens to the canary's requests while none of its endpoints can be connected to.
    pub dead_canary: DeadCanary,
}

/// `countAsError`: answers that are charged to the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountAsError {
    /// By status.
    pub statuses: StatusSet,
    /// By `grpc-status`: bit n stands for code n.
    pub grpc: u32,
}

/// The names of gRPC's status codes, by number.
pub const GRPC_CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl Default for CountAsError {
    /// All of 5xx; of gRPC what is the server's fault: UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL,
    /// UNAVAILABLE, DATA_LOSS.
    fn default() -> Self {
        let grpc = [2, 4, 8, 13, 14, 15].into_iter().fold(0, |bits, code| bits | 1 << code);
        Self { statuses: StatusSet::EMPTY.with(500, 599), grpc }
    }
}

impl CountAsError {
    /// Whether a `grpc-status` is an error; what is no number from 0 to 16 is UNKNOWN.
    #[must_use]
    pub fn is_grpc_error(&self, status: &[u8]) -> bool {
        let number = std::str::from_utf8(status).ok().and_then(|text| text.trim().parse::<u32>().ok());
        let code = number.filter(|code| *code < 17).unwrap_or(2);
        self.grpc & 1 << code != 0
    }
}

/// A set of HTTP statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatusSet([u64; 8]);

impl StatusSet {
    /// None of them.
    pub const EMPTY: Self = Self([0; 8]);

    /// With all from `first` to `last`; what is not in 100..=599 is left out.
    #[must_use]
    pub fn with(mut self, first: u16, last: u16) -> Self {
        for status in first.max(100)..=last.min(599) {
            let bit = usize::from(status - 100);
            self.0[bit / 64] |= 1 << (bit % 64);
        }
        self
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        let bit = usize::from(status.wrapping_sub(100));
        self.0.get(bit / 64).is_some_and(|bits| bits & 1 << (bit % 64) != 0)
    }
}

/// Methods that may be sent twice without harm (RFC 9110 9.2.2), as far as the proxy passes them on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdempotentMethod {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// OPTIONS.
    Options,
    /// PUT.
    Put,
    /// DELETE.
    Delete,
}

impl IdempotentMethod {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Get, Self::Head, Self::Options, Self::Put, Self::Delete];

    /// As it is written in a request.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// The method of a request; none if a second sending could do harm.
    #[must_use]
    pub fn of(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == method)
    }
}

/// How an attempt can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// There was no connection, so nothing was sent.
    ConnectFailure,
    /// The upstream says by HTTP/2 that it did nothing with the request (RFC 9113 8.7).
    RefusedStream,
    /// The connection ended before a whole response head, or what came was not HTTP.
    Reset,
    /// No response head in time.
    Timeout,
    /// A status of 500 to 599.
    ServerError,
}

impl Condition {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::ConnectFailure, Self::RefusedStream, Self::Reset, Self::Timeout, Self::ServerError];

    /// The word in the config.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConnectFailure => "connect-failure",
            Self::RefusedStream => "refused-stream",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::ServerError => "5xx",
        }
    }

    /// Whether the upstream cannot have done anything with the request.
    const fn did_nothing(self) -> bool {
        matches!(self, Self::ConnectFailure | Self::RefusedStream)
    }
}

/// A set of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conditions(u8);

impl Conditions {
    /// With one more.
    #[must_use]
    pub const fn with(self, condition: Condition) -> Self {
        Self(self.0 | 1 << condition as u8)
    }

    /// Whether it is one of them.
    #[must_use]
    pub const fn contains(self, condition: Condition) -> bool {
        self.0 & 1 << condition as u8 != 0
    }
}

/// A set of idempotent methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Methods(u8);

impl Methods {
    /// With one more.
    #[must_use]
    pub const fn with(self, method: IdempotentMethod) -> Self {
        Self(self.0 | 1 << method as u8)
    }

    /// Whether it is one of them.
    #[must_use]
    pub const fn contains(self, method: IdempotentMethod) -> bool {
        self.0 & 1 << method as u8 != 0
    }
}

/// `rescue`: stable answers what the canary failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rescue {
    /// Requests of these methods.
    pub methods: Methods,
    /// Which failed so.
    pub conditions: Conditions,
}

impl Default for Rescue {
    /// GET, HEAD and OPTIONS, after any failure but a refused stream, which is tried again anyway.
    fn default() -> Self {
        let methods = [IdempotentMethod::Get, IdempotentMethod::Head, IdempotentMethod::Options];
        let conditions = [Condition::ConnectFailure, Condition::Reset, Condition::Timeout, Condition::ServerError];
        Self {
            methods: methods.into_iter().fold(Methods::default(), Methods::with),
            conditions: conditions.into_iter().fold(Conditions::default(), Conditions::with),
        }
    }
}

/// `deadCanary`: what becomes of requests for a canary that cannot be connected to. It is charged either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeadCanary {
    /// Stable answers them, of any method: nothing was sent.
    #[default]
    Stable,
    /// They fail.
    Fail,
}

/// `retry` of a route: more attempts at the same version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts after the first one.
    pub retries: u32,
    /// After these failures.
    pub conditions: Conditions,
    /// And after these answers.
    pub statuses: StatusSet,
    /// Retries at a version as a share of its requests; a few each second are always allowed.
    pub budget: Weight,
}

impl Default for Retry {
    /// One more attempt where nothing can have been done twice, for at most a fifth of the requests.
    fn default() -> Self {
        let conditions = Conditions::default().with(Condition::ConnectFailure).with(Condition::RefusedStream);
        let budget = Weight::from_ppm(200_000).unwrap_or(Weight::FULL);
        Self { retries: 1, conditions, statuses: StatusSet::EMPTY, budget }
    }
}

/// How an attempt went, as far as it may be followed by another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// No response head.
    Missed(Condition),
    /// A response with this status.
    Answered(u16),
}

/// A request after an attempt.
#[derive(Debug, Clone, Copy)]
pub struct Attempted {
    /// How it went.
    pub trouble: Trouble,
    /// The part of the version that made it.
    pub role: Role,
    /// The request's method, if it is idempotent.
    pub method: Option<IdempotentMethod>,
    /// Whether all of the request is still there.
    pub can_repeat: bool,
    /// Retries already made at this version.
    pub retries: u32,
    /// Whether the version has an endpoint that was not the one of this attempt.
    pub has_another_endpoint: bool,
}

/// What comes after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The client gets what there is.
    Done,
    /// Another attempt at the same version, if its budget allows it.
    Retry,
    /// Stable, since the canary failed the request.
    Rescue,
    /// Stable, since the canary cannot be connected to.
    FallBack,
}

/// What comes after an attempt. `may_retry` asks the version's budget, and is asked only when it matters.
pub fn next(plan: &FailurePlan, retry: &Retry, of: Attempted, may_retry: impl FnOnce() -> bool) -> Next {
    let (condition, status) = match of.trouble {
        Trouble::Missed(condition) => (Some(condition), None),
        Trouble::Answered(status @ 500..=599) => (Some(Condition::ServerError), Some(status)),
        Trouble::Answered(status) => (None, Some(status)),
    };
    let is_harmless = of.method.is_some() || condition.is_some_and(Condition::did_nothing);
    if !of.can_repeat || !is_harmless {
        return Next::Done;
    }
    let is_meant = condition.is_some_and(|condition| retry.conditions.contains(condition))
        || status.is_some_and(|status| retry.statuses.contains(status));
    // Without a connection the same endpoint is not asked again: its addresses were all tried.
    let has_a_place = condition != Some(Condition::ConnectFailure) || of.has_another_endpoint;
    if is_meant && has_a_place && of.retries < retry.retries && may_retry() {
        return Next::Retry;
    }
    if of.role != Role::Canary {
        return Next::Done;
    }
    if condition == Some(Condition::ConnectFailure) && plan.dead_canary == DeadCanary::Stable {
        return Next::FallBack;
    }
    match (plan.rescue, of.method, condition) {
        (Some(rescue), Some(method), Some(condition))
            if rescue.methods.contains(method) && rescue.conditions.contains(condition) =>
        {
            Next::Rescue
        }
        _ => Next::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: Option<IdempotentMethod> = Some(IdempotentMethod::Get);
    const POST: Option<IdempotentMethod> = None;

    fn canary(trouble: Trouble, method: Option<IdempotentMethod>) -> Attempted {
        Attempted { trouble, role: Role::Canary, method, can_repeat: true, retries: 0, has_another_endpoint: false }
    }

    fn rescuing() -> FailurePlan {
        FailurePlan { rescue: Some(Rescue::default()), ..FailurePlan::default() }
    }

    fn decided(plan: &FailurePlan, retry: &Retry, of: Attempted) -> Next {
        next(plan, retry, of, || true)
    }

    #[test]
    fn stable_answers_what_the_canary_failed_if_that_is_wanted_and_safe() {
        let (plain, rescuing, retry) = (FailurePlan::default(), rescuing(), Retry::default());
        for trouble in [
            Trouble::Missed(Condition::Reset),
            Trouble::Missed(Condition::Timeout),
            Trouble::Answered(500),
            Trouble::Answered(599),
        ] {
            assert_eq!(decided(&plain, &retry, canary(trouble, GET)), Next::Done, "{trouble:?}: off");
            assert_eq!(decided(&rescuing, &retry, canary(trouble, GET)), Next::Rescue, "{trouble:?}");
            assert_eq!(
                decided(&rescuing, &retry, canary(trouble, POST)),
                Next::Done,
                "{trouble:?}: it may have been done"
            );
            let put = Some(IdempotentMethod::Put);
            assert_eq!(
                decided(&rescuing, &retry, canary(trouble, put)),
                Next::Done,
                "{trouble:?}: not among the methods"
            );
            let gone = Attempted { can_repeat: false, ..canary(trouble, GET) };
            assert_eq!(decided(&rescuing, &retry, gone), Next::Done, "{trouble:?}: nothing left to send");
            let stable = Attempted { role: Role::Stable, ..canary(trouble, GET) };
            assert_eq!(decided(&rescuing, &retry, stable), Next::Done, "{trouble:?}: nobody rescues stable");
        }
        assert_eq!(decided(&rescuing, &retry, canary(Trouble::Answered(404), GET)), Next::Done);
    }

    #[test]
    fn a_dead_canarys_requests_go_to_stable_whatever_their_method() {
        let trouble = Trouble::Missed(Condition::ConnectFailure);
        for method in [GET, POST] {
            assert_eq!(decided(&FailurePlan::default(), &Retry::default(), canary(trouble, method)), Next::FallBack);
        }
        let failing = FailurePlan { dead_canary: DeadCanary::Fail, ..FailurePlan::default() };
        assert_eq!(decided(&failing, &Retry::default(), canary(trouble, GET)), Next::Done);
        let both = FailurePlan { dead_canary: DeadCanary::Fail, ..rescuing() };
        assert_eq!(decided(&both, &Retry::default(), canary(trouble, GET)), Next::Rescue);
    }

    #[test]
    fn the_same_version_comes_first_and_only_within_its_budget() {
        let trouble = Trouble::Answered(503);
        let retry = Retry { retries: 2, statuses: StatusSet::EMPTY.with(503, 503), ..Retry::default() };
        assert_eq!(decided(&rescuing(), &retry, canary(trouble, GET)), Next::Retry);
        assert_eq!(next(&rescuing(), &retry, canary(trouble, GET), || false), Next::Rescue, "over budget");
        let tried = Attempted { retries: 2, ..canary(trouble, GET) };
        assert_eq!(decided(&rescuing(), &retry, tried), Next::Rescue, "often enough");
        assert_eq!(decided(&rescuing(), &retry, canary(trouble, POST)), Next::Done);
    }

    #[test]
    fn a_connect_failure_is_tried_again_at_another_endpoint_if_there_is_one() {
        let trouble = Trouble::Missed(Condition::ConnectFailure);
        let stable = Attempted { role: Role::Stable, ..canary(trouble, POST) };
        assert_eq!(decided(&FailurePlan::default(), &Retry::default(), stable), Next::Done);
        let several = Attempted { has_another_endpoint: true, ..stable };
        assert_eq!(decided(&FailurePlan::default(), &Retry::default(), several), Next::Retry);
    }

    #[test]
    fn statuses_and_grpc_codes_are_told_apart() {
        let default = CountAsError::default();
        for (status, is_error) in [(99, false), (200, false), (499, false), (500, true), (599, true), (600, false)] {
            assert_eq!(default.statuses.contains(status), is_error, "{status}");
        }
        for (status, is_error) in [
            ("0", false),
            ("1", false),
            ("2", true),
            ("5", false),
            ("14", true),
            ("16", false),
            ("99", true),
            ("x", true),
        ] {
            assert_eq!(default.is_grpc_error(status.as_bytes()), is_error, "{status}");
        }
    }
}
