//! DaemonSets as they are read, and their first pods.

use crate::admission::Admission;
use crate::convert::{ConvertError, FieldError};
use crate::slim;
use nodeless_model::{DaemonSet, DaemonSetName, PodShape};

/// A DaemonSet, with the spec of its template.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadDaemonSet {
    /// The DaemonSet, with the requests of its template.
    pub set: DaemonSet,
    spec: slim::PodSpec,
}

impl TryFrom<&slim::DaemonSet> for ReadDaemonSet {
    type Error = ConvertError;

    fn try_from(daemon_set: &slim::DaemonSet) -> Result<Self, ConvertError> {
        Ok(Self { set: DaemonSet::try_from(daemon_set)?, spec: daemon_set.spec.template.spec.clone() })
    }
}

impl ReadDaemonSet {
    /// The name.
    #[must_use]
    pub fn name(&self) -> DaemonSetName {
        self.set.key()
    }

    /// Its first pod: that of the template, with what admission gives it.
    pub(crate) fn first_pod(&self, admission: &Admission) -> Result<PodShape, ConvertError> {
        let invalid = |error: FieldError| error.for_object(format!("DaemonSet {}", self.name()));
        admission.shape(&self.set.template, &self.spec).map_err(invalid)
    }
}
