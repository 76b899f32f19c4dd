//! Recorded traffic: an access log in JSON, as Serin writes it, becomes the rate, the errors and the latencies that a sound
//! version has in a rehearsal. Touches no file: lines are handed in one by one. Bounded, however long the log is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::stats::latency::{BUCKETS, bucket_of, upper_edge};

/// Longest span of a recording: a week of seconds.
const SECONDS_MAX: u64 = 7 * 24 * 3_600;

/// What one line has to say. Everything else in it is left alone.
#[derive(Debug, Deserialize)]
struct Line {
    /// RFC 3339.
    time: String,
    status: u16,
    /// Seconds to the response head; from Serin.
    time_to_head: Option<f64>,
    /// Seconds to the end, where nothing better is known.
    duration: Option<f64>,
    /// A canary's errors and latencies say nothing about a sound version.
    role: Option<String>,
}

/// Lines that are being read.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Since the epoch; of the earliest second so far.
    seen: Vec<(u64, Second)>,
    latency: Vec<u64>,
    skipped: u64,
}

/// One second of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Second {
    requests: u64,
    judged: u64,
    errors: u64,
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    seconds: Vec<Second>,
    /// Requests by latency bucket.
    latency: Vec<u64>,
    /// Lines that were no requests.
    skipped: u64,
}

/// What a report says of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// Requests in it.
    pub requests: u64,
    /// Lines that were none.
    pub skipped: u64,
    /// From the first to the last.
    pub span_ms: u64,
}

/// Why a log is no recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the log holds no request that can be rehearsed ({skipped} lines were none)\n  help: it wants JSON lines with `time`, \
     `status` and `time_to_head` or `duration`, as `accessLog: {{ format: json, sampleSuccess: 100% }}` writes them"
)]
pub struct NoRecording {
    /// Lines that were no requests.
    pub skipped: u64,
}

impl Recorder {
    /// Takes a line in; what is no request is counted and skipped.
    pub fn line(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        if self.request(text).is_none() {
            self.skipped += 1;
        }
    }

    fn request(&mut self, text: &str) -> Option<()> {
        let line: Line = serde_json::from_str(text).ok()?;
        let at = u64::try_from(line.time.parse::<jiff::Timestamp>().ok()?.as_second()).ok()?;
        let latency = line.time_to_head.or(line.duration);
        let is_judged = line.role.as_deref() != Some("canary");
        let is_error = line.status >= 500 || line.status == 0;
        // The lines of a log are written when requests end, so almost in order: the second is found near the end.
        let place = self.seen.iter().rposition(|(second, _)| *second <= at);
        let second = match place {
            Some(index) if self.seen.get(index).is_some_and(|(second, _)| *second == at) => index,
            before => {
                let index = before.map_or(0, |index| index + 1);
                let (first, last) = (self.seen.first().map_or(at, |of| of.0), self.seen.last().map_or(at, |of| of.0));
                if last.max(at) - first.min(at) >= SECONDS_MAX {
                    return None;
                }
                self.seen.insert(index, (at, Second::default()));
                index
            }
        };
        let second = &mut self.seen.get_mut(second)?.1;
        second.requests += 1;
        second.judged += u64::from(is_judged);
        second.errors += u64::from(is_judged && is_error);
        if let Some(latency) = latency.filter(|_| is_judged).and_then(|at| Duration::try_from_secs_f64(at).ok()) {
            self.latency.resize(BUCKETS, 0);
            self.latency[bucket_of(latency)] += 1;
        }
        Some(())
    }

    /// The recording.
    ///
    /// # Errors
    /// When no line was a request with a latency.
    pub fn finish(self) -> Result<Recording, NoRecording> {
        let Self { seen, latency, skipped } = self;
        let (Some((first, _)), Some((last, _)), false) = (seen.first(), seen.last(), latency.is_empty()) else {
            return Err(NoRecording { skipped });
        };
        let mut seconds = vec![Second::default(); usize::try_from(last - first).unwrap_or(0) + 1];
        for (at, second) in &seen {
            if let Some(place) = usize::try_from(at - first).ok().and_then(|place| seconds.get_mut(place)) {
                *place = *second;
            }
        }
        Ok(Recording { seconds, latency, skipped })
    }
}

impl Recording {
    /// For the report.
    #[must_use]
    pub fn summary(&self) -> Recorded {
        let span_ms = self.seconds.len() as u64 * 1_000;
        Recorded { requests: self.all().requests, skipped: self.skipped, span_ms }
    }

    /// Requests a second, on average.
    #[must_use]
    pub fn rate(&self) -> f64 {
        count(self.all().requests) / count(self.seconds.len() as u64)
    }

    /// Share of requests that failed.
    #[must_use]
    pub fn errors(&self) -> f64 {
        self.all().error_share()
    }

