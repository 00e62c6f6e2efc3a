//! Which schedules are tried where not all of them are: it is drawn by lot.
//!
//! A lot hangs on what is drawn and on nothing beside it, not even on how many there are. So a fault more, or a write more, changes what
//! is tried of itself, and leaves the rest of a sample as it was.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// The same number for the same thing, in every run.
fn lot(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Whether this is the one in so many that is tried.
pub fn is_drawn(what: impl Hash, one_in: usize) -> bool {
    lot(what).is_multiple_of(one_in.max(1) as u64)
}

/// Whose turn it is, of so many.
pub fn turn(what: impl Hash, of: u64) -> u64 {
    lot(what) % of.max(1)
}

/// The one of them that is drawn; none if there are none.
pub fn draw<T, H: Hash>(from: impl IntoIterator<Item = T>, name: impl Fn(&T) -> H) -> Option<T> {
    from.into_iter().min_by_key(|one| lot(name(one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_is_drawn_and_of_one_in_one_all() {
        let drawn = |one_in| (0..7000).filter(|number| is_drawn(number, one_in)).count();
        assert_eq!(drawn(1), 7000);
        assert_eq!(drawn(0), 7000);
        assert!((900..1100).contains(&drawn(7)), "{}", drawn(7));
    }

    #[test]
    fn what_was_drawn_of_many_is_drawn_of_more_unless_a_new_one_is() {
        let name = |number: &u32| ("scenario", *number);
        for count in 2..50 {
            let (of_fewer, of_more) = (draw(1..count, name), draw(1..=count, name));
            assert!(of_more == of_fewer || of_more == Some(count), "{of_fewer:?}, then {of_more:?} of {count}");
        }
    }
}
