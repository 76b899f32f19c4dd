//! Everything that the engine can say is written and read back the same.

use std::time::Duration;

use proptest::prelude::*;

use crate::{
    engine::{
        effect::Decision,
        endpoint::{Endpoint, Site},
        event::{Cause, Event, EventKind, GateWord},
        gate::GateKind,
        input::Verb,
        memory::{EvidenceMemory, Memory, PauseKind, PhaseMemory, RolloutMemory, ServiceMemory},
        names::{Revision, ServiceName, VersionName},
        plan::Wish,
        samples::Counts,
        stats::share_test::{ShareTestState, SlowState},
        time::Timestamp,
        weight::Weight,
    },
    store::record::{self, Evidence, RecordError, Snapshot},
};

prop_compose! {
    fn name()(text in "[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}") -> String { text }
}

prop_compose! {
    fn version()(text in name()) -> VersionName { VersionName::new(&text).unwrap() }
}

prop_compose! {
    fn service()(text in name()) -> ServiceName { ServiceName::new(&text).unwrap() }
}

prop_compose! {
    fn wish()(version in version(), revision: String) -> Wish { Wish { version, revision } }
}

prop_compose! {
    fn counts()(requests: u64, errors: u64) -> Counts { Counts { requests, errors } }
}

prop_compose! {
    fn weight()(ppm in 0..=1_000_000_u32) -> Weight { Weight::from_ppm(ppm).unwrap() }
}

prop_compose! {
    fn time()(millis: u64) -> Timestamp { Timestamp::from_millis(millis) }
}

prop_compose! {
    fn duration()(seconds: u64, nanos in 0..1_000_000_000_u32) -> Duration { Duration::new(seconds, nanos) }
}

/// Any float that equals itself; `scalar` tests the others.
fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits).prop_filter("a number", |value| !value.is_nan()),
        Just(f64::NEG_INFINITY),
        Just(f64::INFINITY),
        0.0..1.0,
    ]
}

/// One of each verb. A verb that is added must be added here, and then to the words that `record` knows.
fn verbs() -> Vec<&'static str> {
    let start = Verb::Start { to: VersionName::new("v").unwrap(), revision: String::new(), site: None };
    let mut next = Some(start);
    let mut words = Vec::new();
    while let Some(verb) = next {
        words.push(verb.as_str());
        next = match verb {
            Verb::Start { .. } => Some(Verb::Promote { full: false, force: false }),
            Verb::Promote { .. } => Some(Verb::Pause),
            Verb::Pause => Some(Verb::Resume),
            Verb::Resume => Some(Verb::Abort),
            Verb::Abort => Some(Verb::Drain),
            Verb::Drain => Some(Verb::Retry),
            Verb::Retry => Some(Verb::Undo { to: None }),
            Verb::Undo { .. } => Some(Verb::SetWeight(Weight::ZERO)),
            Verb::SetWeight(_) => Some(Verb::Terminate),
            Verb::Terminate => Some(Verb::Analyze { template: String::new() }),
            Verb::Analyze { .. } => None,
        };
    }
    words
}

fn cause() -> impl Strategy<Value = Cause> {
    let gate_kinds = prop::sample::select(GateKind::ALL.to_vec());
    let gate_words = prop::sample::select(GateWord::ALL.to_vec());
    let phases = prop::sample::select(vec!["Failed", "Error", "Inconclusive"]);
    let person = (prop::sample::select(verbs()), any::<String>(), any::<String>());
    prop_oneof![
        Just(Cause::File),
        Just(Cause::Plan),
        person.prop_map(|(verb, actor, reason)| Cause::Person { verb, actor, reason }),
        (float(), duration(), counts(), counts()).prop_map(|(max, window, canary, stable)| Cause::ErrorRate {
            max,
            window,
            canary,
            stable
        }),
        (float(), duration(), duration(), any::<u64>(), prop::option::of(duration())).prop_map(
            |(quantile, max, value, requests, stable)| Cause::Latency { quantile, max, value, requests, stable }
        ),
        (float(), float(), counts(), counts()).prop_map(|(alpha, log_e, canary, stable)| Cause::ShareTest {
            metric: if canary.requests % 2 == 0 { "errors" } else { "2xp99" },
            slower_than: (canary.requests % 2 == 1).then(|| Duration::from_micros(stable.requests % 1_000_000)),
            alpha,
            log_e,
            canary,
            stable
        }),
        any::<(u64, u64)>().prop_map(|(errors, limit)| Cause::ConsecutiveErrors { errors, limit }),
        (any::<String>(), phases, any::<String>()).prop_map(|(metric, phase, message)| Cause::Analysis {
            metric,
            phase,
            message
        }),
        (any::<String>(), gate_kinds, gate_words, any::<String>())
            .prop_map(|(gate, kind, said, message)| Cause::Gate { gate, kind, said, message }),
        duration().prop_map(|waited| Cause::NoTraffic { waited }),
        (float(), float(), any::<u64>()).prop_map(|(alpha, margin, requests)| Cause::Proven {
            alpha,
            margin,
            requests
        }),
        duration().prop_map(|deadline| Cause::Deadline { deadline }),
        any::<String>().prop_map(Cause::Storage),
    ]
}

