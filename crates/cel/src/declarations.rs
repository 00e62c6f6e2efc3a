//! Which functions there are, and for which types.
//!
//! One line an overload, `name(argument, …): result`; what is called on a value has its type before a bar. `A` and
//! `B` stand for any type.

use std::{collections::BTreeMap, sync::LazyLock};

use crate::types::Type;

const STANDARD: &str = "
_==_(A, A): bool
_!=_(A, A): bool
!_(bool): bool
-_(int): int
-_(double): double
_?_:_(bool, A, A): A
_&&_(bool, bool): bool
_||_(bool, bool): bool
_+_(bytes, bytes): bytes
_+_(double, double): double
_+_(duration, duration): duration
_+_(duration, timestamp): timestamp
_+_(timestamp, duration): timestamp
_+_(int, int): int
_+_(list(A), list(A)): list(A)
_+_(string, string): string
_+_(uint, uint): uint
_-_(double, double): double
_-_(duration, duration): duration
_-_(int, int): int
_-_(timestamp, duration): timestamp
_-_(timestamp, timestamp): duration
_-_(uint, uint): uint
_*_(double, double): double
_*_(int, int): int
_*_(uint, uint): uint
_/_(double, double): double
_/_(int, int): int
_/_(uint, uint): uint
_%_(int, int): int
_%_(uint, uint): uint
_[_](list(A), int): A
_[_](map(A, B), A): B
_[_](optional(list(A)), int): optional(A)
_[_](optional(map(A, B)), A): optional(B)
_[?_](list(A), int): optional(A)
_[?_](map(A, B), A): optional(B)
_[?_](optional(list(A)), int): optional(A)
_[?_](optional(map(A, B)), A): optional(B)
@in(A, list(A)): bool
@in(A, map(A, B)): bool
size(string): int
size(bytes): int
size(list(A)): int
size(map(A, B)): int
string | size(): int
bytes | size(): int
list(A) | size(): int
map(A, B) | size(): int
type(A): type(A)
dyn(A): dyn
bool(bool): bool
bool(string): bool
bytes(bytes): bytes
bytes(string): bytes
double(double): double
double(int): double
double(string): double
double(uint): double
duration(duration): duration
duration(int): duration
duration(string): duration
int(int): int
int(double): int
int(duration): int
int(string): int
int(timestamp): int
int(uint): int
string(string): string
string(bool): string
string(bytes): string
string(double): string
string(duration): string
string(int): string
string(timestamp): string
string(uint): string
string(ip): string
string(cidr): string
timestamp(timestamp): timestamp
timestamp(int): timestamp
timestamp(string): timestamp
uint(uint): uint
uint(double): uint
uint(int): uint
uint(string): uint
matches(string, string): bool
string | matches(string): bool
string | contains(string): bool
string | endsWith(string): bool
string | startsWith(string): bool
optional.of(A): optional(A)
optional.ofNonZeroValue(A): optional(A)
optional.none(): optional(A)
optional(A) | value(): A
optional(A) | hasValue(): bool
optional(A) | or(optional(A)): optional(A)
optional(A) | orValue(A): A
";

const STRINGS: &str = "
string | charAt(int): string
string | indexOf(string): int
string | indexOf(string, int): int
string | lastIndexOf(string): int
string | lastIndexOf(string, int): int
list(string) | join(): string
list(string) | join(string): string
string | lowerAscii(): string
string | upperAscii(): string
string | replace(string, string): string
string | replace(string, string, int): string
string | split(string): list(string)
string | split(string, int): list(string)
string | substring(int): string
string | substring(int, int): string
string | trim(): string
string | format(list(dyn)): string
strings.quote(string): string
string | find(string): string
string | findAll(string): list(string)
string | findAll(string, int): list(string)
jsonpatch.escapeKey(string): string
";

