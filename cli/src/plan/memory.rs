//! How much memory this process took.

/// The most bytes of memory that this process had at once, where the system tells: Linux does.
///
/// `getrusage` tells more systems' but counts what the process was before it became this one.
pub(crate) fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    peak_of(&status)
}

fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(peak_of("Name:\tnodeless\nVmHWM:\t   10240 kB\nVmRSS:\t 9 kB\n"), Some(10_485_760));
        assert_eq!(peak_of("Name:\tnodeless\n"), None);
    }
}
