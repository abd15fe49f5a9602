//! The time of a node, divided by hours and by what the node does.

use crate::hour::hour_of;
use jiff::{SignedDuration, Timestamp};

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// The node is not yet initialized.
    Starting,
    /// The node runs pods.
    Running,
    /// The node terminates.
    Leaving,
}

/// Part of the time of a node, within one hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    /// The hour that it counts for.
    pub(crate) hour: Timestamp,
    pub(crate) seconds: f64,
    pub(crate) doing: Doing,
}

/// When a node begins and ends to do what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Times {
    pub(crate) initialized: Option<Timestamp>,
    pub(crate) leaving: Option<Timestamp>,
}

impl Times {
    fn doing(self, at: Timestamp) -> Doing {
        if self.leaving.is_some_and(|leaving| leaving <= at) {
            Doing::Leaving
        } else if self.initialized.is_some_and(|initialized| initialized <= at) {
            Doing::Running
        } else {
            Doing::Starting
        }
    }
}

/// The pieces of a time. What is before `earliest`, an hour whose predecessors are recorded already, counts for that hour.
pub(crate) fn pieces(from: Timestamp, to: Timestamp, times: Times, earliest: Timestamp) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = from;
    while at < to {
        let hour = hour_of(at);
        let ends = hour.checked_add(SignedDuration::from_hours(1)).unwrap_or(to);
        let marks = [times.initialized, times.leaving].into_iter().flatten().filter(|mark| *mark > at);
        let next = marks.chain([ends, to]).min().unwrap_or(to);
        let seconds = next.duration_since(at).as_secs_f64();
        pieces.push(Piece { hour: hour.max(earliest), seconds, doing: times.doing(at) });
        at = next;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-11-23T{text}Z").parse().unwrap()
    }

    #[test]
    fn a_time_is_divided_by_hours_and_by_what_the_node_does() {
        let times = Times { initialized: Some(at("12:50:00")), leaving: Some(at("14:10:00")) };
        let of = |from, to| -> Vec<(Timestamp, f64, Doing)> {
            let all = pieces(at(from), at(to), times, at("12:00:00"));
            all.iter().map(|piece| (piece.hour, piece.seconds, piece.doing)).collect()
        };
        assert_eq!(
            of("12:49:00", "14:15:00"),
            [
                (at("12:00:00"), 60.0, Doing::Starting),
                (at("12:00:00"), 600.0, Doing::Running),
                (at("13:00:00"), 3600.0, Doing::Running),
                (at("14:00:00"), 600.0, Doing::Running),
                (at("14:00:00"), 300.0, Doing::Leaving),
            ]
        );
        assert_eq!(of("12:49:00", "12:49:00"), []);
        assert_eq!(of("12:49:00", "12:40:00"), []);
        // The record of the hour before is written already.
        assert_eq!(of("11:59:00", "12:01:00")[0], (at("12:00:00"), 60.0, Doing::Starting));
    }
}
