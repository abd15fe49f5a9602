//! Commands that wait because the replacements of an earlier one did not become ready.
//!
//! A command closes the nodes that it replaces, and pays for both, until it is rolled back. The next one with launches from the same
//! NodePool waits until a node of the NodePool becomes ready, or until its template or EC2NodeClass changes, and at most for 20 minutes:
//! for twice as long each time it happens again, up to 8 hours.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The first wait: twice the time that a command has for its replacements.
const FIRST_WAIT: SignedDuration = SignedDuration::from_mins(20);
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(8);

/// The last command whose replacements from a NodePool did not become ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnreadyReplacements {
    /// The command's id.
    pub command: String,
    /// What the NodePool launches: see [`crate::template_of`].
    pub template: String,
    /// When the command was rolled back.
    pub since: Timestamp,
    /// Until when commands wait, at most.
    pub until: Timestamp,
}

impl UnreadyReplacements {
    /// The record after a command, given that of the command before it. The same command is recorded once.
    #[must_use]
    pub fn after(before: Option<Self>, command: &str, template: String, now: Timestamp) -> Self {
        let before = before.filter(|before| before.template == template && now < before.remembered_until());
        if let Some(same) = before.as_ref().filter(|before| before.command == command) {
            return same.clone();
        }
        let twice = before.map(|before| before.length().saturating_add(before.length()));
        let wait = twice.map_or(FIRST_WAIT, |twice| twice.min(LONGEST_WAIT));
        let until = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        Self { command: command.to_owned(), template, since: now, until }
    }

    /// Until when commands wait, if they do. `ready` is when the last node of the NodePool became ready.
    #[must_use]
    pub fn waits_until(&self, template: &str, ready: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let is_over = self.template != template || ready.is_some_and(|ready| ready > self.since);
        (!is_over && now < self.until).then_some(self.until)
    }

    /// Until when it is remembered: for as long as commands waited, so that they wait twice as long the next time.
    #[must_use]
    pub fn remembered_until(&self) -> Timestamp {
        self.until.checked_add(self.length()).unwrap_or(Timestamp::MAX)
    }

    fn length(&self) -> SignedDuration {
        self.until.duration_since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn after(before: Option<UnreadyReplacements>, command: &str, minute: i64) -> UnreadyReplacements {
        UnreadyReplacements::after(before, command, "v1".into(), at(minute))
    }

    #[test]
    fn commands_wait_twice_as_long_each_time_and_begin_again_after_as_long_without_a_failure() {
        let (mut last, mut minute, mut waits) = (None, 0, Vec::new());
        for number in 0..7 {
            let next = after(last, &number.to_string(), minute);
            waits.push(next.until.duration_since(next.since).as_mins());
            minute = next.until.as_second() / 60 + 11;
            last = Some(next);
        }
        assert_eq!(waits, [20, 40, 80, 160, 320, 480, 480]);
        let last = last.unwrap();
        let remembered = last.remembered_until().as_second() / 60;
        assert_eq!(after(Some(last.clone()), "x", remembered - 1).until, at(remembered - 1 + 480));
        assert_eq!(after(Some(last), "x", remembered).until, at(remembered + 20));
    }

    #[test]
    fn a_command_is_recorded_once() {
        let first = after(None, "a", 0);
        assert_eq!(after(Some(first.clone()), "a", 5), first);
    }

    #[test]
    fn a_node_that_becomes_ready_and_another_template_end_the_wait() {
        let one = after(None, "a", 10);
        let waits = |template, ready: Option<i64>, now| one.waits_until(template, ready.map(at), at(now)).is_some();
        assert!(waits("v1", None, 10) && waits("v1", None, 29) && !waits("v1", None, 30));
        assert!(waits("v1", Some(10), 15), "it was ready before");
        assert!(!waits("v1", Some(11), 15) && !waits("v2", None, 15));
        assert_eq!(UnreadyReplacements::after(Some(one), "b", "v2".into(), at(31)).until, at(51));
    }
}
