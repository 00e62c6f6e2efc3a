//! From characters to tokens.

use crate::Problem;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Name(String),
    Int(i64),
    /// The one number that is only one with its sign.
    IntMinimum,
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
    /// An operator, a bracket, a comma.
    Sign(&'static str),
    End,
}

/// A token, where it begins, and how it was written.
#[derive(Clone, Debug)]
pub(crate) struct Spot<'a> {
    pub at: usize,
    pub token: Token,
    pub text: &'a str,
}

const SIGNS: [&str; 30] = [
    "&&", "||", "==", "!=", "<=", ">=", ".?", "[?", "{?", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}", "=", "&", "|",
];

/// All tokens, the end last, and what is none.
pub(crate) fn tokens(source: &str) -> (Vec<Spot<'_>>, Vec<Problem>) {
    let mut spots = vec![];
    let mut problems = vec![];
    let mut at = 0;
    loop {
        at = skip_blanks(source, at);
        let rest = &source[at..];
        let Some(first) = rest.chars().next() else {
            spots.push(Spot { at, token: Token::End, text: "<EOF>" });
            return (spots, problems);
        };
        let read = match first {
            '"' | '\'' => text(rest, 0, at),
            'r' | 'R' | 'b' | 'B' if prefix(rest).is_some() => text(rest, prefix(rest).unwrap_or_default(), at),
            '0'..='9' => number(rest, at),
            '.' if rest[1..].starts_with(|next: char| next.is_ascii_digit()) => number(rest, at),
            '_' | 'a'..='z' | 'A'..='Z' => {
                let is_inside = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
                let length = rest.find(|letter| !is_inside(letter)).unwrap_or(rest.len());
                Ok((Token::Name(rest[..length].into()), length))
            }
            '`' => {
                let end = rest[1..].find('`').ok_or_else(|| unrecognised(rest, at));
                end.map(|end| (Token::Name(rest[1..=end].into()), end + 2))
            }
            _ => match SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
                Some("=" | "&" | "|") | None => Err(unrecognised(&rest[..first.len_utf8()], at)),
                Some(sign) => Ok((Token::Sign(sign), sign.len())),
            },
        };
        match read {
            Ok((token, length)) => {
                spots.push(Spot { at, token, text: &rest[..length] });
                at += length;
            }
            // A text that does not end takes the rest with it; anything else is one letter.
            Err(problem) => {
                problems.push(problem);
                at += if matches!(first, '"' | '\'' | '`') { rest.len() } else { first.len_utf8() };
            }
        }
    }
}

fn skip_blanks(source: &str, mut at: usize) -> usize {
    loop {
        let rest = &source[at..];
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']).len();
        at += blank;
        match source[at..].strip_prefix("//") {
            Some(comment) => at += 2 + comment.find('\n').unwrap_or(comment.len()),
            None => return at,
        }
    }
}

fn unrecognised(text: &str, at: usize) -> Problem {
    Problem { at, message: format!("Syntax error: token recognition error at: '{text}'") }
}

/// How many letters stand before a quotation mark, if that is what they do.
fn prefix(rest: &str) -> Option<usize> {
    let letters = rest.find(['"', '\''])?;
    let known = ["r", "R", "b", "B", "rb", "br", "Rb", "rB", "bR", "Br", "BR", "RB"];
    known.contains(&&rest[..letters]).then_some(letters)
}

fn number(rest: &str, at: usize) -> Result<(Token, usize), Problem> {
    if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let digits = hex.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(hex.len());
        return whole(&hex[..digits], 16, &hex[digits..], 2 + digits, at);
    }
    let digits = |text: &str| text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let mut length = digits(rest);
    let mut is_double = false;
    if let Some(fraction) = rest[length..].strip_prefix('.')
        && digits(fraction) > 0
    {
        is_double = true;
        length += 1 + digits(fraction);
    }
    if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits(unsigned) > 0 {
            is_double = true;
            length += 1 + (exponent.len() - unsigned.len()) + digits(unsigned);
        }
    }
    if is_double {
        let number = rest[..length].parse().map_err(|_| Problem { at, message: "invalid double literal".into() })?;
        return Ok((Token::Double(number), length));
    }
    whole(&rest[..length], 10, &rest[length..], length, at)
}

