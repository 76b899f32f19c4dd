//! A sound file in a few words. Refuses details: they are in the file.

use super::Config;

impl Config {
    /// What was read, as `1 service, 2 versions, 4 steps`. Steps are counted as they were written: in the short form a
    /// weight and its hold are one.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        let versions = self.services.iter().map(|service| service.versions.len()).sum();
        let steps = self.services.iter().map(|service| service.strategy.written().count()).sum();
        [count(self.services.len(), "service"), count(versions, "version"), count(steps, "step")].join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config;

    #[test]
    fn the_summary_counts_what_was_written() {
        let of = |strategy: &str| {
            let text = format!(
                "listen: 127.0.0.1:1\nservices:\n  web:\n    versions: {{ v1: 'http://a', v2: 'http://b' }}\n    stable: v1\n    {strategy}\n"
            );
            config::parse(&text, Path::new("serin.yaml"), &|_| None).unwrap().summary()
        };
        assert_eq!(of("steps: [1%, 5%, 25%, 50%]"), "1 service, 2 versions, 4 steps");
        let long = "strategy: { canary: { steps: [{ setWeight: 5 }, { pause: {} }, { setWeight: 50 }] } }";
        assert_eq!(of(long), "1 service, 2 versions, 3 steps");
        let like_short = "strategy: { canary: { steps: [{ setWeight: 5 }, { pause: { duration: 2m } }] } }";
        assert_eq!(of(like_short), "1 service, 2 versions, 2 steps", "written as two");
    }
}
