//! Handles: what a caller's pointer leads to, and who may still be using it.
//!
//! A handle is the address of a 64-byte control block {word, object}. The word is kind and state in one: it is compared with the one
//! value that says "an open T". Blocks lie in one reserved range that is never unmapped, so any pointer can be checked: outside the
//! range, or not on a block, it is foreign and is not followed. A closed block keeps its word, so that stale pointers answer `Closed`; it
//! is used again only after [`QUARANTINE`] others were closed, first in, first out.
//!
//! *Who may still be using it.* A call says which block it is in, in a word of its thread ([`Users`]), then looks at the block's word; on
//! leaving it clears the word and looks at the block again. Closing changes the block's word, then looks at all threads' words: if none
//! names the block the object is dropped, else the last one to leave does it. So a call costs no shared write at all. Both sides store
//! and then load, which needs a full fence on both ("store buffer"); closing issues it for all threads with membarrier(2), so that a call
//! needs a compiler fence only. Where the kernel has no membarrier both sides use real fences.
//!
//! Membarrier interrupts every processor that runs the process: microseconds, too much for handles that live for one scan. So a kind may be
//! OWNED: its block knows the words of the thread that made it. Any other thread that enters says so in the block (`shared`), behind a full
//! fence of its own. Closed by the owner and never shared: the owner looks at its own words and nobody else's.
//!
//! | word | object | state |
//! |---|---|---|
//! | 0 | null | never used |
//! | kind, OPEN | set | open |
//! | kind, CLOSED | set | closed, still in use by a call |
//! | kind, CLOSED | null | in quarantine |
//!
//! *Invariants.* H1: an object is freed only after its word says CLOSED and, after a heavy fence, no thread's word names the block. H2:
//! who sees OPEN after having named the block may use the object until it clears the name. H3: who clears a name and then sees CLOSED
//! tries to free. H4: who is not the owner uses the object of an owned kind only after `shared` is set, a full fence, and OPEN seen again.
//! *Threads*: all.

mod protocol;

use crate::error::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};

/// What a handle can lead to.
pub(super) trait Object: Send + Sync + Sized + 'static {
    /// The C type of the handle.
    type C;
    /// Its name in messages.
    const NAME: &'static str;
    /// Upper seven bytes of the block's word; different for each kind.
    const KIND: u64;
    /// Usually made, used and closed by one thread, and often: closing it there costs no membarrier, using it elsewhere a full fence.
    const OWNED: bool = false;
    /// A panic was caught in a call on it.
    fn poison(&self, reason: &str);
}

const OPEN: u64 = 1;
const CLOSED: u64 = 2;
const STATE_MASK: u64 = 0xff;

/// Closed blocks that wait before one of them is used again (256 KiB of them).
const QUARANTINE: usize = 4096;
/// Address space for blocks: 4 million handles. Halved until the system grants it.
const RANGE_BYTES: usize = 256 << 20;
const RANGE_BYTES_MIN: usize = 1 << 20;
/// The range becomes usable in steps of this size.
const STEP_BYTES: usize = 64 << 10;

/// One control block.
#[repr(C, align(64))]
struct Block {
    word: AtomicU64,
    object: AtomicPtr<()>,
    /// Drops what `object` points to. Written before the word says OPEN, as `object` is.
    free: AtomicPtr<()>,
    /// Calls that are nested too deep for their thread's words.
    crowd: AtomicU32,
    /// The next block in quarantine, as index + 1. Guarded by the slab's lock.
    next: AtomicU32,
    /// The words of the thread that made an object of an owned kind; else null. Written before the word says OPEN.
    owner: AtomicPtr<Users>,
    /// Another thread has entered an object of an owned kind.
    shared: AtomicBool,
}
const _: () = assert!(size_of::<Block>() == 64);

