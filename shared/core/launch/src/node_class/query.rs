//! Selector terms as EC2 filters, and as text.

use nodeless_api::nodeclass::selectors::SelectorTags;

/// Filters of one describe call: names and values.
pub type Query = Vec<(String, Vec<String>)>;

/// Filters for all of these tags. `*` matches every value of the key.
pub fn tag_filters(tags: &SelectorTags) -> Query {
    tags.iter()
        .map(|(key, value)| match value.as_str() {
            "*" | "" => ("tag-key".to_owned(), vec![key.clone()]),
            value => (format!("tag:{key}"), vec![value.to_owned()]),
        })
        .collect()
}

/// The text of the terms: the tags, id and name of each.
pub fn terms_in_words<'a>(
    terms: impl Iterator<Item = (Option<&'a SelectorTags>, Option<&'a str>, Option<&'a str>)>,
) -> String {
    let words: Vec<String> = terms
        .map(|(tags, id, name)| {
            let mut words = Vec::new();
            words.extend(id.map(|id| format!("id {id}")));
            words.extend(name.map(|name| format!("name {name}")));
            if let Some(tags) = tags.filter(|tags| !tags.is_empty()) {
                let pairs: Vec<String> = tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
                words.push(format!("tags {}", pairs.join(" ")));
            }
            words.join(" and ")
        })
        .collect();
    words.join(", or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_described_as_text() {
        let tags = SelectorTags::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "*".to_owned())]);
        let words = terms_in_words([(Some(&tags), None, Some("x")), (None, Some("sg-1"), None)].into_iter());
        assert_eq!(words, "name x and tags a=1 b=*, or id sg-1");
    }
}
