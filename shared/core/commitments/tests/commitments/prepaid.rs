//! What is left of commitments as offerings.

use crate::support::{commitments, on_demand, plan, reserved};
use nodeless_commitments::{Commitments, Prepaid, apply};
use nodeless_model::instance_type::{Offering, Overhead};
use nodeless_model::{CapacityType, InstanceType, Requirement, Requirements, ResourceList, labels};

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";

fn kind(name: &str, price: f64, os: &str) -> InstanceType {
    let offering = |zone: &str, capacity_type, price| Offering {
        zone: zone.to_owned(),
        capacity_type,
        price,
        available: true,
        lacks_price: false,
        reservation: None,
        requirements: Requirements::new(),
    };
    let offerings = [A, B].into_iter().flat_map(|zone| {
        [offering(zone, CapacityType::OnDemand, price), offering(zone, CapacityType::Spot, price * 0.3)]
    });
    InstanceType {
        name: name.to_owned(),
        requirements: Requirements::from([(labels::OS, Requirement::one_of([os]))]),
        capacity: ResourceList::new(),
        ebs_volumes: None,
        root_volume: None,
        overhead: Overhead::default(),
        offerings: offerings.collect(),
    }
}

/// The zones of prepaid hours, what is left of them and what an instance uses, if no instance runs.
fn prepaid(all: &Commitments, kind: &InstanceType) -> Vec<(String, u32, u32)> {
    let bill = apply(&[], all);
    let offered = Prepaid::left(all, &bill).offered(kind);
    assert_eq!(offered.offerings[..kind.offerings.len()], kind.offerings);
    let added = offered.offerings[kind.offerings.len()..].iter();
    added
        .map(|one| {
            assert_eq!(one.capacity_type, CapacityType::OnDemand);
            assert!(one.price > 0.0 && one.price < 1e-5, "{one:?}");
            let held = one.reservation.as_ref().unwrap();
            (one.zone.clone(), held.remaining, held.each)
        })
        .collect()
}

#[test]
fn prepaid_hours_are_offered_where_a_commitment_applies() {
    let large = kind("m5.large", 0.096, "linux");
    let zonal = commitments(vec![reserved("m5.large", 2, Some(A))], Vec::new());
    assert_eq!(prepaid(&zonal, &large), [(A.to_owned(), 2, 1)]);
    let regional = commitments(vec![reserved("m5.xlarge", 3, None)], Vec::new());
    assert_eq!(prepaid(&regional, &large), [(A.to_owned(), 96, 16), (B.to_owned(), 96, 16)]);
    let compute = commitments(Vec::new(), vec![plan(None, 0.1, &[("m5.large", 0.05)])]);
    assert_eq!(prepaid(&compute, &large), [(A.to_owned(), 100_000, 50_000), (B.to_owned(), 100_000, 50_000)]);
    // Not for other types, for Windows, or where less is left than an instance needs.
    assert!(prepaid(&zonal, &kind("m5.xlarge", 0.2, "linux")).is_empty());
    assert!(prepaid(&compute, &kind("c5.large", 0.2, "linux")).is_empty());
    assert!(prepaid(&compute, &kind("m5.large", 0.2, "windows")).is_empty());
    assert!(prepaid(&regional, &kind("m5.8xlarge", 1.5, "linux")).is_empty());
}

#[test]
fn hours_that_instances_use_are_not_left() {
    let all = commitments(vec![reserved("m5.large", 1, None)], vec![plan(None, 0.1, &[("m5.large", 0.05)])]);
    let large = kind("m5.large", 0.096, "linux");
    let left = |count: usize| {
        let bill = apply(&vec![on_demand("m5.large", A, 0.096); count], &all);
        let prepaid = Prepaid::left(&all, &bill);
        (prepaid.is_empty(), prepaid.offered(&large).offerings.len() - large.offerings.len())
    };
    assert_eq!([left(0), left(1), left(3)], [(false, 4), (false, 2), (true, 0)]);
    let bill = apply(&[], &all);
    let reserved_only = Prepaid::left(&all, &bill).reserved_only();
    assert_eq!(reserved_only.offered(&large).offerings.len() - large.offerings.len(), 2);
}