impl Block {
    /// What a thread's word says that uses it.
    fn name(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// The usable part of the range. Written under the slab's lock, `BYTES` last (Release, pairs with the Acquire in `block_of`).
static BASE: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// True once the process is registered for membarrier. Written before the first handle exists.
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Level 7, a leaf: nothing is called under it but mprotect and membarrier.
static SLAB: Mutex<Slab> = Mutex::new(Slab { reserved: 0, used: 0, first: 0, last: 0, waiting: 0 });

struct Slab {
    /// Bytes of address space.
    reserved: usize,
    /// Blocks used at least once.
    used: usize,
    /// The quarantine: index + 1 of its ends, and its length.
    first: u32,
    last: u32,
    waiting: usize,
}

/// The words of one thread: the blocks it is in, by nesting depth. Never freed, used again by later threads.
#[repr(align(128))]
struct Users {
    blocks: [AtomicUsize; USERS_DEPTH],
    /// Written by its thread only.
    depth: AtomicUsize,
    taken: AtomicBool,
    next: AtomicPtr<Users>,
}
/// Handles that one thread can be in at a time without a shared write: a call takes at most two, and log callbacks may call again.
const USERS_DEPTH: usize = 8;

/// All threads' words; grows only.
static USERS: AtomicPtr<Users> = AtomicPtr::new(null_mut());

thread_local! {
    /// This thread's words. No destructor, so that an access costs no registration and works to the thread's very end.
    static MINE: Cell<*const Users> = const { Cell::new(std::ptr::null()) };
    /// Gives the words back when the thread ends.
    static LEAVER: Leaver = const { Leaver };
}

struct Leaver;
impl Drop for Leaver {
    fn drop(&mut self) {
        let mine = MINE.replace(std::ptr::null());
        // SAFETY: words are never freed.
        if let Some(users) = unsafe { mine.as_ref() }
            && users.depth.load(Ordering::Relaxed) == 0
        {
            // Release: pairs with the Acquire of the thread that takes them next.
            users.taken.store(false, Ordering::Release);
        }
    }
}

/// Why a pointer is not a usable handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Null,
    Foreign,
    Closed,
}

impl Refused {
    #[cold]
    pub(super) fn error(self, name: &str) -> Error {
        match self {
            Self::Null => Error::new(ErrorKind::Handle, format!("{name} is NULL")),
            Self::Foreign => Error::new(
                ErrorKind::Handle,
                format!("{name}: the pointer leads to no handle of its kind, or to one that was closed long ago"),
            ),
            Self::Closed => Error::new(ErrorKind::Closed, format!("{name} is closed")),
        }
    }
}

/// True while this thread is in a call on a handle.
pub(super) fn in_call() -> bool {
    // SAFETY: words are never freed.
    unsafe { MINE.get().as_ref() }.is_some_and(|u| u.depth.load(Ordering::Relaxed) > 0)
}

#[inline]
fn block_of<T>(handle: *const T) -> Option<&'static Block> {
    let address = handle.addr();
    // Acquire: pairs with the Release in `Slab::grow`; who sees the size sees the base, and pages that can be read.
    let bytes = BYTES.load(Ordering::Acquire);
    let offset = address.wrapping_sub(BASE.load(Ordering::Relaxed));
    if offset >= bytes || !offset.is_multiple_of(size_of::<Block>()) {
        return None;
    }
    // SAFETY: a block's address in the usable part of the range, which stays mapped for ever; zeroed pages are valid blocks, all fields
    // are atomics.
    Some(unsafe { &*handle.cast::<Block>() })
}

/// Between a thread's own store and its next load. Pairs with `heavy_fence`.
#[inline]
fn light_fence() {
    if ASYMMETRIC.load(Ordering::Relaxed) { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
}

/// A full fence in every thread of the process that runs at this moment.
fn heavy_fence() {
    fence(Ordering::SeqCst);
    #[cfg(target_os = "linux")]
    if ASYMMETRIC.load(Ordering::Relaxed) {
        // SAFETY: a system call without pointers.
        let rc = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) };
        debug_assert_eq!(rc, 0);
    }
}

/// A handle in use by this call; what it leads to stays until this is dropped.
pub(super) struct Entered<'a, T: Object> {
    object: &'a T,
    place: Place,
}

