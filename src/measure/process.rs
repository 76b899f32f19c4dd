//! What the operating system says about this process. Reads `/proc`; where there is none, it knows nothing.

use std::fs;

/// Memory and files, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessFacts {
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_fds: Option<u64>,
}

impl ProcessFacts {
    /// Looks now.
    #[must_use]
    pub fn read() -> Self {
        Self { resident_bytes: resident_bytes(), open_fds: open_fds() }
    }
}

/// `VmRSS` of proc_pid_status(5), which is in units of 1024 bytes.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

/// Entries of the folder, without the descriptor that reads it.
fn open_fds() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(entries).ok()?.checked_sub(1)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_files() {
        let facts = ProcessFacts::read();
        assert!(facts.resident_bytes.is_some_and(|bytes| bytes > 100_000), "{facts:?}");
        assert!(facts.open_fds.is_some_and(|fds| fds >= 1), "{facts:?}");
    }
}
