use super::*;

fn rules(flags: u32, min: i64, max: i64) -> Rules {
    Rules::new(flags, min, max).unwrap()
}
fn sum(store: i64, answer: i64) -> Sum {
    Sum { store: Some(store), answer, applied: true }
}
fn refused(answer: i64) -> Sum {
    Sum { store: None, answer, applied: false }
}

/// INC-01, INC-04, INC-09; BUG-08 (the smallest integer as delta).
#[test]
fn plain_sums_wrap_as_in_hbase() {
    let r = rules(0, 0, 0);
    assert_eq!(r.apply(None, 5).unwrap(), sum(5, 5));
    assert_eq!(r.apply(Some(5), -8).unwrap(), sum(-3, -3));
    assert_eq!(r.apply(Some(i64::MAX), 1).unwrap(), sum(i64::MIN, i64::MIN));
    assert_eq!(r.apply(Some(-1), i64::MIN).unwrap(), sum(i64::MAX, i64::MAX));
}

/// INC-07, INC-08; BUG-10.
#[test]
fn zero_reads_an_existing_counter_and_creates_an_absent_one() {
    let r = rules(0, 0, 0);
    assert_eq!(r.apply(Some(7), 0).unwrap(), Sum { store: None, answer: 7, applied: true });
    assert_eq!(r.apply(None, 0).unwrap(), sum(0, 0));
}

#[test]
fn overflow_is_refused_on_request() {
    let r = rules(WriteOptions::CHECK_OVERFLOW, 0, 0);
    assert_eq!(r.apply(Some(i64::MAX), 1).unwrap_err().kind(), ErrorKind::Overflow);
    assert_eq!(r.apply(Some(-1), i64::MIN).unwrap_err().kind(), ErrorKind::Overflow);
    assert_eq!(r.apply(Some(1), i64::MAX - 1).unwrap(), sum(i64::MAX, i64::MAX));
}

/// P-C5: "take 3 if 3 are left".
#[test]
fn p_c5_bounds_refuse_and_tell_the_current_value() {
    let r = rules(WriteOptions::BOUNDED, 0, 10);
    assert_eq!(r.apply(Some(3), -3).unwrap(), sum(0, 0));
    assert_eq!(r.apply(Some(2), -3).unwrap(), refused(2));
    assert_eq!(r.apply(None, 11).unwrap(), refused(0));
    // A sum beyond 64 bits is outside every bound, never a wrapped value inside it.
    assert_eq!(rules(WriteOptions::BOUNDED, i64::MIN, i64::MAX).apply(Some(i64::MAX), 1).unwrap(), refused(i64::MAX));
    assert_eq!(rules(WriteOptions::BOUNDED | WriteOptions::RETURN_OLD, 0, 10).apply(Some(10), 1).unwrap(), refused(10));
}

#[test]
fn saturate_clamps() {
    let r = rules(WriteOptions::BOUNDED | WriteOptions::SATURATE, 0, 10);
    assert_eq!(r.apply(Some(8), 5).unwrap(), sum(10, 10));
    assert_eq!(r.apply(Some(8), i64::MIN).unwrap(), sum(0, 0));
    assert_eq!(Rules::new(WriteOptions::SATURATE, 0, 0).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(Rules::new(WriteOptions::BOUNDED, 1, 0).unwrap_err().kind(), ErrorKind::Invalid);
}

/// Read and reset: SET and RETURN_OLD.
#[test]
fn set_stores_and_may_return_the_old_value() {
    assert_eq!(rules(WriteOptions::SET | WriteOptions::RETURN_OLD, 0, 0).apply(Some(41), 0).unwrap(), sum(0, 41));
    assert_eq!(rules(WriteOptions::SET | WriteOptions::RETURN_OLD, 0, 0).apply(None, 0).unwrap(), sum(0, 0));
    assert_eq!(rules(WriteOptions::SET, 0, 0).apply(Some(5), 5).unwrap(), sum(5, 5));
    assert_eq!(rules(WriteOptions::SET | WriteOptions::BOUNDED, 0, 9).apply(Some(5), 10).unwrap(), refused(5));
}
