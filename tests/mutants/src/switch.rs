//! Puts changes into a source file, each behind a switch of its own.
//!
//! Nothing is taken away: where a switch is on, the changed words are evaluated instead of the original ones. Since one switch is on at a
//! time, the changed words hold no further switches.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::{LineColumn, Span};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::mutant::{Genre, Mutant};

/// A file with its switches.
#[derive(Debug, Default)]
pub struct Switched {
    pub text: String,
    /// Where each change stands in `text`, from the first character that belongs to it to the last.
    pub places: Vec<(usize, Range<usize>)>,
}

/// `mutants` are changes of this file, with their numbers. One that cannot be put behind a switch is left out.
pub fn switch(source: &str, mutants: &[(usize, &Mutant)]) -> Result<Switched, syn::Error> {
    let file = syn::parse_file(source)?;
    let mut sites = Sites { lines: line_starts(source), source, wanted: BTreeMap::new(), pieces: Vec::new() };
    for (number, mutant) in mutants {
        let place = sites.offset(mutant.span.start.line, mutant.span.start.column.saturating_sub(1));
        let ends = sites.offset(mutant.span.end.line, mutant.span.end.column.saturating_sub(1));
        match mutant.genre {
            // Of an `impl Iterator` all values have one type: it is the real one, or none of it.
            Genre::FnValue if mutant.replacement == "::std::iter::empty()" => {
                let before = format!("(if {} {{ None }} else {{ Some({{ ", is_on(*number));
                sites.insert(*number, place..ends, &before, " }) }).into_iter().flatten()");
            }
            Genre::FnValue => {
                let instead = &mutant.replacement;
                sites.insert(*number, place..place, &format!("if {} {{ return {instead}; }}\n", is_on(*number)), "");
            }
            Genre::MatchArmGuard if mutant.replacement == "true" => {
                sites.insert(*number, place..ends, &format!("({} || (", is_on(*number)), "))");
            }
            Genre::MatchArmGuard => sites.insert(*number, place..ends, &format!("(!{} && (", is_on(*number)), "))"),
            _ => sites.wanted.entry(place).or_default().push((*number, mutant.replacement.clone())),
        }
    }
    sites.visit_file(&file);
    Ok(sites.written())
}

fn is_on(number: usize) -> String {
    format!("crate::switches::is_on({number})")
}

/// Words around a range of the source, for one change.
struct Piece {
    number: usize,
    range: Range<usize>,
    before: String,
    after: String,
}

struct Sites<'a> {
    source: &'a str,
    lines: Vec<usize>,
    /// Changes that still look for their expression, by where their own words begin.
    wanted: BTreeMap<usize, Vec<(usize, String)>>,
    pieces: Vec<Piece>,
}

impl Sites<'_> {
    /// Columns are counted in characters.
    fn offset(&self, line: usize, column: usize) -> usize {
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(self.source.len());
        let text = &self.source[start..];
        start + text.char_indices().nth(column).map_or(text.len(), |(index, _)| index)
    }

    fn range(&self, span: Span) -> Range<usize> {
        let at = |place: LineColumn| self.offset(place.line, place.column);
        at(span.start())..at(span.end())
    }

    fn text(&self, span: Span) -> &str {
        &self.source[self.range(span)]
    }

    fn take(&mut self, span: Span) -> Vec<(usize, String)> {
        let start = self.range(span).start;
        self.wanted.remove(&start).unwrap_or_default()
    }

    fn insert(&mut self, number: usize, range: Range<usize>, before: &str, after: &str) {
        self.pieces.push(Piece { number, range, before: before.to_owned(), after: after.to_owned() });
    }

    /// The words in `range` are evaluated unless the switch is on, `instead` if it is.
    fn choose(&mut self, number: usize, range: Range<usize>, instead: &str) {
        self.insert(number, range, &format!("(if {} {{ {instead} }} else {{ ", is_on(number)), " })");
    }

    fn written(mut self) -> Switched {
        // What has no length comes first; then what ends last stands outermost.
        let length = |range: &Range<usize>| (!range.is_empty(), Reverse(range.end));
        self.pieces.sort_by_key(|piece| (piece.range.start, length(&piece.range)));
        let mut switched = Switched::default();
        let mut open: Vec<(Piece, usize)> = Vec::new();
        let mut copied = 0;
        for piece in self.pieces {
            close(&mut switched, &mut open, &mut copied, self.source, piece.range.start);
            switched.text.push_str(&self.source[copied..piece.range.start]);
            copied = piece.range.start;
            let begins = switched.text.len();
            switched.text.push_str(&piece.before);
            open.push((piece, begins));
        }
        close(&mut switched, &mut open, &mut copied, self.source, usize::MAX);
        switched.text.push_str(&self.source[copied..]);
        switched
    }
}

/// Ends the pieces that end before `place`.
fn close(switched: &mut Switched, open: &mut Vec<(Piece, usize)>, copied: &mut usize, source: &str, place: usize) {
    while let Some((piece, begins)) = open.pop_if(|(piece, _)| piece.range.end <= place) {
        switched.text.push_str(&source[*copied..piece.range.end]);
        *copied = piece.range.end;
        switched.text.push_str(&piece.after);
        switched.places.push((piece.number, begins..switched.text.len()));
    }
}

fn line_starts(source: &str) -> Vec<usize> {
    std::iter::once(0).chain(source.match_indices('\n').map(|(index, _)| index + 1)).collect()
}

fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Sites<'_> {
    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let changes = self.take(binary.op.span());
        if !has_let(&binary.left) && !has_let(&binary.right) {
            let range = self.range(binary.span());
            for (number, operator) in changes {
                let instead =
                    format!("{} {operator} {}", self.text(binary.left.span()), self.text(binary.right.span()));
                self.choose(number, range.clone(), &instead);
            }
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        for (number, _) in self.take(unary.op.span()) {
            let (range, instead) = (self.range(unary.span()), self.text(unary.expr.span()).to_owned());
            self.choose(number, range, &instead);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        for (number, _) in self.take(arm.span()) {
            let off = format!("!{}", is_on(number));
            if let syn::Pat::Guard(guarded) = &arm.pat {
                let range = self.range(guarded.guard.span());
                self.insert(number, range, &format!("{off} && ("), ")");
            } else {
                let end = self.range(arm.pat.span()).end;
                self.insert(number, end..end, &format!(" if {off} "), "");
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expression: &'ast syn::ExprStruct) {
        let rest = expression.rest.as_ref().map(|rest| self.text(rest.span()).to_owned());
        for field in &expression.fields {
            for (number, _) in self.take(field.span()) {
                let (Some(rest), syn::Member::Named(name)) = (&rest, &field.member) else { continue };
                // Whose default it is follows from the expression, and not from a field of it.
                let path = self.text(expression.path.span());
                let rest = if rest == "Default::default()" { format!("{path}::default()") } else { rest.clone() };
                let instead = format!("({rest}).{name}");
                let range = self.range(field.expr.span());
                match field.colon_token {
                    Some(_) => self.choose(number, range, &instead),
                    None => {
                        let before = format!("{name}: if {} {{ {instead} }} else {{ ", is_on(number));
                        self.insert(number, range, &before, " }");
                    }
                }
            }
        }
        visit::visit_expr_struct(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutant::Place;

    /// The change of `genre` at the first occurrence of `words`.
    fn change(source: &str, genre: Genre, words: &str, replacement: &str) -> Mutant {
        let start = source.find(words).unwrap();
        let place = |offset: usize| {
            let line = source[..offset].matches('\n').count() + 1;
            let column = source[..offset].chars().rev().take_while(|one| *one != '\n').count() + 1;
            Place { line, column }
        };
        Mutant {
            name: format!("{genre:?} {words}"),
            file: "lib.rs".into(),
            genre,
            replacement: replacement.into(),
            span: crate::mutant::Extent { start: place(start), end: place(start + words.len()) },
        }
    }

    fn switched(source: &str, mutants: &[Mutant]) -> Switched {
        switch(source, &mutants.iter().enumerate().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn an_operator_is_another_one_while_its_switch_is_on() {
        let source = "fn f(ä: u8) -> bool { ä < 3 }";
        let mutants = [("==", 0), (">", 1)].map(|(operator, _)| change(source, Genre::BinaryOperator, "<", operator));
        assert_eq!(
            switched(source, &mutants).text,
            "fn f(ä: u8) -> bool { (if crate::switches::is_on(0) { ä == 3 } else { \
             (if crate::switches::is_on(1) { ä > 3 } else { ä < 3 }) }) }"
        );
    }

    #[test]
    fn a_function_gives_something_else_back_before_it_does_anything() {
        let source = "fn f() -> bool {\n    g() && h()\n}";
        let both =
            [change(source, Genre::FnValue, "g() && h()", "true"), change(source, Genre::BinaryOperator, "&&", "||")];
        assert_eq!(
            switched(source, &both).text,
            "fn f() -> bool {\n    if crate::switches::is_on(0) { return true; }\n\
             (if crate::switches::is_on(1) { g() || h() } else { g() && h() })\n}"
        );
    }

    #[test]
    fn an_iterator_is_empty_and_has_the_type_that_it_has_otherwise() {
        let source = "fn f() -> impl Iterator<Item = u8> { g() }";
        assert_eq!(
            switched(source, &[change(source, Genre::FnValue, "g()", "::std::iter::empty()")]).text,
            "fn f() -> impl Iterator<Item = u8> { (if crate::switches::is_on(0) { None } else { Some({ g() }) })\
             .into_iter().flatten() }"
        );
    }

    #[test]
    fn arms_and_guards_and_fields_are_switched_where_they_stand() {
        let arm = "fn f(a: u8) { match a { 1 => g(), n if n > 3 => h(), _ => {} } }";
        let all = [change(arm, Genre::MatchArm, "1 => g(),", ""), change(arm, Genre::MatchArmGuard, "n > 3", "false")];
        assert_eq!(
            switched(arm, &all).text,
            "fn f(a: u8) { match a { 1 if !crate::switches::is_on(0)  => g(), \
             n if (!crate::switches::is_on(1) && (n > 3)) => h(), _ => {} } }"
        );
        let field = "fn f() -> A { A { b: 1, ..Default::default() } }";
        assert_eq!(
            switched(field, &[change(field, Genre::StructField, "b: 1", "")]).text,
            "fn f() -> A { A { b: (if crate::switches::is_on(0) { (A::default()).b } else { 1 }), ..Default::default() } }"
        );
    }

    #[test]
    fn what_stands_beside_a_pattern_is_left_out() {
        let source = "fn f(a: Option<u8>) -> bool { if a.is_some() && let Some(1) = a { true } else { false } }";
        let chain = switched(source, &[change(source, Genre::BinaryOperator, "&&", "||")]);
        assert_eq!((chain.text.as_str(), chain.places.len()), (source, 0));
    }
}
