//! The Kubernetes version of the cluster, read again while the process lives: AMI aliases follow an upgrade of the control plane.

use jiff::{SignedDuration, Timestamp};
use nodeless_ports::{ClusterVersion, PortError};
use std::sync::Arc;
use tokio::sync::Mutex;

/// How often the version is read again, as in Karpenter.
const READ_AGAIN: SignedDuration = SignedDuration::from_mins(5);

/// The version that was read last.
#[derive(Clone)]
pub(super) struct Version {
    reader: Arc<dyn ClusterVersion>,
    held: Arc<Mutex<Held>>,
}

struct Held {
    version: String,
    /// When it was last requested, successfully or not.
    asked: Option<Timestamp>,
}

impl std::fmt::Debug for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Version")
    }
}

impl Version {
    /// The current version, and the means to read it later.
    pub(super) fn new(version: &str, reader: Arc<dyn ClusterVersion>) -> Self {
        Self { reader, held: Arc::new(Mutex::new(Held { version: version.to_owned(), asked: None })) }
    }

    /// The current version. If it cannot be read, the last one, with the error.
    pub(super) async fn at(&self, now: Timestamp) -> (String, Option<PortError>) {
        let mut held = self.held.lock().await;
        let asked = held.asked.get_or_insert(now);
        if now.duration_since(*asked) < READ_AGAIN {
            return (held.version.clone(), None);
        }
        held.asked = Some(now);
        let unread = self.reader.kubernetes_version().await.map(|version| held.version = version).err();
        (held.version.clone(), unread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use nodeless_ports::ErrorKind;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A control plane that is upgraded, and which cannot be asked once in between.
    #[derive(Default)]
    struct Upgraded {
        asked: AtomicUsize,
    }

    #[async_trait]
    impl ClusterVersion for Upgraded {
        async fn kubernetes_version(&self) -> Result<String, PortError> {
            match self.asked.fetch_add(1, Ordering::Relaxed) {
                0 => Ok("1.33".to_owned()),
                1 => Err(PortError::new(ErrorKind::Throttled, "EKS DescribeCluster", "slow down")),
                _ => Ok("1.34".to_owned()),
            }
        }
    }

    #[tokio::test]
    async fn an_upgrade_is_seen_within_five_minutes_and_no_call_is_made_more_often() {
        let reader = Arc::new(Upgraded::default());
        let version = Version::new("1.33", reader.clone());
        let at = |minutes: i64| Timestamp::from_second(1_800_000_000 + 60 * minutes).unwrap();
        for (minutes, expected, asked) in [
            (0, "1.33", 0),
            (4, "1.33", 0),
            (5, "1.33", 1),
            (9, "1.33", 1),
            (10, "1.33", 2),
            (14, "1.33", 2),
            (15, "1.34", 3),
            (16, "1.34", 3),
        ] {
            let (current, unread) = version.at(at(minutes)).await;
            assert_eq!((current.as_str(), unread.is_some()), (expected, minutes == 10), "after {minutes} minutes");
            assert_eq!(reader.asked.load(Ordering::Relaxed), asked, "after {minutes} minutes");
        }
    }
}
