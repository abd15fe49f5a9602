//! Ages, prices, amounts and bars as text.

use crate::objects::amount::Amount;
use jiff::Timestamp;
use nodeless_model::money::{ByMonth, DollarsPerHour, amount};
pub(crate) use nodeless_model::plural::counted;
use nodeless_model::printable::printable_line;
use nodeless_model::resources::{format_quantity, name, shown_quantity};
use nodeless_model::{Quantity, ResourceList};
use std::borrow::Cow;
use textwrap::{Options, WordSplitter};

/// The age of something, as kubectl shows it: `45s`, `3m`, `5h`, `2d`.
pub(crate) fn age(created: Option<Timestamp>, now: Timestamp) -> String {
    created.map_or_else(|| "-".to_owned(), |created| span(now.duration_since(created).as_secs()))
}

/// The time until something happens.
pub(crate) fn until(time: Timestamp, now: Timestamp) -> String {
    span(time.duration_since(now).as_secs())
}

/// A duration in seconds, as kubectl shows it.
pub(crate) fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A price.
pub(crate) fn dollars(price: f64) -> String {
    DollarsPerHour(price).to_string()
}

/// A price by the hour and by the month of 730 hours.
pub(crate) fn cost(price: f64) -> String {
    format!("{}, {}", dollars(price), ByMonth(price))
}

/// A price without its unit, for a column whose heading has it.
pub(crate) fn price(price: Option<f64>) -> String {
    price.map_or_else(|| "-".to_owned(), amount)
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// CPU: `500m`, `4`.
pub(crate) fn cpu(millicores: i64) -> String {
    shown_quantity(name::CPU, Quantity::from_milli(millicores))
}

/// Memory: `16Gi`, `1536Mi`.
pub(crate) fn memory(bytes: i64) -> String {
    shown_quantity(name::MEMORY, Quantity::from_units(bytes))
}

/// Requests, as in the text of `nodeless plan`: `cpu 1, memory 2Gi, nvidia.com/gpu 1`.
pub(crate) fn requests(amount: Amount, extended: &ResourceList) -> String {
    let extended = extended.iter().map(|(name, amount)| format!(", {name} {}", format_quantity(name, amount)));
    format!(
        "cpu {}, memory {}{}",
        cpu(amount.cpu_millicores),
        memory(amount.memory_bytes),
        extended.collect::<String>()
    )
}

/// A bar of this number of cells, filled by a share.
pub(crate) fn bar(share: f64, cells: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "0 to 8 x cells"
    )]
    let eighths = (share.clamp(0.0, 1.0) * (cells * 8) as f64).round() as usize;
    // Any request is visible.
    let eighths = if share > 0.0 { eighths.max(1) } else { eighths };
    let (full, part) = (eighths / 8, EIGHTHS[eighths % 8]);
    let used = full + usize::from(!part.is_empty());
    format!("{}{part}{}", "█".repeat(full), "·".repeat(cells.saturating_sub(used)))
}

/// A text in exactly this number of characters: cut, with `…` at the end, or filled with spaces.
pub(crate) fn fit(text: &str, width: usize) -> String {
    let text = printable_line(text);
    let length = text.chars().count();
    if length <= width {
        let mut fitted: String = text.into_owned();
        fitted.extend(std::iter::repeat_n(' ', width - length));
        return fitted;
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// A text at the right end of this number of characters.
pub(crate) fn right(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length >= width { fit(text, width) } else { format!("{}{text}", " ".repeat(width - length)) }
}

/// The name of a node in a narrow column: without its domain.
pub(crate) fn short_name(name: &str, width: usize) -> String {
    let host = name.split_once('.').map_or(name, |(host, _)| host);
    fit(if name.chars().count() > width { host } else { name }, width)
}

/// A text in lines of at most this number of characters, broken at spaces.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let options = Options::new(width).break_words(false).word_splitter(WordSplitter::NoHyphenation);
    textwrap::wrap(&words.join(" "), options).into_iter().map(Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    #[test]
    fn ages_are_those_of_kubectl() {
        assert_eq!([45, 119, 120, 7_199, 7_200, 172_800].map(span), ["45s", "119s", "2m", "119m", "2h", "2d"]);
        assert_eq!(age(Some(at(5)), at(3)), "0s", "a clock that is behind makes no negative ages");
        assert_eq!(age(None, at(3)), "-");
    }

    #[test]
    fn a_bar_is_as_long_as_its_column_and_shows_the_smallest_share() {
        assert_eq!(bar(0.0, 4), "····");
        assert_eq!(bar(0.001, 4), "▏···");
        assert_eq!(bar(0.5, 4), "██··");
        assert_eq!(bar(1.7, 4), "████");
        assert!((0..=100).all(|percent| bar(f64::from(percent) / 100.0, 7).chars().count() == 7));
    }

    #[test]
    fn amounts_are_kubernetes_quantities() {
        assert_eq!([500, 4_000, 3_920].map(cpu), ["500m", "4", "3920m"]);
        assert_eq!([16_i64 << 30, 1_610_612_736, 512].map(memory), ["16Gi", "1536Mi", "512"]);
        assert_eq!(memory(15_076_684 << 10), "14723Mi", "the allocatable memory of a node is not in whole Mi");
    }

    #[test]
    fn texts_fit_their_columns() {
        assert_eq!((fit("abc", 5), fit("abcdef", 4), fit("abc", 0)), ("abc  ".into(), "abc…".into(), String::new()));
        assert_eq!(fit("a\nb\u{1b}", 5), "a b\u{fffd} ", "control characters do not reach the terminal");
        assert_eq!(right("7", 3), "  7");
        assert_eq!(short_name("ip-10-0-0-1.ec2.internal", 17), "ip-10-0-0-1      ");
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    }
}
