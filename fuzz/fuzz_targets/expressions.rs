#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../src/expressions.rs"]
mod expressions;

fuzz_target!(|source: &str| expressions::play(source));
