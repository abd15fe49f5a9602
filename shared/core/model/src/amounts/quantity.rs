//! Kubernetes resource quantities (`100m`, `1Gi`, `1e3`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

/// A Kubernetes quantity, kept as a whole number of thousandths of its unit (milli-cores, milli-bytes, milli-devices).
///
/// All resources have the same representation, so sums and comparisons need no knowledge of the unit. The range is ±9.2e15 units
/// (8 PiB of memory); arithmetic saturates at its ends. Like Kubernetes, a finer fraction than a thousandth is rounded up (away
/// from zero).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(i64);

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity: {why}; write a number with an optional suffix such as 100m, 1.5, 2Gi or 1e3")]
pub struct ParseQuantityError {
    text: String,
    why: &'static str,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest quantity that can be held; sums stop here.
    pub const MAX: Self = Self(i64::MAX);

    /// A quantity of whole units (cores, bytes, devices).
    #[must_use]
    pub const fn from_units(units: i64) -> Self {
        Self(units.saturating_mul(1000))
    }

    /// A quantity of thousandths of a unit, such as milli-cores.
    #[must_use]
    pub const fn from_milli(milli: i64) -> Self {
        Self(milli)
    }

    /// A quantity of mebibytes (2^20 bytes).
    #[must_use]
    pub const fn from_mebibytes(mebibytes: i64) -> Self {
        Self::from_units(mebibytes.saturating_mul(1 << 20))
    }

    /// Thousandths of a unit.
    #[must_use]
    pub const fn milli(self) -> i64 {
        self.0
    }

    /// Whole units, rounded up (away from zero) as Kubernetes' `Value()` does.
    #[must_use]
    pub const fn units(self) -> i64 {
        let whole = self.0 / 1000;
        match self.0 % 1000 {
            0 => whole,
            r if r > 0 => whole + 1,
            _ => whole - 1,
        }
    }

    /// The quantity in units as a floating-point number, for ratios and prices only.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "ratios and prices need no more than 53 bits")]
    pub const fn as_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// Whether the quantity is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The difference, never below zero.
    #[must_use]
    pub fn saturating_sub_to_zero(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0).max(0))
    }

    /// This many times the quantity.
    #[must_use]
    pub const fn times(self, count: i64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// Canonical text for cpu-like (decimal) resources: whole units, else milli (`4`, `3920m`).
    #[must_use]
    pub fn to_decimal_string(self) -> String {
        if self.0 % 1000 == 0 { (self.0 / 1000).to_string() } else { format!("{}m", self.0) }
    }

    /// Canonical text for byte-like (binary) resources: the largest binary suffix that divides it (`512Mi`).
    #[must_use]
    pub fn to_binary_string(self) -> String {
        if self.0 % 1000 != 0 {
            return format!("{}m", self.0);
        }
        let bytes = self.0 / 1000;
        if bytes != 0 {
            for (suffix, shift) in [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)] {
                if bytes % (1_i64 << shift) == 0 {
                    return format!("{}{suffix}", bytes >> shift);
                }
            }
        }
        bytes.to_string()
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    /// Parses Kubernetes' grammar: sign, digits with an optional fraction, and a binary suffix (`Ki`..`Ei`), a decimal
    /// suffix (`n`, `u`, `m`, `k`, `M`, `G`, `T`, `P`, `E`) or a decimal exponent (`e3`, `E-2`).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text, 3).map(Self)
    }
}

impl Quantity {
    /// Parses a text to millionths of a unit, with the same grammar and rounding: prices are finer than thousandths.
    ///
    /// # Errors
    /// Where the text is no quantity.
    pub fn parse_millionths(text: &str) -> Result<i64, ParseQuantityError> {
        Self::parse(text, 6)
    }

