//! Figures and descriptions: statistics as a struct, settings and families as JSON.

use super::face::RegionStats;
use super::{Inner, thread};
use crate::clock::monotonic_nanos;
use crate::error::Result;
use crate::options::{KNOBS, TTL_NONE};
use crate::stats::CallKind;
use crate::sync::Ordering;
use serde_json::{Map, Value, json};

impl Inner {
    /// See `Region::stats`.
    pub fn stats(&self) -> Result<RegionStats> {
        let _call = self.lifecycle.enter(CallKind::Other, thread::index())?;
        let state = &self.state;
        let calls = self.lifecycle.calls.totals();
        let (memstore_bytes, sealed_bytes, old) = {
            let slot = state.slots.claim(thread::index());
            let view = state.view.load(&slot);
            let sealed: u64 = view.sealed.iter().map(|s| s.allocated_bytes()).sum();
            (view.active.allocated_bytes() + sealed, sealed, view.old_cells())
        };
        let now = monotonic_nanos();
        let ages = self.busy.ages(now);
        let log = state.log.as_ref().map(crate::wal::Log::stats).unwrap_or_default();
        let oldest = state.points.oldest();
        // What an open point needs was copied since it was opened; what came before was not its concern.
        let copied = oldest.as_ref().map_or(0, |o| state.copied.sum().saturating_sub(o.opened.copied));
        let held = copied.min(old.copies);
        let clock = state.sequencer.stats();
        let nonces = state.nonces.stats();
        // Relaxed: each figure for itself.
        let get = |a: &crate::sync::AtomicU64| a.load(Ordering::Relaxed);
        Ok(RegionStats {
            seq: state.last_number(),
            durable_seq: state.durable(),
            memstore_bytes,
            memstore_heap_bytes: state.budget.used(),
            wal_bytes: log.bytes,
            wal_syncs: log.syncs,
            reads: calls.reads,
            writes: calls.writes,
            increments: calls.increments,
            checks_passed: calls.checks_passed,
            checks_failed: calls.checks_failed,
            stalled_writes: calls.stalled,
            stalled_us: calls.stalled_micros,
            row_lock_waits: state.locks.waits(),
            clock_waits: clock.clock_waits,
            tick_advances: clock.tick_advances,
            tick_lead_max_ns: clock.tick_lead_max_ns,
            open_scanners: get(&self.open_scanners),
            open_snapshots: get(&self.open_snapshots),
            oldest_snapshot_seq: oldest.as_ref().map_or(0, |o| o.point.0),
            oldest_snapshot_age_us: oldest.as_ref().map_or(0, |o| now.saturating_sub(o.opened.ns) / 1_000),
            pinned_values: get(&self.pinned_values),
            pinned_bytes: get(&self.pinned_bytes),
            memstore_limit: state.budget.limit(),
            memstore_sealed_bytes: sealed_bytes,
            wal_segments: log.segments,
            unlogged_bytes: get(&self.unlogged_bytes),
            folded: 0,
            flushes: 0,
            compactions: 0,
            health: if self.lifecycle.is_closing() { 2 } else { u64::from(!state.health.is_good()) },
            nonce_entries: nonces.entries,
            nonce_bytes: nonces.bytes,
            nonce_bytes_max: nonces.bytes_max,
            nonce_hits: nonces.hits,
            nonce_expired: nonces.expired,
            nonce_refused: nonces.refused,
            read_points: oldest.map_or(0, |o| o.points),
            old_versions: old.cells,
            old_version_bytes: old.bytes,
            counter_copies: old.copies,
            counter_copy_bytes: old.copy_bytes,
            held_copies: held,
            held_copy_bytes: held * old.copy_bytes.checked_div(old.copies).unwrap_or(0),
            row_lock_waiting: state.locks.waiting(),
            oldest_commit_us: ages.commit / 1_000,
            oldest_call_us: ages.call / 1_000,
        })
    }

    /// See `Region::describe`.
    pub fn describe(&self) -> Result<String> {
        let _call = self.lifecycle.enter(CallKind::Other, thread::index())?;
        let manifest = self.lock_manifest().0.clone();
        let families: Vec<Value> = manifest
            .families
            .iter()
            .map(|f| {
                json!({
                    "id": f.id.0,
                    "name": f.name,
                    "max_versions": f.max_versions,
                    "min_versions": f.min_versions,
                    "ttl_ms": if f.ttl_ms == TTL_NONE { Value::Null } else { json!(f.ttl_ms) },
                    "bloom": f.bloom,
                    "compression": f.compression,
                    "block_size": f.block_size,
                    "flags": f.flags,
                })
            })
            .collect();
        let mut settings = Map::new();
        for knob in KNOBS {
            let value = knob.show(&self.settings);
            // What an empty memstore takes depends on the pool.
            let chunk = if knob.key == "memstore_limit" { self.state.pool.chunk_bytes() as u64 } else { 0 };
            settings.insert(
                knob.key.into(),
                json!({ "value": value, "default": knob.default, "min": knob.min.max(chunk), "max": knob.max, "about": knob.text }),
            );
        }
        let text = json!({
            "path": self.path.display().to_string(),
            "read_only": self.read_only,
            "clock_unit": manifest.clock_unit.name(),
            "start_row": self.start_row.escape_ascii().to_string(),
            "end_row": self.end_row.escape_ascii().to_string(),
            "families": families,
            "settings": settings,
            "nonce_entries": self.state.nonces.stats().entries,
            "nonce_bytes": self.state.nonces.bytes(),
            "wal_io": if self.state.log.as_ref().is_some_and(|l| l.stats().mapped) { "mapped" } else { "write" },
        });
        Ok(text.to_string())
    }
}
