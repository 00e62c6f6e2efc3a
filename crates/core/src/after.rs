//! Who comes after whom, as people write it in `drover.dev/after`.

/// A namespace and a name.
pub type Name = (String, String);

/// The names in an annotation; one without a namespace is in that of the object that carries it.
pub fn named(namespace: &str, annotation: &str) -> Vec<Name> {
    let names = annotation.split(',').map(str::trim).filter(|name| !name.is_empty());
    let whole = |name: &str| match name.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name.to_owned()),
        None => (namespace.to_owned(), name.to_owned()),
    };
    names.map(whole).collect()
}

/// Does `from` come after `to`, over however many others? `after` tells whom one comes after.
pub fn leads_to(from: &Name, to: &Name, after: impl Fn(&Name) -> Vec<Name>) -> bool {
    let mut seen = vec![from.clone()];
    let mut next = 0;
    while let Some(name) = seen.get(next).cloned() {
        if name == *to {
            return true;
        }
        next += 1;
        for name in after(&name) {
            if !seen.contains(&name) {
                seen.push(name);
            }
        }
    }
    false
}