fn whole(digits: &str, base: u32, after: &str, length: usize, at: usize) -> Result<(Token, usize), Problem> {
    let wrong = |message: &str| Problem { at, message: message.into() };
    if after.starts_with(['u', 'U']) {
        let number = u64::from_str_radix(digits, base).map_err(|_| wrong("invalid uint literal"))?;
        return Ok((Token::Uint(number), length + 1));
    }
    match i64::from_str_radix(digits, base) {
        Ok(number) => Ok((Token::Int(number), length)),
        Err(_) if u64::from_str_radix(digits, base) == Ok(1 << 63) => Ok((Token::IntMinimum, length)),
        Err(_) => Err(wrong("invalid int literal")),
    }
}

/// A string or bytes literal after `skip` letters that say which.
fn text(rest: &str, skip: usize, at: usize) -> Result<(Token, usize), Problem> {
    let letters = rest[..skip].to_ascii_lowercase();
    let (is_raw, is_bytes) = (letters.contains('r'), letters.contains('b'));
    let quoted = &rest[skip..];
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| quoted.starts_with(quote));
    let Some(quote) = quote else { return Err(unrecognised(rest, at)) };
    let body = &quoted[quote.len()..];
    let Some(end) = end_of_text(body, quote, is_raw) else { return Err(unrecognised(&rest[..rest.len()], at)) };
    let length = skip + 2 * quote.len() + end;
    let body = &body[..end];
    let token = match (is_raw, is_bytes) {
        (true, true) => Token::Bytes(body.as_bytes().to_vec()),
        (true, false) => Token::String(body.into()),
        (false, _) => {
            let bytes = unescaped(body, is_bytes).map_err(|message| Problem { at, message })?;
            match is_bytes {
                true => Token::Bytes(bytes),
                false => Token::String(String::from_utf8_lossy(&bytes).into_owned()),
            }
        }
    };
    Ok((token, length))
}

fn end_of_text(body: &str, quote: &str, is_raw: bool) -> Option<usize> {
    let mut escaped = false;
    for (place, letter) in body.char_indices() {
        if !escaped && body[place..].starts_with(quote) {
            return Some(place);
        }
        if quote.len() == 1 && letter == '\n' {
            return None;
        }
        escaped = !escaped && !is_raw && letter == '\\';
    }
    None
}

fn unescaped(body: &str, is_bytes: bool) -> Result<Vec<u8>, String> {
    let mut bytes = vec![];
    let mut rest = body;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend(before.as_bytes());
        let mut letters = after.chars();
        let letter = letters.next().ok_or("unable to unescape string")?;
        rest = letters.as_str();
        let digits = match letter {
            'x' | 'X' => 2,
            'u' if !is_bytes => 4,
            'U' if !is_bytes => 8,
            '0'..='3' => 2,
            _ => 0,
        };
        let code = if digits > 0 {
            let taken = rest.get(..digits).ok_or("unable to unescape string")?;
            rest = &rest[digits..];
            let (text, base) = match letter {
                '0'..='3' => (format!("{letter}{taken}"), 8),
                _ => (taken.to_string(), 16),
            };
            u32::from_str_radix(&text, base).map_err(|_| "unable to unescape string".to_string())?
        } else {
            match letter {
                'a' => 7,
                'b' => 8,
                'f' => 12,
                'n' => 10,
                'r' => 13,
                't' => 9,
                'v' => 11,
                '\\' | '\'' | '"' | '`' | '?' => letter as u32,
                _ => return Err("unable to unescape string".into()),
            }
        };
        match (is_bytes, u8::try_from(code)) {
            (true, Ok(byte)) => bytes.push(byte),
            _ => {
                let letter = char::from_u32(code).ok_or("unable to unescape string")?;
                bytes.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    bytes.extend(rest.as_bytes());
    Ok(bytes)
}
