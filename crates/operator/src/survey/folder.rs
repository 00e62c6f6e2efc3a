//! A cluster from a folder of objects.

use std::path::Path;

use drover_core::cluster::{Cluster, Collection};
use jiff::Timestamp;

use super::SurveyError;
use crate::objects::{Found, files, read_file};

pub fn read(path: &Path, now: Timestamp) -> Result<Cluster, SurveyError> {
    let mut collection = Collection::new(now);
    for file in files(path)? {
        // `kubectl get X -A -o yaml > X.yaml`: the file says that X was asked for, also if there was none.
        if let Some(name) = file.file_stem().and_then(|name| name.to_str()) {
            collection.saw_resource(name);
        }
        read_file(&file, &mut |found| match found {
            Found::Object(json) => collection.take(json),
            Found::NoneOf { api_version, kind } => collection.saw(api_version, kind),
        })?;
    }
    Ok(collection.finish())
}
