//! The plan queue and the catalog queue (FIFO, one message group a cluster) and the claims queue (standard, delayed messages).

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use jiff::Timestamp;
use nodeless_aws::port_error;
use nodeless_ports::queue::{
    CatalogMessage, ClaimMessage, NodeClassGeneration, PlanMessage, ShardMessage, WAKE_INTERVAL, WakeSource,
};
use nodeless_ports::{ErrorKind, PortError, Queue};
use nodeless_telemetry::Context;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

/// SQS delays a message by at most 15 minutes.
const LONGEST_DELAY: Duration = Duration::from_secs(900);

/// The queues of one cluster in SQS.
#[derive(Clone, Debug)]
pub struct SqsQueue {
    client: Client,
    /// Contains the clock that dates the messages.
    context: Context,
    plan_queue_url: String,
    claims_queue_url: Option<String>,
    catalog_queue_url: Option<String>,
}

impl SqsQueue {
    /// The queues of the cluster of `context` with these URLs. Functions that never send to the claims queue have no URL of it.
    #[must_use]
    pub fn new(
        config: &SdkConfig,
        context: Context,
        plan_queue_url: impl Into<String>,
        claims_queue_url: Option<String>,
    ) -> Self {
        Self {
            client: Client::new(config),
            context,
            plan_queue_url: plan_queue_url.into(),
            claims_queue_url,
            catalog_queue_url: None,
        }
    }

    /// Adds the catalog queue, for a function that sends to it.
    #[must_use]
    pub fn with_catalog_queue(self, url: Option<String>) -> Self {
        Self { catalog_queue_url: url, ..self }
    }

    fn claims_queue_url(&self, operation: &str) -> Result<&str, PortError> {
        self.claims_queue_url.as_deref().ok_or_else(|| {
            let message = "this function has no claims queue; set NODELESS_CLAIMS_QUEUE_URL";
            PortError::new(ErrorKind::Invalid, operation, message)
        })
    }

    async fn send_claim_message(&self, message: &ClaimMessage, delay: Duration) -> Result<(), PortError> {
        const OPERATION: &str = "SQS SendMessage (claims queue)";
        self.client
            .send_message()
            .queue_url(self.claims_queue_url(OPERATION)?)
            .message_body(encode(OPERATION, message)?)
            .delay_seconds(delay_seconds(delay))
            .send()
            .await
            .map_err(|error| port_error(OPERATION, &error))?;
        Ok(())
    }
}

#[async_trait]
impl Queue for SqsQueue {
    async fn wake_planner(&self, source: WakeSource) -> Result<(), PortError> {
        const OPERATION: &str = "SQS SendMessage (plan queue)";
        let now = self.context.now();
        let body = encode(OPERATION, &PlanMessage::Wake { source, at: now })?;
        self.client
            .send_message()
            .queue_url(&self.plan_queue_url)
            .message_body(body)
            .message_group_id(&self.context.cluster_name)
            .message_deduplication_id(deduplication_id(source, now))
            .send()
            .await
            .map_err(|error| port_error(OPERATION, &error))?;
        Ok(())
    }

    async fn wake_planner_after(&self, delay: Duration) -> Result<(), PortError> {
        self.send_claim_message(&ClaimMessage::Plan { at: self.context.now() }, delay).await
    }

    async fn check_node_class(&self, name: &str, delay: Duration) -> Result<(), PortError> {
        self.send_claim_message(&ClaimMessage::NodeClass { name: name.to_owned() }, delay).await
    }

    async fn wake_shard(&self, message: ShardMessage, delay: Duration) -> Result<(), PortError> {
        self.send_claim_message(&ClaimMessage::Shard(message), delay).await
    }

    async fn resolve_node_classes(&self, changed: &[NodeClassGeneration]) -> Result<(), PortError> {
        const OPERATION: &str = "SQS SendMessage (catalog queue)";
        let url = self.catalog_queue_url.as_deref().ok_or_else(|| {
            let message = "this function has no catalog queue; set NODELESS_CATALOG_QUEUE_URL";
            PortError::new(ErrorKind::Invalid, OPERATION, message)
        })?;
        let now = self.context.now();
        self.client
            .send_message()
            .queue_url(url)
            .message_body(encode(OPERATION, &CatalogMessage::NodeClasses { changed: changed.to_vec(), at: now })?)
            .message_group_id(&self.context.cluster_name)
            .message_deduplication_id(node_class_deduplication_id(changed, now))
            .send()
            .await
            .map_err(|error| port_error(OPERATION, &error))?;
        Ok(())
    }
}

/// The deduplication id by which SQS accepts one message in [`WAKE_INTERVAL`] from each source.
fn deduplication_id(source: WakeSource, now: Timestamp) -> String {
    let source = match source {
        WakeSource::Webhook => "webhook",
        WakeSource::Object => "object",
        WakeSource::Heartbeat => "heartbeat",
        WakeSource::Lifecycle => "lifecycle",
        WakeSource::Interruption => "interruption",
        WakeSource::Catalog => "catalog",
        WakeSource::Planner => "planner",
    };
    format!("{source}-{}", now.as_duration().as_millis() / WAKE_INTERVAL.as_millis().cast_signed())
}

/// The deduplication id by which SQS accepts one message a minute for the same generations.
fn node_class_deduplication_id(changed: &[NodeClassGeneration], now: Timestamp) -> String {
    let mut hasher = DefaultHasher::new();
    changed.hash(&mut hasher);
    format!("node-classes-{:016x}-{}", hasher.finish(), now.as_second() / 60)
}

/// Whole seconds, rounded up, so that no claim is reconciled too early.
fn delay_seconds(delay: Duration) -> i32 {
    let seconds = delay.min(LONGEST_DELAY).as_millis().div_ceil(1000);
    i32::try_from(seconds).unwrap_or(900)
}

fn encode<T: serde::Serialize>(operation: &str, message: &T) -> Result<String, PortError> {
    serde_json::to_string(message).map_err(|error| PortError::new(ErrorKind::Invalid, operation, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_whole_seconds_within_what_sqs_takes() {
        for (delay, seconds) in [(0, 0), (1, 1), (1000, 1), (1001, 2), (3_600_000, 900)] {
            assert_eq!(delay_seconds(Duration::from_millis(delay)), seconds, "{delay} ms");
        }
    }

    #[test]
    fn one_message_in_an_interval_for_each_source() {
        let id = |source, milliseconds| deduplication_id(source, Timestamp::from_millisecond(milliseconds).unwrap());
        assert_eq!(id(WakeSource::Webhook, 1000), id(WakeSource::Webhook, 1499));
        assert_ne!(id(WakeSource::Webhook, 1000), id(WakeSource::Webhook, 1500));
        assert_ne!(id(WakeSource::Webhook, 1000), id(WakeSource::Lifecycle, 1000));
    }

    #[test]
    fn one_message_a_minute_for_the_same_generations() {
        let class = |name: &str, generation| {
            [NodeClassGeneration { name: name.to_owned(), uid: format!("{name}-uid"), generation }]
        };
        let id = |changed: &[_], second| node_class_deduplication_id(changed, Timestamp::from_second(second).unwrap());
        let first = id(&class("default", 1), 60);
        assert_eq!(first, id(&class("default", 1), 119));
        assert_ne!(first, id(&class("default", 1), 120), "the planner asks again while the class waits");
        assert_ne!(first, id(&class("default", 2), 60), "an edit is asked for at once");
        assert_ne!(first, id(&class("other", 1), 60));
        assert!(first.len() <= 128, "{first}");
    }
}