prop_compose! {
    fn event()(
        (sequence, at, service, revision) in (any::<u64>(), time(), service(), any::<u64>()),
        (kind, cause) in (prop::sample::select(EventKind::ALL.to_vec()), cause()),
        (stable, canary) in (version(), prop::option::of(version())),
        (weight, step) in (weight(), any::<Option<usize>>()),
    ) -> Event {
        Event { sequence, at, service, revision: Revision(revision), kind, cause, stable, canary, weight, step }
    }
}

prop_compose! {
    fn rollout()(
        (target, step, weight) in (wish(), any::<usize>(), weight()),
        (started, since, spent_ms, admitted) in (time(), time(), any::<u64>(), any::<bool>()),
        (begun, passed) in (any::<bool>(), prop::collection::vec(any::<String>(), 0..3)),
    ) -> RolloutMemory {
        RolloutMemory { target, step, weight, started, since, spent_ms, admitted, begun, passed }
    }
}

fn phase() -> impl Strategy<Value = PhaseMemory> {
    let kinds = prop::sample::select(PauseKind::ALL.to_vec());
    prop_oneof![
        Just(PhaseMemory::Healthy),
        rollout().prop_map(PhaseMemory::Progressing),
        (rollout(), kinds, any::<String>(), time()).prop_map(|(rollout, kind, reason, at)| PhaseMemory::Paused {
            rollout,
            kind,
            reason,
            at
        }),
        (wish(), any::<String>()).prop_map(|(target, reason)| PhaseMemory::Degraded { target, reason }),
    ]
}

fn site() -> impl Strategy<Value = Site> {
    let endpoint = prop_oneof![
        ("[a-z.]{1,9}", any::<u16>()).prop_map(|(host, port)| Endpoint::tcp(host, port)),
        "/[a-z]{1,9}".prop_map(|path| Endpoint::Unix { path: path.into() }),
    ];
    (endpoint, any::<bool>()).prop_map(|(endpoint, is_tls)| Site { endpoint, is_tls })
}

prop_compose! {
    fn service_memory()(
        (service, stable, stable_since, revision) in (service(), wish(), any::<u64>(), any::<u64>()),
        seen in prop::option::of(wish()),
        refused in prop::collection::vec(wish(), 0..4),
        earlier in prop::collection::vec((any::<u64>().prop_map(Revision), wish()), 0..4),
        leaving in prop::collection::vec((version(), time()), 0..4),
        added in prop::collection::vec((version(), site()), 0..4),
        phase in phase(),
    ) -> ServiceMemory {
        let (stable_since, revision) = (Revision(stable_since), Revision(revision));
        ServiceMemory { service, stable, stable_since, seen, refused, earlier, revision, leaving, added, phase }
    }
}

prop_compose! {
    fn evidence()(
        (service, revision, epoch) in (service(), any::<u64>(), any::<u64>()),
        (log_values, log_e_max) in (prop::collection::vec(float(), 0..20), float()),
        (canary, stable) in (counts(), counts()),
    ) -> EvidenceMemory {
        let slow = SlowState { log_values: log_values.clone(), canary: stable, stable: canary };
        let slow = vec![slow; usize::try_from(epoch % 6).unwrap()];
        let share_test = ShareTestState { epoch, log_values, log_e_max, canary, stable, slow };
        EvidenceMemory { service, revision: Revision(revision), share_test }
    }
}

