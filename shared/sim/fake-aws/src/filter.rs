//! Filters and pages of describe calls.

use super::error::Ec2Error;
use super::objects::account::Tags;
use super::requests::{Describe, Filter};

/// Whether a value matches a filter's pattern: `*` matches any characters, `?` matches one, `\` escapes the next.
fn matches(pattern: &str, value: &str) -> bool {
    if !pattern.contains(['*', '?', '\\']) {
        return pattern == value;
    }
    fn go(pattern: &[char], value: &[char]) -> bool {
        match pattern.split_first() {
            None => value.is_empty(),
            Some(('*', rest)) => (0..=value.len()).any(|skip| go(rest, &value[skip..])),
            Some(('?', rest)) => value.split_first().is_some_and(|(_, value)| go(rest, value)),
            Some(('\\', [literal, rest @ ..])) => value.split_first().is_some_and(|(c, v)| c == literal && go(rest, v)),
            Some((literal, rest)) => value.split_first().is_some_and(|(c, value)| c == literal && go(rest, value)),
        }
    }
    let (pattern, value): (Vec<_>, Vec<_>) = (pattern.chars().collect(), value.chars().collect());
    go(&pattern, &value)
}

/// Values of all filters of a call together, by the message of EC2's error.
const MAX_VALUES: usize = 200;

/// Whether a resource passes all filters. `attribute` returns the values of a filter's name, or nothing for an unsupported name.
/// The tag filters are the same for every resource.
pub(super) fn passes(
    filters: &[Filter],
    tags: Option<&Tags>,
    attribute: impl Fn(&str) -> Option<Vec<String>>,
) -> Result<bool, Ec2Error> {
    let mut all = true;
    for filter in filters {
        if filter.values.is_empty() {
            return Err(Ec2Error::new(
                "InvalidParameterValue",
                format!("The filter '{}' has no values. Specify at least one.", filter.name),
            ));
        }
        let passes = |value: &String| filter.values.iter().any(|pattern| matches(pattern, value));
        let mut of_tags = tags.into_iter().flatten();
        let any = if let Some(key) = filter.name.strip_prefix("tag:") {
            tags.and_then(|tags| tags.get(key)).is_some_and(passes)
        } else {
            match filter.name.as_str() {
                "tag-key" => of_tags.any(|(key, _)| passes(key)),
                "tag-value" => of_tags.any(|(_, value)| passes(value)),
                name => attribute(name)
                    .ok_or_else(|| Ec2Error::new("InvalidParameterValue", format!("The filter '{name}' is invalid")))?
                    .iter()
                    .any(passes),
            }
        };
        all = all && any;
    }
    Ok(all)
}

/// One page of the entries, and the start of the next page.
pub(super) fn page<T>(
    request: &Describe,
    entries: Vec<T>,
    limits: std::ops::RangeInclusive<u32>,
) -> Result<(Vec<T>, Option<String>), Ec2Error> {
    if request.filters.iter().map(|filter| filter.values.len()).sum::<usize>() > MAX_VALUES {
        let message = format!("The maximum number of filter values specified on a single call is {MAX_VALUES}");
        return Err(Ec2Error::new("FilterLimitExceeded", message));
    }
    if let Some(size) = request.max_results.filter(|size| !limits.contains(size)) {
        let why = format!("Expecting a value between {} and {}.", limits.start(), limits.end());
        return Err(Ec2Error::invalid("MaxResults", size, &why));
    }
    let start = match request.next_token.as_deref() {
        None => 0,
        Some(token) => decode(token)
            .filter(|start| *start <= entries.len())
            .ok_or_else(|| Ec2Error::new("InvalidNextToken", format!("The token '{token}' is invalid.")))?,
    };
    let size = request.max_results.map_or(usize::MAX, |size| size as usize);
    let end = start.saturating_add(size).min(entries.len());
    let token = (end < entries.len()).then(|| encode(end));
    Ok((entries.into_iter().skip(start).take(end - start).collect(), token))
}

fn encode(start: usize) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(format!("page:{start}"))
}

fn decode(token: &str) -> Option<usize> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(token).ok()?;
    std::str::from_utf8(&bytes).ok()?.strip_prefix("page:")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_as_in_ec2() {
        assert!(matches("amazon-eks-node-*-v2026????", "amazon-eks-node-al2023-v20260101"));
        assert!(!matches("m5.*", "m5a.large"));
        assert!(matches("a\\*b", "a*b"));
        assert!(!matches("a\\*b", "axb"));
    }

    #[test]
    fn pages_cover_everything_once() {
        let mut request = Describe { max_results: Some(5), ..Describe::default() };
        let mut seen = Vec::new();
        loop {
            let (entries, token) = page(&request, (0..12).collect(), 5..=1000).unwrap();
            seen.extend(entries);
            request.next_token = token;
            if request.next_token.is_none() {
                break;
            }
        }
        assert_eq!(seen, (0..12).collect::<Vec<_>>());
        request.max_results = Some(4);
        assert_eq!(page(&request, vec![0], 5..=1000).unwrap_err().code, "InvalidParameterValue");
    }
}
