//! The kubeconfig that lets clients in.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub fn render(addr: SocketAddr, authority: &str, token: &str) -> String {
    let server = reachable(addr);
    let authority = STANDARD.encode(authority);
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: corral
  cluster:
    server: https://{server}
    certificate-authority-data: {authority}
users:
- name: corral
  user:
    token: {token}
contexts:
- name: corral
  context:
    cluster: corral
    user: corral
    namespace: default
current-context: corral
"
    )
}

/// Writes beside `path` and then renames, so that nobody reads half a file or one that others may read.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
    let mut draft_name = std::ffi::OsString::from(".");
    draft_name.push(name);
    draft_name.push(format!(".{}", std::process::id()));
    let draft = path.with_file_name(draft_name);

    let _ = fs::remove_file(&draft);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&draft).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let moved = written.and_then(|()| fs::rename(&draft, path));
    if moved.is_err() {
        let _ = fs::remove_file(&draft);
    }
    moved
}

/// Where a client on this machine finds a server that listens on `addr`.
fn reachable(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, addr.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_reached_at_the_loopback_one() {
        let text = render("0.0.0.0:6443".parse().unwrap(), "pem", "secret");

        assert!(text.contains("server: https://127.0.0.1:6443\n"), "{text}");
    }

    #[test]
    fn an_address_of_the_sixth_version_is_bracketed() {
        let text = render("[::1]:6443".parse().unwrap(), "pem", "secret");

        assert!(text.contains("server: https://[::1]:6443\n"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_its_owners_alone_and_replaces_what_was_there() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, "old, and longer than what comes").unwrap();
        write(&path, "new").unwrap();

        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left behind");
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();

        assert!(write(&folder.path().join("missing/config"), "new").is_err());
    }
}