const LISTS: &str = "
list(A) | indexOf(A): int
list(A) | lastIndexOf(A): int
list(A) | slice(int, int): list(A)
list(list(A)) | flatten(): list(A)
list(dyn) | flatten(): list(dyn)
list(dyn) | flatten(int): list(dyn)
list(A) | distinct(): list(A)
list(A) | reverse(): list(A)
lists.range(int): list(int)
sets.contains(list(A), list(A)): bool
sets.equivalent(list(A), list(A)): bool
sets.intersects(list(A), list(A)): bool
";

const KUBERNETES: &str = "
url(string): url
isURL(string): bool
url | getScheme(): string
url | getHost(): string
url | getHostname(): string
url | getPort(): string
url | getEscapedPath(): string
url | getQuery(): map(string, list(string))
quantity(string): quantity
isQuantity(string): bool
sign(quantity): int
quantity | isGreaterThan(quantity): bool
quantity | isLessThan(quantity): bool
quantity | compareTo(quantity): int
quantity | asApproximateFloat(): double
quantity | asInteger(): int
quantity | isInteger(): bool
quantity | add(quantity): quantity
quantity | add(int): quantity
quantity | sub(quantity): quantity
quantity | sub(int): quantity
ip(string): ip
isIP(string): bool
ip.isCanonical(string): bool
ip | family(): int
ip | isUnspecified(): bool
ip | isLoopback(): bool
ip | isLinkLocalMulticast(): bool
ip | isLinkLocalUnicast(): bool
ip | isGlobalUnicast(): bool
cidr(string): cidr
isCIDR(string): bool
cidr | containsIP(string): bool
cidr | containsIP(ip): bool
cidr | containsCIDR(string): bool
cidr | containsCIDR(cidr): bool
cidr | ip(): ip
cidr | prefixLength(): int
cidr | masked(): cidr
semver(string): semver
semver(string, bool): semver
isSemver(string): bool
isSemver(string, bool): bool
semver | isGreaterThan(semver): bool
semver | isLessThan(semver): bool
semver | compareTo(semver): int
semver | major(): int
semver | minor(): int
semver | patch(): int
format.named(string): optional(format)
format | validate(string): optional(list(string))
";

/// One meaning of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub is_method: bool,
    /// With the value that it is called on, if it is a method.
    pub args: Vec<Type>,
    pub result: Type,
    /// How many type parameters it has, numbered from 0.
    pub unknowns: u32,
}

pub(crate) static FUNCTIONS: LazyLock<BTreeMap<String, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<String, Vec<Overload>> = BTreeMap::new();
    let written = [STANDARD, STRINGS, LISTS, KUBERNETES].into_iter().flat_map(str::lines);
    let lines = written.filter(|line| !line.is_empty()).map(String::from).chain(generated());
    for line in lines {
        let reader = Reader { rest: &line, unknowns: vec![] };
        if let Some((name, overload)) = reader.overload() {
            functions.entry(name).or_default().push(overload);
        }
    }
    functions
});

/// Overloads that differ only in a type.
fn generated() -> impl Iterator<Item = String> {
    let ordered = ["bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"];
    let numbers = ["int", "uint", "double"];
    let mixed = numbers.into_iter().flat_map(move |left| numbers.map(|right| (left, right)));
    let pairs = ordered.map(|kind| (kind, kind)).into_iter().chain(mixed.filter(|(left, right)| left != right));
    let comparisons = ["_<_", "_<=_", "_>_", "_>=_"]
        .into_iter()
        .flat_map(move |operator| pairs.clone().map(move |(left, right)| format!("{operator}({left}, {right}): bool")));
    let over_lists = ordered.into_iter().flat_map(|kind| {
        let min_max = [format!("list({kind}) | min(): {kind}"), format!("list({kind}) | max(): {kind}")];
        let sort = [format!("list({kind}) | isSorted(): bool"), format!("list({kind}) | sort(): list({kind})")];
        min_max.into_iter().chain(sort)
    });
    let sums = ["int", "uint", "double", "duration"].map(|kind| format!("list({kind}) | sum(): {kind}"));
    let of_time = [
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getFullYear",
        "getHours",
        "getMilliseconds",
        "getMinutes",
        "getMonth",
        "getSeconds",
    ];
    let moments = of_time
        .into_iter()
        .flat_map(|name| [format!("timestamp | {name}(): int"), format!("timestamp | {name}(string): int")]);
    let spans =
        ["getHours", "getMilliseconds", "getMinutes", "getSeconds"].map(|name| format!("duration | {name}(): int"));
    let formats = crate::functions::FORMATS.iter().map(|format| format!("format.{}(): format", format.name));
    comparisons.chain(over_lists).chain(sums).chain(moments).chain(spans).chain(formats)
}

