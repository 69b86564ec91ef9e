//! The shell's oracle: random programs, compared with what they mean.

use windlass_faulty::programs::{self, Tally};

/// `WINDLASS_ORACLE` says how many; `WINDLASS_ORACLE_FROM` says where to begin.
#[test]
fn random_programs_do_what_they_mean() {
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse::<u64>().expect("a number"));
    let count = number("WINDLASS_ORACLE").unwrap_or(if cfg!(debug_assertions) { 4_000 } else { 100_000 });
    let from = number("WINDLASS_ORACLE_FROM").unwrap_or(0);
    let mut all = Tally::default();
    for seed in from..from + count {
        all += programs::run(seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{all:?}");
    assert_eq!(all.programs, count);
    assert!(all.well > 0 && all.failed > 0 && all.cancelled > 0 && all.staged > 0 && all.exact > 0);
}
