//! Did you mean …? The known word that is nearest to a misspelt one.
//! Refuses to guess when nothing is near.

/// The nearest of the candidates: another spelling (`read_token`, `ReadToken`) of one, else the fewest edits.
#[must_use]
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer words are not misspelt fields, and the comparison costs the product of the lengths.
    if word.len() > 64 {
        return None;
    }
    let wanted = bare(word);
    let near = wanted.len().div_ceil(3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (bare(candidate), candidate))
        // Each letter more or less is an edit.
        .filter(|(letters, _)| letters.len().abs_diff(wanted.len()) <= near)
        .map(|(letters, candidate)| (rank(&wanted, &letters), candidate))
        .filter(|((edits, ..), _)| *edits <= near)
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, candidate)| candidate)
}

/// Whether a word is another by a slip: one edit at most.
#[must_use]
pub fn is_slip(word: &str, of: &str) -> bool {
    edits(&bare(word), &bare(of)) <= 1
}

/// The letters that matter: `read_token`, `read-token` and `readToken` are one word.
fn bare(word: &str) -> Vec<char> {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

/// Fewer edits first; then the same beginning and the same length, as people rarely miss the first letter.
fn rank(word: &[char], candidate: &[char]) -> (usize, usize, usize) {
    let shared = word.iter().zip(candidate).take_while(|(a, b)| a == b).count();
    (edits(word, candidate), usize::MAX - shared, word.len().abs_diff(candidate.len()))
}

/// Optimal string alignment: insertions, deletions, replacements, and swaps of neighbours cost one each.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut cost = (above[j] + usize::from(from != to)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested() {
        let known = ["steps", "stable", "strategy", "canary", "abortWhen", "readToken"];
        for (word, expected) in [
            ("step", Some("steps")),
            ("canray", Some("canary")),
            ("abort_when", Some("abortWhen")),
            ("ReadToken", Some("readToken")),
            ("read-tokn", Some("readToken")),
            ("stabel", Some("stable")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(closest(word, known), expected, "{word}");
        }
    }

    #[test]
    fn a_slip_is_one_edit() {
        for (word, of, is_one) in
            [("template", "templates", true), ("stepWeights", "setWeight", false), ("a", "b", true)]
        {
            assert_eq!(is_slip(word, of), is_one, "{word} {of}");
        }
    }

    #[test]
    fn edits_are_counted_with_swaps() {
        let count = |a: &str, b: &str| edits(&bare(a), &bare(b));
        assert_eq!([count("ab", "ba"), count("ab", "ab"), count("", "abc"), count("kitten", "sitting")], [1, 0, 3, 3]);
    }
}
