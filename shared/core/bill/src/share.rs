//! The shares of pods in the price of their node.

use crate::hour::Amounts;
use nodeless_model::{Pod, ResourceList};

/// The resources that count as accelerators: those that AWS splits costs by.
const ACCELERATORS: [&str; 4] = ["nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"];

/// The weights of a vCPU, a GiB and an accelerator, as AWS weighs them in split cost allocation data: 9 to 1 for vCPU and GiB, and a
/// GPU nine times as much as a vCPU and a GiB together, of which the vCPU has 0.9 and the GiB 0.1.
const WEIGHTS: Amounts = Amounts { cpu: 9.0, memory: 1.0, gpu: 90.0 };

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// Resources as they are weighed.
pub(crate) fn amounts(resources: &ResourceList) -> Amounts {
    let of = |name| resources.get(name).as_f64();
    // `neuron` and `neuroncore` name the same devices, so the sum would count them twice.
    let gpu = ACCELERATORS.iter().map(|name| of(name)).fold(0.0, f64::max);
    Amounts { cpu: of("cpu"), memory: of("memory") / GIB, gpu }
}

fn weight(amounts: Amounts) -> f64 {
    WEIGHTS.cpu * amounts.cpu + WEIGHTS.memory * amounts.memory + WEIGHTS.gpu * amounts.gpu
}

/// The requests of each pod, and its share of the node, from 0 to 1. The sum of the shares is at most 1, also if pods request more
/// than is allocatable.
pub(crate) fn shares<'p>(pods: &[&'p Pod], allocatable: Amounts) -> Vec<(&'p Pod, Amounts, f64)> {
    let asked: Vec<(&Pod, Amounts)> =
        pods.iter().filter(|pod| !pod.is_terminal()).map(|pod| (*pod, amounts(&pod.template.requests))).collect();
    let whole = weight(allocatable).max(asked.iter().map(|(_, amounts)| weight(*amounts)).sum());
    let share = |amounts| if whole > 0.0 { weight(amounts) / whole } else { 0.0 };
    asked.into_iter().map(|(pod, amounts)| (pod, amounts, share(amounts))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::PodTemplate;
    use nodeless_model::Quantity;

    fn pod(milli: i64, mebibytes: i64, gpus: i64) -> Pod {
        let requests = ResourceList::from([
            ("cpu", Quantity::from_milli(milli)),
            ("memory", Quantity::from_mebibytes(mebibytes)),
            ("nvidia.com/gpu", Quantity::from_units(gpus)),
        ]);
        Pod { template: PodTemplate { requests, ..PodTemplate::default() }.into(), ..Pod::default() }
    }

    /// The example of AWS: `docs/report.md` cites it.
    #[test]
    fn a_share_is_that_of_the_example_of_aws() {
        let node = Amounts { cpu: 4.0, memory: 16.0, gpu: 0.0 };
        let one = pod(1000, 4096, 0);
        let (_, amounts, share) = shares(&[&one], node)[0];
        assert_eq!(amounts, Amounts { cpu: 1.0, memory: 4.0, gpu: 0.0 });
        assert!((share - 0.25).abs() < 1e-9);
        // p3.16xlarge: the unit cost is 1 / (9 * 8 + 0.1 * 488 + 0.9 * 64).
        let node = Amounts { cpu: 64.0, memory: 488.0, gpu: 8.0 };
        let one = pod(0, 0, 1);
        assert!((shares(&[&one], node)[0].2 - 9.0 / (9.0 * 8.0 + 0.1 * 488.0 + 0.9 * 64.0)).abs() < 1e-9);
    }

    #[test]
    fn pods_never_cost_more_than_their_node() {
        let (first, second) = (pod(3000, 0, 0), pod(6000, 0, 0));
        let all = shares(&[&first, &second], Amounts { cpu: 4.0, ..Amounts::default() });
        assert!((all[0].2 - 1.0 / 3.0).abs() < 1e-9 && (all[1].2 - 2.0 / 3.0).abs() < 1e-9);
        let nothing = pod(0, 0, 0);
        assert_eq!(shares(&[&nothing], Amounts::default())[0].2, 0.0);
    }
}
