//! The annotation for a budget.

use crate::{InvalidAnnotation, StringMap};

/// The annotation on a NodePool, or on the Namespace `kube-system` for the whole cluster: dollars a calendar month in UTC.
pub const DOLLARS_PER_MONTH: &str = "nodeless.sh/dollars-per-month";

/// The budget in the annotations of an object; `None` without one.
///
/// # Errors
/// If the value is not a positive number. The message states what to do.
pub fn dollars_per_month(annotations: &StringMap) -> Result<Option<f64>, InvalidAnnotation> {
    let Some(text) = annotations.get(DOLLARS_PER_MONTH) else { return Ok(None) };
    match text.parse::<f64>() {
        Ok(dollars) if dollars.is_finite() && dollars > 0.0 => Ok(Some(dollars)),
        _ => Err(InvalidAnnotation::Value {
            key: DOLLARS_PER_MONTH,
            value: text.clone(),
            effect: "so there is no budget",
            valid: "a number of dollars such as 1500",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_positive_number_of_dollars() {
        let budget =
            |text: &str| dollars_per_month(&StringMap::from([(DOLLARS_PER_MONTH.to_owned(), text.to_owned())]));
        assert_eq!(dollars_per_month(&StringMap::new()), Ok(None));
        assert_eq!(budget("1500"), Ok(Some(1500.0)));
        assert_eq!(budget("0.5"), Ok(Some(0.5)));
        for wrong in ["", "0", "-1", "much", "NaN", "inf", "1,500", "$5"] {
            let why = budget(wrong).unwrap_err().to_string();
            assert!(why.contains(&format!("{wrong:?}, so there is no budget")), "{wrong}: {why}");
        }
    }
}
