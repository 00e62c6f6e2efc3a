//! The images of the lab's real nodes, packed from programs of this project: there is no registry to pull them from.

use std::path::PathBuf;

use drover_api::plan::jobs::DROVER_IMAGE;
use drover_image::{Image, ImageFile, archives, static_binary};

use crate::binaries::Binaries;
use crate::error::Result;
use crate::nodes::NEW_KUBELET;

/// A web server that ends gracefully; it listens on port 8080.
pub const WEB: &str = "localhost/web:lab";
/// What a Plan names as its upgrade: the version that it upgrades to becomes the tag.
pub const KUBELET_UPGRADE: &str = "localhost/kubelet-upgrade";
/// What every pod's namespaces hang on.
pub(crate) const PAUSE: &str = "registry.k8s.io/pause:3.10";

const PROGRAMS: &str = "drover-test-programs";

/// The archives of everything that a Plan on real nodes needs.
pub fn all() -> Result<Vec<PathBuf>> {
    Ok(vec![web()?, kubelet_upgrade()?, drover()?])
}

/// Drover's own, as operator and in the Jobs of Plans; under the name by which an operator asks for it.
pub fn drover() -> Result<PathBuf> {
    write("drover", &drover_image::drover(DROVER_IMAGE, static_binary("drover", "drover")?)?)
}

pub fn web() -> Result<PathBuf> {
    write("web", &program(WEB, "web")?)
}

pub fn kubelet_upgrade() -> Result<PathBuf> {
    let mut image = program(&format!("{KUBELET_UPGRADE}:{NEW_KUBELET}"), "upgrade-kubelet")?;
    let kubelet = Binaries::ensure_kubelets()?.path(&format!("kubelet-{NEW_KUBELET}"));
    image.files.push(ImageFile::program(kubelet, "/kubelet"));
    write("kubelet-upgrade", &image)
}

pub(crate) fn pause() -> Result<PathBuf> {
    write("pause", &program(PAUSE, "pause")?)
}

/// One program of this project and nothing else.
fn program(name: &str, program: &str) -> Result<Image> {
    let path = format!("/{program}");
    let file = ImageFile::program(static_binary(PROGRAMS, program)?, &path);
    Ok(Image { name: name.to_owned(), entrypoint: vec![path], files: vec![file], ..Image::default() })
}

fn write(name: &str, image: &Image) -> Result<PathBuf> {
    let archive = archives().join(format!("{name}.tar"));
    image.write(&archive)?;
    Ok(archive)
}
