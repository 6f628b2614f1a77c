//! loom models of the real files: RUSTFLAGS="--cfg loom" cargo test --lib nonce. The rule is switched off once, and loom must notice.

use super::*;
use crate::sync::thread;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static RELAXED: Cell<bool> = const { Cell::new(false) };
}

pub(super) fn number_is_relaxed() -> bool {
    RELAXED.get()
}

const NONCE: Nonce = Nonce { group: 0, nonce: 7 };
const PLACE: Place = Place { row: RowId([1, 2]), nth: 0 };

fn answer() -> Answer {
    Answer { values: [5].into(), bytes: [].into(), of: None }
}

fn check(f: impl Fn() + Sync + Send + 'static) {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(3);
    b.check(f);
}

/// An entry is filled without the shard's lock while another thread, without the row's, looks whether it may leave or must be carried on.
fn filled_beside_expiry() {
    let table = Arc::new(NonceTable::new([0; 16], 10, 1 << 20));
    let other = Arc::clone(&table);
    let reserved = table.reserve(NONCE, vec![(PLACE, answer())], Tick(1)).unwrap();
    let t = thread::spawn(move || {
        for entry in other.up_to(SequenceNumber(u64::MAX)) {
            assert_eq!(entry.commit(), Some((SequenceNumber(3), Tick(2))), "a number without its tick");
        }
        other.expire(Tick(100));
        other.bytes()
    });
    reserved.fill(SequenceNumber(3), Tick(2));
    let bytes = t.join().unwrap();
    // It left whole, or it stays whole: an entry that is only reserved cannot leave.
    let there = table.find(NONCE, &[PLACE], Tick(1)).pop().flatten();
    assert_eq!(there.is_some(), bytes > 0);
}
#[test]
fn filling_holds() {
    check(filled_beside_expiry)
}
#[test]
fn filling_with_a_relaxed_number_breaks() {
    RELAXED.set(true);
    let r = catch_unwind(AssertUnwindSafe(|| check(filled_beside_expiry)));
    RELAXED.set(false);
    let Err(panic) = r else { panic!("loom found nothing") };
    let found = panic.downcast_ref::<String>().map_or_else(|| panic.downcast_ref::<&str>().copied().unwrap_or(""), |s| s.as_str());
    assert!(found.contains("a number without its tick"), "another failure: {found}");
}

/// A call that failed takes its entry out while other calls bring larger tables: nothing is lost, nothing stays.
#[test]
fn removal_beside_growth_holds() {
    check(|| {
        let table = Arc::new(NonceTable::new([0; 16], 10, 1 << 20));
        let other = Arc::clone(&table);
        let t = thread::spawn(move || {
            let place = Place { nth: 1, ..PLACE };
            other.reserve(NONCE, vec![(place, answer())], Tick(1)).unwrap().fill(SequenceNumber(4), Tick(4));
        });
        drop(table.reserve(NONCE, vec![(PLACE, answer())], Tick(1)).unwrap());
        t.join().unwrap();
        let found = table.find(NONCE, &[PLACE, Place { nth: 1, ..PLACE }], Tick(1));
        assert!(found[0].is_none() && found[1].is_some());
        assert_eq!(table.len(), 1);
    });
}
