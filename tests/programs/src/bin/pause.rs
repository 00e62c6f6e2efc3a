//! Holds the namespaces of a pod: it does nothing until it is told to end.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> std::io::Result<()> {
    Signals::new([SIGINT, SIGTERM])?.forever().next();
    Ok(())
}
