//! The request of the API server, and the answer: always "allowed".

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The used fields of a call of the Function URL.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Call {
    #[serde(default)]
    pub(crate) raw_path: String,
    #[serde(default)]
    pub(crate) body: Option<String>,
    #[serde(default)]
    pub(crate) is_base64_encoded: bool,
}

/// An answer of the Function URL.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(crate) status_code: u16,
    pub(crate) headers: Headers,
    pub(crate) body: String,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Headers {
    #[serde(rename = "content-type")]
    content_type: &'static str,
}

/// The used fields of an AdmissionReview.
#[derive(Deserialize)]
struct Review {
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    object: Option<Object>,
}

/// An Event, or another object, which has none of these fields.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    #[serde(default)]
    series: Option<Series>,
    /// What an Event of `events.k8s.io/v1` is about.
    #[serde(default)]
    regarding: Option<About>,
    /// What an Event of `v1` is about.
    #[serde(default)]
    involved_object: Option<About>,
}

#[derive(Deserialize)]
struct About {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    name: String,
}

/// The repetitions of an Event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    #[serde(default)]
    last_observed_time: Option<Timestamp>,
}

/// An Event that was last observed longer ago reports no attempt to schedule a pod: six minutes after the last one, the kube-scheduler
/// writes the number of repetitions of each Event once more (`finishSeries` of client-go's `tools/events/event_broadcaster.go`).
const OLD: SignedDuration = SignedDuration::from_mins(2);

/// A call of the API server.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) answer: Answer,
    /// The pod that an Event is about; `None` for another object.
    pub(crate) pod: Option<ReportedPod>,
    last_observed: Option<Timestamp>,
}

/// A pod that cannot be scheduled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReportedPod {
    /// The namespace of the Event, which the API server has checked.
    pub(crate) namespace: String,
    /// The uid of the pod, or its name in an Event without the uid.
    pub(crate) uid: String,
}

impl Checked {
    /// Whether the object is new or was observed a moment ago.
    pub(crate) fn is_news(&self, now: Timestamp) -> bool {
        self.last_observed.is_none_or(|last| now.duration_since(last) < OLD)
    }
}

/// Checks a call: `Ok` with the answer for the API server if the path is correct, `Err` with the answer for other callers.
///
/// The path is the only secret: a caller with another path gets no information and has no effect.
pub(crate) fn check(call: &Call, secret_path: &str) -> Result<Checked, Answer> {
    if !equal_in_constant_time(call.raw_path.as_bytes(), secret_path.as_bytes()) {
        return Err(answer(404, "not found\n".to_owned(), "text/plain"));
    }
    let refused = |why: &str| answer(400, format!("{why}\n"), "text/plain");
    let body = call.body.as_deref().ok_or_else(|| refused("the body is empty; an AdmissionReview is expected"))?;
    let decoded;
    let body = if call.is_base64_encoded {
        decoded = STANDARD.decode(body).map_err(|_| refused("the body is not base64 although the call reports it"))?;
        &decoded[..]
    } else {
        body.as_bytes()
    };
    let review: Review = serde_json::from_slice(body)
        .map_err(|error| refused(&format!("the body is not an AdmissionReview: {error}")))?;
    let allowed = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": { "uid": review.request.uid, "allowed": true },
    });
    let Object { series, regarding, involved_object } = review.request.object.unwrap_or_default();
    let last_observed = series.and_then(|series| series.last_observed_time);
    let namespace = review.request.namespace;
    let pod = regarding.or(involved_object).map(|about| {
        let uid = if about.uid.is_empty() { about.name } else { about.uid };
        ReportedPod { namespace, uid }
    });
    Ok(Checked { answer: answer(200, allowed.to_string(), "application/json"), pod, last_observed })
}

fn answer(status_code: u16, body: String, content_type: &'static str) -> Answer {
    Answer { status_code, headers: Headers { content_type }, body }
}

/// Compares in constant time. The length is not secret.
fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/0123456789abcdef";

    fn call(path: &str, body: Option<&str>, is_base64_encoded: bool) -> Call {
        Call { raw_path: path.to_owned(), body: body.map(str::to_owned), is_base64_encoded }
    }

    #[test]
    fn the_api_server_gets_the_answer_that_the_event_is_allowed() {
        let review = r#"{"kind":"AdmissionReview","request":{"uid":"u-1","object":{"reason":"FailedScheduling"}}}"#;
        for (body, encoded) in [(review.to_owned(), false), (STANDARD.encode(review), true)] {
            let answer = check(&call(PATH, Some(&body), encoded), PATH).unwrap().answer;
            assert_eq!(answer.status_code, 200);
            let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!(body["response"], json!({ "uid": "u-1", "allowed": true }));
        }
    }

    #[test]
    fn an_event_is_news_unless_it_was_last_observed_minutes_ago() {
        let now: Timestamp = "2026-05-01T12:10:00Z".parse().unwrap();
        let is_news = |object: &str| {
            let review = format!(r#"{{"request":{{"uid":"u-1","object":{object}}}}}"#);
            check(&call(PATH, Some(&review), false), PATH).unwrap().is_news(now)
        };
        let observed = |at: &str| format!(r#"{{"series":{{"count":3,"lastObservedTime":"{at}"}}}}"#);
        for new in ["null", "{}", r#"{"series":null}"#, r#"{"series":{"count":3}}"#] {
            assert!(is_news(new), "{new}");
        }
        assert!(is_news(&observed("2026-05-01T12:08:30.000001Z")));
        assert!(is_news(&observed("2026-05-01T12:11:00.000000Z")), "the clock of the API server is ahead");
        assert!(!is_news(&observed("2026-05-01T12:03:59.000000Z")));
    }

    #[test]
    fn an_event_names_the_pod_that_it_is_about() {
        let pod = |object: &str| {
            let review = format!(r#"{{"request":{{"uid":"u-1","namespace":"shop","object":{object}}}}}"#);
            check(&call(PATH, Some(&review), false), PATH).unwrap().pod
        };
        let about = |uid: &str| Some(ReportedPod { namespace: "shop".to_owned(), uid: uid.to_owned() });
        assert_eq!(pod(r#"{"regarding":{"kind":"Pod","namespace":"other","name":"web","uid":"1"}}"#), about("1"));
        assert_eq!(pod(r#"{"involvedObject":{"kind":"Pod","name":"web","uid":"1"},"regarding":null}"#), about("1"));
        assert_eq!(pod(r#"{"involvedObject":{"kind":"Pod","name":"web"}}"#), about("web"));
        assert_eq!(pod(r#"{"kind":"EC2NodeClass","metadata":{"uid":"1"}}"#), None);
        assert_eq!(pod("null"), None);
    }

    #[test]
    fn a_caller_that_does_not_know_the_path_learns_nothing() {
        for path in ["", "/", "/0123456789abcdeX", "/0123456789abcdef/"] {
            assert_eq!(check(&call(path, Some("{}"), false), PATH).unwrap_err().status_code, 404, "{path}");
        }
    }

    #[test]
    fn what_is_no_review_is_refused() {
        for (body, encoded) in [(None, false), (Some("{"), false), (Some("{}"), false), (Some("***"), true)] {
            let answer = check(&call(PATH, body, encoded), PATH).unwrap_err();
            assert_eq!(answer.status_code, 400, "{body:?}");
        }
    }
}
