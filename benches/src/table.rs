//! The table: what was measured, beside its base and its budget.

/// Rows to be printed.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<[String; 5]>,
}

/// Prints the table's head.
pub(crate) fn head() {
    println!("| what | ours | base | ratio | budget |");
    println!("|---|---|---|---|---|");
}

impl Table {
    /// A cost in nanoseconds beside a base in nanoseconds.
    pub(crate) fn cost(&mut self, what: &str, ours: f64, base: Option<f64>, budget: &str) {
        let base_text = base.map_or("".into(), nanoseconds);
        let ratio = base.map_or("".into(), |b| format!("{:.2}x", ours / b));
        self.rows.push([what.into(), nanoseconds(ours), base_text, ratio, budget.into()]);
    }

    /// A cost in nanoseconds, and how fast that is beside a base in nanoseconds.
    pub(crate) fn speed(&mut self, what: &str, ours: f64, base: f64, budget: &str) {
        let ratio = format!("{:.2}x", base / ours);
        self.rows.push([what.into(), nanoseconds(ours), nanoseconds(base), ratio, budget.into()]);
    }

    /// What a cost is above a base that it contains.
    pub(crate) fn above(&mut self, what: &str, ours: f64, base: f64, budget: &str) {
        self.rows.push([what.into(), nanoseconds(ours - base), nanoseconds(base), "".into(), budget.into()]);
    }

    /// Anything else.
    pub(crate) fn text(&mut self, what: &str, ours: String, base: String, ratio: String, budget: &str) {
        self.rows.push([what.into(), ours, base, ratio, budget.into()]);
    }

    pub(crate) fn print(self) {
        for row in self.rows {
            println!("| {} |", row.join(" | "));
        }
    }
}

fn nanoseconds(ns: f64) -> String {
    match ns {
        ns if ns < 1_000.0 => format!("{ns:.0} ns"),
        ns if ns < 1_000_000.0 => format!("{:.2} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

/// The median of several measurements.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The medians of two measurements that alternate, so that the machine's moods hit both.
pub(crate) fn alternate(times: usize, mut a: impl FnMut() -> f64, mut b: impl FnMut() -> f64) -> (f64, f64) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..times {
        first.push(a());
        second.push(b());
    }
    (median(first), median(second))
}
