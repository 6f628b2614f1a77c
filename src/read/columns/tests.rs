use super::*;

const F: FamilyId = FamilyId(1);
const G: FamilyId = FamilyId(2);

/// Which of the qualifiers a, aa, ab, b, c of both families are inside, asked in order.
fn inside(spans: Vec<Span>) -> String {
    let selection = Selection::new(spans);
    let mut at = 0;
    let mut seen = Vec::new();
    for family in [F, G] {
        for qualifier in ["", "a", "aa", "ab", "b", "c"] {
            match selection.place(&mut at, family, qualifier.as_bytes()) {
                Place::Inside => seen.push(format!("{}:{qualifier}", family.0)),
                Place::Before(f, q) => assert!((f, q) > (family, qualifier.as_bytes()), "the next place is not ahead"),
                Place::Behind => {}
            }
        }
    }
    seen.join(" ")
}

#[test]
fn every_kind_of_span() {
    assert_eq!(inside(vec![]), "1: 1:a 1:aa 1:ab 1:b 1:c 2: 2:a 2:aa 2:ab 2:b 2:c");
    assert_eq!(inside(vec![Span::family(G)]), "2: 2:a 2:aa 2:ab 2:b 2:c");
    assert_eq!(inside(vec![Span::exact(F, b"a"), Span::exact(G, b"")]), "1:a 2:");
    assert_eq!(inside(vec![Span::prefix(F, b"a")]), "1:a 1:aa 1:ab");
    assert_eq!(inside(vec![Span::prefix(F, b"")]), "1: 1:a 1:aa 1:ab 1:b 1:c");
    assert_eq!(inside(vec![Span::range(F, b"aa", b"b"), Span::range(G, b"b", b"")]), "1:aa 1:ab 2:b 2:c");
}

#[test]
fn spans_may_overlap_and_come_in_any_order() {
    let overlapping = vec![Span::exact(F, b"c"), Span::range(F, b"ab", b"b"), Span::prefix(F, b"a"), Span::exact(F, b"aa")];
    assert_eq!(inside(overlapping), "1:a 1:aa 1:ab 1:c");
    assert_eq!(inside(vec![Span::family(F), Span::exact(F, b"b")]), "1: 1:a 1:aa 1:ab 1:b 1:c");
    assert_eq!(inside(vec![Span::exact(F, b""), Span::family(F)]), "1: 1:a 1:aa 1:ab 1:b 1:c");
}

/// A range that holds nothing is not the same as no selection.
#[test]
fn nothing_asked_for_shows_nothing() {
    assert_eq!(inside(vec![Span::range(F, b"b", b"a")]), "");
    assert_eq!(inside(vec![Span::range(F, b"b", b"b")]), "");
}

#[test]
fn what_lies_behind_a_prefix() {
    assert_eq!(behind_prefix(b"ab"), Some(b"ac".to_vec()));
    assert_eq!(behind_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
    assert_eq!(behind_prefix(b"\xff"), None);
    assert_eq!(behind_prefix(b""), None);
}
