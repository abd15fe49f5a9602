//! The [`Topic`] port over SNS.

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_sns::Client;
use aws_sdk_sns::config::{Builder, Region};
use nodeless_aws::port_error;
use nodeless_ports::{ErrorKind, PortError, Topic};

/// A topic in SNS.
#[derive(Clone, Debug)]
pub struct SnsTopic {
    client: Client,
    arn: String,
}

impl SnsTopic {
    /// The topic with this ARN. It is called in its own region, which may be another one than that of the function.
    #[must_use]
    pub fn new(config: &SdkConfig, arn: impl Into<String>) -> Self {
        let arn = arn.into();
        let builder = Builder::from(config);
        let builder = match arn.split(':').nth(3).filter(|region| !region.is_empty()) {
            Some(region) => builder.region(Region::new(region.to_owned())),
            None => builder,
        };
        Self { client: Client::from_conf(builder.build()), arn }
    }
}

#[async_trait]
impl Topic for SnsTopic {
    fn arn(&self) -> &str {
        &self.arn
    }

    async fn publish(&self, subject: &str, text: &str) -> Result<(), PortError> {
        let request = self.client.publish().topic_arn(&self.arn).subject(subject).message(text);
        let failed = |error| {
            let error = port_error("SNS Publish", &error);
            // The code of SNS for a topic that does not exist.
            if error.code == "NotFound" { PortError { kind: ErrorKind::NotFound, ..error } } else { error }
        };
        request.send().await.map(drop).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_config::BehaviorVersion;

    #[test]
    fn a_topic_is_called_in_its_region() {
        let config = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).region(Region::new("us-east-1"));
        let config = config.build();
        let region = |arn: &str| SnsTopic::new(&config, arn).client.config().region().map(ToString::to_string);
        assert_eq!(region("arn:aws:sns:eu-central-1:111122223333:costs").as_deref(), Some("eu-central-1"));
        assert_eq!(region("costs").as_deref(), Some("us-east-1"));
    }
}
