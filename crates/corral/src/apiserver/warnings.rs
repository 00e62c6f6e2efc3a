//! What a client is told beside its answer: `Warning` headers, whether the request succeeds or not.

use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, HeaderName, HeaderValue};

const WARNING: HeaderName = http::header::WARNING;
/// Warnings longer than this are cut once all of them together are too long, as in the original.
const CUT_LENGTH: usize = 256;
const TOTAL_LENGTH: usize = 4 * 1024;

/// The warnings of one request, each of them once, in the order in which they came up.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !text.is_empty() && !known.contains(&text) {
            known.push(text);
        }
    }

    pub fn write(&self, headers: &mut HeaderMap) {
        let texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let too_long = texts.iter().map(|text| text.chars().count()).sum::<usize>() > TOTAL_LENGTH;
        let mut written = 0;
        for text in texts.iter() {
            let shown: String = text.chars().take(if too_long { CUT_LENGTH } else { usize::MAX }).collect();
            if written >= TOTAL_LENGTH {
                break;
            }
            written += shown.chars().count();
            if let Some(value) = header(&shown) {
                headers.append(WARNING, value);
            }
        }
    }
}

/// `299 - "text"`: a persistent warning of nobody in particular. None for what no header can hold.
fn header(text: &str) -> Option<HeaderValue> {
    if text.contains(char::is_control) {
        return None;
    }
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(texts: &[&str]) -> Vec<String> {
        let warnings = Warnings::default();
        texts.iter().for_each(|text| warnings.add(*text));
        let mut headers = HeaderMap::new();
        warnings.write(&mut headers);
        headers.get_all(WARNING).iter().map(|value| value.to_str().unwrap().to_string()).collect()
    }

    #[test]
    fn each_warning_is_one_header_and_said_once() {
        let said = written(&["unknown field \"a\"", "b", "b"]);
        assert_eq!(said, ["299 - \"unknown field \\\"a\\\"\"", "299 - \"b\""]);
    }

    #[test]
    fn long_warnings_are_cut_when_together_they_are_too_long() {
        let long = "x".repeat(3000);
        let longer = format!("{long}y");
        assert_eq!(written(&[&long])[0].len(), 3000 + 8);
        assert!(written(&[&long, &longer]).iter().all(|said| said.len() == CUT_LENGTH + 8));
    }
}
