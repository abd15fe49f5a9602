//! The topic to which reports are sent.

use crate::PortError;
use async_trait::async_trait;

/// The maximum size of a message in bytes: <https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>.
pub const MESSAGE_BYTES: usize = 256 * 1024;
/// The maximum length of a subject, which is less than 100 characters long and has no line breaks and control characters, as documented
/// there.
pub const SUBJECT_CHARACTERS: usize = 99;

/// A topic of SNS.
#[async_trait]
pub trait Topic: Send + Sync {
    /// The ARN of the topic.
    fn arn(&self) -> &str;

    /// Sends a message to all subscribers.
    ///
    /// # Errors
    /// When the topic does not exist, may not be used, or does not answer. In the last case the message may have been sent.
    async fn publish(&self, subject: &str, text: &str) -> Result<(), PortError>;
}
