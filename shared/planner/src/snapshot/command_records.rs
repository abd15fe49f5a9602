//! The records of disruption commands: how they are stored, and what they hold.

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_model::NodeClaim;
use nodeless_ports::{ErrorKind, PortError};
use nodeless_state::plans::StoredCommand;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

/// The commands in progress.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Commands {
    /// The decoded ones, in the order of their ids.
    #[serde(with = "with_versions")]
    pub records: Vec<CommandRecord>,
    /// Messages about commands that cannot be decoded. No node is then disrupted voluntarily, as the commands are unknown.
    pub damaged: Vec<String>,
}

impl Commands {
    /// Decodes what the table holds.
    #[must_use]
    pub fn decode(stored: Vec<StoredCommand>) -> Self {
        let mut commands = Self::default();
        for one in stored {
            match decode(&one) {
                Ok(record) => commands.records.push(record),
                Err(why) => commands.damaged.push(format!(
                    "the item command#{} of the claims table cannot be decoded ({why}); delete it if it was not written \
                     by a newer version",
                    one.id
                )),
            }
        }
        commands
    }

    /// The claims whose pods need a node now, because their replacements exist or are launching.
    pub(crate) fn replaced(&self, claims: &[NodeClaim]) -> BTreeSet<String> {
        let stands = |name: &str| claims.iter().any(|claim| claim.name == name && !claim.phase.is_leaving());
        let moving = self.records.iter().filter(|record| {
            // A command that is about to be rolled back moves no pods.
            record.moves_pods() && record.replacements.iter().all(|replacement| stands(&replacement.name))
        });
        moving.flat_map(CommandRecord::candidates).map(|candidate| candidate.node_claim.clone()).collect()
    }
}

/// A stored record does not contain its version, which the table keeps beside it.
mod with_versions {
    use super::CommandRecord;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(records: &[CommandRecord], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(records.iter().map(|record| (record.version, record)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CommandRecord>, D::Error> {
        let records = Vec::<(u64, CommandRecord)>::deserialize(deserializer)?;
        Ok(records.into_iter().map(|(version, record)| CommandRecord { version, ..record }).collect())
    }
}

impl Commands {
    /// The pods, `namespace/name`, for which commands launch claims that are not written yet. Running pods keep their node until
    /// the claims exist. The virtual pods of a buffer have no node any more, and must not be launched for twice.
    pub(crate) fn awaited(&self, claims: &[NodeClaim]) -> BTreeSet<String> {
        let under_way = |record: &&CommandRecord| {
            matches!(record.phase, CommandPhase::Tainting | CommandPhase::Launching | CommandPhase::Waiting)
        };
        let launched = self.records.iter().filter(under_way).flat_map(|record| &record.replacements);
        let unwritten = launched.filter(|made| claims.iter().all(|claim| claim.name != made.name));
        unwritten.flat_map(|made| &made.spec.nominated_pods).cloned().collect()
    }
}

/// Why a stored command cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeCommandError {
    /// The record cannot be decompressed.
    #[error(transparent)]
    Inflate(#[from] std::io::Error),
    /// This version cannot decode it.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Decodes a stored command.
///
/// # Errors
/// If this version cannot decode it.
pub fn decode(stored: &StoredCommand) -> Result<CommandRecord, DecodeCommandError> {
    let mut text = Vec::new();
    DeflateDecoder::new(stored.encoded.as_slice()).read_to_end(&mut text)?;
    let mut record: CommandRecord = serde_json::from_slice(&text)?;
    record.version = stored.version;
    Ok(record)
}

/// Encodes a command to be stored.
///
/// # Errors
/// If the command cannot be encoded.
pub fn encode(record: &CommandRecord) -> Result<StoredCommand, PortError> {
    let invalid = |why: &dyn std::fmt::Display| PortError::new(ErrorKind::Invalid, "encode command", why.to_string());
    let text = serde_json::to_vec(record).map_err(|error| invalid(&error))?;
    // Lists of instance types are repetitive, and the size of an item is limited.
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&text).map_err(|error| invalid(&error))?;
    let encoded = encoder.finish().map_err(|error| invalid(&error))?;
    Ok(StoredCommand { id: record.command.id.clone(), version: record.version, summary: record.summary(), encoded })
}
