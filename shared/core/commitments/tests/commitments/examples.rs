//! The examples of the AWS documentation, and single rules.

use crate::support::{close, commitments, on_demand, plan, reserved};
use nodeless_commitments::{Usage, apply};
use nodeless_model::CapacityType;

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";

/// Scenario 1 of "How Reserved Instance discounts are applied".
#[test]
fn a_smaller_regional_reserved_instance_covers_a_part() {
    let mut instances = vec![on_demand("m3.large", A, 1.0); 4];
    instances.extend([on_demand("m4.xlarge", B, 1.0); 2]);
    instances.push(on_demand("c4.xlarge", "us-east-1c", 1.0));
    let all = vec![reserved("m3.large", 4, Some(A)), reserved("m4.large", 4, None), reserved("c4.large", 1, None)];
    let bill = apply(&instances, &commitments(all, Vec::new()));
    let covered: Vec<f64> = bill.instances.iter().map(|one| one.covered).collect();
    assert_eq!(covered, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5]);
    close(bill.uncovered(), 0.5);
    close(bill.unused(), 0.0);
    close(bill.paid(), 9.0 * 0.5 + 0.5);
}

/// Scenario 2.
#[test]
fn a_regional_reserved_instance_covers_the_smallest_first() {
    let instances = [
        on_demand("m3.xlarge", A, 2.0),
        on_demand("m3.xlarge", A, 2.0),
        on_demand("m3.large", B, 1.0),
        on_demand("m3.large", B, 1.0),
    ];
    let bill = apply(&instances, &commitments(vec![reserved("m3.2xlarge", 1, None)], Vec::new()));
    let covered: Vec<f64> = bill.instances.iter().map(|one| one.covered).collect();
    assert_eq!(covered, [2.0, 0.0, 1.0, 1.0]);
}

/// Scenario 4: the regional one is left for the instance in the other zone.
#[test]
fn zonal_reserved_instances_apply_before_regional_ones() {
    let instances = [on_demand("m4.xlarge", A, 1.0), on_demand("m4.xlarge", B, 1.0)];
    let all = vec![reserved("m4.xlarge", 1, None), reserved("m4.xlarge", 1, Some(A))];
    close(apply(&instances, &commitments(all, Vec::new())).uncovered(), 0.0);
}

#[test]
fn a_zonal_reserved_instance_applies_to_its_type_and_zone_only() {
    let instances = [on_demand("m5.large", B, 1.0), on_demand("m5.xlarge", A, 2.0)];
    let bill = apply(&instances, &commitments(vec![reserved("m5.large", 1, Some(A))], Vec::new()));
    close(bill.covered(), 0.0);
    close(bill.unused(), 0.5);
    close(bill.paid(), 3.5);
}

#[test]
fn sizes_of_inflexible_families_are_not_exchanged() {
    let all = || commitments(vec![reserved("g5.xlarge", 2, None)], Vec::new());
    close(apply(&[on_demand("g5.2xlarge", A, 2.0)], &all()).covered(), 0.0);
    close(apply(&[on_demand("g5.xlarge", A, 1.0)], &all()).covered(), 1.0);
}

/// The rates of the example in "Understanding how Savings Plans apply to your AWS usage": an EC2 Instance Savings Plan applies before a
/// Compute Savings Plan, whatever they save.
#[test]
fn savings_plans_of_a_family_apply_before_those_of_all_compute() {
    let instances = [on_demand("c5.9xlarge", A, 4.0), on_demand("m5.large", A, 0.1)];
    let compute = plan(None, 2.0, &[("c5.9xlarge", 2.0), ("m5.large", 0.06)]);
    let family = plan(Some("c5"), 1.0, &[("c5.9xlarge", 1.0)]);
    let bill = apply(&instances, &commitments(Vec::new(), vec![compute, family]));
    close(bill.uncovered(), 0.0);
    close(bill.commitments[1].used(), 1.0);
    close(bill.commitments[0].used(), 0.06);
    close(bill.unused(), 1.94);
    close(bill.paid(), 3.0);
}

#[test]
fn the_usage_with_the_highest_savings_comes_first_and_then_that_with_the_lowest_rate() {
    // 50% of 2.00, 50% of 1.00, and 40% of 1.00: the commitment is enough for the second, and half of the first.
    let instances = [on_demand("a.large", A, 2.0), on_demand("b.large", A, 1.0), on_demand("c.large", A, 1.0)];
    let compute = plan(None, 1.0, &[("a.large", 1.0), ("b.large", 0.5), ("c.large", 0.6)]);
    let bill = apply(&instances, &commitments(Vec::new(), vec![compute]));
    let covered: Vec<f64> = bill.instances.iter().map(|one| one.covered).collect();
    assert_eq!(covered, [1.0, 1.0, 0.0]);
}

#[test]
fn overlapping_plans_are_applied_together() {
    let instances = [on_demand("m5.large", A, 1.0)];
    let (one, two) = (plan(None, 0.2, &[("m5.large", 0.5)]), plan(None, 0.2, &[("m5.large", 0.4)]));
    let bill = apply(&instances, &commitments(Vec::new(), vec![one, two]));
    // The second has the higher percentage: it covers a half, and the first 40%.
    close(bill.covered(), 0.9);
    close(bill.unused(), 0.0);
}

#[test]
fn spot_windows_and_instances_of_unknown_price_or_rate_are_not_covered() {
    let usage = on_demand("m5.large", A, 0.1);
    let instances = [
        Usage { capacity_type: CapacityType::Spot, price: Some(0.03), ..usage },
        Usage { linux: false, ..usage },
        Usage { price: None, ..usage },
        Usage { instance_type: "m9.large", ..usage },
    ];
    let all = commitments(vec![reserved("m5.large", 9, None)], vec![plan(None, 9.0, &[("m5.large", 0.05)])]);
    let bill = apply(&instances, &all);
    close(bill.covered(), 0.0);
    close(bill.uncovered(), 0.03 + 0.1 + 0.0 + 0.1);
    close(bill.unused(), 9.0 + 4.5);
}

/// They are billed, used or not, and get what other instances leave.
#[test]
fn instances_in_capacity_reservations_get_what_is_left() {
    let usage = on_demand("m5.large", A, 0.1);
    let reservation = Usage { capacity_type: CapacityType::Reserved, ..usage };
    let compute = |dollars| commitments(Vec::new(), vec![plan(None, dollars, &[("m5.large", 0.05)])]);
    let bill = apply(&[reservation, usage], &compute(0.05));
    close(bill.instances[0].covered, 0.0);
    close(bill.instances[1].covered, 0.1);
    let bill = apply(&[reservation, usage], &compute(0.2));
    close(bill.instances[0].covered, 0.1);
    close(bill.unused(), 0.1);
    close(bill.uncovered(), 0.0);
    // A zonal Reserved Instance does not apply to them.
    let zonal = commitments(vec![reserved("m5.large", 1, Some(A))], Vec::new());
    close(apply(&[reservation], &zonal).covered(), 0.0);
}
