//! Whether the text of an object has only known fields, without a tree of it: most objects do.

use super::Shape;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// May be false although it has, such as with a field that is given twice.
pub(super) fn has_only_known(root: Shape<'_>, object: &RawValue) -> bool {
    Walk(root).deserialize(&mut serde_json::Deserializer::from_str(object.get())).is_ok()
}

/// Reads a value of a shape; an error is an unknown field.
struct Walk<'s>(Shape<'s>);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.0 {
            Shape::Open => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ()),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if matches!(self.0, Shape::Node(node) if node.items.is_some()) {
            // An object in place of a list is an error of its own.
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        while let Some(shape) = map.next_key_seed(Name(self.0))? {
            map.next_value_seed(Walk(shape))?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Walk(self.0.element()))?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The name of a field of an object of a shape.
struct Name<'s>(Shape<'s>);

impl<'de, 's> DeserializeSeed<'de> for Name<'s> {
    type Value = Shape<'s>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape<'s>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'s> Visitor<'_> for Name<'s> {
    type Value = Shape<'s>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a known field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Shape<'s>, E> {
        self.0.field(name).ok_or_else(|| E::custom("unknown field"))
    }
}
