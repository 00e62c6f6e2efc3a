//! Lists and sets.

use std::cmp::Ordering;

use crate::{
    eval::{EvalError, Evaluated},
    value::{List, Value},
};

/// The longest list that `lists.range` makes.
const RANGE_LIMIT: i64 = 100_000;

pub(super) fn call(function: &str, is_method: bool, args: &[Value]) -> Option<Evaluated> {
    Some(match (function, args) {
        ("_+_", [Value::List(left), Value::List(right)]) => Ok(Value::List(left.joined(right).into())),
        ("size", [Value::List(list)]) => Ok(Value::Int(list.items.len() as i64)),
        ("size", [Value::Map(map)]) => Ok(Value::Int(map.len() as i64)),
        ("isSorted", [Value::List(list)]) => {
            Ok(Value::Bool(list.items.windows(2).all(|pair| pair[0].compare(&pair[1]).is_none_or(Ordering::is_le))))
        }
        ("sum", [Value::List(list)]) => sum(list),
        ("min", [Value::List(list)]) => extreme(list, "min", Ordering::is_lt),
        ("max", [Value::List(list)]) => extreme(list, "max", Ordering::is_gt),
        ("indexOf", [Value::List(list), value]) => place(list.items.iter().position(|item| item.equals(value))),
        ("lastIndexOf", [Value::List(list), value]) => place(list.items.iter().rposition(|item| item.equals(value))),
        ("slice", [Value::List(list), Value::Int(from), Value::Int(to)]) => slice(list, *from, *to),
        ("distinct", [Value::List(list)]) => {
            let mut kept = List::default();
            for item in &list.items {
                if !kept.contains(item) {
                    kept.items.push(item.clone());
                }
            }
            Ok(Value::List(kept.into()))
        }
        ("reverse", [Value::List(list)]) => Ok(Value::list(list.items.iter().rev().cloned().collect())),
        ("sort", [Value::List(list)]) => {
            let mut items = list.items.clone();
            items.sort_by(|left, right| left.compare(right).unwrap_or(Ordering::Equal));
            Ok(Value::list(items))
        }
        ("flatten", [Value::List(list)]) => Ok(Value::list(flatten(&list.items, 1))),
        ("flatten", [Value::List(list), Value::Int(depth)]) if *depth >= 0 => {
            Ok(Value::list(flatten(&list.items, *depth)))
        }
        ("flatten", [Value::List(_), Value::Int(_)]) => Err(EvalError::Other("level must be non-negative".into())),
        ("lists.range", [Value::Int(count)]) if *count <= RANGE_LIMIT => {
            Ok(Value::list((0..*count).map(Value::Int).collect()))
        }
        ("lists.range", [Value::Int(_)]) => Err(EvalError::TooExpensive),
        ("sets.contains", [Value::List(list), Value::List(other)]) if !is_method => {
            Ok(Value::Bool(other.items.iter().all(|item| list.contains(item))))
        }
        ("sets.equivalent", [Value::List(left), Value::List(right)]) => {
            let covers = |list: &List, other: &List| other.items.iter().all(|item| list.contains(item));
            Ok(Value::Bool(covers(left, right) && covers(right, left)))
        }
        ("sets.intersects", [Value::List(left), Value::List(right)]) => {
            Ok(Value::Bool(left.items.iter().any(|item| right.contains(item))))
        }
        _ => return None,
    })
}

fn place(found: Option<usize>) -> Evaluated {
    Ok(Value::Int(found.map_or(-1, |place| place as i64)))
}

fn sum(list: &List) -> Evaluated {
    let Some((first, rest)) = list.items.split_first() else { return Ok(Value::Int(0)) };
    rest.iter().try_fold(first.clone(), |sum, item| super::call("_+_", false, &[sum, item.clone()]))
}

fn extreme(list: &List, name: &str, is_better: fn(Ordering) -> bool) -> Evaluated {
    let best = list.items.iter().reduce(|best, item| match item.compare(best) {
        Some(order) if is_better(order) => item,
        _ => best,
    });
    best.cloned().ok_or_else(|| EvalError::Other(format!("{name} called on empty list")))
}

fn slice(list: &List, from: i64, to: i64) -> Evaluated {
    let length = list.items.len() as i64;
    let wrong = |why: String| Err(EvalError::Other(format!("cannot slice({from}, {to}), {why}")));
    if from < 0 || to < 0 {
        return wrong("negative indexes not supported".into());
    }
    if from > to {
        return wrong("start index must be less than or equal to end index".into());
    }
    if to > length {
        return wrong(format!("list is length {length}"));
    }
    Ok(Value::list(list.items[from as usize..to as usize].to_vec()))
}

fn flatten(items: &[Value], depth: i64) -> Vec<Value> {
    let flattened = items.iter().flat_map(|item| match item {
        Value::List(inner) if depth > 0 => flatten(&inner.items, depth - 1),
        other => vec![other.clone()],
    });
    flattened.collect()
}
