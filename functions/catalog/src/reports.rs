//! The reports of costs that messages request.

use crate::event::ReportRequest;
use crate::log_lines::CostReportNotSent;
use nodeless_refresher::CostReporter;
use nodeless_runtime::Deadline;
use nodeless_telemetry::log;
use serde_json::{Value, json};

/// Sends the reports. Returns the messages whose reports were not sent, for the response to Lambda: no schedule requests them again, so
/// these messages are received again.
pub(crate) async fn send(
    reporter: Option<&CostReporter>,
    cluster: &str,
    deadline: Deadline,
    requests: &[ReportRequest],
) -> Vec<Value> {
    let mut failed = Vec::new();
    for request in requests {
        let sent = match reporter {
            Some(reporter) => match deadline.bound(Box::pin(reporter.run(request.at))).await {
                Ok(sent) => sent.map_err(|error| error.to_string()),
                Err(late) => Err(late.to_string()),
            },
            None => Err(NO_TOPIC.to_owned()),
        };
        if let Err(error) = sent {
            failed.push(not_sent(Some(cluster), request, &error));
        }
    }
    failed
}

const NO_TOPIC: &str =
    "the environment variable NODELESS_REPORT_TOPIC_ARN is not set; it sets the SNS topic of the report";

/// Logs that a report was not sent, and returns its message.
pub(crate) fn not_sent(cluster: Option<&str>, ReportRequest { message_id, .. }: &ReportRequest, error: &str) -> Value {
    log(cluster, &CostReportNotSent { message_id, error });
    json!({ "itemIdentifier": message_id })
}