impl<T: Object> Entered<'_, T> {
    #[inline]
    pub(super) fn object(&self) -> &T {
        self.object
    }
    /// Closed from now on; the object goes when the last call has left. Answers false if it was closed already.
    pub(super) fn mark_closed(&self) -> bool {
        mark_closed::<T>(self.place.block)
    }
}

/// The name of a block in this thread's words.
struct Place {
    block: &'static Block,
    users: &'static Users,
    depth: usize,
}

impl Place {
    /// Names the block; answers also its word as it is then.
    #[inline]
    fn take(block: &'static Block) -> (Self, u64) {
        let users = mine();
        // Relaxed: only this thread writes it.
        let depth = users.depth.load(Ordering::Relaxed);
        users.depth.store(depth + 1, Ordering::Relaxed);
        let word = match users.blocks.get(depth) {
            Some(name) => protocol::announce(name, block.name(), &block.word, light_fence),
            None => {
                // SeqCst: ordered before the load of the block's word, as the fence does for names.
                block.crowd.fetch_add(1, Ordering::SeqCst);
                light_fence();
                block.word.load(Ordering::Acquire)
            }
        };
        (Self { block, users, depth }, word)
    }
    /// Tells the block's owner, if that is another thread, that the block has another user; answers the word as it is then.
    #[inline]
    fn tell_owner(&self, word: u64) -> u64 {
        // Relaxed: written before the word said OPEN, which was loaded with Acquire.
        let owner = self.block.owner.load(Ordering::Relaxed).cast_const();
        if std::ptr::eq(owner, self.users) { word } else { protocol::share(&self.block.shared, &self.block.word) }
    }
}

/// This thread's words.
#[inline]
fn mine() -> &'static Users {
    // SAFETY: words are never freed.
    match unsafe { MINE.get().as_ref() } {
        Some(users) => users,
        None => join(),
    }
}

impl Drop for Place {
    #[inline]
    fn drop(&mut self) {
        self.users.depth.store(self.depth, Ordering::Relaxed);
        let word = match self.users.blocks.get(self.depth) {
            Some(name) => protocol::leave(name, &self.block.word, light_fence),
            None => {
                self.block.crowd.fetch_sub(1, Ordering::SeqCst);
                light_fence();
                self.block.word.load(Ordering::Relaxed)
            }
        };
        if word & STATE_MASK == CLOSED {
            reclaim(self.block);
        }
    }
}

/// Uses a handle for the length of a call.
#[inline]
pub(super) fn enter<'a, T: Object>(handle: *const T::C) -> std::result::Result<Entered<'a, T>, Refused> {
    let Some(block) = block_of(handle) else {
        return Err(if handle.is_null() { Refused::Null } else { Refused::Foreign });
    };
    let (place, mut word) = Place::take(block);
    if T::OWNED && word == T::KIND | OPEN {
        word = place.tell_owner(word);
    }
    if word != T::KIND | OPEN {
        return Err(if word == T::KIND | CLOSED { Refused::Closed } else { Refused::Foreign });
    }
    let object = block.object.load(Ordering::Relaxed).cast::<T>();
    // SAFETY: the word says that this is an open T, seen after the block was named in this thread's words: the object stays until
    // `place` is
    // dropped (H2), which the result owns.
    Ok(Entered { object: unsafe { &*object }, place })
}

/// Makes a handle for an object.
pub(super) fn create<T: Object>(object: T) -> Result<*mut T::C> {
    let block = new_block()?;
    let free: fn(*mut ()) = |object| {
        // SAFETY: made by `Box::into_raw` in `create` for this very kind; taken out of its block by exactly one `reclaim`.
        drop(unsafe { Box::from_raw(object.cast::<T>()) });
    };
    block.object.store(Box::into_raw(Box::new(object)).cast(), Ordering::Relaxed);
    block.free.store(free as *mut (), Ordering::Relaxed);
    let owner = if T::OWNED { std::ptr::from_ref(mine()).cast_mut() } else { null_mut() };
    block.owner.store(owner, Ordering::Relaxed);
    block.shared.store(false, Ordering::Relaxed);
    // Release: pairs with the Acquire in `announce`.
    block.word.store(T::KIND | OPEN, Ordering::Release);
    Ok(std::ptr::from_ref(block).cast_mut().cast())
}

