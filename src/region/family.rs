//! Column families of an open region: the manifest is durable before an id is usable, and an id is refused before its family goes.

use super::{Inner, Leveled, thread};
use crate::clock::{Clock, ClockUnit};
use crate::error::{ErrorKind, Result};
use crate::fail;
use crate::ids::{FamilyId, Tick};
use crate::memstore::Keep;
use crate::options::FamilySpec;
use crate::stats::CallKind;
use crate::store::family::{Families, FamilyInfo};
use crate::store::manifest::Manifest;
use crate::store::view::View;
use crate::sync::Arc;

impl Inner {
    fn families(&self) -> Arc<Families> {
        let slot = self.state.slots.claim(thread::index());
        Arc::clone(&self.state.view.load(&slot).families)
    }
    /// See `Region::family_id`.
    pub fn family_id(&self, name: &[u8]) -> Result<Option<FamilyId>> {
        let _call = self.lifecycle.enter(CallKind::Other, thread::index())?;
        Ok(self.families().find(name).map(|f| f.id))
    }
    /// See `Region::family_next`.
    pub fn family_next(&self, after: u32) -> Result<Option<(FamilyId, Arc<FamilyInfo>)>> {
        let _call = self.lifecycle.enter(CallKind::Other, thread::index())?;
        Ok(self.families().after(after).map(|f| (f.id, Arc::clone(f))))
    }
    /// See `Region::family_set`.
    ///
    /// Settings end with a commit's number, the last one that was judged by them. Increments overwrite by what their view says, so around the change they keep what
    /// either needs: what more versions ask for before the number is read, what fewer no longer ask for until no reader of the old settings can begin.
    pub fn family_set(&self, spec: &FamilySpec) -> Result<FamilyId> {
        let _call = self.lifecycle.enter(CallKind::Other, thread::index())?;
        let (mut manifest, _level) = self.changeable_manifest()?;
        let id = manifest.families.find(&spec.name).map(|f| f.id);
        let old = id.and_then(|id| manifest.families.get(id)).cloned();
        let versions = if spec.max_versions == 0 { None } else { Some(spec.max_versions) };
        if let (Some(old), Some(more)) = (&old, versions.filter(|v| old.as_ref().is_some_and(|old| *v > old.max_versions))) {
            // Checked before anything is published.
            set_family(&mut manifest.families.clone(), spec, self.now())?;
            let mut families = manifest.families.clone();
            families.keep(old.id, Keep::of(more));
            // Poisoned: nothing was changed; that a little more is kept in memory hurts nobody.
            self.publish_families(families)?;
        }
        // Every commit that was made under another view has its number by now.
        let mut next = manifest.clone();
        let now = self.now();
        let id = set_family(&mut next.families, spec, now)?;
        if next == *manifest {
            return Ok(id);
        }
        next.last_number = next.last_number.max(now.through);
        self.store_or_settle(&manifest, &next)?;
        *manifest = next;
        let families = manifest.families.clone();
        // The change is durable. A region that is poisoned meanwhile shows it, too; only the old view goes later.
        let lowered = old.filter(|old| families.get(id).is_some_and(|f| f.max_versions < old.max_versions));
        let Some(old) = lowered else {
            self.show_families(families);
            return Ok(id);
        };
        let mut keeping = families.clone();
        keeping.keep(id, old.keep);
        self.show_families(keeping);
        // A scan that began under the old settings holds a read point of at most this number, and goes on by them.
        let mut families = families;
        if let Some(new) = manifest.families.get(id) {
            families.keep(id, Keep::of_since(new.max_versions, self.state.number_now()));
        }
        self.show_families(families);
        Ok(id)
    }
    /// See `Region::family_drop`.
    pub fn family_drop(&self, id: FamilyId) -> Result<()> {
        let _call = self.lifecycle.enter(CallKind::Other, thread::index())?;
        // Refuse the id first and let who uses it finish; only then the manifest forgets it, and with it the cells that a replay would bring back.
        let (mut manifest, _level) = self.changeable_manifest()?;
        let mut next = manifest.clone();
        next.families.remove(id)?;
        let gone = self.publish_families(next.families.clone()).and_then(|()| self.store_or_settle(&manifest, &next));
        match gone {
            Ok(()) => *manifest = next,
            // Whether it is gone only the next open can tell: it stays refused.
            Err(e) if e.kind() == ErrorKind::OutcomeUnknown => return Err(e),
            Err(e) => {
                self.show_families(manifest.families.clone());
                return Err(e);
            }
        }
        Ok(())
    }

