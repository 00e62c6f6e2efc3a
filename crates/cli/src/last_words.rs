//! What this program leaves to those who look at its pod when it fails: the kubelet puts it into the pod's status.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

/// Where the kubelet reads it, unless a pod says otherwise.
const PLACE: &str = "/dev/termination-log";
/// The kubelet keeps no more.
const LONGEST: usize = 4096;

/// Nothing if this runs in no pod: the file is the kubelet's, and is never made here.
pub fn leave(words: &str) {
    leave_at(Path::new(PLACE), words);
}

fn leave_at(place: &Path, words: &str) {
    let end = (0..=words.len().min(LONGEST)).rev().find(|end| words.is_char_boundary(*end)).unwrap_or(0);
    let is_file = place.metadata().is_ok_and(|found| found.is_file());
    if let Some(mut file) =
        is_file.then(|| OpenOptions::new().write(true).truncate(true).open(place)).and_then(Result::ok)
    {
        // Whoever cannot leave a word has still printed it.
        let _ = file.write_all(&words.as_bytes()[..end]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_left_where_the_kubelet_has_made_a_place_for_them_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let (made, missing) = (folder.path().join("made"), folder.path().join("missing"));
        std::fs::write(&made, "something longer that was there before").unwrap();
        leave_at(&made, "Machine a has failed");
        leave_at(&missing, "Machine a has failed");
        assert_eq!(std::fs::read_to_string(&made).unwrap(), "Machine a has failed");
        assert!(!missing.exists());
    }

    #[test]
    fn no_letter_is_cut_in_two() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("made");
        std::fs::write(&place, "").unwrap();
        leave_at(&place, &format!("x{}", "→".repeat(LONGEST)));
        let left = std::fs::read_to_string(&place).unwrap();
        assert!(left.len() <= LONGEST && left.len() > LONGEST - 3, "{}", left.len());
    }
}
