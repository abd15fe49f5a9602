//! Limits of NodePools and of the cluster.

use super::columns::WIDE;
use crate::line::{Line, Tone};
use crate::objects::pool::LimitRow;
use crate::text::{bar, percent};

pub(super) fn limits_line(start: &str, limits: &[LimitRow], width: usize) -> Line {
    limits.iter().fold(Line::new(Tone::Dim, start), |line, limit| {
        line.with(limit_tone(limit), format!("{}  ", limit_text(limit, width)))
    })
}

fn limit_tone(limit: &LimitRow) -> Tone {
    match limit.share {
        1.0.. => Tone::Bad,
        0.8.. => Tone::Notice,
        _ => Tone::Plain,
    }
}

pub(crate) fn limit_text(limit: &LimitRow, width: usize) -> String {
    let resource = limit.resource.strip_prefix("nodeless.sh/").unwrap_or(&limit.resource);
    let bar = if width < WIDE { String::new() } else { format!("{} ", bar(limit.share, 6)) };
    format!("{resource} {bar}{} of {} ({})", limit.used, limit.limit, percent(limit.share))
}
