//! One image as an OCI archive: a layer, its configuration, a manifest, an index.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use crate::{OnFile, Result};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// What is in an image, and how it is run.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// Repository and tag, such as `localhost/web:v1`.
    pub name: String,
    pub entrypoint: Vec<String>,
    /// `uid:gid`; root if it is not set.
    pub user: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub files: Vec<ImageFile>,
}

#[derive(Debug, Clone)]
pub struct ImageFile {
    /// Where it is in the image, such as `/bin/web`.
    pub path: String,
    /// Where it comes from.
    pub source: PathBuf,
    pub mode: u32,
}

impl ImageFile {
    pub fn program(source: impl Into<PathBuf>, path: &str) -> Self {
        Self { path: path.into(), source: source.into(), mode: 0o755 }
    }

    pub fn data(source: impl Into<PathBuf>, path: &str) -> Self {
        Self { path: path.into(), source: source.into(), mode: 0o644 }
    }
}

impl Image {
    /// Writes the archive, whole or not at all, and returns the digest by which the image is known everywhere.
    pub fn write(&self, archive: &Path) -> Result<String> {
        let layer = Blob::new(self.layer()?);
        let config = Blob::json(&self.config(&layer));
        let manifest = Blob::json(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(CONFIG),
            "layers": [layer.descriptor(LAYER)],
        }));
        let index = Blob::json(&self.index(&manifest));

        let folder = archive.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).on_file("create", folder)?;
        let unfinished = archive.with_extension("unfinished");
        let write = || {
            let mut tar = tar::Builder::new(BufWriter::new(File::create(&unfinished)?));
            append(&mut tar, "oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
            append(&mut tar, "index.json", 0o644, &index.bytes)?;
            for blob in [&layer, &config, &manifest] {
                append(&mut tar, &format!("blobs/sha256/{}", blob.hex), 0o644, &blob.bytes)?;
            }
            tar.into_inner()?.flush()?;
            fs::rename(&unfinished, archive)
        };
        write().on_file("write", archive)?;
        Ok(manifest.digest())
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        let packed = |result: io::Result<()>, path: &str| result.on_file("pack", Path::new(path));
        packed(folder(&mut tar, "tmp", 0o1777), "tmp")?;
        for parent in self.parents() {
            packed(folder(&mut tar, &parent, 0o755), &parent)?;
        }
        let mut files: Vec<&ImageFile> = self.files.iter().collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        for file in files {
            let bytes = fs::read(&file.source).on_file("read", &file.source)?;
            packed(append(&mut tar, file.path.trim_start_matches('/'), file.mode, &bytes), &file.path)?;
        }
        tar.into_inner().on_file("pack", Path::new(&self.name))
    }

    /// Every folder that a file is in, the outer before the inner.
    fn parents(&self) -> BTreeSet<String> {
        let above = |file: &ImageFile| {
            let path = PathBuf::from(file.path.trim_start_matches('/'));
            path.ancestors().skip(1).map(|folder| folder.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        self.files.iter().flat_map(above).filter(|folder| !folder.is_empty() && folder != "tmp").collect()
    }

    fn config(&self, layer: &Blob) -> Value {
        json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {
                "User": self.user.clone().unwrap_or_default(),
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Entrypoint": self.entrypoint,
                "WorkingDir": "/",
                "Labels": self.labels,
            },
            "rootfs": { "type": "layers", "diff_ids": [layer.digest()] },
            "history": [{ "created_by": "drover-image" }],
        })
    }

    fn index(&self, manifest: &Blob) -> Value {
        let tag = self.name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        let mut descriptor = manifest.descriptor(MANIFEST);
        descriptor["platform"] = json!({ "architecture": architecture(), "os": "linux" });
        // containerd takes the name from the first, other tools the tag from the second.
        descriptor["annotations"] =
            json!({ "io.containerd.image.name": self.name, "org.opencontainers.image.ref.name": tag });
        json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [descriptor] })
    }
}

struct Blob {
    hex: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        let hex = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { hex, bytes }
    }

    fn json(value: &Value) -> Self {
        Self::new(value.to_string().into_bytes())
    }

    fn digest(&self) -> String {
        format!("sha256:{}", self.hex)
    }

    fn descriptor(&self, kind: &str) -> Value {
        json!({ "mediaType": kind, "digest": self.digest(), "size": self.bytes.len() })
    }
}

