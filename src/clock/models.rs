//! loom model of the anchor's hand-over: a reader uses one whole anchor.

use super::anchor::{Anchors, Reading, Sample, Which};
use crate::sync::{Arc, thread};

#[test]
fn a_reader_uses_one_whole_anchor() {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(3);
    b.check(|| {
        let sample = |k: u64| Sample { count: 100 * k, wall: 10_000 * (k + 1), mono: 0 };
        let a = Arc::new(Anchors::new(sample(0), 0, 1 << 32));
        let w = Arc::clone(&a);
        let t = thread::spawn(move || {
            // The second one writes the half that the reader may have begun with.
            for k in 1..=2 {
                w.renew(100 * k, sample(k), 0, 1 << 32);
            }
        });
        let Reading::Good(n) = a.read(Which::Wall, |_| 1_000) else { panic!("within its time") };
        // A base with another anchor's count would be off by 100.
        let whole = (0..3).map(|k| sample(k).wall + 1_000 - sample(k).count);
        assert!(whole.clone().any(|v| n.abs_diff(v) <= 1), "{n} is on none of the lines");
        t.join().unwrap();
    });
}
