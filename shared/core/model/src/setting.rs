//! Annotations of nodeless, parsed once: what an object sets, what it leaves out, and what is invalid.

use crate::{InvalidAnnotation, StringMap};

/// The value of an annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Setting<T> {
    /// The object does not have the annotation.
    #[default]
    Unset,
    /// A valid value.
    Valid(T),
    /// An invalid value, which has the effect that the message states.
    Invalid(InvalidAnnotation),
}

/// What an annotation means: its key, its valid values, and the effect of an invalid one, as messages and documentation state them.
pub struct Definition<T> {
    pub(crate) key: &'static str,
    /// The value, or what is wrong with it beyond not being a valid one.
    pub(crate) parse: fn(&str) -> Result<T, Option<String>>,
    pub(crate) valid: &'static str,
    pub(crate) effect: &'static str,
}

impl<T> Setting<T> {
    pub(crate) fn read(annotations: &StringMap, definition: &Definition<T>) -> Self {
        let Some(text) = annotations.get(definition.key) else { return Self::Unset };
        match (definition.parse)(text) {
            Ok(value) => Self::Valid(value),
            Err(why) => Self::Invalid(InvalidAnnotation::Value {
                key: definition.key,
                value: text.clone(),
                effect: definition.effect,
                why: why.map(|why| why + "; ").unwrap_or_default(),
                valid: definition.valid.replace('`', ""),
            }),
        }
    }

    /// The value, if it is valid.
    #[must_use]
    pub const fn valid(&self) -> Option<&T> {
        match self {
            Self::Valid(value) => Some(value),
            Self::Unset | Self::Invalid(_) => None,
        }
    }

    /// What is wrong with the value.
    #[must_use]
    pub const fn invalid(&self) -> Option<&InvalidAnnotation> {
        match self {
            Self::Invalid(invalid) => Some(invalid),
            Self::Unset | Self::Valid(_) => None,
        }
    }

    /// The same annotation, if its value does not contradict other fields of its object.
    #[must_use]
    pub(crate) fn unless(self, contradiction: impl FnOnce(&T) -> Option<InvalidAnnotation>) -> Self {
        match self.valid().and_then(contradiction) {
            Some(invalid) => Self::Invalid(invalid),
            None => self,
        }
    }
}

/// Defines the annotations of one kind of object. scripts/docs/reference.py reads the rows:
/// `field: type = key, parser, "valid values", "effect of an invalid value";`
macro_rules! options {
    ($(#[$about:meta])* $name:ident {
        $($(#[$doc:meta])* $vis:vis $field:ident: $value:ty = $key:expr, $parse:expr, $valid:literal, $effect:literal;)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            /// All annotations in the domain of nodeless, as written.
            annotations: $crate::StringMap,
            $($(#[$doc])* $vis $field: $crate::setting::Setting<$value>,)+
        }

        impl $name {
            /// The keys of the annotations that are read.
            pub const KEYS: &'static [&'static str] = &[$($key),+];

            /// From all annotations of an object.
            #[must_use]
            pub fn new(annotations: &$crate::StringMap) -> Self {
                let own = annotations.iter().filter(|(key, _)| $crate::labels::is_ours(key));
                let annotations: $crate::StringMap = own.map(|(key, value)| (key.clone(), value.clone())).collect();
                Self { $($field: Self::$field(&annotations),)+ annotations }
            }

            $(pub(crate) fn $field(annotations: &$crate::StringMap) -> $crate::setting::Setting<$value> {
                $crate::setting::Setting::read(annotations, &$crate::setting::Definition {
                    key: $key,
                    parse: $parse,
                    valid: $valid,
                    effect: $effect,
                })
            })+

            /// The invalid values.
            pub fn invalid(&self) -> impl Iterator<Item = &$crate::InvalidAnnotation> {
                [$(self.$field.invalid()),+].into_iter().flatten()
            }

            /// The annotations in the domain of nodeless that are not read.
            pub fn unknown(&self) -> impl Iterator<Item = &str> {
                self.annotations.keys().map(String::as_str).filter(|key| !Self::KEYS.contains(key))
            }

            /// Sets an annotation, or removes it.
            pub fn set(&mut self, key: &str, value: Option<&str>) {
                let mut annotations = std::mem::take(&mut self.annotations);
                annotations.remove(key);
                annotations.extend(value.map(|value| (key.to_owned(), value.to_owned())));
                *self = Self::new(&annotations);
            }
        }
    };
}
pub(crate) use options;
