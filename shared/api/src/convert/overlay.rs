//! NodeOverlays.

use super::{ConvertError, FieldError, requirements, resource_list, validate};
use crate::custom::nodeoverlay::NodeOverlay;
use nodeless_model as model;

impl TryFrom<&NodeOverlay> for model::NodeOverlay {
    type Error = ConvertError;

    /// An overlay that can be decoded but violates a rule is converted; `valid` contains the reason why it is not applied.
    fn try_from(overlay: &NodeOverlay) -> Result<Self, ConvertError> {
        let name = overlay.metadata.name.clone().unwrap_or_default();
        convert(overlay).map_err(|error| error.for_object(format!("NodeOverlay {name}")))
    }
}

fn convert(overlay: &NodeOverlay) -> Result<model::NodeOverlay, FieldError> {
    let spec = &overlay.spec;
    let problems = validate::node_overlay(overlay);
    let price = match (&spec.price, &spec.price_adjustment) {
        (Some(_), Some(_)) => {
            return Err(FieldError::new("spec.price", "set either spec.price or spec.priceAdjustment, not both"));
        }
        (Some(price), None) => Some(absolute(price)?),
        (None, Some(adjustment)) => Some(adjusted(adjustment)?),
        (None, None) => None,
    };
    Ok(model::NodeOverlay {
        name: overlay.metadata.name.clone().unwrap_or_default(),
        weight: spec.weight.unwrap_or(0),
        requirements: requirements(&spec.requirements, "spec.requirements")?,
        price,
        capacity: resource_list(&spec.capacity, "spec.capacity")?,
        valid: if problems.is_empty() { Ok(()) } else { Err(problems.join("; ").into()) },
    })
}

fn absolute(text: &str) -> Result<model::PriceChange, FieldError> {
    number(text).filter(|dollars| *dollars >= 0.0).map(model::PriceChange::Absolute).ok_or_else(|| {
        FieldError::new("spec.price", format!("{text:?} is not a price; write dollars per hour like 0.35"))
    })
}

fn adjusted(text: &str) -> Result<model::PriceChange, FieldError> {
    let wrong = || {
        let help = "is not an adjustment; write a signed number of dollars like -0.05 or a signed percentage like +10%";
        FieldError::new("spec.priceAdjustment", format!("{text:?} {help}"))
    };
    if !text.starts_with(['+', '-']) {
        return Err(wrong());
    }
    match text.strip_suffix('%') {
        Some(percent) => number(percent).filter(|percent| *percent >= -100.0).map(model::PriceChange::Percent),
        None => number(text).map(model::PriceChange::Add),
    }
    .ok_or_else(wrong)
}

fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}
