//! Long lists, page by page.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::{Api, ApiError, escaped};

const PAGE: usize = 500;
/// More objects of a kind than this are not looked at, and it is said.
const MOST_PAGES: usize = 400;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    /// Of an empty list of metadata, the original says that its items are null.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    #[serde(rename = "continue")]
    token: String,
}

/// Reads a list from its first page to its last; each object is handed on as JSON text.
pub async fn read(api: &Api, path: &str, query: &str, take: impl FnMut(&str)) -> Result<(), ApiError> {
    all(api, path, query, Whole::Objects, take).await
}

/// The same, but of each object only its metadata.
pub async fn read_metadata(api: &Api, path: &str, take: impl FnMut(&str)) -> Result<(), ApiError> {
    all(api, path, "", Whole::Metadata, take).await
}

#[derive(Clone, Copy)]
enum Whole {
    Objects,
    Metadata,
}

async fn all(api: &Api, path: &str, query: &str, whole: Whole, mut take: impl FnMut(&str)) -> Result<(), ApiError> {
    let mut token = String::new();
    for _ in 0..MOST_PAGES {
        let next = if token.is_empty() { String::new() } else { format!("&continue={}", escaped(&token)) };
        let page = read_page(api, &format!("{path}?limit={PAGE}{query}{next}"), whole).await?;
        let page: Page<'_> = serde_json::from_slice(&page).map_err(|error| ApiError::Unreadable(error.to_string()))?;
        page.items.iter().flatten().for_each(|item| take(item.get()));
        token = page.metadata.token;
        if token.is_empty() {
            return Ok(());
        }
    }
    Err(ApiError::Unreadable(format!("there are more than {} of them", PAGE * MOST_PAGES)))
}

/// A read that fails for a reason that may pass is tried once more.
async fn read_page(api: &Api, path: &str, whole: Whole) -> Result<Bytes, ApiError> {
    let ask = || async {
        match whole {
            Whole::Objects => api.get(path).await,
            Whole::Metadata => api.get_metadata(path).await,
        }
    };
    match ask().await {
        Err(ApiError::Unreachable(_)) => ask().await,
        Err(error) if matches!(error.code(), Some(429 | 500 | 503 | 504)) => ask().await,
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_items_is_empty_however_it_says_so() {
        for text in [r#"{"items":null}"#, r#"{"items":[]}"#, r#"{"metadata":{}}"#] {
            let page: Page<'_> = serde_json::from_str(text).unwrap();
            assert_eq!(page.items.iter().flatten().count(), 0, "{text}");
        }
    }
}