proptest! {
    #[test]
    fn a_decision_is_read_back_the_same(event in event(), memory in service_memory()) {
        let decision = Decision { event, memory };
        let json = record::encode_decision(&decision).unwrap();
        prop_assert!(!json.contains(&b'\n'), "a frame has one newline");
        prop_assert_eq!(record::decode_decision(&json).unwrap(), decision);
    }

    #[test]
    fn a_snapshot_is_read_back_the_same(
        before in 0..u64::MAX / 2,
        services in prop::collection::vec(service_memory(), 0..3),
        mut history in prop::collection::vec(event(), 0..3),
        trouble: Option<String>,
    ) {
        for (event, sequence) in history.iter_mut().zip(before + 1..) {
            event.sequence = sequence;
        }
        let memory = Memory { sequence: before + history.len() as u64, services };
        let snapshot = Snapshot { memory, history, trouble };
        let json = record::encode_snapshot(&snapshot).unwrap();
        prop_assert_eq!(record::decode_snapshot(&json).unwrap(), snapshot);
    }

    #[test]
    fn evidence_is_read_back_to_the_last_bit(
        at in time(),
        services in prop::collection::vec(evidence(), 0..4),
        nan in 0x7ff8_0000_0000_0000..=0x7fff_ffff_ffff_ffff_u64,
    ) {
        let mut saved = Evidence { at, services };
        let json = record::encode_evidence(&saved).unwrap();
        prop_assert_eq!(&record::decode_evidence(&json).unwrap(), &saved);
        if let Some(first) = saved.services.first_mut() {
            first.share_test.log_e_max = f64::from_bits(nan);
            let back = record::decode_evidence(&record::encode_evidence(&saved).unwrap()).unwrap();
            prop_assert_eq!(back.services[0].share_test.log_e_max.to_bits(), nan);
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>, text: String) {
        for bytes in [bytes.as_slice(), text.as_bytes()] {
            prop_assert!(record::decode_decision(bytes).is_err());
            prop_assert!(record::decode_snapshot(bytes).is_err());
            prop_assert!(record::decode_evidence(bytes).is_err());
        }
    }
}

/// Values of the right shape that no engine would write, one by one.
#[test]
fn impossible_values_are_refused() {
    let json = String::from_utf8(record::encode_decision(&super::decision(1)).unwrap()).unwrap();
    for (sound, wrong, complaint) in [
        (r#""service":"shop""#, r#""service":"../x""#, "`../x` as the name of a service"),
        (r#""canary":"v2""#, r#""canary":"""#, "`` as the name of a version"),
        (r#""weightPpm":1,"step":1"#, r#""weightPpm":1000001,"step":1"#, "a weight of 1000001 ppm"),
        (r#""kind":"weightChanged""#, r#""kind":"exploded""#, "the kind of event `exploded`"),
        (r#""verb":"set-weight""#, r#""verb":"""#, "the word ``"),
        (r#""version":3,"body""#, r#""version":0,"body""#, "version 0, which never was"),
        (r#""revision":1"#, r#""revision":-1"#, "not a record"),
        (r#""revision":1"#, r#""revision":1,"more":2"#, "unknown field `more`"),
        (r#""sequence":1,"#, "", "missing field `sequence`"),
    ] {
        let changed = json.replacen(sound, wrong, 1);
        assert_ne!(changed, json, "{sound}");
        let error = record::decode_decision(changed.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(complaint), "{complaint}: {error}");
    }
    let later = json.replacen(r#""version":3"#, r#""version":7,"shape":"other""#, 1);
    assert!(matches!(record::decode_decision(later.as_bytes()), Err(RecordError::Newer(7))));
}

#[test]
fn a_snapshot_with_a_gap_in_its_history_is_refused() {
    let sound = Snapshot {
        memory: Memory { sequence: 3, services: Vec::new() },
        history: vec![super::decision(2).event, super::decision(3).event],
        trouble: None,
    };
    assert!(record::decode_snapshot(&record::encode_snapshot(&sound).unwrap()).is_ok());
    for damage in [
        |snapshot: &mut Snapshot| snapshot.memory.sequence = 4,
        |snapshot: &mut Snapshot| snapshot.history[0].sequence = 1,
        |snapshot: &mut Snapshot| snapshot.history.swap(0, 1),
    ] {
        let mut damaged = sound.clone();
        damage(&mut damaged);
        let error = record::decode_snapshot(&record::encode_snapshot(&damaged).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "it holds a history with a gap");
    }
}

/// As the first version wrote it: what it did not know is filled in.
#[test]
fn a_record_of_the_first_version_is_read() {
    let json = r#"{"version":1,"body":{"event":{"sequence":1,"at":5,"service":"shop","revision":1,"kind":"weightChanged","cause":"plan","stable":"v1","canary":"v2","weightPpm":10,"step":1},"memory":{"service":"shop","stable":{"version":"v1","revision":""},"stableSince":0,"seen":null,"refused":[],"earlier":[],"revision":1,"phase":{"progressing":{"target":{"version":"v2","revision":""},"step":1,"weightPpm":10,"started":1,"since":2,"spentMs":3}}}}}"#;
    let Decision { memory, .. } = record::decode_decision(json.as_bytes()).unwrap();
    assert_eq!(memory.leaving, []);
    let PhaseMemory::Progressing(rollout) = memory.phase else { panic!("a rollout") };
    assert!(rollout.admitted);
    assert!(rollout.begun && rollout.passed.is_empty(), "no gate stood before it");
}
