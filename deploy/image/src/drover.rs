//! The image of Drover itself: operator, and the `cordon` and `drain` containers of a Plan's Jobs.

use std::path::{Path, PathBuf};

use crate::{Error, Image, ImageFile, Result};

/// The certificates of the public authorities, for channels that are asked over HTTPS.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Nobody: neither the operator nor a drain needs rights on the machine that it runs on.
const USER: &str = "65534:65534";

/// Drover's image around this program. Under the name [`drover_api::plan::jobs::DROVER_IMAGE`] an operator finds it
/// without being told.
pub fn drover(name: &str, program: PathBuf) -> Result<Image> {
    let authorities = Path::new(AUTHORITIES);
    if !authorities.exists() {
        return Err(Error::NoAuthorities { path: authorities.to_owned() });
    }
    let labels = [
        ("org.opencontainers.image.title", "drover"),
        ("org.opencontainers.image.description", "Upgrades Kubernetes clusters, node by node"),
        ("org.opencontainers.image.version", env!("CARGO_PKG_VERSION")),
        ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE")),
    ];
    Ok(Image {
        name: name.to_owned(),
        entrypoint: vec!["/usr/bin/drover".to_owned()],
        user: Some(USER.to_owned()),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        files: vec![ImageFile::program(program, "/usr/bin/drover"), ImageFile::data(authorities, AUTHORITIES)],
    })
}
