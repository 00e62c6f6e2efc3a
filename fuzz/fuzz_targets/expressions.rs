//! Feeds expressions to the CEL that checks custom objects.
#![no_main]

use drover_cel::{Bindings, Environment, Program, Type, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    let environment = Environment::new().variable("self", Type::Dyn);
    if let Ok(program) = Program::compile(source, &environment) {
        let _ = program.evaluate(&Bindings::new().with("self", Value::list(vec![Value::Int(1)])));
    }
});