    /// A text as a whole number of units times ten to the power of minus `decimals`.
    fn parse(text: &str, decimals: i32) -> Result<i64, ParseQuantityError> {
        let error = |why| ParseQuantityError { text: text.to_owned(), why };
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.bytes().position(|b| !b.is_ascii_digit() && b != b'.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(error("it does not begin with a number"));
        }
        if fraction.contains('.') {
            return Err(error("it has two decimal points"));
        }
        let (base, exponent): (i128, i32) = parse_suffix(suffix).ok_or_else(|| error("its suffix is unknown"))?;
        // Digits as an integer, scaled by a power of ten: whole.fraction = digits * 10^-fraction.len().
        let mut digits: i128 = 0;
        for byte in whole.bytes().chain(fraction.bytes()) {
            digits = digits
                .checked_mul(10)
                .and_then(|d| d.checked_add(i128::from(byte - b'0')))
                .ok_or_else(|| error("it has too many digits"))?;
        }
        let scale = exponent - i32::try_from(fraction.len()).map_err(|_| error("it has too many digits"))? + decimals;
        let amount = scaled(digits.saturating_mul(base), scale);
        let amount = i64::try_from(amount).unwrap_or(i64::MAX);
        Ok(if negative { -amount } else { amount })
    }
}

/// `value * 10^power` for a value that is not negative, rounded up, saturating.
fn scaled(mut value: i128, power: i32) -> i128 {
    if value == 0 {
        return 0;
    }
    for _ in 0..power {
        value = value.saturating_mul(10);
        if value == i128::MAX {
            break;
        }
    }
    let mut remainder = false;
    for _ in power..0 {
        remainder |= value % 10 != 0;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    value.saturating_add(i128::from(remainder))
}

/// The factor and the power of ten of a suffix.
fn parse_suffix(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            (1, exponent.parse::<i32>().ok().filter(|e| e.abs() <= 64)?)
        }
    })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_decimal_string())
    }
}

impl Add for Quantity {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Quantity {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Neg for Quantity {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Accepts a string, and a bare number as YAML files often have it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as \"100m\" or \"1Gi\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E>(self, units: i64) -> Result<Quantity, E> {
                Ok(Quantity::from_units(units))
            }
            fn visit_u64<E>(self, units: u64) -> Result<Quantity, E> {
                Ok(Quantity::from_units(i64::try_from(units).unwrap_or(i64::MAX)))
            }
            fn visit_f64<E: serde::de::Error>(self, units: f64) -> Result<Quantity, E> {
                units.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_suffix() {
        for (text, milli) in [
            ("0", 0),
            ("1", 1000),
            ("100m", 100),
            ("1.5", 1500),
            (".5", 500),
            ("5.", 5000),
            ("-250m", -250),
            ("+2", 2000),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("2k", 2_000_000),
            ("1e3", 1_000_000),
            ("1E3", 1_000_000),
            ("12E-1", 1200),
            ("1n", 1),
            ("1500u", 2),
            ("0.0005", 1),
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap().milli(), milli, "{text}");
        }
        assert_eq!("9E".parse::<Quantity>().unwrap(), Quantity::MAX);
        assert_eq!("1e60".parse::<Quantity>().unwrap(), Quantity::MAX);
    }

    #[test]
    fn refuses_what_is_no_quantity() {
        for text in ["", "Gi", "1gi", "1.2.3", "1 Gi", "--1", "1e", "1e999", "NaN"] {
            let error = text.parse::<Quantity>().unwrap_err();
            assert!(error.to_string().contains("is not a quantity"), "{text}: {error}");
        }
    }

    #[test]
    fn prints_the_canonical_form() {
        assert_eq!(Quantity::from_milli(3920).to_decimal_string(), "3920m");
        assert_eq!(Quantity::from_units(4).to_decimal_string(), "4");
        assert_eq!(Quantity::from_mebibytes(2048).to_binary_string(), "2Gi");
        assert_eq!(Quantity::from_mebibytes(1500).to_binary_string(), "1500Mi");
        assert_eq!(Quantity::ZERO.to_binary_string(), "0");
    }

    #[test]
    fn whole_units_round_away_from_zero() {
        assert_eq!(Quantity::from_milli(1001).units(), 2);
        assert_eq!(Quantity::from_milli(-1001).units(), -2);
        assert_eq!(Quantity::from_milli(2000).units(), 2);
    }
}
