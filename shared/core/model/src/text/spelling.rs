//! The name that a misspelled one was probably meant to be.

/// How similar a name has to be to a known one, as a part of the letters that are equal.
const SIMILAR: f64 = 0.75;

/// The most similar of known things by their names, whatever the case of letters; `None` if none is similar.
pub fn nearest<T>(name: &str, known: impl IntoIterator<Item = T>, name_of: impl Fn(&T) -> &str) -> Option<T> {
    let name = name.to_lowercase();
    let similarity = |one: &T| strsim::normalized_damerau_levenshtein(&name_of(one).to_lowercase(), &name);
    let similar = known.into_iter().map(|one| (similarity(&one), one)).filter(|(similarity, _)| *similarity >= SIMILAR);
    similar.max_by(|one, two| one.0.total_cmp(&two.0)).map(|(_, one)| one)
}
