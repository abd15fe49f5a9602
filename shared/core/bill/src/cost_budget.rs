//! Budgets: how many dollars a month may cost before nodeless warns.

use nodeless_model::money::Dollars;
use nodeless_model::{InvalidAnnotation, StringMap};

/// The annotation on a NodePool, or on the Namespace `kube-system` for the whole cluster: dollars a calendar month in UTC.
pub const BUDGET: &str = "nodeless.sh/dollars-per-month";

/// The budget in the annotations of an object; `None` without one.
///
/// # Errors
/// If the value is not a positive number. The message states what to do.
pub fn dollars_per_month(annotations: &StringMap) -> Result<Option<f64>, InvalidAnnotation> {
    let Some(text) = annotations.get(BUDGET) else { return Ok(None) };
    match text.parse::<f64>() {
        Ok(dollars) if dollars.is_finite() && dollars > 0.0 => Ok(Some(dollars)),
        _ => Err(InvalidAnnotation::Value {
            key: BUDGET,
            value: text.clone(),
            effect: "so there is no budget",
            valid: "a number of dollars such as 1500",
        }),
    }
}

/// A budget, and what it is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Dollars a month.
    pub dollars_per_month: f64,
    /// The costs of the month until now.
    pub this_month: f64,
    /// The costs of the whole month at the present pace.
    pub at_this_pace: f64,
}

/// Why a budget warns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The month has cost more already.
    Exceeded,
    /// The month costs more at the present pace.
    AtThisPace,
}

impl Budget {
    /// The warning, if there is a reason for one.
    #[must_use]
    pub fn warning(&self) -> Option<Warning> {
        if self.this_month > self.dollars_per_month {
            Some(Warning::Exceeded)
        } else if self.at_this_pace > self.dollars_per_month {
            Some(Warning::AtThisPace)
        } else {
            None
        }
    }

    /// The message of the warning, with advice; `None` without a warning.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        let Self { dollars_per_month, this_month, at_this_pace } = self;
        let (budget, spent, whole) = (Dollars(*dollars_per_month), Dollars(*this_month), Dollars(*at_this_pace));
        let what = match self.warning()? {
            Warning::Exceeded => format!("nodes have cost {spent} this month, more than the budget of {budget}"),
            Warning::AtThisPace => {
                format!(
                    "nodes cost {whole} this month at the present pace, more than the budget of {budget}; until now {spent}"
                )
            }
        };
        Some(format!(
            "{what}. `nodeless report` shows who spent it; a limit of the NodePool stops launches, {BUDGET} only warns"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_positive_number_of_dollars() {
        let of = |text: &str| dollars_per_month(&StringMap::from([(BUDGET.to_owned(), text.to_owned())]));
        assert_eq!(dollars_per_month(&StringMap::new()), Ok(None));
        assert_eq!(of("1500"), Ok(Some(1500.0)));
        assert_eq!(of("0.5"), Ok(Some(0.5)));
        for wrong in ["", "0", "-1", "much", "NaN", "inf", "1,500", "$5"] {
            assert!(
                of(wrong).unwrap_err().to_string().contains(&format!("{wrong:?}, so there is no budget")),
                "{wrong}"
            );
        }
    }

    #[test]
    fn it_warns_before_it_is_exceeded_and_names_the_budget() {
        let of = |this_month, at_this_pace| Budget { dollars_per_month: 100.0, this_month, at_this_pace };
        assert_eq!((of(50.0, 100.0).warning(), of(50.0, 100.0).message()), (None, None));
        assert_eq!(of(50.0, 100.01).warning(), Some(Warning::AtThisPace));
        assert_eq!(of(100.01, 120.0).warning(), Some(Warning::Exceeded));
        assert!(of(50.0, 130.0).message().unwrap().starts_with(
            "nodes cost $130.00 this month at the present pace, more than the budget of $100.00; until now $50.0000"
        ));
        assert!(of(101.0, 130.0).message().unwrap().starts_with("nodes have cost $101.00 this month, more than"));
    }
}
