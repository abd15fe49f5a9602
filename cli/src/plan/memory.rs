//! The peak memory of this process.

/// The peak resident memory of this process in bytes; known on Linux only.
///
/// `getrusage` works on more systems, but its figure includes the process image before `exec`.
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
    fn the_status_file_of_the_kernel_is_read() {
        assert_eq!(peak_of("Name:\tnodeless\nVmHWM:\t   10240 kB\nVmRSS:\t 9 kB\n"), Some(10_485_760));
        assert_eq!(peak_of("Name:\tnodeless\n"), None);
    }
}
