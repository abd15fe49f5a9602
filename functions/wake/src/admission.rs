//! The request of the API server, and the answer: always "allowed".

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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

/// The part of an AdmissionReview that the answer repeats.
#[derive(Deserialize)]
struct Review {
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
}

/// Checks a call: `Ok` with the answer for the API server if the path is correct, `Err` with the answer for other callers.
///
/// The path is the only secret: a caller with another path gets no information and has no effect.
pub(crate) fn check(call: &Call, secret_path: &str) -> Result<Answer, Answer> {
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
    Ok(answer(200, allowed.to_string(), "application/json"))
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
            let answer = check(&call(PATH, Some(&body), encoded), PATH).unwrap();
            assert_eq!(answer.status_code, 200);
            let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!(body["response"], json!({ "uid": "u-1", "allowed": true }));
        }
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
