//! Snapshots that are kept, and plans that are replayed from them.
//!
//! The format is JSON `{"format": 5, "snapshot": …}`, compressed with zlib if the planner writes it. After the plan has ended,
//! the results of its writes are stored beside it in the same format: `{"format": 5, "answers": …}`. Fields that plans do not
//! read are left out, and so is what could contain a secret: user data of EC2NodeClasses, and unknown annotations. Environment
//! variables of pods and Secrets are never read.

use crate::action::Batch;
use crate::execute::without_effects::{Answered, Answers, Recorded};
use crate::pipeline;
use crate::records::report::Outcome;
use crate::snapshot::Snapshot;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use futures::FutureExt as _;
use nodeless_model::labels;
use nodeless_operations::offers::OfferCache;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Write as _};

/// The format that this version writes, and the only one that it reads.
const FORMAT: u32 = 5;
/// The first byte of a compressed snapshot, with which no JSON begins.
const DEFLATED: u8 = 0x78;

#[derive(Deserialize)]
struct Header {
    format: u32,
}

/// Why a snapshot cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// The file is not JSON, or not a snapshot.
    #[error("it is not a snapshot of a plan: {0}")]
    Json(#[from] serde_json::Error),
    /// The snapshot cannot be compressed or decompressed.
    #[error("it is damaged: {0}")]
    Deflate(#[from] std::io::Error),
    /// Another version wrote it.
    #[error(
        "it has the form {0}, and this version of nodeless reads the form {FORMAT}; use the version that the planner has"
    )]
    Format(u32),
}

/// The actions and the outcome of a plan: the same for the same snapshot, byte for byte.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// The outcome.
    pub outcome: Outcome,
    /// The actions, in order. They are assumed to have succeeded.
    pub batches: Vec<Batch>,
}

impl Snapshot {
    /// Encodes the snapshot.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn save(&self) -> Result<Vec<u8>, SavedError> {
        #[derive(Serialize)]
        struct Whole<'a> {
            format: u32,
            snapshot: &'a Snapshot,
        }
        deflated(&Whole { format: FORMAT, snapshot: &self.without_secrets() })
    }

    /// Decodes what [`save`](Self::save) wrote, compressed or not.
    ///
    /// # Errors
    /// If it is something else.
    pub fn read(bytes: &[u8]) -> Result<Self, SavedError> {
        #[derive(Deserialize)]
        struct Whole {
            snapshot: Snapshot,
        }
        let Whole { snapshot } = inflated(bytes)?;
        Ok(snapshot)
    }

    /// Makes the plan without executing it. Every write is assumed to succeed.
    #[must_use]
    pub fn replay(&self) -> Replay {
        self.replay_with(Answers::default())
    }

    /// Like [`replay`](Self::replay), with the recorded result of each write, if there is one.
    #[must_use]
    pub fn replay_with(&self, answers: Answers) -> Replay {
        let answered = Answered::new(self, answers);
        let recorded = Recorded::new(&answered);
        // A plan that executes nothing never waits.
        let outcome = pipeline::run(self, &OfferCache::default(), &recorded).now_or_never().unwrap_or_default();
        Replay { outcome, batches: recorded.kept().0 }
    }

    /// A copy without the values that plans do not read and that may be secret.
    fn without_secrets(&self) -> Self {
        let mut snapshot = self.clone();
        let view = &mut snapshot.view;
        for class in view.node_classes.values_mut() {
            class.spec.user_data = None;
            class.metadata.managed_fields = None;
            class.metadata.annotations.iter_mut().for_each(|own| own.retain(|key, _| labels::is_read(key)));
        }
        view.nodes.iter_mut().for_each(|node| node.annotations.retain(|key, _| labels::is_read(key)));
        snapshot
    }
}

impl Answers {
    /// Encodes the results of a plan's writes.
    ///
    /// # Errors
    /// If they cannot be encoded.
    pub fn save(&self) -> Result<Vec<u8>, SavedError> {
        #[derive(Serialize)]
        struct Whole<'a> {
            format: u32,
            answers: &'a Answers,
        }
        deflated(&Whole { format: FORMAT, answers: self })
    }

    /// Decodes what [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// If it is something else.
    pub fn read(bytes: &[u8]) -> Result<Self, SavedError> {
        #[derive(Deserialize)]
        struct Whole {
            answers: Answers,
        }
        let Whole { answers } = inflated(bytes)?;
        Ok(answers)
    }
}

fn deflated(whole: &impl Serialize) -> Result<Vec<u8>, SavedError> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&serde_json::to_vec(whole)?)?;
    Ok(encoder.finish()?)
}

fn inflated<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, SavedError> {
    let mut inflated = Vec::new();
    let text = if bytes.first() == Some(&DEFLATED) {
        ZlibDecoder::new(bytes).read_to_end(&mut inflated)?;
        inflated.as_slice()
    } else {
        bytes
    };
    // Checked before the rest, which may differ in another format.
    let Header { format } = serde_json::from_slice(text)?;
    if format != FORMAT {
        return Err(SavedError::Format(format));
    }
    Ok(serde_json::from_slice(text)?)
}
