//! Runs the stress test: seconds from `STRESS_SECONDS`. Few calls per round, since each is many times slower than it is.

#[path = "../../../tests/it/short.rs"]
mod short;
#[path = "../../../tests/it/stress.rs"]
#[allow(dead_code)]
mod stress;

fn main() {
    let seconds = std::env::var("STRESS_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(20);
    stress::run(seconds, 6, 2, 400);
    println!("stress: done");
}