fn append<W: Write>(tar: &mut tar::Builder<W>, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut header = header(mode);
    header.set_size(bytes.len() as u64);
    tar.append_data(&mut header, path, bytes)
}

fn folder<W: Write>(tar: &mut tar::Builder<W>, path: &str, mode: u32) -> io::Result<()> {
    let mut header = header(mode);
    header.set_entry_type(EntryType::Directory);
    header.set_size(0);
    tar.append_data(&mut header, format!("{path}/"), io::empty())
}

/// Owned by root, from the beginning of time: who builds it and when leaves no trace.
fn header(mode: u32) -> Header {
    let mut header = Header::new_ustar();
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// This machine's, by the name that Go and so the OCI gave it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn image(folder: &Path) -> Image {
        let (program, list) = (folder.join("program"), folder.join("list"));
        fs::write(&program, "#!").unwrap();
        fs::write(&list, "a,b").unwrap();
        Image {
            name: "localhost/web:v1".into(),
            entrypoint: vec!["/bin/web".into(), "serve".into()],
            files: vec![ImageFile::program(program, "/bin/web"), ImageFile::data(list, "/etc/web/list")],
            ..Image::default()
        }
    }

    fn entries(bytes: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut tar = tar::Archive::new(bytes);
        let read = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().to_string_lossy().into_owned(), (entry.header().mode().unwrap(), content))
        };
        tar.entries().unwrap().map(read).collect()
    }

    fn json_at(entries: &BTreeMap<String, (u32, Vec<u8>)>, path: &str) -> Value {
        serde_json::from_slice(&entries[path].1).unwrap()
    }

    fn blob(digest: &Value) -> String {
        digest.as_str().unwrap().replace("sha256:", "blobs/sha256/")
    }

    #[test]
    fn what_is_packed_is_found_by_following_the_digests() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("images/web.tar");

        let digest = image(folder.path()).write(&archive).unwrap();

        let outer = entries(&fs::read(&archive).unwrap());
        let index = json_at(&outer, "index.json");
        assert_eq!(index["manifests"][0]["digest"], digest);
        assert_eq!(index["manifests"][0]["annotations"]["io.containerd.image.name"], "localhost/web:v1");
        let manifest = json_at(&outer, &blob(&index["manifests"][0]["digest"]));
        let config = json_at(&outer, &blob(&manifest["config"]["digest"]));
        assert_eq!(config["config"]["Entrypoint"], json!(["/bin/web", "serve"]));
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        let layer = entries(&outer[&blob(&manifest["layers"][0]["digest"])].1);
        let modes: Vec<_> = layer.iter().map(|(path, (mode, _))| (path.as_str(), *mode)).collect();
        assert_eq!(
            modes,
            [
                ("bin/", 0o755),
                ("bin/web", 0o755),
                ("etc/", 0o755),
                ("etc/web/", 0o755),
                ("etc/web/list", 0o644),
                ("tmp/", 0o1777)
            ]
        );
        assert_eq!(layer["etc/web/list"].1, b"a,b");
    }

    #[test]
    fn the_same_files_give_the_same_bytes_wherever_and_whenever_they_are_packed() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut shuffled = image(other.path());
        shuffled.files.reverse();

        let digest = image(one.path()).write(&one.path().join("web.tar")).unwrap();
        assert_eq!(digest, shuffled.write(&other.path().join("web.tar")).unwrap());
        let read = |folder: &tempfile::TempDir| fs::read(folder.path().join("web.tar")).unwrap();
        assert!(read(&one) == read(&other));
    }

    #[test]
    fn another_byte_is_another_digest() {
        let folder = tempfile::tempdir().unwrap();
        let image = image(folder.path());
        let digest = image.write(&folder.path().join("web.tar")).unwrap();
        fs::write(folder.path().join("list"), "a,c").unwrap();

        assert_ne!(image.write(&folder.path().join("web.tar")).unwrap(), digest);
    }

    #[test]
    fn a_file_that_is_missing_is_named_and_leaves_no_archive() {
        let folder = tempfile::tempdir().unwrap();
        let image = image(folder.path());
        fs::remove_file(folder.path().join("list")).unwrap();
        let archive = folder.path().join("web.tar");

        let error = image.write(&archive).unwrap_err().to_string();

        assert!(error.starts_with(&format!("cannot read {}", folder.path().join("list").display())), "{error}");
        assert!(!archive.exists());
    }
}
