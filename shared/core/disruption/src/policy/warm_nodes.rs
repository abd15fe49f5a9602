//! How many stopped instances a NodePool keeps: the annotation `nodeless.sh/warm`.

use nodeless_model::{CapacityType, InvalidAnnotation, NodePool, labels};

/// The maximum number of warm nodes of a NodePool.
const MAX: usize = 100;

/// How many warm nodes a NodePool keeps, by its annotation; none without the annotation.
///
/// # Errors
/// When the value is not a number from 0 to 100, or the NodePool has only nodes that cannot be kept.
pub fn warm_nodes(pool: &NodePool) -> Result<usize, InvalidAnnotation> {
    let Some(text) = pool.disruption.annotations.get(labels::WARM) else { return Ok(0) };
    let number = text.parse().ok().filter(|count| *count <= MAX).ok_or_else(|| InvalidAnnotation::Value {
        key: labels::WARM,
        value: text.clone(),
        effect: "and no further warm nodes are made or removed",
        valid: "a number from 0 to 100",
    })?;
    if number == 0 {
        return Ok(0);
    }
    let allowed = pool.template.requirements.get(labels::CAPACITY_TYPE);
    if allowed.is_some_and(|allowed| !allowed.has(CapacityType::OnDemand.as_str())) {
        return Err(contradicts(
            "the requirements of the NodePool do not allow on-demand, and a spot instance of a fleet cannot be stopped",
            format!("add on-demand to {}, or remove the annotation", labels::CAPACITY_TYPE),
        ));
    }
    if pool.replicas.is_some() {
        let remedy = "remove one of the two".to_owned();
        return Err(contradicts("the NodePool has spec.replicas, whose nodes run all the time", remedy));
    }
    Ok(number)
}

/// The error for a NodePool whose EC2NodeClass has images and pods on an instance store.
#[must_use]
pub fn lost_at_stops(pool: &NodePool) -> InvalidAnnotation {
    let why = "its EC2NodeClass has instanceStorePolicy, and an instance store loses its data when the instance stops";
    let class = &pool.template.node_class;
    contradicts(why, format!("remove instanceStorePolicy from EC2NodeClass {class}, or the annotation"))
}

const fn contradicts(why: &'static str, remedy: String) -> InvalidAnnotation {
    InvalidAnnotation::Contradiction { key: labels::WARM, why, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::Requirement;
    use nodeless_model::test_support::node_pool;

    fn annotated(value: &str) -> NodePool {
        let mut pool = node_pool("default");
        pool.disruption.annotations.insert(labels::WARM.to_owned(), value.to_owned());
        pool
    }

    #[test]
    fn the_number_is_at_most_a_hundred() {
        let stated = |value: &str| warm_nodes(&annotated(value));
        assert_eq!(warm_nodes(&node_pool("default")), Ok(0));
        assert_eq!((stated("0"), stated("3"), stated("100")), (Ok(0), Ok(3), Ok(100)));
        for wrong in ["101", "-1", "three", "", "1.5", "true", "3 "] {
            assert!(stated(wrong).unwrap_err().to_string().contains("a number from 0 to 100"), "{wrong}");
        }
    }

    #[test]
    fn nodes_that_cannot_be_stopped_or_always_run_are_refused() {
        let mut spot = annotated("2");
        spot.template.requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(["spot"]));
        let why = warm_nodes(&spot).unwrap_err().to_string();
        assert!(why.starts_with("annotation nodeless.sh/warm is ignored, because the requirements"), "{why}");
        assert!(
            why.contains("a spot instance of a fleet cannot be stopped: add on-demand to karpenter.sh/capacity-type"),
            "{why}"
        );
        spot.disruption.annotations.insert(labels::WARM.to_owned(), "0".to_owned());
        assert_eq!(warm_nodes(&spot), Ok(0));
        let mut both = annotated("2");
        both.template.requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(["spot", "on-demand"]));
        assert_eq!(warm_nodes(&both), Ok(2));
        both.replicas = Some(3);
        assert!(warm_nodes(&both).unwrap_err().to_string().contains("spec.replicas"));
    }
}
