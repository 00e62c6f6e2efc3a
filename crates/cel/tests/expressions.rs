//! What expressions evaluate to, and which are refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use drover_cel::{Bindings, Environment, Program, Type, Value};
use serde_json::json;

fn bindings() -> Bindings {
    let object = json!({ "a": 1, "s": "x", "l": [1, 2, 3], "m": { "k": "v" }, "n": null, "f": 1.5, "t": true });
    Bindings::new().with("self", Value::from_json(&object))
}

fn dynamic() -> Environment {
    Environment::new().variable("self", Type::Dyn)
}

fn typed() -> Environment {
    let fields = BTreeMap::from([
        ("a".to_string(), Type::Int),
        ("s".to_string(), Type::String),
        ("l".to_string(), Type::list(Type::Int)),
        ("m".to_string(), Type::map(Type::String, Type::String)),
        ("t".to_string(), Type::Bool),
    ]);
    Environment::new().variable("self", Type::object("Thing", fields))
}

fn evaluated(source: &str) -> Result<Value, String> {
    let program = Program::compile(source, &dynamic()).map_err(|error| error.to_string())?;
    program.evaluate(&bindings()).map_err(|error| error.to_string())
}

#[test]
fn what_holds_evaluates_to_true() {
    let holds = [
        "self.a > 0 || self.zz",
        "self.zz || self.a > 0",
        "!(self.zz && self.a > 5)",
        "!has(self.zz) && has(self.a) && self.a == 1",
        "self.?zz.orValue(3) == 3 && self.?a.hasValue() && !self.?zz.?y.hasValue()",
        "self.?a.optMap(x, x + 1) == optional.of(2)",
        "!optional.none().hasValue() && optional.of(3).value() == 3",
        "self.l.all(x, x > 0) && self.l.exists(x, x == 2) && self.l.exists_one(x, x == 2)",
        "self.l.map(x, x > 1, x * 2) == [4, 6] && self.l.filter(x, x > 1) == [2, 3]",
        "self.m.all(k, self.m[k] == 'v') && self.m.all(k, v, v == 'v')",
        "self.l.transformList(i, v, v + i) == [1, 3, 5] && self.m.transformMap(k, v, k + v) == {'k': 'kv'}",
        "'%s is %d and %.2f'.format([self.s, self.a, self.f]) == 'x is 1 and 1.50'",
        "string(1) + string(true) + string(1.5) == '1true1.5'",
        "int('4') + int(4.9) == 8 && self.a in [1, 2] && 'k' in self.m",
        "type(self.a) == int && type(self.l) == list && type(1u) == uint",
        "duration('1h') > duration('30m') && duration('90s').getMinutes() == 1",
        "timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')",
        "timestamp('2024-02-29T23:30:00Z').getDate('+01:00') == 1",
        "quantity('1Gi').compareTo(quantity('1024Mi')) == 0 && quantity('50k').add(20) == quantity('50020')",
        "ip('192.168.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3') && !isIP('1.2.3')",
        "cidr('192.168.1.5/24').masked() == cidr('192.168.1.0/24') && string(ip('::1')) == '::1'",
        "url('https://a.b:80/x?y=z').getHost() == 'a.b:80' && url('https://a.b:80/x?y=z').getQuery() == {'y': ['z']}",
        "semver('1.2.3').isLessThan(semver('1.2.4-rc.1')) && isSemver('v1.2', true) && !isSemver('v1.2')",
        "'abc'.matches('^a.c$') && 'abc'.find('b.') == 'bc' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        "self.l.sum() == 6 && self.l.isSorted() && [2, 1].min() == 1 && self.l.indexOf(2) == 1",
        "sets.contains([1, 2], [1]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])",
        "format.named('dns1123Label').value().validate('a b').hasValue() && !format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "self.n == null && self.f == 1.5 && self.a == 1.0 && dyn(1) == 1u",
        "b'abc' == bytes('abc') && r'\\d' == '\\\\d' && 'äö'.size() == 2",
        "{'a': 1}.a == 1 && {'a': 1, 'b': 2}.size() == 2 && [?self.?zz, 1] == dyn([1])",
        "[1, 2, 3][?5].orValue(0) == 0 && {?'a': self.?zz} == {}",
        "-self.a == -1 && --1 == 1 && 7 / 2 == 3 && -7 % 3 == -1 && 2 + 3 * 4 == 14",
        "['b', 'a'].sort() == ['a', 'b'] && [3, 1, 2].sortBy(x, -x) == [3, 2, 1] && [[1], [2]].flatten() == [1, 2]",
        "'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b' && 'hello'.substring(1, 3) == 'el'",
        "lists.range(3) == [0, 1, 2] && [1, 1].distinct() == [1] && 'AB'.lowerAscii() == 'ab'",
        "true ? true : false ? false : true // and a comment",
    ];
    for source in holds {
        assert_eq!(evaluated(source), Ok(Value::Bool(true)), "{source}");
    }
}

