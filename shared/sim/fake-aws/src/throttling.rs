//! Request throttling: the token buckets that EC2 and the Price List have for an account and a region.
//!
//! Each action has a bucket of requests. RunInstances, from which a fleet draws too, StartInstances, StopInstances and TerminateInstances
//! also have a bucket of instances. Sizes are those of <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html> as far as
//! `docs/reference/aws.csv` confirms them, and of <https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-pelong.html>.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// The size of the bucket of an action, and its refill rate per second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rate {
    tokens: f64,
    per_second: f64,
}

/// The tokens in a bucket, and when they were computed.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Timestamp,
}

/// The buckets of an account, initially full.
#[derive(Debug, Clone, Default)]
pub(super) struct Buckets {
    by_action: BTreeMap<(&'static str, String), Bucket>,
    /// Instances that may be launched.
    launches: Option<Bucket>,
    /// Instances that may be started, stopped or terminated, by action.
    instances: BTreeMap<&'static str, Bucket>,
}

/// Launches per second once their bucket is empty, and starts.
const LAUNCHES: f64 = 2.0;
/// Stops per second once their bucket is empty, and terminations.
const ENDS: f64 = 20.0;
/// The size of the bucket of instances of an action other than RunInstances.
const INSTANCES: f64 = 1000.0;

impl Bucket {
    /// The bucket at this time.
    fn refilled(bucket: Option<Self>, rate: Rate, now: Timestamp) -> Self {
        let Some(bucket) = bucket else { return Self { tokens: rate.tokens, at: now } };
        let elapsed = now.duration_since(bucket.at).as_secs_f64().max(0.0);
        Self { tokens: (bucket.tokens + elapsed * rate.per_second).min(rate.tokens), at: now }
    }

    /// Takes all of these tokens or none. Returns whether it took them.
    fn take(&mut self, tokens: f64) -> bool {
        let enough = self.tokens >= tokens;
        if enough {
            self.tokens -= tokens;
        }
        enough
    }
}

impl Buckets {
    /// Whether a service accepts one more call of an action now. A rejected call takes no token.
    pub(super) fn take(&mut self, service: &'static str, action: &str, now: Timestamp) -> bool {
        let Some(rate) = rate(service, action) else { return true };
        let action = (service, action.to_owned());
        let mut bucket = Bucket::refilled(self.by_action.get(&action).copied(), rate, now);
        let accepted = bucket.take(1.0);
        self.by_action.insert(action, bucket);
        accepted
    }

    /// Whether EC2 would launch this number of instances now, from a bucket of this size.
    pub(super) fn may_launch(&mut self, instances: u32, size: u32, now: Timestamp) -> bool {
        let rate = Rate { tokens: f64::from(size), per_second: LAUNCHES };
        let bucket = self.launches.insert(Bucket::refilled(self.launches, rate, now));
        bucket.tokens >= f64::from(instances)
    }

    /// Counts a launched instance.
    pub(super) fn launched(&mut self) {
        if let Some(bucket) = &mut self.launches {
            bucket.tokens = (bucket.tokens - 1.0).max(0.0);
        }
    }

    /// Whether EC2 starts, stops or terminates this number of instances now. A rejected call takes no token.
    pub(super) fn take_instances(&mut self, action: &'static str, instances: usize, now: Timestamp) -> bool {
        let per_second = if action == "StartInstances" { LAUNCHES } else { ENDS };
        let rate = Rate { tokens: INSTANCES, per_second };
        let mut bucket = Bucket::refilled(self.instances.get(action).copied(), rate, now);
        let accepted = u32::try_from(instances).is_ok_and(|instances| bucket.take(f64::from(instances)));
        self.instances.insert(action, bucket);
        accepted
    }
}

/// `None` for services whose limits are not simulated.
fn rate(service: &str, action: &str) -> Option<Rate> {
    let (tokens, per_second) = match action {
        _ if service == "pricing" => (10.0, 5.0),
        _ if service != "ec2" => return None,
        "RunInstances" | "StartInstances" => (5.0, 2.0),
        "CreateTags" => (100.0, 10.0),
        "TerminateInstances" => (100.0, 5.0),
        _ if action.starts_with("Describe") || action.starts_with("Get") => (100.0, 20.0),
        _ => (50.0, 5.0),
    };
    Some(Rate { tokens, per_second })
}
