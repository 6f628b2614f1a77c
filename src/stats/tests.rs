use super::*;

#[test]
fn calls_count_per_operation_and_running_ends_at_zero() {
    let c = CallCounters::default();
    c.enter(CallKind::Write, 3);
    c.enter(CallKind::Read, 67);
    assert_eq!(c.totals().running, 2);
    c.exit(CallKind::Write, 3, 5);
    c.exit(CallKind::Read, 67, 1);
    c.checked(1, [1, 0]);
    c.checked(2, [0, 1]);
    let t = c.totals();
    assert_eq!((t.running, t.writes, t.reads, t.increments, t.checks_passed, t.checks_failed), (0, 5, 1, 0, 1, 1));
}

#[test]
fn a_refused_call_counts_nothing() {
    let c = CallCounters::default();
    c.enter(CallKind::Increment, 0);
    c.exit(CallKind::Increment, 0, 0);
    assert_eq!(c.totals(), CallTotals::default());
}
