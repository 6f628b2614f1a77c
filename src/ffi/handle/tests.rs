use super::*;
use std::sync::Arc;

/// Knows whether it is alive; its memory may hold the next one at once, so it also knows which it is.
struct Canary {
    alive: AtomicU64,
    id: u64,
    drops: Arc<AtomicU64>,
    panics: bool,
}
static IDS: AtomicU64 = AtomicU64::new(1);
const ALIVE: u64 = 0x600d_600d_600d_600d;

impl Canary {
    fn new(drops: &Arc<AtomicU64>) -> Self {
        Self { alive: AtomicU64::new(ALIVE), id: IDS.fetch_add(1, Ordering::Relaxed), drops: drops.clone(), panics: false }
    }
}
impl Canary {
    fn that_panics(drops: &Arc<AtomicU64>) -> Self {
        Self { alive: AtomicU64::new(ALIVE), id: 0, drops: drops.clone(), panics: true }
    }
}
impl Drop for Canary {
    fn drop(&mut self) {
        self.alive.store(0xdead, Ordering::SeqCst);
        self.drops.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "planted");
    }
}
struct Opaque;
impl Object for Canary {
    type C = Opaque;
    const NAME: &'static str = "canary";
    const KIND: u64 = 0x6361_6e61_7279_0000;
    fn poison(&self, _: &str) {}
}
/// Of an owned kind.
struct Owned(Canary);
impl Object for Owned {
    type C = Opaque;
    const NAME: &'static str = "owned canary";
    const KIND: u64 = 0x6f77_6e65_6400_0000;
    const OWNED: bool = true;
    fn poison(&self, _: &str) {}
}
impl AsRef<Canary> for Canary {
    fn as_ref(&self) -> &Canary {
        self
    }
}
impl AsRef<Canary> for Owned {
    fn as_ref(&self) -> &Canary {
        &self.0
    }
}
struct Other;
impl Object for Other {
    type C = Opaque;
    const NAME: &'static str = "other";
    const KIND: u64 = 0x6f74_6865_7200_0000;
    fn poison(&self, _: &str) {}
}

fn why<T: Object>(handle: *const T::C) -> Option<Refused> {
    enter::<T>(handle).err()
}

#[test]
fn a_handle_lives_until_it_is_closed_and_then_says_so() {
    let drops = Arc::new(AtomicU64::new(0));
    let h = create(Canary::new(&drops)).unwrap();
    assert_eq!(enter::<Canary>(h).ok().unwrap().object().alive.load(Ordering::SeqCst), ALIVE);
    assert_eq!(why::<Other>(h), Some(Refused::Foreign));
    close::<Other>(h);
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    close::<Canary>(h);
    close::<Canary>(h);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    assert_eq!(why::<Canary>(h), Some(Refused::Closed));
    assert_eq!(why::<Other>(h), Some(Refused::Foreign));
    assert_eq!(why::<Canary>(std::ptr::null()), Some(Refused::Null));
    assert_eq!(why::<Canary>(h.wrapping_byte_add(1)), Some(Refused::Foreign));
    // The first unusable block behind the range.
    let end = BASE.load(Ordering::SeqCst) + BYTES.load(Ordering::SeqCst);
    assert_eq!(why::<Canary>(std::ptr::with_exposed_provenance(end)), Some(Refused::Foreign));
}

