//! A topic whose calls fail.

use super::FaultInjection;
use async_trait::async_trait;
use nodeless_ports::{PortError, Topic};
use std::sync::Arc;

/// The Topic port with faults injected.
#[derive(Clone)]
pub struct FaultyTopic {
    /// The port itself.
    pub inner: Arc<dyn Topic>,
    /// The faults.
    pub fault_injection: FaultInjection,
}

#[async_trait]
impl Topic for FaultyTopic {
    fn arn(&self) -> &str {
        self.inner.arn()
    }

    async fn publish(&self, subject: &str, text: &str) -> Result<(), PortError> {
        let sent = self.inner.publish(subject, text);
        self.fault_injection.write("topic publish", subject.to_owned(), |()| true, sent).await
    }
}
