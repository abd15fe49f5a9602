//! The templates of many pods, each of which is kept once.

use crate::{Pod, PodTemplate};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// The number of templates up to which unused ones are kept.
const FEW: usize = 256;

/// The known templates. Pods with equal templates share one of them.
#[derive(Debug, Default)]
pub struct SharedTemplates {
    known: HashSet<Arc<PodTemplate>>,
    /// The number that was left when unused templates were dropped.
    used: usize,
}

impl SharedTemplates {
    /// Replaces a template with a known one that is equal, or remembers it.
    pub fn share(&mut self, template: &mut Arc<PodTemplate>) {
        if let Some(known) = self.known.get(template) {
            *template = Arc::clone(known);
            return;
        }
        if self.known.len() >= FEW.max(2 * self.used) {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.used = self.known.len();
        }
        self.known.insert(Arc::clone(template));
    }
}

/// What follows from the namespace and the template of pods alone, so that it is computed once for all pods that share both.
#[derive(Clone, Debug)]
pub struct ByTemplate<'a, T> {
    /// By the address of the template, which no other one has while its pods are borrowed.
    known: HashMap<(usize, &'a str), T, BuildHasherDefault<AddressHasher>>,
}

impl<T> Default for ByTemplate<'_, T> {
    fn default() -> Self {
        Self { known: HashMap::default() }
    }
}

impl<'a, T: Clone> ByTemplate<'a, T> {
    /// What is known of the pods like this one.
    #[must_use]
    pub fn get(&self, pod: &'a Pod) -> Option<&T> {
        self.known.get(&key(pod))
    }

    /// Remembers what follows from the template of a pod, and returns what was known before.
    pub fn insert(&mut self, pod: &'a Pod, value: T) -> Option<T> {
        self.known.insert(key(pod), value)
    }

    /// All that is known.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.known.values_mut()
    }

    /// What is known of the pods like this one; computed for the first of them.
    pub fn get_or_insert_with(&mut self, pod: &'a Pod, make: impl FnOnce() -> T) -> T {
        self.known.entry(key(pod)).or_insert_with(make).clone()
    }
}

/// A quick hash of addresses, which nobody can choose (FxHash).
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        // Maps choose the place by the lowest bits, which a multiplication mixes least.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517C_C1B7_2722_0A95);
    }
}

fn key(pod: &Pod) -> (usize, &str) {
    (Arc::as_ptr(&pod.template).addr(), &pod.namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(priority: i32) -> Arc<PodTemplate> {
        Arc::new(PodTemplate { priority, ..PodTemplate::default() })
    }

    #[test]
    fn equal_templates_are_one() {
        let mut shared = SharedTemplates::default();
        let [mut first, mut other, mut second] = [template(1), template(2), template(1)];
        for template in [&mut first, &mut other, &mut second] {
            shared.share(template);
        }
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!((first.priority, other.priority), (1, 2));
    }

    #[test]
    fn what_follows_from_a_template_is_computed_once_for_each_namespace() {
        let pod = |namespace: &str, template: &Arc<PodTemplate>| Pod {
            namespace: namespace.into(),
            template: Arc::clone(template),
            ..Pod::default()
        };
        let (one, other) = (template(1), template(1));
        let pods = [pod("a", &one), pod("a", &one), pod("b", &one), pod("a", &other)];
        let mut known = ByTemplate::default();
        let mut made = 0;
        let found = pods.each_ref().map(|pod| {
            known.get_or_insert_with(pod, || {
                made += 1;
                made
            })
        });
        assert_eq!(found, [1, 1, 2, 3]);
        assert_eq!(known.get(&pods[2]), Some(&2));
    }

    #[test]
    fn templates_that_no_pod_has_any_more_are_dropped() {
        let mut shared = SharedTemplates::default();
        let mut kept = template(-1);
        shared.share(&mut kept);
        for priority in 0..10_000 {
            shared.share(&mut template(priority));
            assert!(shared.known.len() <= FEW, "{}", shared.known.len());
        }
        let mut again = template(-1);
        shared.share(&mut again);
        assert!(Arc::ptr_eq(&kept, &again));
    }
}
