//! Disruption commands in progress. Each write replaces the version that was read.

use crate::State;
use crate::items::{attributes, read_bytes, read_number, read_text, text};
use crate::plans::StoredCommand;
use crate::state::conflict;
use crate::versioned::{Stored, is_version};
use nodeless_ports::PortError;
use nodeless_ports::table::{Attributes, Item, Key, Value, Write};

const PREFIX: &str = "command#";
/// The maximum size of the summary, which names every node. The record itself contains them all.
const SUMMARY_BYTES: usize = 4_000;

impl State {
    /// The disruption commands that have not ended, in the order of their ids, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn commands(&self) -> Result<Vec<StoredCommand>, PortError> {
        self.items_of("claims commands", PREFIX).await?.iter().map(decode_command).collect()
    }

    /// Writes a command if the table still holds the version that was read (none if that is zero), and returns the new version.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first, [`Invalid`](crate::ErrorKind::Invalid) when
    /// it is too large.
    pub async fn put_command(&self, command: &StoredCommand) -> Result<u64, PortError> {
        const OPERATION: &str = "claims put command";
        let attributes = command_attributes(OPERATION, command)?;
        self.put_versioned(OPERATION, command_key(&command.id), attributes, Stored::read(command.version)).await
    }

    /// Deletes a command that has ended, if the table still holds its version. A missing command counts as success.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first.
    pub async fn delete_command(&self, command: &StoredCommand) -> Result<(), PortError> {
        const OPERATION: &str = "claims delete command";
        let sort = command_key(&command.id).sort;
        let deleted = self.delete_if(OPERATION, &sort, is_version(command.version)).await?;
        if deleted { Ok(()) } else { Err(conflict(OPERATION, &command.id)) }
    }
}

/// The write that replaces the version of a command that was read.
pub(crate) fn command_write(operation: &str, command: &StoredCommand) -> Result<Write, PortError> {
    let attributes = command_attributes(operation, command)?;
    Ok(Stored::read(command.version).replace(command_key(&command.id), attributes))
}

fn command_attributes(operation: &str, command: &StoredCommand) -> Result<Attributes, PortError> {
    command.check_size(operation)?;
    Ok(attributes([("summary", text(summary(command))), ("encoded", Value::Bytes(command.encoded.clone()))]))
}

fn command_key(id: &str) -> Key {
    Key::of_cluster(format!("{PREFIX}{id}"))
}

/// The summary, truncated so that the record fits beside it.
fn summary(command: &StoredCommand) -> String {
    let end = command.summary.floor_char_boundary(SUMMARY_BYTES);
    let more = if end < command.summary.len() { "…" } else { "" };
    format!("{}{more}", &command.summary[..end])
}

/// The command in an item of a command.
///
/// # Errors
/// When the item cannot be decoded. If it is deleted, its nodes are released.
pub fn decode_command(item: &Item) -> Result<StoredCommand, PortError> {
    Ok(StoredCommand {
        id: item.key.sort.trim_start_matches(PREFIX).to_owned(),
        version: read_number(item, "version")?,
        summary: read_text(item, "summary")?.to_owned(),
        encoded: read_bytes(item, "encoded")?.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plans::COMMAND_BYTES;

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