    /// Median latency, in milliseconds.
    #[must_use]
    pub fn median_ms(&self) -> f64 {
        let half = self.latency.iter().sum::<u64>().div_ceil(2);
        let mut sum = 0;
        let at = self.latency.iter().position(|requests| {
            sum += requests;
            sum >= half
        });
        upper_edge(at.unwrap_or(0)).as_secs_f64() * 1e3
    }

    /// Requests over so many milliseconds from this one on, as a factor of the average, and the share that failed. The
    /// recording begins anew at its end.
    pub(super) fn over(&self, from: u64, until: u64) -> (f64, f64) {
        let seconds = self.seconds.len().max(1);
        let (first, last) = (from / 1_000, until.saturating_sub(1).max(from) / 1_000);
        let mut sum = Second::default();
        for at in first..=last.min(first + self.seconds.len() as u64) {
            let at = usize::try_from(at).unwrap_or(0) % seconds;
            sum = sum.and(self.seconds.get(at).copied().unwrap_or_default());
        }
        (count(sum.requests) / count(last - first + 1) / self.rate(), sum.error_share())
    }

    /// The mass of each latency bucket when everything takes so many times as long.
    pub(super) fn masses(&self, factor: f64) -> Vec<f64> {
        let mut masses = vec![0.0; BUCKETS];
        for (bucket, requests) in self.latency.iter().enumerate() {
            masses[bucket_of(upper_edge(bucket).mul_f64(factor))] += count(*requests);
        }
        masses
    }

    fn all(&self) -> Second {
        self.seconds.iter().copied().fold(Second::default(), Second::and)
    }
}

impl Second {
    const fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            judged: self.judged + other.judged,
            errors: self.errors + other.errors,
        }
    }

    fn error_share(self) -> f64 {
        if self.judged == 0 { 0.0 } else { count(self.errors) / count(self.judged) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a log has fewer than 2^53 lines")]
const fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(lines: &[&str]) -> Result<Recording, NoRecording> {
        let mut recorder = Recorder::default();
        for line in lines {
            recorder.line(line);
        }
        recorder.finish()
    }

    const LOG: [&str; 7] = [
        r#"{"time":"2026-01-02T03:04:05.100Z","status":200,"time_to_head":0.02,"role":"stable"}"#,
        r#"{"time":"2026-01-02T03:04:07.000Z","status":503,"time_to_head":0.02,"duration":9,"role":"stable"}"#,
        r#"{"time":"2026-01-02T03:04:05.900Z","status":200,"duration":0.04}"#,
        r#"{"time":"2026-01-02T03:04:07.500Z","status":500,"time_to_head":3.0,"role":"canary"}"#,
        "",
        "GET / 200",
        r#"{"time":"2027-01-02T03:04:07.500Z","status":200,"time_to_head":3.0}"#,
    ];

    #[test]
    fn a_log_becomes_rate_errors_and_latencies_and_what_is_no_request_is_counted() {
        let recording = recorded(&LOG).unwrap();
        assert_eq!(recording.summary(), Recorded { requests: 4, skipped: 2, span_ms: 3_000 });
        assert!((recording.rate() - 4.0 / 3.0).abs() < 1e-12);
        assert!((recording.errors() - 1.0 / 3.0).abs() < 1e-12, "the canary's error is not stable's");
        assert!((19.0..22.0).contains(&recording.median_ms()));
        let masses = recording.masses(2.0);
        assert!((masses[bucket_of(upper_edge(bucket_of(Duration::from_millis(20))) * 2)] - 2.0).abs() < 1e-12);
    }

    #[test]
    fn moments_of_the_recording_come_back_in_turn() {
        let recording = recorded(&LOG).unwrap();
        let near = |(rate, errors): (f64, f64), wanted: (f64, f64)| {
            (rate - wanted.0).abs() < 1e-9 && (errors - wanted.1).abs() < 1e-9
        };
        assert!(near(recording.over(0, 100), (1.5, 0.0)));
        assert!(near(recording.over(1_000, 2_000), (0.0, 0.0)), "nothing came in that second");
        assert!(near(recording.over(2_000, 3_000), (1.5, 1.0)));
        assert!(near(recording.over(3_000, 3_001), (1.5, 0.0)), "from the beginning");
        assert!(near(recording.over(0, 3_000), (1.0, 1.0 / 3.0)));
    }

    #[test]
    fn a_log_of_something_else_is_refused_with_advice() {
        let refused = recorded(&["127.0.0.1 - - [01/Jan/2026] \"GET / HTTP/1.1\" 200", "{}"]).unwrap_err();
        assert_eq!(refused.skipped, 2);
        assert!(refused.to_string().contains("accessLog: { format: json"));
        assert!(recorded(&[]).is_err());
    }
}
