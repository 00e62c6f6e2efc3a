//! Work on all cores at once.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Does it for every number below `count`, on a thread a core, until one of them says that it is enough.
pub fn on_all_cores<E: Send>(count: usize, work: impl Fn(usize) -> Result<ControlFlow<()>, E> + Sync) -> Result<(), E> {
    let (next, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || -> Result<(), E> {
        while !enough.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            if work(number)?.is_break() {
                enough.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
