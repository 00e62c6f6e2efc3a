//! A web server that ends as a good one does: told to, it goes on answering until nobody sends it requests any more.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const ADDRESS: &str = "0.0.0.0:8080";
/// How long it takes at most until all who send requests know that this server is about to end.
const UNTIL_ALL_KNOW: Duration = Duration::from_secs(4);
const A_REQUEST_TAKES: Duration = Duration::from_millis(20);

fn main() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let listener = TcpListener::bind(ADDRESS)?;
    let under_way = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&under_way);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            counter.fetch_add(1, Ordering::SeqCst);
            let counter = Arc::clone(&counter);
            std::thread::spawn(move || {
                if let Err(error) = answer(&connection) {
                    println!("a request broke off: {error}");
                }
                counter.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    println!("serving on {ADDRESS}");

    signals.forever().next();
    println!("told to end: answering for {} s more", UNTIL_ALL_KNOW.as_secs());
    std::thread::sleep(UNTIL_ALL_KNOW);
    while under_way.load(Ordering::SeqCst) > 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn answer(connection: &TcpStream) -> io::Result<()> {
    connection.set_read_timeout(Some(Duration::from_secs(2)))?;
    // The request is read to its end: else the answer to a client that still writes would be a reset.
    for line in BufReader::new(connection).lines() {
        if line?.is_empty() {
            break;
        }
    }
    std::thread::sleep(A_REQUEST_TAKES);
    let mut writer = connection;
    writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
}
