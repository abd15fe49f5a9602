//! Disruption commands in progress. Each write replaces the version that was read.

use crate::items::{Item, number, read_number, read_text, text};
use crate::table::DynamoClaims;
use crate::versioned::Stored;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, Put};
use nodeless_aws::port_error;
use nodeless_ports::plans::StoredCommand;
use nodeless_ports::{ErrorKind, PortError};

const PREFIX: &str = "command#";
/// The maximum size of the summary, which names every node. The record itself contains them all.
const SUMMARY_BYTES: usize = 4_000;

impl DynamoClaims {
    pub(crate) async fn read_commands(&self) -> Result<Vec<StoredCommand>, PortError> {
        self.items(PREFIX, None).await?.iter().map(decode).collect()
    }

    pub(crate) async fn write_command(&self, command: &StoredCommand) -> Result<u64, PortError> {
        const OPERATION: &str = "DynamoDB PutItem (command)";
        self.put_versioned(OPERATION, self.command_item(OPERATION, command)?, Stored::read(command.version)).await
    }

    /// The write that replaces the version of a command that was read.
    pub(crate) fn command_put(&self, operation: &str, command: &StoredCommand) -> Result<Put, PortError> {
        self.versioned(operation, self.command_item(operation, command)?, Stored::read(command.version))
    }

    fn command_item(&self, operation: &str, command: &StoredCommand) -> Result<Item, PortError> {
        command.check_size(operation)?;
        let mut item = self.key(&key(&command.id));
        item.insert("summary".to_owned(), text(summary(command)));
        item.insert("encoded".to_owned(), AttributeValue::B(Blob::new(command.encoded.clone())));
        Ok(item)
    }

    pub(crate) async fn remove_command(&self, command: &StoredCommand) -> Result<(), PortError> {
        self.client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(self.key(&key(&command.id))))
            .condition_expression("attribute_not_exists(sk) OR version = :read")
            .expression_attribute_values(":read", number(command.version))
            .send()
            .await
            .map_err(|error| port_error("DynamoDB DeleteItem (command)", &error))?;
        Ok(())
    }
}

fn key(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// The summary, truncated so that the record fits beside it.
fn summary(command: &StoredCommand) -> String {
    let end = command.summary.floor_char_boundary(SUMMARY_BYTES);
    let more = if end < command.summary.len() { "…" } else { "" };
    format!("{}{more}", &command.summary[..end])
}

fn decode(item: &Item) -> Result<StoredCommand, PortError> {
    let id = read_text(item, "sk")?.trim_start_matches(PREFIX).to_owned();
    let Some(AttributeValue::B(encoded)) = item.get("encoded") else {
        let message = format!(
            "the attribute \"encoded\" of item \"{PREFIX}{id}\" is not bytes; delete that item, and its nodes are released"
        );
        return Err(PortError::new(ErrorKind::Invalid, "DynamoDB read", message));
    };
    Ok(StoredCommand {
        version: read_number(item, "version")?,
        summary: read_text(item, "summary")?.to_owned(),
        encoded: encoded.as_ref().to_vec(),
        id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_ports::plans::COMMAND_BYTES;

    #[test]
    fn the_largest_command_fits_into_an_item_however_many_nodes_it_names() {
        let names: Vec<String> = (0..20_000).map(|number| format!("general-{number:05}é")).collect();
        let command =
            StoredCommand { id: "c".into(), version: 0, summary: names.join(", "), encoded: vec![0; COMMAND_BYTES] };
        command.check_size("put").unwrap();
        let cut = summary(&command);
        assert!(cut.ends_with('…') && cut.len() + command.encoded.len() < 400_000, "{}", cut.len());
        let short = StoredCommand { summary: "two nodes go".into(), ..command };
        assert_eq!(summary(&short), short.summary);
    }
}
