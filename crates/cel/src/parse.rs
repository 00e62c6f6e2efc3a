//! From tokens to expressions, with the macros of CEL already understood.

use crate::{
    Problem,
    expr::{Entry, Expr, Item, Kind, Loop, Purpose, Way},
    lex::{Spot, Token, tokens},
    value::Value,
};

/// How many brackets may be open at once. The parser recurses several times for each.
const BRACKET_LIMIT: usize = 64;

/// How deep an expression may be. Everything that walks over one recurses that deep.
const DEPTH_LIMIT: usize = 250;

/// What can begin an expression, as the original's grammar lists it.
const BEGINNINGS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                          STRING, BYTES, IDENTIFIER}";

/// Names that mean something else, or will.
const RESERVED: [&str; 19] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "in",
    "null",
];

pub(crate) fn parse(source: &str) -> Result<Expr, Vec<Problem>> {
    let (spots, mut problems) = tokens(source);
    let mut parser = Parser { spots, next: 0, depth: 0 };
    let parsed = parser.conditional().and_then(|expr| match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected("extraneous", "<EOF>")),
    });
    match parsed {
        Ok(expr) if problems.is_empty() => Ok(expr),
        Ok(_) => Err(problems),
        Err(problem) => {
            problems.push(problem);
            Err(problems)
        }
    }
}

struct Parser<'a> {
    spots: Vec<Spot<'a>>,
    next: usize,
    depth: usize,
}

type Parsed<T> = Result<T, Problem>;

