//! Crashes, damage, failing and full disks: what the region promises about them (P-D1 to P-D4), over the real engine.
//!
//! - `stage`: a region in memory, its content, the commits it was told
//! - `simulate`, `examine`: a crash at every call to the outside world and at every append, then recovery, another life, another crash
//! - `damage`: bytes of the log changed
//! - `failing`: syncs and writes that fail, hang or lose pages (reports of kind K4)
//! - `repeated`: calls with nonces, made again after the crash
//! - `garbage`: anything in the files, with right checksums and without
//! - `levels`: what each level of durability does, full disks, a log without room (scenarios DUR)
//! - `reopening`: recovery and what it must not do (reports of kind K5, scenarios REC)
//! - `directory`: who may open what, on real files, and a full disk

mod damage;
mod directory;
mod examine;
mod failing;
mod garbage;
mod levels;
mod reopening;
mod repeated;
mod simulate;
mod stage;
