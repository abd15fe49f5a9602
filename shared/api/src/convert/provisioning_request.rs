//! ProvisioningRequests.

use super::ConvertError;
use crate::ConditionStatus;
use crate::custom::provisioningrequest::ProvisioningRequest;
use jiff::Timestamp;
use nodeless_model as model;
use nodeless_model::provisioning_request::{Known, PodSet, Progress};

impl TryFrom<&ProvisioningRequest> for model::ProvisioningRequest {
    type Error = ConvertError;

    fn try_from(request: &ProvisioningRequest) -> Result<Self, ConvertError> {
        let (metadata, spec) = (&request.metadata, &request.spec);
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        let count = |count: i32| {
            u32::try_from(count).map_err(|_| ConvertError {
                object: format!("ProvisioningRequest {namespace}/{name}"),
                field: "spec.podSets.count".to_owned(),
                problem: format!("{count} is no number of pods"),
            })
        };
        let pod_sets = spec
            .pod_sets
            .iter()
            .map(|set| Ok(PodSet { template: set.pod_template_ref.name.clone(), count: count(set.count)? }));
        let pod_sets = pod_sets.collect::<Result<Vec<_>, ConvertError>>()?;
        let conditions = request.status.iter().flat_map(|status| &status.conditions);
        let known = conditions.map(|condition| Known {
            kind: &condition.type_,
            holds: condition.status == ConditionStatus::True,
            reason: &condition.reason,
            since: condition.last_transition_time.0,
        });
        Ok(Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            class_name: spec.provisioning_class_name.clone(),
            parameters: spec.parameters.clone(),
            progress: Progress::new(known),
            pod_sets,
            namespace,
            name,
        })
    }
}
