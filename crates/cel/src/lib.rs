//! The Common Expression Language (CEL) as Kubernetes speaks it: parsed, type-checked and evaluated.
//!
//! ```
//! use drover_cel::{Bindings, Environment, Program, Type, Value};
//!
//! let environment = Environment::new().variable("self", Type::Dyn);
//! let program = Program::compile("self.replicas > 1", &environment)?;
//! let bindings = Bindings::new().with("self", Value::from_json(&serde_json::json!({ "replicas": 3 })));
//! assert!(program.is_true(&bindings)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program that compiles has no undeclared name in it and no operator without a meaning, as far as the types of its
//! variables say. What it may cost is bounded: by the depth of the expression when it is compiled, and by a number of
//! steps when it is evaluated. The words of errors are those of the original.

mod check;
mod declarations;
mod eval;
mod expr;
mod functions;
mod json;
mod lex;
mod parse;
mod types;
mod value;

use std::collections::BTreeMap;

use self::expr::Expr;
pub use self::{
    check::is_assignable,
    eval::EvalError,
    functions::parse_duration,
    json::{escape, unescape},
    types::{ObjectType, Type},
    value::{Key, List, Order, Value},
};

/// The most characters that an expression may have.
const SOURCE_LIMIT: usize = 100_000;

/// Which variables an expression may use, and of which types they are.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, Type>,
}

impl Environment {
    pub fn new() -> Self {
        Environment::default()
    }

    /// Declares a variable. Its name may be qualified, as `variables.limit`.
    pub fn variable(mut self, name: impl Into<String>, kind: Type) -> Self {
        self.variables.insert(name.into(), kind);
        self
    }

    fn lookup(&self, name: &str) -> Option<&Type> {
        self.variables.get(name)
    }
}

/// What the variables of an expression stand for.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    values: BTreeMap<String, Result<Value, EvalError>>,
}

impl Bindings {
    pub fn new() -> Self {
        Bindings::default()
    }

    pub fn with(mut self, name: impl Into<String>, value: Value) -> Self {
        self.set(name, Ok(value));
        self
    }

    /// Binds a variable to a value, or to the error that whoever asks for it is to get.
    pub fn set(&mut self, name: impl Into<String>, value: Result<Value, EvalError>) {
        self.values.insert(name.into(), value);
    }
}

/// Why an expression is not accepted: everything that is wrong with it, each with its place.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", .0)]
pub struct CompileError(String);

/// An expression that was accepted.
#[derive(Debug)]
pub struct Program {
    expr: Expr,
    kind: Type,
    names: Vec<String>,
}

impl Program {
    pub fn compile(source: &str, environment: &Environment) -> Result<Program, CompileError> {
        let length = source.chars().count();
        if length > SOURCE_LIMIT {
            let why = format!("expression code point size exceeds limit: size: {length}, limit {SOURCE_LIMIT}");
            return Err(CompileError(shown(source, &mut [Problem { at: 0, message: why }])));
        }
        let parsed = parse::parse(source).map_err(|mut problems| CompileError(shown(source, &mut problems)))?;
        let checked = check::check(parsed, environment);
        checked.map_err(|mut problems| CompileError(shown(source, &mut problems)))
    }

    /// The type of what it evaluates to.
    pub fn kind(&self) -> &Type {
        &self.kind
    }

    /// Whether it asks for a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.names.iter().any(|name| name == variable)
    }

    pub fn evaluate(&self, bindings: &Bindings) -> Result<Value, EvalError> {
        eval::evaluate(&self.expr, bindings)
    }

    /// Whether it evaluates to `true`, and not to `false` or anything else.
    pub fn is_true(&self, bindings: &Bindings) -> Result<bool, EvalError> {
        Ok(matches!(self.evaluate(bindings)?, Value::Bool(true)))
    }
}

/// Something wrong with an expression, and the byte where.
#[derive(Debug)]
struct Problem {
    at: usize,
    message: String,
}

/// Problems as the original shows them: each with its line, and a mark under the place.
fn shown(source: &str, problems: &mut [Problem]) -> String {
    problems.sort_by_key(|problem| problem.at);
    let shown = problems.iter().map(|problem| {
        let before = source.get(..problem.at.min(source.len())).unwrap_or(source);
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let text = source.split('\n').nth(line).unwrap_or_default();
        let dots = ".".repeat(column);
        format!("ERROR: <input>:{}:{}: {}\n | {text}\n | {dots}^", line + 1, column + 1, problem.message)
    });
    shown.collect::<Vec<_>>().join("\n")
}
