//! Timestamps for clients of a cluster whose time runs at another speed than the wall clock.
//!
//! Clients compute ages by their own clock: simulated timestamps would be in their future, and kubectl would show `<invalid>`. The
//! Kubernetes API therefore answers with timestamps on the wall clock, as if all that happened had happened at its speed.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::middleware;
use axum::response::Response;
use futures::StreamExt as _;
use jiff::Timestamp;
use nodeless_fake_kubernetes::{ApiServer, WallClock};
use regex::bytes::{Captures, Regex};
use std::sync::Arc;

/// The fields with times that the server, its controllers or nodeless set. Other texts that look like a time are those of users, as the
/// annotation of `kubectl rollout restart`, and must be returned unchanged.
const FIELDS: &str = "creationTimestamp|deletionTimestamp|lastTransitionTime|lastHeartbeatTime|lastProbeTime|lastUpdateTime|startTime\
|startedAt|finishedAt|completionTime|firstTimestamp|lastTimestamp|eventTime|lastObservedTime|lastScheduleTime|lastSuccessfulTime\
|renewTime|acquireTime|lastPodEventTime|timeAdded|time";

/// The timestamps in answers, and the clock to convert them to.
#[derive(Clone, Debug)]
struct Scale {
    wall: WallClock,
    field: Regex,
}

/// The Kubernetes API with timestamps, and ages in Tables, on the wall clock.
///
/// # Errors
/// When the regular expression, a constant, is invalid.
pub(crate) fn on_the_wall_clock(api: &ApiServer, wall: WallClock) -> Result<Router, regex::Error> {
    let scale = Arc::new(Scale::new(wall)?);
    Ok(api.with_ages_on(wall).router().layer(middleware::map_response(move |response: Response| {
        let scale = scale.clone();
        async move { scale.response(response) }
    })))
}

impl Scale {
    fn new(wall: WallClock) -> Result<Self, regex::Error> {
        let field = Regex::new(&format!(r#"("(?:{FIELDS})":")(\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)(")"#))?;
        Ok(Self { wall, field })
    }

    fn response(self: Arc<Self>, response: Response) -> Response {
        response.map(|body| {
            // An answer and an event of a watch are each one chunk, so no timestamp is split.
            Body::from_stream(body.into_data_stream().map(move |chunk| chunk.map(|bytes| self.bytes(&bytes))))
        })
    }

    fn bytes(&self, bytes: &Bytes) -> Bytes {
        let replaced = self.field.replace_all(bytes, |found: &Captures<'_>| {
            let text = String::from_utf8_lossy(&found[2]);
            let digits = text.find('.').map_or(0, |point| text.len() - point - 2);
            let time = text.parse().map(|time| self.wall.time(time)).map(|time: Timestamp| format!("{time:.digits$}"));
            let time = time.unwrap_or_else(|_| text.into_owned());
            [&found[1], time.as_bytes(), &found[3]].concat()
        });
        Bytes::from(replaced.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(text: &str) -> String {
        let wall = WallClock { start: "2026-01-01T00:00:00Z".parse().unwrap(), speed: 60.0 };
        let scale = Scale::new(wall).unwrap();
        String::from_utf8(scale.bytes(&Bytes::copy_from_slice(text.as_bytes())).to_vec()).unwrap()
    }

    #[test]
    fn timestamps_of_the_server_are_on_the_wall_clock() {
        let pod = r#"{"metadata":{"creationTimestamp":"2026-01-01T01:00:00Z"},"status":{"startTime":"2026-01-01T02:00:00Z"}}"#;
        let wall = r#"{"metadata":{"creationTimestamp":"2026-01-01T00:01:00Z"},"status":{"startTime":"2026-01-01T00:02:00Z"}}"#;
        assert_eq!(scaled(pod), wall);
        let taint = r#"{"effect":"NoExecute","timeAdded":"2026-01-01T01:00:00Z"}"#;
        assert_eq!(scaled(taint), r#"{"effect":"NoExecute","timeAdded":"2026-01-01T00:01:00Z"}"#);
        let lease = r#"{"renewTime":"2026-01-01T01:00:00.123456Z"}"#;
        assert_eq!(scaled(lease), r#"{"renewTime":"2026-01-01T00:01:00.002057Z"}"#);
    }

    #[test]
    fn other_texts_and_earlier_times_stay() {
        for text in [
            r#"{"kubectl.kubernetes.io/restartedAt":"2026-01-01T01:00:00Z"}"#,
            r#"{"creationTimestamp":"2025-12-31T00:00:00Z"}"#,
            r#"{"creationTimestamp":null,"time":"9999-99-99T00:00:00Z"}"#,
            r#"{"message":"it expired at 2026-01-01T01:00:00Z"}"#,
        ] {
            assert_eq!(scaled(text), text);
        }
    }
}
