//! Readers beside writers, on real threads: nothing is torn, a row is read at one cut, snapshots keep their versions, scans stay in order.

use super::*;
use crate::memstore::RowHeader;

type Task = Box<dyn FnOnce(&World) + Send>;

/// Stands in for the log, the registry of read points and the row lock.
struct World {
    segment: Segment,
    last: AtomicU64,
    durable: AtomicU64,
    latest: AtomicU64,
    points: Mutex<Vec<u64>>,
    row_lock: Mutex<()>,
    stop: AtomicBool,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            segment: segment(),
            last: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            latest: AtomicU64::new(0),
            points: Mutex::new(Vec::new()),
            row_lock: Mutex::new(()),
            stop: AtomicBool::new(false),
        })
    }
    /// Increments both columns of the row in one commit.
    fn commit(&self, row: &[u8], keep: Keep, fsync: bool, thread: usize) {
        let _lock = self.row_lock.lock();
        let columns = [&b"a"[..], b"b"].map(|q| counter(&self.segment, row, q).unwrap());
        let header = columns[0].row().header();
        let durable = self.durable.load(Acquire);
        let fsync = fsync || !header.cut(|_| 0, || durable).complete;
        let plans = columns.map(|c| {
            let latest = self.latest.load(Acquire);
            let plan = c.plan_increment(keep, latest, durable, |f| {
                if let Some(p) = self.points.try_lock() {
                    f(&p, false);
                }
            });
            (c, plan, (plan == Plan::Push).then(|| self.segment.new_copy(thread).unwrap()))
        });
        let n = self.last.fetch_add(1, AcqRel) + 1;
        for (c, plan, spare) in plans {
            c.apply_increment(n, n * 100, n as i64 * 10, plan, spare);
        }
        header.mark(n, fsync, self.durable.load(Acquire));
    }
    fn cut(&self, h: &RowHeader) -> u64 {
        h.cut(|_| 0, || self.durable.load(Acquire)).seq
    }
    fn run(self: &Arc<Self>, threads: Vec<Task>) {
        let handles: Vec<_> = threads
            .into_iter()
            .map(|f| {
                let w = Arc::clone(self);
                thread::spawn(move || {
                    let stop = Stop(&w);
                    f(&w);
                    // Whoever is done first ends the others; a failure does so too.
                    drop(stop);
                })
            })
            .collect();
        for h in handles {
            h.join().unwrap();
        }
    }
    fn stopped(&self) -> bool {
        self.stop.load(SeqCst)
    }
}

struct Stop<'w>(&'w World);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, SeqCst);
    }
}

fn number_of(content: Content<'_>) -> u64 {
    match content {
        Content::Empty => 0,
        Content::Counter { seq, ts, value } => {
            assert!(ts == seq * 100 && value == seq as i64 * 10, "torn version {seq} {ts} {value}");
            seq
        }
        other => panic!("{other:?}"),
    }
}

// ATM-like: both columns of the row are read at one cut, beside two writers, one of FSYNC level, and a sync.
#[test]
fn a_row_is_read_at_one_cut_and_never_torn() {
    let w = World::new();
    w.commit(b"row", Keep::Newest, false, 0);
    let writer = |t: usize| {
        Box::new(move |w: &World| {
            let mut i = 0u64;
            while !w.stopped() {
                i += 1;
                w.commit(b"row", Keep::Newest, t == 1 && i.is_multiple_of(3), t);
            }
        }) as Task
    };
    let sync = Box::new(|w: &World| {
        while !w.stopped() {
            w.durable.store(w.last.load(Acquire), Release);
            thread::yield_now();
        }
    });
    let reader = || {
        Box::new(|w: &World| {
            let r = w.segment.find_row(hash(b"row"), b"row").unwrap();
            let columns = [&b"a"[..], b"b"].map(|q| w.segment.find_column(r, F, q).unwrap());
            let (mut seen, mut reads) = (0, 0u64);
            while !w.stopped() && reads < 3_000 {
                let c = w.cut(r.header());
                let content = columns.map(|x| {
                    // Now and then room for a commit between the two columns.
                    if reads % 16 == 0 {
                        thread::yield_now();
                    }
                    x.read(c)
                });
                RowHeader::order_second_cut();
                if w.cut(r.header()) != c {
                    continue;
                }
                let [a, b] = content.map(number_of);
                assert_eq!(a, b, "half a commit at cut {c}");
                assert!(a >= seen && a != 0 && a <= c, "V1: {a} after {seen}, cut {c}");
                (seen, reads) = (a, reads + 1);
            }
        }) as Task
    };
    w.run(vec![writer(1), writer(2), sync, reader(), reader()]);
}

