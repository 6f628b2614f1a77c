//! Snapshots: one instant of a region, a child of it. Keeps its memory, answers "closed" once it is closed, and counts as open until it is dropped.

use super::{Inner, thread};
use crate::clock::Timeout;
use crate::error::Result;
use crate::fail;
use crate::ids::ReadPoint;
use crate::read::get::At;
use crate::read::snapshot;
use crate::stats::CallKind;
use crate::sync::{Arc, AtomicU64, Ordering};

/// One instant of a region.
pub struct Snapshot {
    inner: Arc<Inner>,
    pub(super) point: ReadPoint,
    pub(super) at_cut: bool,
}

impl Snapshot {
    /// The number of the newest commit it sees.
    pub fn seq(&self) -> u64 {
        self.point.0
    }
    /// Where reads of `region` through this snapshot look.
    pub(super) fn at(&self, region: &Inner) -> Result<At> {
        if !std::ptr::eq(&*self.inner, region) {
            return fail!(Invalid, "the snapshot belongs to another region");
        }
        // After a failed sync rows are read at their cut, which nothing moves any more.
        Ok(if self.at_cut { At::Newest } else { At::Point(self.point) })
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.inner.state.points.close(self.point);
        release(&self.inner, &self.inner.open_snapshots);
    }
}

/// One child less. Release: a closer that sees it sees all the child did.
pub(super) fn release(inner: &Inner, kind: &AtomicU64) {
    kind.fetch_sub(1, Ordering::Relaxed);
    inner.lifecycle.children.fetch_sub(1, Ordering::Release);
}

/// Opens a snapshot; counts as a child.
pub fn open_snapshot(inner: &Arc<Inner>, mut timeout: Timeout) -> Result<Snapshot> {
    let _call = inner.lifecycle.enter(CallKind::Read, thread::index())?;
    let open = snapshot::open(&inner.state, &mut timeout)?;
    // Relaxed: counted before the running call ends, which is what a closer waits for.
    inner.open_snapshots.fetch_add(1, Ordering::Relaxed);
    inner.lifecycle.children.fetch_add(1, Ordering::Relaxed);
    Ok(Snapshot { inner: Arc::clone(inner), point: open.point, at_cut: open.at_cut })
}