/// The type that a name in a declaration stands for.
fn simple(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "dyn" => Type::Dyn,
        "url" => Type::Opaque("kubernetes.URL"),
        "quantity" => Type::Opaque("kubernetes.Quantity"),
        "ip" => Type::Opaque("net.IP"),
        "cidr" => Type::Opaque("net.CIDR"),
        "semver" => Type::Opaque("kubernetes.Semver"),
        "format" => Type::Opaque("kubernetes.NamedFormat"),
        _ => return None,
    })
}

/// The types that expressions can name.
pub(crate) fn type_name(name: &str) -> Option<Type> {
    Some(match name {
        "bool" | "int" | "uint" | "double" | "string" | "bytes" => simple(name)?,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "type" => Type::Type(Box::new(Type::Dyn)),
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "kubernetes.URL" => Type::Opaque("kubernetes.URL"),
        "kubernetes.Quantity" => Type::Opaque("kubernetes.Quantity"),
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        "kubernetes.Semver" => Type::Opaque("kubernetes.Semver"),
        _ => return None,
    })
}

/// Reads one line.
struct Reader<'a> {
    rest: &'a str,
    unknowns: Vec<&'a str>,
}

impl<'a> Reader<'a> {
    fn overload(mut self) -> Option<(String, Overload)> {
        let receiver = self.rest.split_once(" | ");
        let mut args = vec![];
        if let Some((receiver, rest)) = receiver {
            self.rest = receiver;
            args.push(self.kind()?);
            self.rest = rest;
        }
        let (name, rest) = self.rest.split_once('(')?;
        self.rest = rest;
        while !self.skip(")") {
            args.push(self.kind()?);
            self.skip(", ");
        }
        if !self.skip(": ") {
            return None;
        }
        let result = self.kind()?;
        let overload = Overload { is_method: receiver.is_some(), args, result, unknowns: self.unknowns.len() as u32 };
        self.rest.is_empty().then(|| (name.to_string(), overload))
    }

    fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn kind(&mut self) -> Option<Type> {
        let end = self.rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        let kind = match name {
            "A" | "B" => {
                let known = self.unknowns.iter().position(|unknown| *unknown == name);
                let number = known.unwrap_or_else(|| {
                    self.unknowns.push(name);
                    self.unknowns.len() - 1
                });
                return Some(Type::Unknown(number as u32));
            }
            "list" | "map" | "optional" | "type" => {
                self.skip("(");
                let first = self.kind()?;
                match name {
                    "list" => Type::list(first),
                    "optional" => Type::optional(first),
                    "type" => Type::Type(Box::new(first)),
                    _ => {
                        self.skip(", ");
                        Type::map(first, self.kind()?)
                    }
                }
            }
            name => return simple(name),
        };
        self.skip(")");
        Some(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_can_be_read() {
        for line in
            [STANDARD, STRINGS, LISTS, KUBERNETES].into_iter().flat_map(str::lines).filter(|line| !line.is_empty())
        {
            assert!(Reader { rest: line, unknowns: vec![] }.overload().is_some(), "{line}");
        }
    }
}