#[test]
fn what_fails_says_why_in_the_words_of_the_original() {
    for (source, why) in [
        ("self.zz", "no such key: zz"),
        ("self.m['zz']", "no such key: zz"),
        ("self.l[7]", "index out of bounds: 7"),
        ("1 / (self.a - 1)", "division by zero"),
        ("1 % (self.a - 1)", "modulus by zero"),
        ("9223372036854775807 + self.a", "integer overflow"),
        ("self.s + self.a", "no such overload"),
        ("optional.none().value()", "optional.none() dereference"),
        ("[1].filter(x, false).max()", "max called on empty list"),
    ] {
        assert_eq!(evaluated(source), Err(why.into()), "{source}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    for (source, why) in [
        ("self.foo > 1", "ERROR: <input>:1:5: undefined field 'foo'\n | self.foo > 1\n | ....^"),
        ("other", "ERROR: <input>:1:1: undeclared reference to 'other' (in container '')\n | other\n | ^"),
        (
            "self.s > 1",
            "ERROR: <input>:1:8: found no matching overload for '_>_' applied to '(string, int)'\n | self.s > 1\n | .......^",
        ),
        (
            "self.s.startsWith(1)",
            "ERROR: <input>:1:18: found no matching overload for 'startsWith' applied to 'string.(int)'\n | \
             self.s.startsWith(1)\n | .................^",
        ),
        ("self.a && true", "ERROR: <input>:1:5: expected type 'bool' but found 'int'\n | self.a && true\n | ....^"),
        ("self.a.b", "ERROR: <input>:1:7: type 'int' does not support field selection\n | self.a.b\n | ......^"),
        (
            "self.a.all(x, true)",
            "ERROR: <input>:1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or \
             dynamic)\n | self.a.all(x, true)\n | ....^",
        ),
        ("[1, 'a']", "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^"),
        (
            "self.s.matches('[')",
            "ERROR: <input>:1:16: invalid matches argument\n | self.s.matches('[')\n | ...............^",
        ),
        ("self.(", "ERROR: <input>:1:6: Syntax error: no viable alternative at input '.('\n | self.(\n | .....^"),
        (
            "self.a == 1 &",
            "ERROR: <input>:1:13: Syntax error: token recognition error at: '&'\n | self.a == 1 &\n | ............^",
        ),
        ("has(self)", "ERROR: <input>:1:5: invalid argument to has() macro\n | has(self)\n | ....^"),
        (
            "self.a >",
            "ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', \
             'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | self.a >\n | ........^",
        ),
    ] {
        assert_eq!(Program::compile(source, &typed()).unwrap_err().to_string(), why, "{source}");
    }
}

#[test]
fn a_program_knows_its_type_and_its_variables() {
    let program = Program::compile("self.l.map(x, string(x)).join(',')", &typed()).unwrap();
    assert_eq!(*program.kind(), Type::String);
    assert!(program.uses("self") && !program.uses("oldSelf"));
    let environment = typed().variable("variables.limit", Type::Int);
    assert!(Program::compile("self.a < variables.limit", &environment).unwrap().uses("variables.limit"));
}

#[test]
fn nothing_nests_without_bound_or_runs_for_ever() {
    for source in [
        "(".repeat(5000) + "1" + &")".repeat(5000),
        "[".repeat(5000),
        "1".to_string() + &" + 1".repeat(5000),
        "self".to_string() + &".a".repeat(5000),
        "a ? ".repeat(5000),
        "x".repeat(200_000),
    ] {
        assert!(Program::compile(&source, &dynamic()).is_err());
    }
    let all = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0)))";
    assert_eq!(evaluated(all), Err("operation cancelled: actual cost limit exceeded".into()));
}

#[test]
fn property_names_are_written_as_kubernetes_escapes_them() {
    for (name, written) in [
        ("namespace", Some("__namespace__")),
        ("foo-bar", Some("foo__dash__bar")),
        ("a.b/c", Some("a__dot__b__slash__c")),
        ("a__b", Some("a__underscores__b")),
        ("plain", Some("plain")),
        ("1st", None),
        ("a b", None),
    ] {
        assert_eq!(drover_cel::escape(name).as_deref(), written);
        if let Some(written) = written {
            assert_eq!(drover_cel::unescape(written), name);
        }
    }
}
