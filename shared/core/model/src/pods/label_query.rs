//! Label selectors in their text form, as in `kubectl get -l` and the parameter `labelSelector` of the API server.

use std::fmt;

/// A selector of objects by their labels: `app=web,tier!=db,zone in (a,b),!legacy,generation>5`. The empty one matches all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelQuery {
    requirements: Vec<LabelRequirement>,
}

/// A condition on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// What its value must be.
    pub operator: QueryOperator,
}

/// The operator of a condition, with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryOperator {
    /// The value is one of these.
    In(Vec<String>),
    /// The label is absent or its value is none of these.
    NotIn(Vec<String>),
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The value is an integer greater than this.
    Greater(i64),
    /// The value is an integer less than this.
    Less(i64),
}

/// Why a text is not a label selector; the text names the part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LabelQueryError(String);

impl LabelQuery {
    /// A selector of objects that meet all of these.
    #[must_use]
    pub const fn new(requirements: Vec<LabelRequirement>) -> Self {
        Self { requirements }
    }

    /// Parses the text form.
    ///
    /// # Errors
    /// When the text is not a selector.
    pub fn parse(selector: &str) -> Result<Self, LabelQueryError> {
        let parts = split_outside_parentheses(selector).into_iter().map(str::trim).filter(|part| !part.is_empty());
        parts.map(requirement).collect::<Result<_, _>>().map(Self::new).map_err(LabelQueryError)
    }

    /// Whether the selector matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether labels match; `value_of` returns the value of a label.
    pub fn matches<'l>(&self, value_of: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.operator.admits(value_of(&requirement.key)))
    }
}

impl QueryOperator {
    fn admits(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|value| values.iter().any(|other| other == value)),
            Self::NotIn(values) => value.is_none_or(|value| values.iter().all(|other| other != value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Greater(bound) => number().is_some_and(|value| value > *bound),
            Self::Less(bound) => number().is_some_and(|value| value < *bound),
        }
    }
}

impl fmt::Display for LabelQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            write!(f, "{}{requirement}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.operator {
            QueryOperator::In(values) => match &values[..] {
                [value] => write!(f, "{key}={value}"),
                _ => write!(f, "{key} in ({})", values.join(",")),
            },
            QueryOperator::NotIn(values) => match &values[..] {
                [value] => write!(f, "{key}!={value}"),
                _ => write!(f, "{key} notin ({})", values.join(",")),
            },
            QueryOperator::Exists => f.write_str(key),
            QueryOperator::DoesNotExist => write!(f, "!{key}"),
            QueryOperator::Greater(bound) => write!(f, "{key}>{bound}"),
            QueryOperator::Less(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

fn requirement(part: &str) -> Result<LabelRequirement, String> {
    let make = |key: &str, operator| {
        let key = key.trim();
        if key.is_empty() || key.contains(char::is_whitespace) || key.contains(['(', ')', ',', '=', '!']) {
            return Err(format!("{part:?} has no valid label key"));
        }
        Ok(LabelRequirement { key: key.to_owned(), operator })
    };
    if let Some(key) = part.strip_prefix('!') {
        return make(key, QueryOperator::DoesNotExist);
    }
    if let Some((key, value)) = part.split_once("!=") {
        return make(key, QueryOperator::NotIn(vec![label_value(value)?]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return make(key, QueryOperator::In(vec![label_value(value)?]));
    }
    for (separator, greater) in [('>', true), ('<', false)] {
        if let Some((key, bound)) = part.split_once(separator) {
            let bound = bound.trim().parse().map_err(|_| format!("{part:?} compares with no integer"))?;
            return make(key, if greater { QueryOperator::Greater(bound) } else { QueryOperator::Less(bound) });
        }
    }
    let Some((head, rest)) = part.split_once('(') else { return make(part, QueryOperator::Exists) };
    let inside = rest.trim_end().strip_suffix(')').ok_or_else(|| format!("{part:?} lacks a closing ')'"))?;
    let values = inside.split(',').map(label_value).collect::<Result<_, _>>()?;
    match head.split_whitespace().collect::<Vec<_>>().as_slice() {
        [key, "in"] => make(key, QueryOperator::In(values)),
        [key, "notin"] => make(key, QueryOperator::NotIn(values)),
        _ => Err(format!("{part:?} needs an operator: in or notin")),
    }
}

/// The value of a label in a selector. The API server rejects an invalid label value.
fn label_value(text: &str) -> Result<String, String> {
    let value = text.trim();
    let is_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    let is_valid = bytes.len() <= 63
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    if is_valid { Ok(value.to_owned()) } else { Err(format!("{value:?} is no value of a label")) }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.extend(text.get(start..index));
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_of_kubectl_is_evaluated() {
        let labels = [("app", "web"), ("zone", "a"), ("generation", "6")];
        let matches = |text: &str| {
            let value = |key: &str| labels.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
            LabelQuery::parse(text).unwrap().matches(value)
        };
        for text in
            ["", "app", "app=web", "app==web,zone in (a, b)", "tier!=db", "tier notin (db)", "!tier", "generation>5"]
        {
            assert!(matches(text), "{text}");
        }
        for text in ["tier", "app=api", "app!=web", "zone notin (a,b)", "!app", "generation<6", "app>1"] {
            assert!(!matches(text), "{text}");
        }
    }

    #[test]
    fn the_text_is_parsed_back_and_what_is_no_selector_is_an_error() {
        let text = "app=web,tier!=db,zone in (a,b),os notin (w,x),gpu,!legacy,generation>5,age<3";
        assert_eq!(LabelQuery::parse(text).unwrap().to_string(), text);
        for text in
            ["app in web", "app in (web", "a b", "=web", "app=we b", "generation>x", "app=-", "{{ .Values.a }}=b"]
        {
            assert!(LabelQuery::parse(text).is_err(), "{text}");
        }
    }
}
