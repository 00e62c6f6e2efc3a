//! What a real API server of the same version says of itself: discovery documents and OpenAPI schemas of the built-in
//! kinds, recorded by `drover-lab record`.
//!
//! The recording starts with a line of JSON, `path: [offset, packed length, length]`, behind which the documents lie,
//! each compressed by itself. A document is unpacked when it is asked for: together they are 8 MB.

use std::{collections::BTreeMap, sync::LazyLock};

use bytes::Bytes;

static RECORDING: &[u8] = include_bytes!("kubernetes.zst");

struct Recording {
    places: BTreeMap<String, [usize; 3]>,
    documents: &'static [u8],
}

static OPENED: LazyLock<Recording> = LazyLock::new(|| {
    let end = RECORDING.iter().position(|letter| *letter == b'\n').unwrap_or_default();
    let places = serde_json::from_slice(&RECORDING[..end]).unwrap_or_default();
    Recording { places, documents: &RECORDING[end + 1..] }
});

/// The answer to a GET of `/version`, `/api`, `/apis`, `/apis/GROUP`, `/api/v1`, `/apis/GROUP/VERSION`, `/openapi/v3` or
/// `/openapi/v3/api/v1` and the like, as JSON; none for what was not recorded.
pub(crate) fn document(path: &str) -> Option<Bytes> {
    let [offset, packed, length] = *OPENED.places.get(path)?;
    let packed = OPENED.documents.get(offset..offset + packed)?;
    zstd::bulk::decompress(packed, length).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_recorded_document_is_json() {
        assert!(OPENED.places.len() > 60);
        for path in OPENED.places.keys() {
            let document: Value = serde_json::from_slice(&document(path).unwrap()).unwrap();
            assert!(document.is_object(), "{path}");
        }
    }

    #[test]
    fn the_schemas_of_a_group_version_are_there() {
        let core: Value = serde_json::from_slice(&document("/openapi/v3/api/v1").unwrap()).unwrap();
        assert!(core["components"]["schemas"]["io.k8s.api.core.v1.Pod"].is_object());
        assert!(document("/openapi/v3/apis/example.com/v1").is_none());
    }
}
