//! Column families of an open region: the manifest is durable before an id is usable, and an id is refused before its family goes.

use super::{Inner, thread};
use crate::clock::Timeout;
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
        check_offered(spec)?;
        self.change_families(|manifest| set_family(&mut manifest.families, spec))
    }
    /// See `Region::family_drop`.
    pub fn family_drop(&self, id: FamilyId) -> Result<()> {
        let _call = self.lifecycle.enter(CallKind::Other, thread::index())?;
        if self.families().get(id).is_none() {
            return fail!(NoFamily, "no column family with id {} here", id.0);
        }
        // Refuse the id first and let who uses it finish; only then the manifest forgets it, and with it the cells that a replay would bring back.
        self.publish_families(|families| {
            let mut next = families.clone();
            next.remove(id).map(|_| next)
        })?;
        let mut manifest = self.manifest.lock();
        let mut next = manifest.clone();
        next.families.remove(id)?;
        match next.store(&*self.env, &self.path) {
            Ok(()) => {
                *manifest = next;
                Ok(())
            }
            Err(e) => {
                let families = Arc::new(manifest.families.clone());
                drop(manifest);
                self.publish_families(|_| Ok((*families).clone()))?;
                Err(e)
            }
        }
    }

    fn change_families<R>(&self, change: impl FnOnce(&mut Manifest) -> Result<R>) -> Result<R> {
        if self.read_only {
            return fail!(ReadOnly, "{} is open read-only; nothing was changed", self.path.display());
        }
        self.state.health.check()?;
        let mut manifest = self.manifest.lock();
        let mut next = manifest.clone();
        let answer = change(&mut next)?;
        if next != *manifest {
            next.store(&*self.env, &self.path)?;
            let families = next.families.clone();
            *manifest = next;
            self.publish_families(|_| Ok(families))?;
        }
        Ok(answer)
    }

    /// Publishes a view with other families and waits until nobody can hold the old one.
    fn publish_families(&self, change: impl FnOnce(&Families) -> Result<Families>) -> Result<()> {
        // One view change at a time: two would lose one of them.
        let _one_at_a_time = self.seal_lock.lock();
        let next = {
            let slot = self.state.slots.claim(thread::index());
            let view = self.state.view.load(&slot);
            View { families: Arc::new(change(&view.families)?), ..view.clone() }
        };
        let old = self.state.view.replace(Box::new(next));
        drop(old.reclaim(&self.state.slots, &mut Timeout::forever()).map_err(|(_, e)| e)?);
        Ok(())
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

/// Settings that are stored but not acted on yet are refused rather than ignored.
pub fn check_offered(spec: &FamilySpec) -> Result<()> {
    if spec.ttl_ms != 0 && spec.ttl_ms != crate::options::TTL_NONE {
        return fail!(Unsupported, "family {:?}: ttl_ms is not offered by this version", String::from_utf8_lossy(&spec.name));
    }
    if spec.flags != 0 {
        return fail!(Unsupported, "family {:?}: KEEP_DELETED is not offered by this version", String::from_utf8_lossy(&spec.name));
    }
    Ok(())
}
