//! Request throttling: a token bucket for each action, as EC2 has them for an account and a region.
//!
//! Sizes are those of <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html> as far as `docs/aws.md` confirms
//! them. EC2's second kind of bucket, which counts launched instances, is not simulated.

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
#[derive(Debug, Default)]
pub(super) struct Buckets {
    by_action: BTreeMap<String, Bucket>,
}

impl Buckets {
    /// Whether EC2 accepts one more call of an action now. A rejected call takes no token.
    pub(super) fn take(&mut self, service: &str, action: &str, now: Timestamp) -> bool {
        let Some(rate) = rate(service, action) else { return true };
        let bucket = self.by_action.entry(action.to_owned()).or_insert(Bucket { tokens: rate.tokens, at: now });
        let elapsed = now.duration_since(bucket.at).as_secs_f64().max(0.0);
        bucket.tokens = (bucket.tokens + elapsed * rate.per_second).min(rate.tokens);
        bucket.at = now;
        let accepted = bucket.tokens >= 1.0;
        if accepted {
            bucket.tokens -= 1.0;
        }
        accepted
    }
}

/// `None` for services whose limits are not simulated.
fn rate(service: &str, action: &str) -> Option<Rate> {
    let (tokens, per_second) = match action {
        _ if service != "ec2" => return None,
        "RunInstances" => (5.0, 2.0),
        "CreateTags" => (100.0, 10.0),
        "TerminateInstances" => (100.0, 5.0),
        _ if action.starts_with("Describe") || action.starts_with("Get") => (100.0, 20.0),
        _ => (50.0, 5.0),
    };
    Some(Rate { tokens, per_second })
}
