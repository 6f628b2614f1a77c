use super::{Level, assert_free_from, enter};

fn message(f: impl FnOnce() + std::panic::UnwindSafe) -> String {
    match std::panic::catch_unwind(f) {
        Ok(()) => String::new(),
        Err(e) => e.downcast_ref::<String>().cloned().unwrap_or_default(),
    }
}

#[test]
fn ascending_levels_pass_and_may_go_in_any_order() {
    let rows = enter(Level::Rows, "row locks");
    let append = enter(Level::LogAppend, "append lock");
    drop(rows);
    drop(append);
    let _io = enter(Level::LogIo, "sync lock");
    let _append = enter(Level::LogAppend, "append lock");
}

#[test]
fn a_lower_or_equal_level_is_refused_and_named() {
    let m = message(|| {
        let _append = enter(Level::LogAppend, "append lock");
        let _io = enter(Level::LogIo, "sync lock");
    });
    assert_eq!(m, "lock order: sync lock (level 4) wanted while append lock (level 6) is held");
    let m = message(|| {
        let _a = enter(Level::Leaf, "pool");
        let _b = enter(Level::Leaf, "cache");
    });
    assert_eq!(m, "lock order: cache (level 7) wanted while pool (level 7) is held");
    // The unwinding gave both back.
    let _manifest = enter(Level::Manifest, "manifest");
}

#[test]
fn long_waits_are_refused_under_row_locks() {
    let m = message(|| {
        let _rows = enter(Level::Rows, "row locks");
        assert_free_from(Level::Rows, "durability");
    });
    assert_eq!(m, "lock order: durability (level 2) wanted while row locks (level 2) is held");
    let _life = enter(Level::Lifecycle, "lifecycle gate");
    assert_free_from(Level::Rows, "durability");
}