/// Closes a handle whose object needs no farewell. Nothing happens for NULL and for what is no open T.
pub(super) fn close<T: Object>(handle: *const T::C) {
    if let Some(block) = block_of(handle)
        && mark_closed::<T>(block)
    {
        reclaim(block);
    }
}

fn mark_closed<T: Object>(block: &Block) -> bool {
    protocol::close(&block.word, T::KIND | OPEN, T::KIND | CLOSED)
}

/// Frees the object of a closed block if nobody uses it. Whoever uses it will come here when it leaves.
#[cold]
fn reclaim(block: &'static Block) {
    // Dropping may run the core's code; nothing may unwind into the caller, who could be any call that left.
    if catch_unwind(AssertUnwindSafe(|| take_and_drop(block))).is_err() {
        ::log::error!(target: "region", "a bug in libregion was caught while a handle was freed");
    }
}

fn take_and_drop(block: &'static Block) {
    let (object, free) = {
        let mut slab = SLAB.lock();
        let closed = block.word.load(Ordering::Relaxed) & STATE_MASK == CLOSED;
        let object = block.object.load(Ordering::Relaxed);
        if !closed || object.is_null() {
            return;
        }
        if !is_free(block) {
            return;
        }
        block.object.store(null_mut(), Ordering::Relaxed);
        slab.push(block);
        (object, block.free.load(Ordering::Relaxed))
    };
    // SAFETY: `create` stored exactly such a function.
    let free = unsafe { std::mem::transmute::<*mut (), fn(*mut ())>(free) };
    free(object);
}

/// True if no call is in the block. The caller has seen it closed.
fn is_free(block: &Block) -> bool {
    // No `join` here: who has no words owns nothing. Two owners one after the other (words are used again) are ordered by `Users::taken`.
    // SAFETY: words are never freed.
    let me = unsafe { MINE.get().as_ref() };
    if let Some(users) = me.filter(|users| std::ptr::eq(*users, block.owner.load(Ordering::Relaxed)))
        && protocol::was_alone(&block.shared)
    {
        return protocol::is_free(users.blocks.iter(), block.name(), || ()) && block.crowd.load(Ordering::SeqCst) == 0;
    }
    // The list's head is read at the first step, so behind the fence: a thread that joins later sees the block closed.
    let mut at: Option<&Users> = None;
    let users = std::iter::from_fn(|| {
        // Acquire: pairs with the Release in `join`.
        let next = at.map_or_else(|| USERS.load(Ordering::Acquire), |users| users.next.load(Ordering::Relaxed));
        // SAFETY: words are never freed.
        at = unsafe { next.as_ref() };
        at
    });
    protocol::is_free(users.flat_map(|u| u.blocks.iter()), block.name(), heavy_fence) && block.crowd.load(Ordering::SeqCst) == 0
}

/// This thread's first call: takes words that an ended thread left, or makes new ones.
#[cold]
fn join() -> &'static Users {
    let mut at = USERS.load(Ordering::Acquire);
    // SAFETY: words are never freed.
    while let Some(users) = unsafe { at.as_ref() } {
        // Acquire: pairs with the Release of the thread that gave them back.
        if !users.taken.load(Ordering::Relaxed) && users.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return settle(users);
        }
        at = users.next.load(Ordering::Relaxed);
    }
    let users: &'static Users = Box::leak(Box::new(Users {
        blocks: [const { AtomicUsize::new(0) }; USERS_DEPTH],
        depth: AtomicUsize::new(0),
        taken: AtomicBool::new(true),
        next: AtomicPtr::new(null_mut()),
    }));
    let mut head = USERS.load(Ordering::Relaxed);
    loop {
        users.next.store(head, Ordering::Relaxed);
        // Release: pairs with the Acquire loads of the list; a scan that misses new words is followed, in their thread, by a load of the
        // block's word that sees CLOSED: the heavy fence stands between.
        match USERS.compare_exchange(head, std::ptr::from_ref(users).cast_mut(), Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return settle(users),
            Err(now) => head = now,
        }
    }
}

