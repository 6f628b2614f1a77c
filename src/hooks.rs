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
    /// The sync leader holds the I/O lock and has not looked at the log's end yet.
    SyncStart,
    /// The sync leader has its result, the durable number is not moved yet.
    SyncEnd,
}

#[cfg(all(any(test, feature = "test-hooks"), not(loom)))]
mod real {
    use super::Point;
    use crate::sync::{Arc, Mutex};

    type Hook = Arc<dyn Fn(Point, u64) + Send + Sync>;

    static HOOKS: Mutex<Vec<(u64, Hook)>> = Mutex::new(Vec::new());

    /// Removes its hook when it goes.
    pub struct Installed(u64);

    impl Drop for Installed {
        fn drop(&mut self) {
            HOOKS.lock().retain(|(ctx, _)| *ctx != self.0);
        }
    }

    /// From now on `hook` is called at every point reached with this `ctx`.
    pub fn install(ctx: u64, hook: impl Fn(Point, u64) + Send + Sync + 'static) -> Installed {
        HOOKS.lock().push((ctx, Arc::new(hook)));
        Installed(ctx)
    }

    /// Calls the hooks of `ctx`.
    pub fn reach(point: Point, ctx: u64) {
        let hook = HOOKS.lock().iter().find(|(c, _)| *c == ctx).map(|(_, h)| Arc::clone(h));
        if let Some(hook) = hook {
            hook(point, ctx);
        }
    }
}

#[cfg(all(any(test, feature = "test-hooks"), not(loom)))]
pub use real::{Installed, install, reach};

/// Nothing in this build.
#[cfg(not(all(any(test, feature = "test-hooks"), not(loom))))]
#[inline(always)]
pub fn reach(_point: Point, _ctx: u64) {}
