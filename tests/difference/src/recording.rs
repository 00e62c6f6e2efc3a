//! What the real server said, kept beside the scripts.

use std::fs::File;
use std::path::Path;

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::answers::Answered;
use crate::error::{Error, Result};
use crate::print::print;
use crate::script::Script;

/// What generated scripts are called together.
pub const GENERATED: &str = "generated";

pub fn write(path: &Path, script: &Script, answers: &[Answered]) -> Result<()> {
    let recording = json!({ "script": script.digest(), "answers": answers });
    std::fs::write(path, print(&recording) + "\n").map_err(|source| Error::File {
        act: "write",
        path: path.to_owned(),
        source,
    })
}

/// The recorded answers, if they belong to the script as it is now.
pub fn read(path: &Path, script: &Script) -> Result<Vec<Answered>> {
    let stale = |why| Error::Stale { script: script.name.clone(), why };
    let text = std::fs::read_to_string(path).map_err(|_| stale("is missing"))?;
    let recording: Value = serde_json::from_str(&text).map_err(|_| stale("cannot be read"))?;
    if recording["script"] != json!(script.digest()) {
        return Err(stale("is of another version of the script"));
    }
    serde_json::from_value(recording["answers"].clone()).map_err(|_| stale("cannot be read"))
}

/// The answers to many scripts that nobody reads, packed.
#[derive(Serialize, Deserialize)]
struct Packed {
    scripts: String,
    answers: Vec<Vec<Answered>>,
}

/// Changes with every script.
fn digest_of_all(scripts: &[Script]) -> String {
    let mut digest = Sha256::new();
    scripts.iter().for_each(|script| digest.update(script.digest()));
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

pub fn write_packed(path: &Path, scripts: &[Script], answers: Vec<Vec<Answered>>) -> Result<()> {
    let packed = Packed { scripts: digest_of_all(scripts), answers };
    let write = || {
        let mut file = GzEncoder::new(File::create(path)?, Compression::best());
        serde_json::to_writer(&mut file, &packed)?;
        file.finish()?.sync_all()
    };
    write().map_err(|source| Error::File { act: "write", path: path.to_owned(), source })
}

pub fn read_packed(path: &Path, scripts: &[Script]) -> Result<Vec<Vec<Answered>>> {
    let stale = |why| Error::Stale { script: GENERATED.into(), why };
    let file = File::open(path).map_err(|_| stale("is missing"))?;
    let packed: Packed =
        serde_json::from_reader(std::io::BufReader::new(GzDecoder::new(file))).map_err(|_| stale("cannot be read"))?;
    match packed.scripts == digest_of_all(scripts) {
        true => Ok(packed.answers),
        false => Err(stale("is of another generator")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(path: &str) -> Script {
        let text = format!("about: a test\nsteps: [{{ ask: 'GET {path}' }}]");
        Script { name: "test".into(), ..serde_saphyr::from_str(&text).unwrap() }
    }

    #[test]
    fn a_recording_of_another_script_says_how_to_record_anew() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let answers = [Answered { step: "GET /a".into(), answer: json!({ "code": 200 }) }];
        write(file.path(), &script("/a"), &answers).unwrap();

        assert_eq!(read(file.path(), &script("/a")).unwrap(), answers);
        let error = read(file.path(), &script("/b")).unwrap_err().to_string();
        assert!(error.ends_with("record it anew: cargo run -p drover-difference -- record test"), "{error}");
    }
}