// Snapshots open and close beside writers; each sees its number's version as long as it is open.
#[test]
fn snapshots_keep_their_versions() {
    for keep in [Keep::Newest, Keep::Versions(2)] {
        let w = World::new();
        w.commit(b"row", keep, false, 0);
        let writer = |t: usize| {
            Box::new(move |w: &World| {
                while !w.stopped() {
                    w.commit(b"row", keep, false, t);
                }
            }) as Task
        };
        let snapshots = Box::new(|w: &World| {
            let r = w.segment.find_row(hash(b"row"), b"row").unwrap();
            let columns = [&b"a"[..], b"b"].map(|q| w.segment.find_column(r, F, q).unwrap());
            for _ in 0..60 {
                if w.stopped() {
                    return;
                }
                let n = {
                    let mut points = w.points.lock();
                    w.latest.store(u64::MAX, Release);
                    // As under the append lock: ordered with the writers' numbers both ways (a plain load may pass the store above).
                    let n = w.last.fetch_add(0, AcqRel);
                    points.push(n);
                    w.latest.store(n, Release);
                    n
                };
                // Begun commits have marked their rows once the row lock was free.
                drop(w.row_lock.lock());
                for _ in 0..5 {
                    assert_eq!(columns.map(|c| number_of(c.read(n))), [n, n], "the snapshot's version is gone");
                    thread::yield_now();
                }
                let mut points = w.points.lock();
                points.clear();
                w.latest.store(0, Release);
            }
        });
        w.run(vec![writer(1), writer(2), snapshots]);
        // Pushes while the registry was held cannot be helped; without anybody they are overwritten, none is added.
        let lens = || [&b"a"[..], b"b"].map(|q| counter(&w.segment, b"row", q).unwrap().list_len());
        (0..10).for_each(|_| w.commit(b"row", keep, false, 0));
        let before = lens();
        (0..1000).for_each(|_| w.commit(b"row", keep, false, 0));
        assert_eq!(lens(), before, "C4");
    }
}

// Rows are inserted by several threads while cursors walk: in order, nothing twice, nothing lost that was there before.
#[test]
fn cursors_beside_inserts() {
    let w = World::new();
    for i in 0..200u32 {
        counter(&w.segment, &(i * 1000).to_be_bytes(), b"q").unwrap();
    }
    let writer = |t: u32| {
        Box::new(move |w: &World| {
            for i in (0..40_000u32).filter(|i| i % 2 == t % 2) {
                let row = (i.wrapping_mul(2_654_435_761) % 200_000).to_be_bytes();
                if u32::from_be_bytes(row) % 2 == t % 2 {
                    counter(&w.segment, &row, b"q").unwrap();
                }
            }
        }) as Task
    };
    let walker = Box::new(|w: &World| {
        while !w.stopped() {
            let (mut cursor, mut last, mut old) = (w.segment.cursor(crate::memstore::KEY_MIN, true), None, 0);
            while let Some(c) = cursor.next() {
                let row = u32::from_be_bytes(c.row().row().try_into().unwrap());
                assert!(last < Some(row), "{row} after {last:?}");
                last = Some(row);
                old += u32::from(row % 1000 == 0 && row < 200_000);
            }
            assert!(old >= 200, "{old} of the 200 old rows");
        }
    });
    w.run(vec![writer(0), writer(1), walker]);
}
