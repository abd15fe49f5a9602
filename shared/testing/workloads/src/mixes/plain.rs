//! Web pods.

use crate::build::pod;
use crate::draw::Draw;
use nodeless_model::Pod;

pub(super) fn pods(count: usize, seed: u64) -> Vec<Pod> {
    let mut draw = Draw::new(seed);
    (0..count).map(|index| web(format!("web-{seed}-{index:06}"), &mut draw)).collect()
}

pub(super) fn web(name: String, draw: &mut Draw) -> Pod {
    pod(name, draw.one_of(&[50, 100, 150, 200, 250]), draw.one_of(&[64, 128, 192, 256, 384, 512]))
}
