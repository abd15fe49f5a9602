//! A topic in memory.

use async_trait::async_trait;
use nodeless_ports::{PortError, Topic};
use std::sync::{Arc, Mutex, PoisonError};

/// A topic, and what was sent to it. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryTopic {
    messages: Arc<Mutex<Vec<(String, String)>>>,
}

impl MemoryTopic {
    /// Takes the subjects and texts of the messages that were sent.
    #[must_use]
    pub fn take(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Topic for MemoryTopic {
    fn arn(&self) -> &'static str {
        "arn:aws:sns:us-east-1:111122223333:costs"
    }

    async fn publish(&self, subject: &str, text: &str) -> Result<(), PortError> {
        let message = (subject.to_owned(), text.to_owned());
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        Ok(())
    }
}
