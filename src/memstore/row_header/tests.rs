//! The truth table of `mark` and `cut`; interleavings are loom's part (`versions/models.rs`).

use super::*;

const NO_FLAG: fn(usize) -> u64 = |_| 0;

fn cut(h: &RowHeader, d: u64) -> (u64, bool, u64) {
    let c = h.cut(NO_FLAG, || d);
    (c.seq, c.complete, c.applied)
}

#[test]
fn a_row_without_commit_shows_nothing_and_sends_on_to_the_older_segment() {
    assert_eq!(cut(&RowHeader::new(), 99), (0, true, 0));
}

#[test]
fn sync_commits_show_at_once_and_never_ask_for_d() {
    let h = RowHeader::new();
    h.mark(7, false, 0);
    let c = h.cut(NO_FLAG, || panic!("D is not needed"));
    assert_eq!((c.seq, c.complete, c.applied), (7, true, 7));
}

#[test]
fn fsync_commits_show_with_d() {
    let h = RowHeader::new();
    h.mark(7, false, 0);
    h.mark(9, true, 0);
    assert_eq!(cut(&h, 0), (7, false, 9), "SYNC 7 stays");
    assert_eq!(cut(&h, 8), (8, false, 9), "D is a cut of this row too: nothing lies between");
    assert_eq!(cut(&h, 9), (9, true, 9));
    h.mark(12, true, 8);
    assert_eq!(cut(&h, 8), (8, false, 12), "9 waits as well: stable stays 7");
    assert_eq!(cut(&h, 0), (7, false, 12));
    assert_eq!(cut(&h, 11), (11, false, 12));
    h.mark(15, true, 13);
    assert_eq!(cut(&h, 13), (13, false, 15));
    assert_eq!(h.cut(NO_FLAG, || 0).seq, 12, "12 was durable when 15 came: stable");
}

#[test]
fn the_owners_cut_is_everybodys_cut() {
    let h = RowHeader::new();
    for (n, fsync, d) in [(3, false, 0), (5, true, 2), (8, true, 5), (9, true, 6), (11, false, 9)] {
        h.mark(n, fsync, d);
        for d in d..13 {
            assert_eq!(h.cut_owned(d), cut(&h, d).0, "after {n} at D {d}");
        }
    }
}

#[test]
fn pending_commits_show_with_their_flag() {
    let h = RowHeader::new();
    h.mark(3, false, 0);
    h.set_pending(0xabc, 1 << 50 | 6);
    let with = |flag: u64, d: u64| {
        let c = h.cut(
            |slot| {
                assert_eq!(slot, 0xabc);
                flag
            },
            || d,
        );
        (c.seq, c.complete, c.applied)
    };
    let n = 1 << 50 | 6;
    assert_eq!(with(0, 0), (3, true, 3), "flag not raised");
    assert_eq!(with(n << 1, 0), (n, true, n), "SYNC, raised: the whole number comes from the flag");
    assert_eq!(with(n << 1 | 1, n - 1), (3, true, 3), "FSYNC, not durable");
    assert_eq!(with(n << 1 | 1, n), (n, true, n), "FSYNC, durable");
    assert_eq!(with((n + 1) << 1, n), (3, true, 3), "the slot's next commit");
    h.mark(n, false, 0);
    h.clear_pending();
    assert_eq!(cut(&h, 0), (n, true, n));
}

#[test]
#[should_panic(expected = "out of range")]
fn a_slot_that_pending_cannot_name_is_refused() {
    RowHeader::new().set_pending(PENDING_SLOT_MAX + 1, 1);
}
