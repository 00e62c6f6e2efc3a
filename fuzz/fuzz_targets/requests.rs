#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../src/requests.rs"]
mod requests;

fuzz_target!(|input: &[u8]| requests::play(input));
