use super::Comparison::{Absent, Equal, Exists, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
use super::*;

fn bytes(how: Comparison) -> Check {
    Check { how, as_counter: false }
}
fn counter(how: Comparison) -> Check {
    Check { how, as_counter: true }
}

#[test]
fn bytes_compare_unsigned() {
    let table = [
        (Equal, [false, true, false]),
        (NotEqual, [true, false, true]),
        (Less, [true, false, false]),
        (LessOrEqual, [true, true, false]),
        (Greater, [false, false, true]),
        (GreaterOrEqual, [false, true, true]),
    ];
    for (how, truth) in table {
        let got = [b"\x7f", b"\x80", b"\x81"].map(|stored| bytes(how).holds_bytes(Some(stored), b"\x80"));
        assert_eq!(got, truth, "{how:?}");
    }
}

#[test]
fn counters_compare_signed() {
    assert!(counter(Less).holds_counter(Some(-1), 0));
    assert!(!bytes(Less).holds_bytes(Some(&(-1i64).to_be_bytes()), &0i64.to_be_bytes()));
    assert!(counter(Less).compares_counters() && !counter(Exists).compares_counters());
}

/// An absent column differs from everything and is neither below nor above anything.
#[test]
fn absent_meets_ne_and_absent_only() {
    for how in [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual, Exists, Absent] {
        assert_eq!(bytes(how).holds_bytes(None, b""), how == NotEqual || how == Absent, "{how:?}");
    }
    assert!(bytes(Exists).holds_bytes(Some(b""), b"") && bytes(Equal).holds_bytes(Some(b""), b""));
}
