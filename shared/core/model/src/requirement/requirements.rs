//! Requirements of several labels.

use super::{Requirement, RequirementError, RequirementTerm};
use crate::{StringMap, labels};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The possible labels of a node: one [`Requirement`] for each key; other keys are free.
///
/// Each plan copies and compares those of every instance type. So keys and requirements are shared between copies, and lie
/// side by side in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requirements(pub(super) Vec<Entry>);

/// The requirement for one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    /// The hash of the key. Keys have long common prefixes, and numbers distinguish them without a comparison of text.
    pub(super) hash: u64,
    pub(super) key: Arc<str>,
    pub(super) requirement: Arc<Requirement>,
}

impl Entry {
    pub(super) fn new(key: &str, requirement: Requirement) -> Self {
        Self { hash: hash(key), key: key.into(), requirement: Arc::new(requirement) }
    }

    fn is(&self, hash: u64, key: &str) -> bool {
        self.hash == hash && *self.key == *key
    }
}

/// A number for a key, made of eight of its letters at a time. Two keys may have the same one.
fn hash(key: &str) -> u64 {
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    let (words, last) = key.as_bytes().as_chunks::<8>();
    let hash = words.iter().fold(0, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    if last.is_empty() {
        return hash;
    }
    mix(hash, last.iter().rev().fold(0, |word, letter| word << 8 | u64::from(*letter)))
}

impl Requirements {
    /// No requirement.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Each label's own value.
    #[must_use]
    pub fn from_labels(map: &StringMap) -> Self {
        let mut requirements = Self::new();
        for (key, value) in map {
            requirements.add(key, Requirement::one_of([value.as_str()]));
        }
        requirements
    }

    /// Reads the API's form; several items for one key all hold.
    ///
    /// # Errors
    /// The first item that cannot be read.
    pub fn from_terms<'a>(terms: impl IntoIterator<Item = &'a RequirementTerm>) -> Result<Self, RequirementError> {
        let mut requirements = Self::new();
        for term in terms {
            requirements.add(&term.key, Requirement::from_term(term)?);
        }
        Ok(requirements)
    }

    /// The API's form, in the order of the keys.
    #[must_use]
    pub fn to_terms(&self) -> Vec<RequirementTerm> {
        self.iter().flat_map(|(key, requirement)| requirement.to_terms(key)).collect()
    }

    /// Narrows a key by a further requirement. The key is normalised first.
    pub fn add(&mut self, key: &str, requirement: Requirement) {
        let key = labels::normalize(key);
        match self.0.binary_search_by(|entry| (*entry.key).cmp(key)) {
            Ok(place) => {
                let present = &mut self.0[place].requirement;
                *present = Arc::new(present.intersection(&requirement));
            }
            Err(place) => self.0.insert(place, Entry::new(key, requirement)),
        }
    }

    /// Narrows by all of the other requirements.
    pub fn add_all(&mut self, others: &Self) {
        *self = self.with(others);
    }

    /// Both sets of requirements together.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        let mut both = Vec::with_capacity(self.0.len() + others.0.len());
        let mut left = others.0.as_slice();
        for ours in &self.0 {
            let before = left.iter().take_while(|theirs| theirs.key < ours.key).count();
            both.extend_from_slice(&left[..before]);
            left = &left[before..];
            match left.split_first() {
                Some((theirs, rest)) if theirs.key == ours.key => {
                    let requirement = Arc::new(ours.requirement.intersection(&theirs.requirement));
                    both.push(Entry { requirement, ..ours.clone() });
                    left = rest;
                }
                _ => both.push(ours.clone()),
            }
        }
        both.extend_from_slice(left);
        Self(both)
    }

    /// The requirement for a key, if one stands.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        let key = labels::normalize(key);
        self.at(hash(key), key).map(|entry| &*entry.requirement)
    }

    /// Forgets a key.
    pub fn remove(&mut self, key: &str) {
        let key = labels::normalize(key);
        self.0.retain(|entry| *entry.key != *key);
    }

    /// The requirements in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Requirement)> {
        self.0.iter().map(|entry| (&*entry.key, &*entry.requirement))
    }

    /// The normalised key with this hash.
    fn at(&self, hash: u64, key: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.is(hash, key))
    }

    /// Whether there are no requirements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The requirements that are different, or missing, in `others`.
    #[must_use]
    pub fn other_than(&self, others: &Self) -> Self {
        let stated = |ours: &&Entry| {
            let theirs = others.at(ours.hash, &ours.key);
            theirs.is_some_and(|theirs| {
                Arc::ptr_eq(&theirs.requirement, &ours.requirement) || theirs.requirement == ours.requirement
            })
        };
        Self(self.0.iter().filter(|ours| !stated(ours)).cloned().collect())
    }

    /// Whether both have a requirement for a common key.
    #[must_use]
    pub fn shares_key_with(&self, others: &Self) -> bool {
        self.0.iter().any(|ours| others.at(ours.hash, &ours.key).is_some())
    }

    /// The first key on which both cannot be met at once. `None` means that they intersect.
    #[must_use]
    pub fn first_conflict<'a>(&self, others: &'a Self) -> Option<&'a str> {
        let conflict = |ours: &Entry, theirs: &'a Entry| {
            (!ours.requirement.intersects(&theirs.requirement)).then_some(&*theirs.key)
        };
        // Both are in the order of their keys, so the first key is the same whichever is gone through.
        if self.0.len() < others.0.len() {
            self.0.iter().find_map(|ours| conflict(ours, others.at(ours.hash, &ours.key)?))
        } else {
            others.0.iter().find_map(|theirs| conflict(self.at(theirs.hash, &theirs.key)?, theirs))
        }
    }

    /// Whether both can be met at once. A key that only one of them has is free in the other.
    #[must_use]
    pub fn intersects(&self, others: &Self) -> bool {
        self.first_conflict(others).is_none()
    }

    /// The first key of `others` that nodes described by `self` cannot meet: a label that `self` does not define though
    /// `others` needs it, or one on which they conflict. `None` means compatible.
    ///
    /// `undefined_is_free` returns which keys may be missing from `self`: the well-known labels where a node is still
    /// to be launched, none where it exists.
    #[must_use]
    pub fn first_incompatible<'a>(
        &self,
        others: &'a Self,
        undefined_is_free: impl Fn(&str) -> bool,
    ) -> Option<&'a str> {
        let cannot_be_met = |theirs: &&Entry| match self.at(theirs.hash, &theirs.key) {
            Some(ours) => !ours.requirement.intersects(&theirs.requirement),
            None => !theirs.requirement.allows_absence() && !undefined_is_free(&theirs.key),
        };
        others.0.iter().find(cannot_be_met).map(|entry| &*entry.key)
    }

    /// The labels that the requirements fix: those with a single allowed value.
    #[must_use]
    pub fn single_values(&self) -> StringMap {
        self.iter().filter_map(|(key, requirement)| Some((key.to_owned(), requirement.single()?.to_owned()))).collect()
    }
}

impl FromIterator<(String, Requirement)> for Requirements {
    fn from_iter<I: IntoIterator<Item = (String, Requirement)>>(iter: I) -> Self {
        let mut requirements = Self::new();
        for (key, requirement) in iter {
            requirements.add(&key, requirement);
        }
        requirements
    }
}

impl<const N: usize> From<[(&str, Requirement); N]> for Requirements {
    fn from(entries: [(&str, Requirement); N]) -> Self {
        entries.into_iter().map(|(key, requirement)| (key.to_owned(), requirement)).collect()
    }
}

impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, requirement)) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{key} {requirement}")?;
        }
        Ok(())
    }
}

impl Serialize for Requirements {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_terms().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Requirements {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let terms = Vec::<RequirementTerm>::deserialize(deserializer)?;
        Self::from_terms(&terms).map_err(serde::de::Error::custom)
    }
}