    /// Replaces the manifest. The new one may be in place in spite of an error: only once the old one surely is again, nothing was changed.
    fn store_or_settle(&self, old: &Manifest, next: &Manifest) -> Result<()> {
        let Err(e) = next.store(&*self.env, &self.path) else { return Ok(()) };
        match old.store(&*self.env, &self.path) {
            Ok(()) => Err(e),
            Err(again) => fail!(
                OutcomeUnknown,
                "the manifest could be replaced neither by the new one ({e}) nor by the old one ({again}): which of them holds, the next open of the region will tell"
            ),
        }
    }
    /// Where settings that are changed now end.
    fn now(&self) -> Change {
        let clock = self.state.sequencer.clock();
        Change { through: self.state.number_now(), unit: clock.unit(), now: clock.now() }
    }

    /// The manifest of a region that takes changes, locked over reading, changing, storing and publishing.
    fn changeable_manifest(&self) -> Result<Leveled<'_, Manifest>> {
        if self.read_only {
            return fail!(ReadOnly, "{} is open read-only; nothing was changed", self.path.display());
        }
        self.state.health.check()?;
        Ok(self.lock_manifest())
    }

    /// Publishes a view with other families, whatever comes: on an error (the region is poisoned) it is published all the same.
    fn show_families(&self, families: Families) {
        if let Err(e) = self.publish_families(families) {
            log::warn!(target: "region", "{}: memory of an old view is kept until the region is closed: {e}", self.path.display());
        }
    }

    /// Publishes a view with other families and waits until nobody can hold the old one.
    fn publish_families(&self, families: Families) -> Result<()> {
        // One view change at a time: two would lose one of them.
        let lock = self.lock_seal();
        let next = {
            let slot = self.state.slots.claim(thread::index());
            let view = self.state.view.load(&slot);
            View { families: Arc::new(families), ..view.clone() }
        };
        self.replace_view(next, &lock)
    }
}

/// Where and when settings end that are changed.
#[derive(Clone, Copy)]
pub struct Change {
    /// The last number given.
    pub through: u64,
    pub unit: ClockUnit,
    pub now: Tick,
}

/// Creates the family, or changes what the settings name; the rest stays.
pub fn set_family(families: &mut Families, spec: &FamilySpec, change: Change) -> Result<FamilyId> {
    let stored = families.find(&spec.name).map(|f| (**f).clone());
    let mut family = match &stored {
        Some(stored) => stored.clone(),
        None => FamilyInfo::new(&spec.name)?,
    };
    let given = |value: u32, field: &mut u32| {
        if value != 0 {
            *field = value;
        }
    };
    given(spec.max_versions, &mut family.max_versions);
    given(spec.min_versions, &mut family.min_versions);
    given(spec.bloom.map_or(0, |b| b as u32), &mut family.bloom);
    given(spec.compression.map_or(0, |c| c as u32), &mut family.compression);
    given(spec.block_size, &mut family.block_size);
    given(spec.flags, &mut family.flags);
    if spec.ttl_ms != 0 {
        family.ttl_ms = spec.ttl_ms;
    }
    if let Some(stored) = stored.as_ref().filter(|s| !s.judges_as(&family)) {
        stored.succeeded_by(&mut family, change.through, change.unit, change.now)?;
    }
    match stored {
        Some(_) => families.alter(family.clone()).map(|()| family.id),
        None => families.add(family),
    }
}
