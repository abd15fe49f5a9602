//! Web pods and a few pods with GPUs.

use super::plain::web;
use crate::build::pod;
use crate::draw::Draw;
use nodeless_model::{Pod, Quantity};

pub(super) fn pods(count: usize, seed: u64) -> Vec<Pod> {
    let mut draw = Draw::new(seed);
    let one = |index: usize| {
        if !index.is_multiple_of(100) {
            return web(format!("site-{seed}-{index:06}"), &mut draw);
        }
        let (cpu, memory) = (draw.one_of(&[1000, 2000, 4000]), draw.one_of(&[4096, 8192, 16_384]));
        let mut pod = pod(format!("gpu-{seed}-{index:06}"), cpu, memory);
        pod.template_mut().requests.set("nvidia.com/gpu", Quantity::from_units(draw.one_of(&[1, 1, 1, 2])));
        pod
    };
    (0..count).map(one).collect()
}
