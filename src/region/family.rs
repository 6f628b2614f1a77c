//! Column families of an open region: the manifest is durable before an id is usable, and an id is refused before its family goes.

use super::{Inner, Leveled, thread};
use crate::error::Result;
use crate::fail;
use crate::ids::FamilyId;
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
    pub fn family_set(&self, spec: &FamilySpec) -> Result<FamilyId> {
        let _call = self.lifecycle.enter(CallKind::Other, thread::index())?;
        self.change_families(|manifest| set_family(&mut manifest.families, spec))
    }
    /// See `Region::family_drop`.
    pub fn family_drop(&self, id: FamilyId) -> Result<()> {
        let _call = self.lifecycle.enter(CallKind::Other, thread::index())?;
        // Refuse the id first and let who uses it finish; only then the manifest forgets it, and with it the cells that a replay would bring back.
        let (mut manifest, _level) = self.changeable_manifest()?;
        let mut next = manifest.clone();
        next.families.remove(id)?;
        self.publish_families(next.families.clone())?;
        if let Err(e) = next.store(&*self.env, &self.path) {
            // The new file may be in place nevertheless. Only once the old one surely is again may the id be used; if that fails too, it stays refused.
            manifest.store(&*self.env, &self.path)?;
            self.publish_families(manifest.families.clone())?;
            return Err(e);
        }
        *manifest = next;
        Ok(())
    }

    /// The manifest of a region that takes changes, locked over reading, changing, storing and publishing.
    fn changeable_manifest(&self) -> Result<Leveled<'_, Manifest>> {
        if self.read_only {
            return fail!(ReadOnly, "{} is open read-only; nothing was changed", self.path.display());
        }
        self.state.health.check()?;
        Ok(self.lock_manifest())
    }

    fn change_families<R>(&self, change: impl FnOnce(&mut Manifest) -> Result<R>) -> Result<R> {
        let (mut manifest, _level) = self.changeable_manifest()?;
        let mut next = manifest.clone();
        let answer = change(&mut next)?;
        if next != *manifest {
            next.store(&*self.env, &self.path)?;
            let families = next.families.clone();
            *manifest = next;
            self.publish_families(families)?;
        }
        Ok(answer)
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

/// Creates the family, or changes what the settings name; the rest stays.
pub fn set_family(families: &mut Families, spec: &FamilySpec) -> Result<FamilyId> {
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
    match stored {
        Some(_) => families.alter(family.clone()).map(|()| family.id),
        None => families.add(family),
    }
}
