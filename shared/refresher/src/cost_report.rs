//! Sends a report of what the nodes of the cluster cost in the last seven days to a topic, once for each event of the schedule.
//!
//! What is sent is recorded before and after it: a report that was sent is not sent again. If the function ends between the two, or the
//! answer of the topic is lost, it is unknown whether the report was sent, and the next attempt sends it again.

use jiff::{SignedDuration, Timestamp};
use nodeless_bill::report::{By, Query, Records, Report, last_hours, report, text};
use nodeless_bill::{HourRecord, Open, StoredError, decode};
use nodeless_model::shell::quoted;
use nodeless_operations::{
    log_lines::{CostReportSent, CostReportSkipped, Failed},
    records,
};
use nodeless_ports::topic::{MESSAGE_BYTES, SUBJECT_CHARACTERS};
use nodeless_ports::{ErrorKind, PortError, Topic};
use nodeless_state::costs::HOURS_KEPT;
use nodeless_state::{RecordKind, State, StoredRecord};
use nodeless_telemetry::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The hours of a report: those of `nodeless report --window 7d`.
const HOURS: u32 = 7 * 24;
/// How long ago records may end: the planner adds to them every five minutes. The same days are not reported week after week.
const LATE: SignedDuration = SignedDuration::from_hours(24);

/// Sends reports of costs.
pub struct CostReporter {
    /// Time and logs.
    pub context: Context,
    /// The claims table, where costs are recorded.
    pub claims: State,
    /// The topic.
    pub topic: Arc<dyn Topic>,
}

/// The last report that was sent, or begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LastReport {
    /// The time of the schedule's event.
    at: Timestamp,
    /// Whether the topic has accepted the report.
    sent: bool,
}

/// Why a report was not sent.
#[derive(Debug, thiserror::Error)]
pub enum CostReportError {
    /// The claims table could not be read or written.
    #[error("the report of costs was not sent, because the claims table cannot be used: {0}")]
    Table(#[from] PortError),
    /// A record cannot be decoded.
    #[error("the report of costs was not sent, because the item {item} of the claims table cannot be read: {source}")]
    Record {
        /// The key of the item.
        item: String,
        /// Why.
        source: StoredError,
    },
    /// Costs are no longer recorded.
    #[error(
        "the report of costs was not sent, because costs are recorded only until {through:.0}: find out in the log of planner why it \
         records none"
    )]
    Outdated {
        /// The end of the records.
        through: Timestamp,
    },
    /// The topic did not accept the report.
    #[error("the report of costs was not sent to {topic}: {error}; {advice}")]
    Topic {
        /// The ARN of the topic.
        topic: String,
        /// The error of SNS.
        error: PortError,
        /// What to do.
        advice: &'static str,
    },
}

impl CostReporter {
    /// Sends the report of the schedule's event of this time, if it was not sent before and there are costs to report.
    ///
    /// # Errors
    /// When records cannot be read or written, costs are no longer recorded, or the topic does not accept the report.
    pub async fn run(&self, at: Timestamp) -> Result<(), CostReportError> {
        let stored = self.claims.record(RecordKind::CostReport, "").await?;
        if is_past(stored.as_ref(), at)? {
            self.skip("it was sent before");
            return Ok(());
        }
        let Some(report) = self.report().await? else {
            self.skip(
                "no costs are recorded in these days: costs are recorded for hours in which a NodePool has nodes",
            );
            return Ok(());
        };
        let version = stored.map_or(0, |stored| stored.version);
        let version = self.note(version, LastReport { at, sent: false }).await?;
        self.send(&report).await?;
        // A report that was sent is not an error, whatever follows: another attempt would send it again.
        if let Err(error) = self.note(version, LastReport { at, sent: true }).await {
            self.context.log(&Failed { what: "record that the report of costs was sent", why: &error.to_string() });
        }
        Ok(())
    }

    fn skip(&self, why: &str) {
        self.context.log(&CostReportSkipped { topic: self.topic.arn(), why });
    }

    /// Records what is sent, unless another process has done so since the record was read.
    async fn note(&self, version: u64, report: LastReport) -> Result<u64, PortError> {
        self.claims.put_record(RecordKind::CostReport, &records::encode("", version, &report, None)?).await
    }

    /// The report about the last seven days, compared with those before; `None` if no costs are recorded.
    async fn report(&self) -> Result<Option<Report>, CostReportError> {
        let stored = self.claims.open_costs().await?;
        if stored.version == 0 {
            return Ok(None);
        }
        let open: Open = decoded("cost#open", &stored.encoded)?;
        let through = open.through;
        if self.context.now().duration_since(through) > LATE {
            return Err(CostReportError::Outdated { through });
        }
        let (from, to) = last_hours(through, HOURS);
        let (before, _) = last_hours(from, HOURS);
        let stored = self.claims.hours(before, to).await?;
        let hour = |stored: &nodeless_state::costs::StoredHour| {
            decoded::<HourRecord>(&format!("hour#{}", stored.key()), &stored.encoded)
        };
        let records = Records { hours: stored.iter().map(hour).collect::<Result<_, _>>()?, open: Some(open) };
        let query = Query { from, to, by: vec![By::NodePool] };
        let source = records.source(&self.context.cluster_name, HOURS_KEPT);
        Ok(source.and_then(|source| report(&query, &[source])))
    }

    async fn send(&self, report: &Report) -> Result<(), CostReportError> {
        let (cluster, table) = (quoted(&self.context.cluster_name), quoted(self.claims.table_name()));
        let command = format!("nodeless report --cluster {cluster} --table {table} --window 7d");
        let (subject, text) =
            (text::subject(report, SUBJECT_CHARACTERS), text::within(report, MESSAGE_BYTES, &command));
        let topic = self.topic.arn();
        self.topic.publish(&subject, &text).await.map_err(|error| CostReportError::Topic {
            topic: topic.to_owned(),
            advice: advice(&error),
            error,
        })?;
        self.context.log(&CostReportSent { topic, subject: &subject, bytes: text.len() });
        Ok(())
    }
}

/// Whether the report of the event of this time was sent, or that of a later event was begun.
fn is_past(stored: Option<&StoredRecord>, at: Timestamp) -> Result<bool, PortError> {
    let Some(stored) = stored else { return Ok(false) };
    let last: LastReport = records::decode(RecordKind::CostReport, stored)?;
    Ok(last.at > at || (last.at == at && last.sent))
}

fn decoded<T: DeserializeOwned>(item: &str, bytes: &[u8]) -> Result<T, CostReportError> {
    decode(bytes).map_err(|source| CostReportError::Record { item: item.to_owned(), source })
}

/// What to do about an error of the topic.
fn advice(error: &PortError) -> &'static str {
    match error.kind {
        // https://docs.aws.amazon.com/sns/latest/api/API_Publish.html#API_Publish_Errors
        _ if error.code.starts_with("KMS") => {
            "set weekly_report.kms_key_arn to the key of the topic, and allow the role of catalog to use it in the policy of the key"
        }
        ErrorKind::Denied => {
            "allow the role of catalog to call sns:Publish: weekly_report of the module does so in its policy, and the policy of a topic \
             of another account has to"
        }
        ErrorKind::NotFound => "create the topic, or correct weekly_report.topic_arn of the module",
        ErrorKind::Unavailable | ErrorKind::Throttled | ErrorKind::Conflict => {
            "it is tried twice; then its message is in the dead-letter queue of catalog, and can be moved back"
        }
        ErrorKind::Invalid => "correct weekly_report of the module",
    }
}
