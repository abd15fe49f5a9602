//! The subset of MIME that cloud-init and nodeadm read: one multipart document, split at its boundary.

const BOUNDARY: &str = "//";
/// The content type of a NodeConfig, which nodeadm reads.
pub(super) const NODE_CONFIG: &str = "application/node.eks.aws";

/// Whether the text begins with one of the headers of a MIME document.
pub(super) fn is_document(text: &str) -> bool {
    let first = text.trim_start().lines().next().unwrap_or_default().to_ascii_lowercase();
    first.starts_with("mime-version:") || first.starts_with("content-type:")
}

/// A part with headers and body.
pub(super) fn part(content_type: &str, body: &str) -> String {
    format!("Content-Type: {content_type}\n\n{}", body.trim_end())
}

/// The parts of a document, each with its headers.
///
/// The last delimiter may lack the dashes that close a document, if nothing but white space follows it: the parsers of user data,
/// including Karpenter's, then treat the end of the text as the end of the document.
///
/// # Errors
/// What is wrong: the document is not multipart, it has no boundary or does not use it, or its last part has no end.
pub(super) fn parts(text: &str) -> Result<Vec<String>, String> {
    let text = text.trim_start();
    let boundary = boundary(text)?;
    let (delimiter, end) = (format!("--{boundary}"), format!("--{boundary}--"));
    let mut parts: Vec<Vec<&str>> = Vec::new();
    let mut ended = false;
    for line in text.lines().skip_while(|line| !line.trim().is_empty()) {
        let bare = line.trim_end();
        if bare == end {
            ended = true;
            break;
        }
        if bare == delimiter {
            parts.push(Vec::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(line);
        }
    }
    if !ended && parts.last().is_some_and(|part| part.iter().all(|line| line.trim().is_empty())) {
        parts.pop();
        ended = true;
    }
    if parts.is_empty() {
        return Err(format!("the MIME document has no part: the line {delimiter} is missing before it"));
    }
    if !ended {
        return Err(format!("the last part of the MIME document has no end: add the line {end}"));
    }
    Ok(parts.into_iter().map(|lines| lines.join("\n").trim_end().to_owned()).collect())
}

/// The boundary that the header Content-Type names.
fn boundary(text: &str) -> Result<String, String> {
    let content_type = content_type(text).ok_or("the MIME document has no header Content-Type")?;
    if !content_type.to_ascii_lowercase().starts_with("multipart/") {
        return Err(format!(
            "the MIME document is no multipart one, its Content-Type is {content_type}: make it multipart/mixed, or remove the \
             headers if all of it is one script"
        ));
    }
    let parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let named = parameters.into_iter().find(|(key, _)| key.trim().eq_ignore_ascii_case("boundary"));
    let name = named.map(|(_, value)| value.trim().trim_matches('"').to_owned());
    name.filter(|name| !name.is_empty())
        .ok_or_else(|| "the Content-Type of the MIME document has no boundary".to_owned())
}

/// The value of the header Content-Type. A header may continue on the next line, which then begins with white space.
fn content_type(text: &str) -> Option<String> {
    let mut found: Option<String> = None;
    for line in text.lines().take_while(|line| !line.trim().is_empty()) {
        let goes_on = line.starts_with([' ', '\t']);
        match &mut found {
            Some(value) if goes_on => value.push_str(line),
            Some(_) => break,
            None => {
                let header = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
                found = header.map(|(_, value)| value.trim().to_owned());
            }
        }
    }
    found
}

/// Whether a part with headers is processed at each start of an instance: by nodeadm, or by cloud-init as a boothook.
pub(super) fn runs_at_each_start(part: &str) -> bool {
    let kind = content_type(part.trim_start()).unwrap_or_default().to_ascii_lowercase();
    [NODE_CONFIG, "text/cloud-boothook"].iter().any(|each| kind.starts_with(each))
}

/// A document with these parts.
pub(super) fn document(parts: &[String]) -> String {
    let mut text = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n");
    for part in parts {
        text.push_str(&format!("--{BOUNDARY}\n{part}\n"));
    }
    text.push_str(&format!("--{BOUNDARY}--\n"));
    text
}
