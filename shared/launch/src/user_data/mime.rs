//! The little of MIME that cloud-init and nodeadm read: one multipart document, split at its boundary.

const BOUNDARY: &str = "//";

/// Whether the text is a MIME document.
pub(super) fn is_multipart(text: &str) -> bool {
    let head = text.lines().take_while(|line| !line.trim().is_empty());
    head.into_iter().any(|line| line.to_ascii_lowercase().starts_with("content-type: multipart/"))
}

/// One part, headers and body.
pub(super) fn part(content_type: &str, body: &str) -> String {
    format!("Content-Type: {content_type}\n\n{}", body.trim_end())
}

/// The parts of a document, each with its headers.
///
/// # Errors
/// What is wrong, when the document names no boundary or never uses it.
pub(super) fn parts(text: &str) -> Result<Vec<String>, String> {
    let boundary = boundary(text).ok_or("the MIME document's Content-Type names no boundary")?;
    let delimiter = format!("--{boundary}");
    let mut parts: Vec<Vec<&str>> = Vec::new();
    let mut ended = false;
    for line in text.lines() {
        let line = line.trim_end_matches('\r');
        if line.trim_end() == format!("{delimiter}--") {
            ended = true;
            break;
        }
        if line.trim_end() == delimiter {
            parts.push(Vec::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(line);
        }
    }
    if parts.is_empty() || !ended {
        return Err(format!("the MIME document is not divided and ended by its boundary {boundary:?}"));
    }
    Ok(parts.into_iter().map(|lines| lines.join("\n").trim_end().to_owned()).collect())
}

fn boundary(text: &str) -> Option<String> {
    // A header may go on in the next line, which then begins with white space.
    let head: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).collect();
    let head = head.join(" ");
    let (_, after) = head.split_once("boundary=")?;
    let quoted = after.strip_prefix('"').and_then(|rest| rest.split_once('"')).map(|(name, _)| name);
    let name = quoted.or_else(|| after.split([';', ' ', '\t']).next())?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// A document of these parts.
pub(super) fn document(parts: &[String]) -> String {
    let mut text = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n");
    for part in parts {
        text.push_str(&format!("--{BOUNDARY}\n{part}\n"));
    }
    text.push_str(&format!("--{BOUNDARY}--\n"));
    text
}
