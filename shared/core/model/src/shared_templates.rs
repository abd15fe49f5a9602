//! The templates of many pods, each of which is kept once.

use crate::PodTemplate;
use std::collections::HashSet;
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
