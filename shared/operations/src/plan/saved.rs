//! Snapshots that are kept, and plans that are made of them again.
//!
//! The form: JSON `{"format": 2, "snapshot": …}`, deflated (zlib) where the planner writes it; beside it in the same form, once the
//! plan has ended, `{"format": 2, "answers": …}`: the results of its writes. What a plan does not read is left
//! out, and what could hold a secret: user data of EC2NodeClasses, and annotations of others. Pods have neither environment
//! variables nor Secrets in it from the beginning.

use super::action::Batch;
use super::execute::{Answered, Answers, Recorded};
use super::pipeline;
use super::report::Outcome;
use super::snapshot::Snapshot;
use crate::offers::OfferCache;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use futures::FutureExt as _;
use nodeless_model::{Pod, StringMap};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Write as _};

/// The form that this version writes, and the only one that it reads.
const FORMAT: u32 = 2;
/// What a deflated one begins with, and no JSON does.
const DEFLATED: u8 = 0x78;

#[derive(Deserialize)]
struct Header {
    format: u32,
}

/// Why a snapshot cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// It is no JSON, or not that of a snapshot.
    #[error("it is no snapshot of a plan: {0}")]
    Json(#[from] serde_json::Error),
    /// It cannot be deflated or inflated.
    #[error("it is damaged: {0}")]
    Deflate(#[from] std::io::Error),
    /// Another version wrote it.
    #[error(
        "it has the form {0}, and this version of nodeless reads the form {FORMAT}; use the version that the planner has"
    )]
    Format(u32),
}

/// What a plan and an outcome are made of: the same for the same snapshot, to the byte.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// What came of it.
    pub outcome: Outcome,
    /// What was to be done, in order. It is taken for done.
    pub batches: Vec<Batch>,
}

impl Snapshot {
    /// The snapshot as it is kept.
    ///
    /// # Errors
    /// When it cannot be encoded.
    pub fn save(&self) -> Result<Vec<u8>, SavedError> {
        #[derive(Serialize)]
        struct Whole<'a> {
            format: u32,
            snapshot: &'a Snapshot,
        }
        deflated(&Whole { format: FORMAT, snapshot: &self.without_secrets() })
    }

    /// Reads what [`save`](Self::save) wrote, deflated or not.
    ///
    /// # Errors
    /// When it is something else.
    pub fn read(bytes: &[u8]) -> Result<Self, SavedError> {
        #[derive(Deserialize)]
        struct Whole {
            snapshot: Snapshot,
        }
        let Whole { snapshot } = inflated(bytes)?;
        Ok(snapshot)
    }

    /// Makes the plan without doing any of it. Every write is taken for done.
    #[must_use]
    pub fn replay(&self) -> Replay {
        self.replay_with(Answers::default())
    }

    /// The same, where each write is answered as it was before, as far as that is known.
    #[must_use]
    pub fn replay_with(&self, answers: Answers) -> Replay {
        let answered = Answered::new(self, answers);
        let recorded = Recorded::new(&answered);
        // Nothing that is only assumed ever waits.
        let outcome = pipeline::run(self, &OfferCache::default(), &recorded).now_or_never().unwrap_or_default();
        Replay { outcome, batches: recorded.kept().0 }
    }

    /// The same without what no plan reads and what may be secret.
    fn without_secrets(&self) -> Self {
        let mut snapshot = self.clone();
        let view = &mut snapshot.view;
        for class in view.node_classes.values_mut() {
            class.spec.user_data = None;
            class.metadata.managed_fields = None;
            class.metadata.annotations.iter_mut().for_each(|own| own.retain(|key, _| is_read(key)));
        }
        view.nodes.iter_mut().for_each(|node| reduce(&mut node.annotations));
        let templates = view.daemon_sets.iter_mut().map(|set| &mut set.template);
        let shapes = view.capacity_buffers.iter_mut().filter_map(|buffer| buffer.shape.as_mut().ok());
        let pods = view.pods.iter_mut().chain(templates).chain(shapes.map(|shape| &mut shape.pod));
        pods.for_each(|pod: &mut Pod| reduce(&mut pod.annotations));
        snapshot
    }
}

impl Answers {
    /// What came of a plan's writes as it is kept.
    ///
    /// # Errors
    /// When it cannot be encoded.
    pub fn save(&self) -> Result<Vec<u8>, SavedError> {
        #[derive(Serialize)]
        struct Whole<'a> {
            format: u32,
            answers: &'a Answers,
        }
        deflated(&Whole { format: FORMAT, answers: self })
    }

    /// Reads what [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// When it is something else.
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
    // Before the rest, which has another shape in another form.
    let Header { format } = serde_json::from_slice(text)?;
    if format != FORMAT {
        return Err(SavedError::Format(format));
    }
    Ok(serde_json::from_slice(text)?)
}

fn reduce(annotations: &mut StringMap) {
    annotations.retain(|key, _| is_read(key));
}

/// Whether planning looks at an annotation.
fn is_read(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    ["karpenter.sh", "karpenter.k8s.aws", "nodeless.sh"].contains(&domain)
        || [nodeless_model::labels::POD_DELETION_COST, "kubernetes.io/config.mirror"].contains(&key)
}
