//! What `/proc` says about the rights of a process.

/// A line of `/proc/PID/status`, such as `NoNewPrivs`; empty when the process is gone.
pub(crate) fn status_of(pid: u32, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(name, _)| *name == key);
    found.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

/// The capabilities that are in effect.
pub(crate) fn capabilities_of(pid: u32) -> u64 {
    u64::from_str_radix(&status_of(pid, "CapEff"), 16).unwrap_or(u64::MAX)
}

/// CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER and CAP_SYSLOG.
pub(crate) const FOR_FILES: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 34;
