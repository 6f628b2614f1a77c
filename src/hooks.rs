//! Named places in the code at which a test may look on, pause or panic. Compiled to nothing without `test-hooks`.
//!
//! Rooms call [`reach`]; a test installs one function for the process and tells regions apart by `ctx`, which is the address of the room's own state
//! or another number that the test can know. A hook may
//! panic or wait; it runs with whatever the place holds.
#![forbid(unsafe_code)]

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// A write holds its row locks and nothing else.
    RowLocked,
    /// A write holds row locks and a commit slot.
    SlotClaimed,
    /// A commit has all its memory and is about to ask for its number.
    BeforeAppend,
    /// A commit is in the log and in nobody's sight.
    Appended,
    /// A commit has written its versions and not marked its rows.
    BeforeMark,
    /// Under the append lock, nothing of the record written.
    AppendBeforeHeader,
    /// Under the append lock; mapped log only: header word written, payload and trailer not.
    AppendAfterHeader,
    /// Under the append lock, record whole, number given.
    AppendDone,
    /// A snapshot or scanner that opens has the registry of read points and no number yet.
    PointOpening,
    /// The sync leader holds the I/O lock and has not looked at the log's end yet.
    SyncStart,
    /// The sync leader has its result, the durable number is not moved yet.
    SyncEnd,
}

#[cfg(all(any(test, feature = "test-hooks"), not(loom)))]
mod real {
    use super::Point;
    use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering};
    use smallvec::SmallVec;

    type Hook = Arc<dyn Fn(Point, u64) + Send + Sync>;

    struct Entry {
        id: u64,
        ctx: u64,
        hook: Hook,
    }

    static HOOKS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
    static NEXT: AtomicU64 = AtomicU64::new(0);
    /// Length of `HOOKS`. A lock that every commit takes would hide races from the thread sanitizer, and be what a measurement measures.
    static COUNT: AtomicUsize = AtomicUsize::new(0);

    /// Removes its hook when it goes.
    pub struct Installed(u64);

    impl Drop for Installed {
        fn drop(&mut self) {
            let mut hooks = HOOKS.lock();
            hooks.retain(|e| e.id != self.0);
            // Relaxed: see `reach`.
            COUNT.store(hooks.len(), Ordering::Relaxed);
        }
    }

    /// From now on `hook` is called at every point reached with this `ctx`. Several hooks of one `ctx` are called in the order of their installation.
    pub fn install(ctx: u64, hook: impl Fn(Point, u64) + Send + Sync + 'static) -> Installed {
        // Relaxed: only distinctness matters.
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut hooks = HOOKS.lock();
        hooks.push(Entry { id, ctx, hook: Arc::new(hook) });
        // Relaxed: see `reach`.
        COUNT.store(hooks.len(), Ordering::Relaxed);
        Installed(id)
    }

    /// Calls the hooks of `ctx`. Allocates nothing itself: the append lock may be held.
    pub fn reach(point: Point, ctx: u64) {
        // Relaxed: a test installs its hook before it starts, or signals, the thread that is to meet it.
        if COUNT.load(Ordering::Relaxed) == 0 {
            return;
        }
        let hooks: SmallVec<[Hook; 4]> = HOOKS.lock().iter().filter(|e| e.ctx == ctx).map(|e| Arc::clone(&e.hook)).collect();
        for hook in hooks {
            hook(point, ctx);
        }
    }
}

#[cfg(all(any(test, feature = "test-hooks"), not(loom)))]
pub use real::{Installed, install, reach};

#[cfg(all(any(test, feature = "test-hooks"), not(loom)))]
std::thread_local! {
    static VISITED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many list cells of columns and rows this thread has looked at: the work of reads and writes, whatever the machine is busy with.
#[cfg(all(any(test, feature = "test-hooks"), not(loom)))]
pub fn cells_visited() -> u64 {
    VISITED.get()
}

/// A list cell is looked at.
#[inline(always)]
pub fn visit_cell() {
    #[cfg(all(any(test, feature = "test-hooks"), not(loom)))]
    VISITED.set(VISITED.get() + 1);
}

/// Nothing in this build.
#[cfg(not(all(any(test, feature = "test-hooks"), not(loom))))]
#[inline(always)]
pub fn reach(_point: Point, _ctx: u64) {}
