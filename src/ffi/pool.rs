//! Chunk pools: memory that regions share and use again.

use super::guard::{self, Caller, Outcome};
use super::handle::{self, Object};
use super::options::known_bits;
use super::sized::{plain, read_sized, write_sized, zeroed};
use super::status::{region_error_t, region_status};
use crate::error::{Error, ErrorKind};
use crate::mslab::{ChunkPool, PoolOptions};
use crate::sync::Arc;

/// A chunk pool. Opaque.
pub struct chunk_pool_t(());

/// What a `chunk_pool_t` leads to.
pub(super) struct Pool(pub(super) Arc<ChunkPool>);

impl Object for Pool {
    type C = chunk_pool_t;
    const NAME: &'static str = "chunk pool";
    const KIND: u64 = 0x6368_756e_6b70_6c00;
    // What a pool has is consistent at every point where it could panic; there is nothing to refuse.
    fn poison(&self, _: &str) {}
}

/// How a chunk pool is made. NULL, or zeros behind struct_size, mean the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct chunk_pool_options_t {
    /// sizeof(chunk_pool_options_t)
    pub struct_size: u32,
    /// 0
    pub flags: u32,
    /// Bytes of a chunk, a power of two of at least 4096; default 2 MiB.
    pub chunk_size: u64,
    /// Most bytes that the pool ever takes; default half of the machine's memory, at least 64 MiB, at most 16 GiB.
    pub max_bytes: u64,
    /// Bytes to take at once.
    pub preallocate_bytes: u64,
}

/// What a chunk pool has. At a quiet moment created = pooled + in_use + discarded.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct chunk_pool_stats_t {
    /// In: sizeof(chunk_pool_stats_t).
    pub struct_size: u32,
    /// 0
    pub reserved: u32,
    /// Bytes of a chunk.
    pub chunk_size: u64,
    /// Most chunks.
    pub max_chunks: u64,
    /// Chunks that wait for a user.
    pub pooled: u64,
    /// Chunks in use.
    pub in_use: u64,
    /// Chunks made so far.
    pub created: u64,
    /// Chunks handed out that had been used before.
    pub reused: u64,
    /// Chunks given back to the system.
    pub discarded: u64,
    /// Buffers for cells too large for a chunk, in use now; in no other number.
    pub oversize: u64,
    /// Largest in_use so far.
    pub high_water: u64,
}
plain!(chunk_pool_options_t, chunk_pool_stats_t);

/// Makes a chunk pool, for region_options_t.chunk_pool. *out: close it with chunk_pool_close; NULL on failure. Threads:
/// any.
/// REGION_E_INVALID, E_UNSUPPORTED, E_NOMEM, E_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chunk_pool_create(
    opts: *const chunk_pool_options_t,
    out: *mut *mut chunk_pool_t,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            c.write(out, std::ptr::null_mut());
            c.require(out, "out")
        };
        guard::plain("chunk_pool_create", err, outputs, |c| {
            let mut o = PoolOptions::default();
            if let Some(given) = read_sized(c, opts, "opts")? {
                known_bits(given.flags, 0, "opts.flags")?;
                let Ok(chunk_size) = usize::try_from(given.chunk_size) else {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        format!("opts.chunk_size: {} is more than any chunk can have; the default is 2 MiB", given.chunk_size),
                    ));
                };
                o = PoolOptions { chunk_size, max_bytes: given.max_bytes, preallocate_bytes: given.preallocate_bytes, ..o };
            }
            c.write(out, handle::create(Pool(ChunkPool::new(o)?))?);
            Ok(Outcome::OK)
        })
    }
}

/// What a pool has; p NULL: the process's default pool. Threads: any; takes no lock. REGION_E_INVALID, E_HANDLE, E_CLOSED,
/// E_NOMEM, E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chunk_pool_stats(p: *const chunk_pool_t, out: *mut chunk_pool_stats_t, err: *mut region_error_t) -> region_status {
    let outputs = |c: Caller<'_>| write_sized(c, out, &zeroed(), "out");
    let tell = |pool: &ChunkPool, c: Caller<'_>| {
        let s = pool.stats();
        let told = chunk_pool_stats_t {
            struct_size: 0,
            reserved: 0,
            chunk_size: s.chunk_size,
            max_chunks: s.max_chunks,
            pooled: s.pooled,
            in_use: s.in_use,
            created: s.created,
            reused: s.reused,
            discarded: s.discarded,
            oversize: s.oversize,
            high_water: s.high_water,
        };
        write_sized(c, out, &told, "out").map(|()| Outcome::OK)
    };
    if p.is_null() {
        // SAFETY: all pointers are arguments of the C call.
        return unsafe { guard::plain("chunk_pool_stats", err, outputs, |c| tell(&*ChunkPool::shared()?, c)) };
    }
    // SAFETY: all pointers are arguments of the C call.
    unsafe { guard::on::<Pool>("chunk_pool_stats", p, err, outputs, |pool, c| tell(&pool.0, c)) }
}

/// Gives idle chunks back to the system until at most keep_bytes of them are left; p NULL: the process's default pool.
/// Threads: any.
/// REGION_E_HANDLE, E_CLOSED, E_NOMEM, E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chunk_pool_trim(p: *mut chunk_pool_t, keep_bytes: u64, err: *mut region_error_t) -> region_status {
    let trim = |pool: &ChunkPool| {
        pool.trim(keep_bytes);
        Ok(Outcome::OK)
    };
    if p.is_null() {
        // SAFETY: all pointers are arguments of the C call.
        return unsafe { guard::plain("chunk_pool_trim", err, guard::no_outputs, |_| trim(&*ChunkPool::shared()?)) };
    }
    // SAFETY: all pointers are arguments of the C call.
    unsafe { guard::on::<Pool>("chunk_pool_trim", p, err, guard::no_outputs, |pool, _| trim(&pool.0)) }
}

/// Lets go of a pool; its memory goes when the last region that uses it is closed. NULL, closed, a forked child: nothing
/// happens. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chunk_pool_close(p: *mut chunk_pool_t) {
    // SAFETY: p is the C call's argument.
    unsafe {
        guard::plain("chunk_pool_close", std::ptr::null_mut(), guard::no_outputs, |_| {
            handle::close::<Pool>(p);
            Ok(Outcome::OK)
        })
    };
}
