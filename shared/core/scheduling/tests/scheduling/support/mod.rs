//! Small problems for tests: a handful of instance types at round prices, and short ways to write pods and NodePools.
#![allow(unreachable_pub)]

use nodeless_model::node_pool::PoolUsage;
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::*;
use nodeless_scheduling::{Advice, Options, PoolOffer, Problem, Solution, advise, solve};

/// Memory for each cpu, in GiB, and dollars per hour for each cpu, by family.
const FAMILIES: [(&str, i64, f64, &str); 4] =
    [("c9", 2, 0.04, "amd64"), ("m9", 4, 0.05, "amd64"), ("r9", 8, 0.065, "amd64"), ("m9g", 4, 0.04, "arm64")];
const SIZES: [(&str, i64); 6] =
    [("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16), ("8xlarge", 32), ("16xlarge", 64)];
pub const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

pub fn gib(amount: i64) -> Quantity {
    Quantity::from_mebibytes(amount * 1024)
}

/// Four families of six sizes, and one family with GPUs. Spot costs 40% of on-demand.
pub fn catalog() -> InstanceTypes {
    let mut types = Vec::new();
    for (family, memory, price, arch) in FAMILIES {
        for (size, cpu) in SIZES {
            types.push(instance_type(family, size, arch, (cpu, cpu * memory, 0), price * cpu as f64));
        }
    }
    types.push(instance_type("g9", "xlarge", "amd64", (4, 16, 1), 0.8));
    types.push(instance_type("g9", "12xlarge", "amd64", (48, 192, 4), 4.0));
    types.into()
}

/// An instance type with these vCPUs, GiB of memory, and GPUs.
pub fn instance_type(family: &str, size: &str, arch: &str, amounts: (i64, i64, i64), price: f64) -> InstanceType {
    let (cpu, memory, gpus) = amounts;
    let name = format!("{family}.{size}");
    let one = |value: &str| Requirement::one_of([value]);
    let gpu_name = if gpus > 0 { one("t9") } else { Requirement::does_not_exist() };
    let mut capacity = ResourceList::new()
        .with("cpu", Quantity::from_units(cpu))
        .with("memory", gib(memory))
        .with("pods", Quantity::from_units(110));
    if gpus > 0 {
        capacity.set("nvidia.com/gpu", Quantity::from_units(gpus));
    }
    let mut offerings = Vec::new();
    for zone in ZONES {
        for (capacity_type, share) in [(CapacityType::OnDemand, 1.0), (CapacityType::Spot, 0.4)] {
            offerings.push(Offering {
                zone: zone.into(),
                capacity_type,
                price: price * share,
                available: true,
                lacks_price: false,
                reservation: None,
                requirements: Requirements::new(),
            });
        }
    }
    InstanceType {
        requirements: Requirements::from([
            (labels::INSTANCE_TYPE, one(&name)),
            (labels::INSTANCE_FAMILY, one(family)),
            (labels::INSTANCE_SIZE, one(size)),
            (labels::INSTANCE_CPU, one(&cpu.to_string())),
            (labels::ARCH, one(arch)),
            (labels::OS, one("linux")),
            (labels::INSTANCE_GPU_NAME, gpu_name),
            (labels::ZONE, Requirement::one_of(ZONES)),
            (labels::CAPACITY_TYPE, Requirement::one_of(["on-demand", "spot"])),
        ]),
        name,
        capacity,
        ebs_volumes: None,
        root_volume: None,
        overhead: Overhead {
            kube_reserved: ResourceList::new().with("cpu", Quantity::from_milli(80)).with("memory", gib(1)),
            ..Overhead::default()
        },
        offerings,
    }
}

/// On-demand only, as that makes prices easy to read; tests with spot set it.
pub use nodeless_model::test_support::on_demand_node_pool as node_pool;
pub use nodeless_model::test_support::{labelled, pod, selector, topology_spread};

pub fn offer(pool: &NodePool) -> PoolOffer<'_> {
    PoolOffer { pool, instance_types: catalog(), usage: PoolUsage::default(), cluster: None }
}

pub fn pods(count: usize, cpu_milli: i64, memory_mib: i64) -> Vec<Pod> {
    (0..count).map(|index| pod(format!("pod-{cpu_milli}-{memory_mib}-{index:05}"), cpu_milli, memory_mib)).collect()
}

pub fn term(key: &str, operator: Operator, values: &[&str]) -> RequirementTerm {
    RequirementTerm {
        key: key.into(),
        operator,
        values: values.iter().map(|&value| value.to_owned()).collect(),
        min_values: None,
    }
}

pub fn problem<'a>(pods: &'a [Pod], pools: &'a [NodePool]) -> Problem<'a> {
    Problem { pods: pods.iter().collect(), node_pools: pools.iter().map(offer).collect(), ..Problem::default() }
}

/// Solves and has the checker look at the result.
pub fn solve_checked(problem: &Problem<'_>) -> Solution {
    solve_with(problem, &Options::default())
}

pub fn solve_with(problem: &Problem<'_>, options: &Options) -> Solution {
    let solution = solve(problem, options);
    let wrong = nodeless_checker::violations(problem, &solution, options);
    assert!(wrong.is_empty(), "{wrong:#?}\n{solution:#?}");
    solution
}

/// The reasons of the only pod that was left out.
pub fn reasons(solution: &Solution) -> Vec<String> {
    assert_eq!(solution.unschedulable.len(), 1, "{solution:#?}");
    solution.unschedulable[0].reasons.iter().map(ToString::to_string).collect()
}

/// The advice for the only pod that was left out.
pub fn advice(problem: &Problem<'_>) -> Advice {
    let solution = solve_checked(problem);
    assert_eq!(solution.unschedulable.len(), 1, "{solution:#?}");
    advise(problem, &solution, &solution.unschedulable, &Options::default()).advice.remove(0)
}

pub fn chosen(solution: &Solution) -> Vec<&str> {
    solution.launches.iter().map(|launch| launch.offering.instance_type.as_str()).collect()
}