impl Parser<'_> {
    fn spot(&self) -> &Spot<'_> {
        // There is always one: the last is the end, and nothing goes past it.
        &self.spots[self.next.min(self.spots.len() - 1)]
    }

    fn peek(&self) -> &Token {
        &self.spot().token
    }

    fn at(&self) -> usize {
        self.spot().at
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(found) if *found == sign)
    }

    fn accept(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Parsed<()> {
        if self.accept(sign) { Ok(()) } else { Err(self.unexpected("mismatched", &format!("'{sign}'"))) }
    }

    fn unexpected(&self, how: &str, expected: &str) -> Problem {
        let Spot { at, text, .. } = self.spot();
        Problem { at: *at, message: format!("Syntax error: {how} input '{text}' expecting {expected}") }
    }

    /// Goes one level down, unless that is too deep.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= BRACKET_LIMIT {
            return Err(too_deep(self.at()));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn conditional(&mut self) -> Parsed<Expr> {
        self.nested(|parser| {
            let condition = parser.chain(0)?;
            let at = parser.at();
            if !parser.accept("?") {
                return Ok(condition);
            }
            let yes = parser.chain(0)?;
            parser.expect(":")?;
            let no = parser.conditional()?;
            Ok(Expr::call(at, "_?_:_", vec![condition, yes, no]))
        })
    }

    /// Binary operators, those that bind least first.
    fn chain(&mut self, level: usize) -> Parsed<Expr> {
        const LEVELS: [&[(&str, &str)]; 5] = [
            &[("||", "_||_")],
            &[("&&", "_&&_")],
            &[
                ("<", "_<_"),
                ("<=", "_<=_"),
                (">=", "_>=_"),
                (">", "_>_"),
                ("==", "_==_"),
                ("!=", "_!=_"),
                ("in", "@in"),
            ],
            &[("+", "_+_"), ("-", "_-_")],
            &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
        ];
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.chain(level + 1)?;
        loop {
            let at = self.at();
            let found = match self.peek() {
                Token::Sign(sign) => operators.iter().find(|(name, _)| name == sign),
                Token::Name(name) => operators.iter().find(|(sign, _)| name == sign),
                _ => None,
            };
            let Some((_, function)) = found else { return Ok(left) };
            if left.depth > DEPTH_LIMIT {
                return Err(too_deep(at));
            }
            self.take();
            let right = self.chain(level + 1)?;
            left = Expr::call(at, function, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let at = self.at();
        for (sign, function) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            while self.accept(sign) {
                count += 1;
            }
            if count == 0 {
                continue;
            }
            if sign == "-" {
                // A number takes its sign in.
                let literal = match self.peek() {
                    Token::IntMinimum => Some(Value::Int(i64::MIN)),
                    Token::Int(number) => Some(Value::Int(-number)),
                    Token::Double(number) => Some(Value::Double(-number)),
                    _ => None,
                };
                if let Some(literal) = literal {
                    self.take();
                    count -= 1;
                    let operand = self.members(Expr::new(at, Kind::Literal(literal)))?;
                    return Ok(if count % 2 == 1 { Expr::call(at, function, vec![operand]) } else { operand });
                }
            }
            let operand = self.member()?;
            return Ok(if count % 2 == 1 { Expr::call(at, function, vec![operand]) } else { operand });
        }
        self.member()
    }

    fn member(&mut self) -> Parsed<Expr> {
        let start = self.primary()?;
        self.members(start)
    }

    fn members(&mut self, mut expr: Expr) -> Parsed<Expr> {
        loop {
            let at = self.at();
            if expr.depth > DEPTH_LIMIT {
                return Err(too_deep(at));
            }
            if self.accept(".?") {
                let field = self.field_name()?;
                expr = Expr::new(at, Kind::Select { operand: Box::new(expr), field, way: Way::Optional });
            } else if self.accept(".") {
                let field = self.field_name()?;
                let open = self.at();
                expr = match self.accept("(") {
                    true => {
                        let args = self.list_of(")", Parser::conditional)?;
                        method(open, expr, field, args)?
                    }
                    false => Expr::new(at, Kind::Select { operand: Box::new(expr), field, way: Way::Value }),
                };
            } else if self.is("[") || self.is("[?") {
                let function = if self.is("[") { "_[_]" } else { "_[?_]" };
                self.take();
                let index = self.conditional()?;
                self.expect("]")?;
                expr = Expr::call(at, function, vec![expr, index]);
            } else {
                return Ok(expr);
            }
        }
    }

    fn field_name(&mut self) -> Parsed<String> {
        match self.peek().clone() {
            Token::Name(name) if name != "in" => {
                self.take();
                Ok(name)
            }
            _ => {
                let Spot { at, text, .. } = self.spot();
                let message = format!("Syntax error: no viable alternative at input '.{text}'");
                Err(Problem { at: *at, message })
            }
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let at = self.at();
        let literal = |value| Ok(Expr::new(at, Kind::Literal(value)));
        match self.peek().clone() {
            Token::Int(number) => self.taken(literal(Value::Int(number))),
            Token::Uint(number) => self.taken(literal(Value::Uint(number))),
            Token::Double(number) => self.taken(literal(Value::Double(number))),
            Token::String(text) => self.taken(literal(Value::from(text.as_str()))),
            Token::Bytes(bytes) => self.taken(literal(Value::Bytes(bytes.into()))),
            Token::IntMinimum => Err(Problem { at, message: "invalid int literal".into() }),
            Token::Name(name) => match name.as_str() {
                "true" => self.taken(literal(Value::Bool(true))),
                "false" => self.taken(literal(Value::Bool(false))),
                "null" => self.taken(literal(Value::Null)),
                "in" => Err(self.unexpected("mismatched", BEGINNINGS)),
                _ => self.name_or_call(at, name),
            },
            Token::Sign("(") => {
                self.take();
                let inner = self.conditional()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                self.take();
                Ok(Expr::new(at, Kind::List(self.list_of("]", Parser::item)?)))
            }
            Token::Sign("[?") => {
                self.take();
                let first = Item { value: self.conditional()?, optional: true };
                let rest = if self.accept(",") { self.list_of("]", Parser::item)? } else { self.closed("]")? };
                Ok(Expr::new(at, Kind::List([vec![first], rest].concat())))
            }
            Token::Sign("{") => {
                self.take();
                Ok(Expr::new(at, Kind::Map(self.list_of("}", Parser::entry)?)))
            }
            Token::Sign("{?") => {
                self.take();
                let first = Entry { optional: true, ..self.entry()? };
                let rest = if self.accept(",") { self.list_of("}", Parser::entry)? } else { self.closed("}")? };
                Ok(Expr::new(at, Kind::Map([vec![first], rest].concat())))
            }
            Token::Sign(".") => {
                self.take();
                let name = self.field_name()?;
                Ok(Expr::new(at, Kind::Name(name)))
            }
            _ => Err(self.unexpected("mismatched", BEGINNINGS)),
        }
    }

    fn taken(&mut self, expr: Parsed<Expr>) -> Parsed<Expr> {
        self.take();
        expr
    }

    fn closed<T>(&mut self, close: &str) -> Parsed<Vec<T>> {
        self.expect(close).map(|()| vec![])
    }

    fn name_or_call(&mut self, at: usize, name: String) -> Parsed<Expr> {
        if RESERVED.contains(&name.as_str()) {
            return Err(Problem { at, message: format!("reserved identifier: {name}") });
        }
        self.take();
        let open = self.at();
        if !self.accept("(") {
            return Ok(Expr::new(at, Kind::Name(name)));
        }
        let mut args = self.list_of(")", Parser::conditional)?;
        if name != "has" || args.len() != 1 {
            return Ok(Expr::call(open, &name, args));
        }
        match args.remove(0) {
            Expr { kind: Kind::Select { operand, field, way: Way::Value }, .. } => {
                Ok(Expr::new(open, Kind::Select { operand, field, way: Way::Presence }))
            }
            other => Err(Problem { at: other.at, message: "invalid argument to has() macro".into() }),
        }
    }

    /// Elements up to a closing bracket; a comma may stand after the last.
    fn list_of<T>(&mut self, close: &str, element: fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut elements = vec![];
        while !self.accept(close) {
            if close == ")" && elements.is_empty() && matches!(self.peek(), Token::End) {
                return Err(self.unexpected("mismatched", &BEGINNINGS.replace("'(', ", "'(', ')', ")));
            }
            elements.push(self.nested(element)?);
            if !self.accept(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(elements)
    }

    fn item(&mut self) -> Parsed<Item> {
        let optional = self.accept("?");
        Ok(Item { value: self.conditional()?, optional })
    }

    fn entry(&mut self) -> Parsed<Entry> {
        let optional = self.accept("?");
        let key = self.conditional()?;
        self.expect(":")?;
        Ok(Entry { key, value: self.conditional()?, optional })
    }
}

fn too_deep(at: usize) -> Problem {
    Problem { at, message: format!("expression recursion limit exceeded: {DEPTH_LIMIT}") }
}

/// A call on a target, which may be a macro.
fn method(at: usize, target: Expr, name: String, args: Vec<Expr>) -> Parsed<Expr> {
    let count = args.len();
    let purpose = match (name.as_str(), count) {
        ("all", 2 | 3) => Purpose::All,
        ("exists", 2 | 3) => Purpose::Exists,
        ("exists_one", 2) | ("existsOne", 2 | 3) => Purpose::ExistsOne,
        ("filter", 2) => Purpose::Filter,
        ("map", 2 | 3) | ("transformList", 3 | 4) => Purpose::List,
        ("transformMap", 3 | 4) => Purpose::Map,
        ("transformMapEntry", 3 | 4) => Purpose::Entries,
        ("sortBy", 2) => Purpose::SortBy,
        ("optMap" | "optFlatMap", 2) => return unwrap(at, target, name == "optFlatMap", args),
        _ => return Ok(Expr::new(at, Kind::Call { function: name, target: Some(Box::new(target)), args })),
    };
    let transforms = name.starts_with("transform");
    // `map` has its condition between the name and the body; the others have a second name there.
    let has_second = transforms || (count == 3 && name != "map");
    let has_filter = count == if has_second { 4 } else { 3 };
    let mut args = args.into_iter();
    let mut name_of = |what: &str| match args.next() {
        Some(Expr { kind: Kind::Name(name), .. }) => Ok(name),
        other => Err(Problem { at: other.map_or(at, |arg| arg.at), message: format!("argument {what} identifier") }),
    };
    let first = name_of("must be a simple")?;
    let second = has_second.then(|| name_of("must be a simple")).transpose()?;
    let filter = if has_filter { args.next() } else { None };
    let Some(body) = args.next() else { return Err(Problem { at, message: "missing argument".into() }) };
    Ok(Expr::new(at, Kind::Loop(Box::new(Loop { purpose, range: target, first, second, filter, body }))))
}

fn unwrap(at: usize, target: Expr, flat: bool, args: Vec<Expr>) -> Parsed<Expr> {
    let mut args = args.into_iter();
    match (args.next(), args.next()) {
        (Some(Expr { kind: Kind::Name(name), .. }), Some(body)) => {
            Ok(Expr::new(at, Kind::Unwrap { operand: Box::new(target), name, body: Box::new(body), flat }))
        }
        _ => Err(Problem { at, message: "optMap() variable name must be a simple identifier".into() }),
    }
}