fn settle(users: &'static Users) -> &'static Users {
    MINE.set(users);
    // In a thread that is ending the words are not given back: one set per such thread that calls.
    let _ = LEAVER.try_with(|_| ());
    users
}

fn new_block() -> Result<&'static Block> {
    super::guard::start();
    let mut slab = SLAB.lock();
    if slab.waiting <= QUARANTINE
        && let Some(block) = slab.fresh()
    {
        return Ok(block);
    }
    match slab.pop() {
        Some(block) => Ok(block),
        None => Err(Error::new(ErrorKind::NoMem, "no room for another handle: too many are open")),
    }
}

impl Slab {
    fn block(&self, index: usize) -> Option<&'static Block> {
        let address = BASE.load(Ordering::Relaxed) + index * size_of::<Block>();
        block_of(std::ptr::with_exposed_provenance::<Block>(address))
    }
    /// A block that was never used.
    fn fresh(&mut self) -> Option<&'static Block> {
        if (self.used + 1) * size_of::<Block>() > BYTES.load(Ordering::Relaxed) {
            self.grow()?;
        }
        let block = self.block(self.used)?;
        self.used += 1;
        Some(block)
    }
    /// Makes one more step of the range usable; the first time, reserves it.
    fn grow(&mut self) -> Option<()> {
        if self.reserved == 0 {
            self.reserve()?;
        }
        let usable = BYTES.load(Ordering::Relaxed);
        if usable + STEP_BYTES > self.reserved {
            return None;
        }
        let at = std::ptr::with_exposed_provenance_mut::<libc::c_void>(BASE.load(Ordering::Relaxed) + usable);
        // SAFETY: a part of the reserved range that nobody uses yet.
        if unsafe { libc::mprotect(at, STEP_BYTES, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return None;
        }
        // Release: pairs with the Acquire in `block_of`.
        BYTES.store(usable + STEP_BYTES, Ordering::Release);
        Some(())
    }
    /// Takes address space without memory: pages that cannot be touched are not even locked by mlockall.
    fn reserve(&mut self) -> Option<()> {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: a system call without pointers.
            let rc = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) };
            let forbidden = cfg!(test) && std::env::var_os("REGION_TEST_NO_MEMBARRIER").is_some();
            ASYMMETRIC.store(rc == 0 && !forbidden, Ordering::Relaxed);
        }
        let mut bytes = RANGE_BYTES;
        while bytes >= RANGE_BYTES_MIN {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new mapping at an address of the system's choice.
            let at = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
            if at != libc::MAP_FAILED {
                self.reserved = bytes;
                BASE.store(at.expose_provenance(), Ordering::Relaxed);
                return Some(());
            }
            bytes /= 2;
        }
        None
    }
    /// Into quarantine, at its end.
    fn push(&mut self, block: &'static Block) {
        let index = (block.name() - BASE.load(Ordering::Relaxed)) / size_of::<Block>();
        let link = index as u32 + 1;
        block.next.store(0, Ordering::Relaxed);
        match (self.last as usize).checked_sub(1).and_then(|last| self.block(last)) {
            Some(last) => last.next.store(link, Ordering::Relaxed),
            None => self.first = link,
        }
        self.last = link;
        self.waiting += 1;
    }
    /// The one that has waited longest.
    fn pop(&mut self) -> Option<&'static Block> {
        let block = self.block((self.first as usize).checked_sub(1)?)?;
        self.first = block.next.load(Ordering::Relaxed);
        if self.first == 0 {
            self.last = 0;
        }
        self.waiting -= 1;
        Some(block)
    }
}

#[cfg(test)]
mod tests;
