//! Budgets: how many dollars a month may cost before nodeless warns.

use nodeless_model::labels::DOLLARS_PER_MONTH;
use nodeless_model::money::Dollars;

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
            "{what}. `nodeless report` shows who spent it; a limit of the NodePool stops launches, {DOLLARS_PER_MONTH} only warns"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
