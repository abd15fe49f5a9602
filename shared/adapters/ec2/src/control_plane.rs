//! The control plane of the cluster, read again while the process lives: AMI aliases follow an upgrade, and user data a rotation of the
//! certificate authority.

use jiff::{SignedDuration, Timestamp};
use nodeless_launch::ClusterDetails;
use nodeless_ports::{ControlPlane, DescribeControlPlane, PortError};
use std::sync::Arc;
use tokio::sync::Mutex;

/// How often the catalog function reads it again: as often as Karpenter the version.
pub(crate) const READ_AGAIN: SignedDuration = SignedDuration::from_mins(5);
/// The minimum time between two reads that a launch makes because an EC2NodeClass states another certificate authority.
pub(crate) const DESCRIBED_AGAIN_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// The control plane that was read last.
#[derive(Clone)]
pub(crate) struct CurrentControlPlane {
    reader: Arc<dyn DescribeControlPlane>,
    held: Arc<Mutex<Held>>,
}

struct Held {
    control_plane: ControlPlane,
    /// When it was last requested, successfully or not.
    asked: Timestamp,
}

impl std::fmt::Debug for CurrentControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CurrentControlPlane")
    }
}

impl CurrentControlPlane {
    /// That of a cluster which was described now, and the means to read it later.
    pub(crate) fn new(cluster: &ClusterDetails, reader: Arc<dyn DescribeControlPlane>, now: Timestamp) -> Self {
        let authority = Some(cluster.certificate_authority.clone()).filter(|authority| !authority.is_empty());
        let control_plane = ControlPlane { version: cluster.version.clone(), certificate_authority: authority };
        Self { reader, held: Arc::new(Mutex::new(Held { control_plane, asked: now })) }
    }

    /// The control plane that was read last.
    pub(crate) async fn last(&self) -> ControlPlane {
        self.held.lock().await.control_plane.clone()
    }

    /// The control plane as it was this long ago at most. If it cannot be read, the last one, with the error.
    pub(crate) async fn at(&self, now: Timestamp, max_age: SignedDuration) -> (ControlPlane, Option<PortError>) {
        let mut held = self.held.lock().await;
        if now.duration_since(held.asked) < max_age {
            return (held.control_plane.clone(), None);
        }
        held.asked = now;
        let unread = self.reader.control_plane().await.map(|read| held.control_plane = read).err();
        (held.control_plane.clone(), unread)
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
    impl DescribeControlPlane for Upgraded {
        async fn control_plane(&self) -> Result<ControlPlane, PortError> {
            let version = match self.asked.fetch_add(1, Ordering::Relaxed) {
                0 => "1.33",
                1 => return Err(PortError::new(ErrorKind::Throttled, "EKS DescribeCluster", "slow down")),
                _ => "1.34",
            };
            Ok(ControlPlane { version: version.to_owned(), certificate_authority: None })
        }
    }

    #[tokio::test]
    async fn an_upgrade_is_seen_within_five_minutes_and_no_call_is_made_more_often() {
        let reader = Arc::new(Upgraded::default());
        let at = |minutes: i64| Timestamp::from_second(1_800_000_000 + 60 * minutes).unwrap();
        let cluster = ClusterDetails { version: "1.33".to_owned(), ..ClusterDetails::default() };
        let control_plane = CurrentControlPlane::new(&cluster, reader.clone(), at(0));
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
            let (current, unread) = control_plane.at(at(minutes), SignedDuration::from_mins(5)).await;
            assert_eq!(
                (current.version.as_str(), unread.is_some()),
                (expected, minutes == 10),
                "after {minutes} minutes"
            );
            assert_eq!(reader.asked.load(Ordering::Relaxed), asked, "after {minutes} minutes");
        }
    }
}
