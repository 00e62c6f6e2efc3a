//! Expressions from text, for the CEL that checks custom objects: none makes it panic.

use drover_cel::{Bindings, Environment, Program, Type, Value};

/// Compiles an expression and evaluates it.
pub fn play(source: &str) {
    let environment = Environment::new().variable("self", Type::Dyn);
    if let Ok(program) = Program::compile(source, &environment) {
        let _ = program.evaluate(&Bindings::new().with("self", Value::list(vec![Value::Int(1)])));
    }
}
