use jiff::SignedDuration;

use super::super::requests::{RunInstances, TerminateInstances};
use super::super::{CapacityReservation, CapacityType, QuotaFamily};
use super::*;

/// An account with one quota of standard instances.
fn with_quota(capacity_type: CapacityType, vcpus: u64) -> Ec2 {
    let ec2 = ec2();
    ec2.change_account(|account| {
        account.vcpu_quotas.insert((capacity_type, QuotaFamily::Standard), vcpus);
    });
    ec2
}

/// The number of instances of a fleet, and its error codes.
fn launched(ec2: &Ec2, types: &[&str], capacity_type: &str, target: u32) -> (usize, Vec<String>) {
    let (offerings, errors) = bought(ec2, &fleet(types, capacity_type, "lowest-price", target));
    (offerings.len(), errors)
}

#[test]
fn a_fleet_launches_what_the_quota_of_its_family_allows() {
    let ec2 = with_quota(CapacityType::OnDemand, 6);
    let exceeded = vec!["VcpuLimitExceeded".to_owned(); 2];
    assert_eq!(launched(&ec2, &["m5.large"], "on-demand", 4), (3, exceeded.clone()), "of 2 vCPUs each");
    assert_eq!(launched(&ec2, &["m6i.large"], "on-demand", 1), (0, exceeded), "another type of the family");
    assert_eq!(launched(&ec2, &["m6i.large"], "spot", 4), (4, vec![]), "spot has quotas of its own");
    let first = ec2.instances().remove(0).id;
    ec2.terminate_instances(&TerminateInstances { instance_ids: vec![first], dry_run: false }).unwrap();
    assert_eq!(launched(&ec2, &["m5.large"], "on-demand", 4).0, 1);
    ec2.change_account(|account| account.vcpu_quotas.clear());
    assert_eq!(launched(&ec2, &["m5.large"], "on-demand", 4), (4, vec![]));
}

#[test]
fn a_spot_instance_counts_until_it_has_terminated() {
    let ec2 = with_quota(CapacityType::Spot, 2);
    let exceeded = vec!["MaxSpotInstanceCountExceeded".to_owned(); 2];
    assert_eq!(launched(&ec2, &["m5.large"], "spot", 2), (1, exceeded.clone()));
    let first = ec2.instances().remove(0).id;
    ec2.terminate_instances(&TerminateInstances { instance_ids: vec![first], dry_run: false }).unwrap();
    assert_eq!(launched(&ec2, &["m5.large"], "spot", 1), (0, exceeded), "it is shutting down");
    ec2.advance_to(start() + SignedDuration::from_mins(2));
    assert_eq!(launched(&ec2, &["m5.large"], "spot", 1), (1, vec![]));
}

#[test]
fn a_reservation_counts_as_a_whole_and_its_instances_do_not_count_again() {
    let ec2 = with_quota(CapacityType::OnDemand, 6);
    ec2.change_account(|account| {
        account.capacity_reservations.push(CapacityReservation {
            id: "cr-00000000000000001".to_owned(),
            instance_type: "m5.large".to_owned(),
            zone: ZONES[0].to_owned(),
            total: 2,
            available: 2,
            open: true,
            start: start(),
            end: None,
            interruptible: false,
        });
    });
    assert_eq!(launched(&ec2, &["m6i.large"], "on-demand", 2).0, 1, "4 of 6 vCPUs are reserved");
    assert_eq!(launched(&ec2, &["m5.large"], "on-demand", 3).0, 2, "those that are reserved");
}

#[test]
fn run_instances_refuses_a_maximum_beyond_the_quota() {
    let ec2 = with_quota(CapacityType::OnDemand, 6);
    let run = |most: u32, dry_run: bool| {
        let request = RunInstances {
            launch_template: Some(LaunchTemplateSpecification {
                launch_template_name: Some("nodes".to_owned()),
                ..LaunchTemplateSpecification::default()
            }),
            instance_type: Some("m5.large".to_owned()),
            subnet_id: Some(account().subnets[0].id.clone()),
            min_count: Some(1),
            max_count: Some(most),
            dry_run,
            ..RunInstances::default()
        };
        ec2.run_instances(&request)
    };
    assert_eq!(run(4, true).unwrap_err().code, "DryRunOperation", "a dry run looks at no quota");
    let refused = run(4, false).unwrap_err();
    assert!(refused.code == "VcpuLimitExceeded" && refused.message.contains("limit of 6"), "{refused}");
    assert!(ec2.instances().is_empty());
    assert_eq!(run(3, false).unwrap().len(), 3);
}

#[test]
fn families_that_share_a_quota() {
    let families = [
        ("m7i-flex.large", Some(QuotaFamily::Standard)),
        ("t4g.nano", Some(QuotaFamily::Standard)),
        ("im4gn.large", Some(QuotaFamily::Standard)),
        ("hpc7g.4xlarge", Some(QuotaFamily::Hpc)),
        ("g4dn.xlarge", Some(QuotaFamily::GAndVt)),
        ("gr6.4xlarge", Some(QuotaFamily::GAndVt)),
        ("vt1.3xlarge", Some(QuotaFamily::GAndVt)),
        ("p5.48xlarge", Some(QuotaFamily::P)),
        ("trn1.2xlarge", Some(QuotaFamily::Trn)),
        ("inf2.xlarge", Some(QuotaFamily::Inf)),
        ("dl2q.24xlarge", Some(QuotaFamily::Dl)),
        ("f1.2xlarge", Some(QuotaFamily::F)),
        ("x2gd.medium", Some(QuotaFamily::X)),
        ("u-6tb1.metal", Some(QuotaFamily::HighMemory)),
        ("u7i-12tb.224xlarge", Some(QuotaFamily::HighMemory)),
        ("mac2.metal", None),
    ];
    for (instance_type, family) in families {
        assert_eq!(QuotaFamily::new(instance_type), family, "{instance_type}");
    }
}
