//! `drover-image`: builds Drover's image, without a container engine.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use drover_api::plan::jobs::DROVER_IMAGE;
use drover_image::{Result, archives, drover, static_binary};

/// Builds Drover's image as an OCI archive.
#[derive(Debug, Parser)]
#[command(name = "drover-image")]
struct Args {
    /// The image's name and tag
    #[arg(long, default_value = DROVER_IMAGE)]
    name: String,
    /// Where to write it [default: target/images/drover.tar]
    #[arg(long, value_name = "FILE")]
    archive: Option<PathBuf>,
}

fn main() -> ExitCode {
    match image(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drover-image: {error}");
            ExitCode::FAILURE
        }
    }
}

fn image(args: Args) -> Result<()> {
    let archive = args.archive.unwrap_or_else(|| archives().join("drover.tar"));
    let digest = drover(&args.name, static_binary("drover", "drover")?)?.write(&archive)?;
    println!("{}: {} {digest}", archive.display(), args.name);
    println!(
        "Load it with `ctr -n k8s.io images import FILE`, `podman load -i FILE` or `skopeo copy oci-archive:FILE …`."
    );
    Ok(())
}
