//! Programs that run in an image without any library: static ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, OnFile, Result};

/// The folder of the workspace that this program was built from.
fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// Where archives are written.
pub fn archives() -> PathBuf {
    target().join("images")
}

fn target() -> PathBuf {
    let set = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    set.map_or_else(|| workspace().join("target"), |dir| workspace().join(dir))
}

/// Builds a package's program of the same name, optimised and static, and returns where it is.
pub fn static_binary(package: &str, program: &str) -> Result<PathBuf> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // Apart from other builds, since their flags differ, and each apart, so that a long one holds up no short one.
    let target = target().join(format!("static-{package}"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(&cargo)
        .args(["build", "--release", "--locked", "--quiet", "--package", package, "--bin", program])
        // Without it the flags would reach build scripts and macros, too.
        .args(["--target", &triple, "--target-dir"])
        .arg(&target)
        .current_dir(workspace())
        .env("CARGO_ENCODED_RUSTFLAGS", flags().join("\u{1f}"))
        .env_remove("RUSTFLAGS")
        .status()
        .on_file("run", Path::new(&cargo))?;
    if !status.success() {
        return Err(Error::Build { package: package.into(), status: status.to_string() });
    }
    Ok(target.join(triple).join("release").join(program))
}

/// Paths of this machine are kept out of the program: the same sources are to give the same bytes anywhere.
fn flags() -> Vec<String> {
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    flags.extend(home.map(|home| format!("--remap-path-prefix={}=/cargo", home.display())));
    flags.push(format!("--remap-path-prefix={}=/drover", workspace().display()));
    flags
}