#[test]
fn closing_waits_for_no_one_and_the_last_user_frees() {
    let drops = Arc::new(AtomicU64::new(0));
    let h = create(Canary::new(&drops)).unwrap();
    let (a, b) = (enter::<Canary>(h).ok().unwrap(), enter::<Canary>(h).ok().unwrap());
    close::<Canary>(h);
    assert_eq!(why::<Canary>(h), Some(Refused::Closed), "no new users");
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    drop(b);
    assert_eq!(a.object().alive.load(Ordering::SeqCst), ALIVE);
    drop(a);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

/// Calls nested deeper than a thread has words for are counted in the block.
#[test]
fn deep_nesting_keeps_objects_alive() {
    let drops = Arc::new(AtomicU64::new(0));
    let outer: Vec<_> = (0..USERS_DEPTH + 3).map(|_| create(Canary::new(&drops)).unwrap()).collect();
    fn nest(handles: &[*mut Opaque], drops: &AtomicU64) {
        let Some((first, rest)) = handles.split_first() else {
            assert_eq!(drops.load(Ordering::SeqCst), 0);
            return;
        };
        let entered = enter::<Canary>(*first).ok().unwrap();
        close::<Canary>(*first);
        nest(rest, drops);
        assert_eq!(entered.object().alive.load(Ordering::SeqCst), ALIVE);
    }
    nest(&outer, &drops);
    assert_eq!(drops.load(Ordering::SeqCst), outer.len() as u64);
    assert!(!in_call());
}

#[test]
fn an_object_that_panics_when_dropped_is_contained() {
    let drops = Arc::new(AtomicU64::new(0));
    let h = create(Canary::that_panics(&drops)).unwrap();
    close::<Canary>(h);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    let h = create(Canary::that_panics(&drops)).unwrap();
    let entered = enter::<Canary>(h).ok().unwrap();
    assert!(entered.mark_closed());
    assert!(!entered.mark_closed());
    drop(entered);
    assert_eq!(drops.load(Ordering::SeqCst), 2);
}

/// Ended threads leave their words to later ones: the list does not grow with the number of threads that ever called.
#[test]
fn words_of_ended_threads_are_used_again() {
    let drops = Arc::new(AtomicU64::new(0));
    let h = create(Canary::new(&drops)).unwrap().expose_provenance();
    for _ in 0..300 {
        let call = move || drop(enter::<Canary>(std::ptr::with_exposed_provenance(h)).ok().unwrap());
        std::thread::spawn(call).join().unwrap();
    }
    let mut n = 0;
    let mut at = USERS.load(Ordering::SeqCst);
    // SAFETY: words are never freed.
    while let Some(users) = unsafe { at.as_ref() } {
        n += 1;
        at = users.next.load(Ordering::SeqCst);
    }
    assert!(n < 150, "{n} sets of words");
    close::<Canary>(std::ptr::with_exposed_provenance(h));
}

/// Threads use handles that others close and make anew: what is entered is alive, each object goes once.
fn stress<T: Object<C = Opaque> + AsRef<Canary>>(make: impl Fn(Canary) -> T + Sync) {
    const SHARED: usize = 2;
    const ROUNDS: u64 = 20_000;
    let drops = Arc::new(AtomicU64::new(0));
    let made = AtomicU64::new(SHARED as u64);
    let handles: [AtomicUsize; SHARED] =
        std::array::from_fn(|_| AtomicUsize::new(create(make(Canary::new(&drops))).unwrap().expose_provenance()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let users: Vec<_> = (0..3)
            .map(|t| {
                s.spawn({
                    let (handles, stop) = (&handles, &stop);
                    move || {
                        let (mut i, mut used) = (t, 0_u64);
                        while !stop.load(Ordering::Relaxed) {
                            i += 1;
                            let h = handles[i % SHARED].load(Ordering::Relaxed);
                            if let Ok(e) = enter::<T>(std::ptr::with_exposed_provenance(h)) {
                                let id = std::hint::black_box(e.object()).as_ref().id;
                                for _ in 0..i % 300 {
                                    let now = std::hint::black_box(e.object()).as_ref();
                                    assert_eq!((now.alive.load(Ordering::Relaxed), now.id), (ALIVE, id), "used after it was freed");
                                }
                                used += 1;
                            }
                        }
                        used
                    }
                })
            })
            .collect();
        let closers: Vec<_> = (0..2)
            .map(|c| {
                s.spawn({
                    let (handles, drops, made, make) = (&handles, &drops, &made, &make);
                    move || {
                        for i in 0..ROUNDS {
                            let fresh = create(make(Canary::new(drops))).unwrap().expose_provenance();
                            made.fetch_add(1, Ordering::SeqCst);
                            let old = handles[(i + c) as usize % SHARED].swap(fresh, Ordering::SeqCst);
                            close::<T>(std::ptr::with_exposed_provenance(old));
                        }
                    }
                })
            })
            .collect();
        for c in closers {
            c.join().unwrap();
        }
        stop.store(true, Ordering::SeqCst);
        let used: u64 = users.into_iter().map(|u| u.join().unwrap()).sum();
        assert!(used > 1000, "the users hardly ran: {used}");
    });
    for h in &handles {
        close::<T>(std::ptr::with_exposed_provenance(h.load(Ordering::SeqCst)));
    }
    assert_eq!(drops.load(Ordering::SeqCst), made.load(Ordering::SeqCst));
}

#[test]
fn users_and_closers_race() {
    stress(|canary| canary);
}

/// Closed by the thread that made it or by another, while others use it.
#[test]
fn users_and_closers_of_owned_handles_race() {
    stress(Owned);
}

/// H4: the owner frees at once what nobody else has entered, and leaves to the other user what one has.
#[test]
fn an_owned_handle_lives_while_another_thread_is_in_it() {
    let drops = Arc::new(AtomicU64::new(0));
    let count = || drops.load(Ordering::SeqCst);
    let h = create(Owned(Canary::new(&drops))).unwrap();
    drop(enter::<Owned>(h).ok().unwrap());
    close::<Owned>(h);
    assert_eq!(count(), 1);
    let h = create(Owned(Canary::new(&drops))).unwrap();
    let place = h.expose_provenance();
    let (entered, closed) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|s| {
        s.spawn(|| {
            let e = enter::<Owned>(std::ptr::with_exposed_provenance(place)).ok().unwrap();
            entered.wait();
            closed.wait();
            assert_eq!((e.object().0.alive.load(Ordering::SeqCst), count()), (ALIVE, 1));
        });
        entered.wait();
        let mine = enter::<Owned>(h).ok().unwrap();
        close::<Owned>(h);
        drop(mine);
        closed.wait();
    });
    assert_eq!(count(), 2);
    // Closed by another thread under its owner.
    let h = create(Owned(Canary::new(&drops))).unwrap();
    let place = h.expose_provenance();
    let mine = enter::<Owned>(h).ok().unwrap();
    std::thread::spawn(move || close::<Owned>(std::ptr::with_exposed_provenance(place))).join().unwrap();
    assert_eq!((mine.object().0.alive.load(Ordering::SeqCst), count()), (ALIVE, 2));
    drop(mine);
    assert_eq!(count(), 3);
}

/// The same where the kernel has no membarrier: in a process of its own, since the choice is made once.
#[test]
fn users_and_closers_race_without_membarrier() {
    const VAR: &str = "REGION_TEST_NO_MEMBARRIER";
    if std::env::var_os(VAR).is_some() {
        stress(|canary| canary);
        stress(Owned);
        assert!(!ASYMMETRIC.load(Ordering::SeqCst));
        return;
    }
    let exe = std::env::current_exe().unwrap();
    let name = "ffi::handle::tests::users_and_closers_race_without_membarrier";
    let out = std::process::Command::new(exe).args(["--exact", name]).env(VAR, "1").output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&out.stderr));
}
