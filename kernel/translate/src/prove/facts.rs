//! What is known at a place of the text: conditions that hold there, and what follows from them.
//!
//! A comparison of numbers is kept as a *difference*: `low + gap <= high`, over integers that do not wrap. Differences are
//! followed from one to the next, together with those that every term has by itself (a remainder is less than its
//! divisor), so `i + 1 < n` and `n <= len` prove `i < len`.

use naga::BinaryOperator as Op;

use super::terms::{Interval, Term, Terms, Value};

/// `low + gap <= high`.
#[derive(Clone, Copy, Debug)]
struct Difference {
    low: Value,
    gap: i64,
    high: Value,
}

/// How far differences are followed.
const STEPS: u8 = 4;
/// How deep terms are looked into for the numbers that they may be.
const DEPTH: u8 = 10;

/// What holds here. What was assumed last is forgotten first.
#[derive(Debug, Default)]
pub(super) struct Facts {
    differences: Vec<Difference>,
    intervals: Vec<(Value, Interval)>,
    truths: Vec<(Value, bool)>,
}

/// How much was known at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark([usize; 3]);

impl Facts {
    pub(super) fn mark(&self) -> Mark {
        Mark([self.differences.len(), self.intervals.len(), self.truths.len()])
    }

    /// Forgets what was assumed since.
    pub(super) fn forget(&mut self, since: Mark) {
        let Mark([differences, intervals, truths]) = since;
        self.differences.truncate(differences);
        self.intervals.truncate(intervals);
        self.truths.truncate(truths);
    }

    /// From here on this condition holds, or does not.
    pub(super) fn assume(&mut self, terms: &Terms, condition: Value, truth: bool) {
        self.truths.push((condition, truth));
        match *terms.of(condition) {
            Term::Not(inner) => self.assume(terms, inner, !truth),
            Term::Both(a, b) if truth => {
                self.assume(terms, a, true);
                self.assume(terms, b, true);
            }
            Term::Either(a, b) if !truth => {
                self.assume(terms, a, false);
                self.assume(terms, b, false);
            }
            Term::Binary(op, a, b) => match (op, truth) {
                (Op::Less, true) | (Op::GreaterEqual, false) => self.differ(terms, a, 1, b),
                (Op::LessEqual, true) | (Op::Greater, false) => self.differ(terms, a, 0, b),
                (Op::Greater, true) | (Op::LessEqual, false) => self.differ(terms, b, 1, a),
                (Op::GreaterEqual, true) | (Op::Less, false) => self.differ(terms, b, 0, a),
                (Op::Equal, true) | (Op::NotEqual, false) => {
                    self.differ(terms, a, 0, b);
                    self.differ(terms, b, 0, a);
                }
                (Op::NotEqual, true) | (Op::Equal, false) => self.differ_from(terms, a, b),
                _ => {}
            },
            _ => {}
        }
    }

    /// `low + gap <= high`, with a gap of 0 or 1.
    fn differ(&mut self, terms: &Terms, low: Value, gap: u32, high: Value) {
        let (of_low, of_high) = (self.interval(terms, low), self.interval(terms, high));
        let below = Interval::up_to(of_high.most.saturating_sub(gap));
        let above = Interval { least: of_low.least.saturating_add(gap), most: u32::MAX };
        self.intervals.push((low, of_low.within(below)));
        self.intervals.push((high, of_high.within(above)));
        self.differences.push(Difference { low, gap: i64::from(gap), high });
    }

    /// A number that is not at the end of an interval makes it shorter.
    fn differ_from(&mut self, terms: &Terms, a: Value, b: Value) {
        for (one, other) in [(a, b), (b, a)] {
            let (of, not) = (self.interval(terms, one), self.interval(terms, other));
            if not.least == not.most && of.least < of.most {
                let shorter = match not.least {
                    number if number == of.least => Interval { least: number + 1, ..of },
                    number if number == of.most => Interval { most: number - 1, ..of },
                    _ => of,
                };
                self.intervals.push((one, shorter));
            }
        }
    }

    /// Whether a condition is known to hold, or not to.
    pub(super) fn truth(&self, terms: &Terms, condition: Value) -> Option<bool> {
        if let Some((_, truth)) = self.truths.iter().rev().find(|(known, _)| *known == condition) {
            return Some(*truth);
        }
        let decided = |yes: bool, no: bool| yes.then_some(true).or_else(|| no.then_some(false));
        match *terms.of(condition) {
            Term::Truth(truth) => Some(truth),
            Term::Not(inner) => Some(!self.truth(terms, inner)?),
            Term::Both(a, b) => match (self.truth(terms, a), self.truth(terms, b)) {
                (Some(true), Some(true)) => Some(true),
                (Some(false), _) | (_, Some(false)) => Some(false),
                _ => None,
            },
            Term::Either(a, b) => match (self.truth(terms, a), self.truth(terms, b)) {
                (Some(false), Some(false)) => Some(false),
                (Some(true), _) | (_, Some(true)) => Some(true),
                _ => None,
            },
            Term::Binary(op, a, b) => {
                let at_most = |low, gap, high| self.at_most(terms, low, gap, high);
                match op {
                    Op::Less => decided(at_most(a, 1, b), at_most(b, 0, a)),
                    Op::LessEqual => decided(at_most(a, 0, b), at_most(b, 1, a)),
                    Op::Greater => decided(at_most(b, 1, a), at_most(a, 0, b)),
                    Op::GreaterEqual => decided(at_most(b, 0, a), at_most(a, 1, b)),
                    Op::Equal | Op::NotEqual => {
                        let equal = a == b || (at_most(a, 0, b) && at_most(b, 0, a));
                        let apart = at_most(a, 1, b) || at_most(b, 1, a);
                        decided(equal, apart).map(|truth| truth == (op == Op::Equal))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether `low + gap <= high` is known.
    fn at_most(&self, terms: &Terms, low: Value, gap: i64, high: Value) -> bool {
        let ((low, from), (high, to)) = (self.moved(terms, low), self.moved(terms, high));
        self.reaches(terms, low, gap + from - to, high, STEPS)
    }

    /// Whether `low + gap <= high` is known, by following differences.
    fn reaches(&self, terms: &Terms, low: Value, gap: i64, high: Value, steps: u8) -> bool {
        if low == high && gap <= 0 {
            return true;
        }
        let (of_low, of_high) = (self.interval(terms, low), self.interval(terms, high));
        if i64::from(of_low.most) + gap <= i64::from(of_high.least) {
            return true;
        }
        let Some(steps) = steps.checked_sub(1) else { return false };
        let next = |above: Value, by: i64| {
            // `low + by <= above`, so `above + gap - by <= high` is enough.
            let (above, moved) = self.moved(terms, above);
            above != low && self.reaches(terms, above, gap - by + moved, high, steps)
        };
        let known = self.differences.iter().any(|difference| {
            let (from, moved) = self.moved(terms, difference.low);
            from == low && next(difference.high, difference.gap + moved)
        });
        known
            || match *terms.of(low) {
                Term::Least(a, b) | Term::Binary(Op::And, a, b) => next(a, 0) || next(b, 0),
                Term::Binary(Op::Modulo, a, b) => {
                    next(a, 0) || (self.interval(terms, b).least > 0 && next(b, 1))
                }
                Term::Binary(Op::Divide | Op::ShiftRight, a, _) => next(a, 0),
                _ => false,
            }
    }

    /// A number as another one and a distance from it, neither of which wraps.
    fn moved(&self, terms: &Terms, value: Value) -> (Value, i64) {
        let Term::Binary(op, a, b) = *terms.of(value) else { return (value, 0) };
        let number = |value| match *terms.of(value) {
            Term::Number(number) => Some(number),
            _ => None,
        };
        match (op, number(a), number(b)) {
            (Op::Add, Some(by), None) if self.interval(terms, b).most.checked_add(by).is_some() => {
                (b, by.into())
            }
            (Op::Add, None, Some(by)) if self.interval(terms, a).most.checked_add(by).is_some() => {
                (a, by.into())
            }
            (Op::Subtract, None, Some(by)) if self.interval(terms, a).least >= by => (a, -i64::from(by)),
            _ => (value, 0),
        }
    }

    /// The numbers that a value may be here.
    pub(super) fn interval(&self, terms: &Terms, value: Value) -> Interval {
        self.looked_into(terms, value, DEPTH)
    }

    fn looked_into(&self, terms: &Terms, value: Value, depth: u8) -> Interval {
        let known = terms.everywhere(value);
        let known =
            self.intervals.iter().filter(|(of, _)| *of == value).fold(known, |all, (_, i)| all.within(*i));
        let Some(depth) = depth.checked_sub(1) else { return known };
        let of = |value| self.looked_into(terms, value, depth);
        let made = match *terms.of(value) {
            Term::Least(a, b) => {
                let (a, b) = (of(a), of(b));
                Some(Interval { least: a.least.min(b.least), most: a.most.min(b.most) })
            }
            Term::Most(a, b) => {
                let (a, b) = (of(a), of(b));
                Some(Interval { least: a.least.max(b.least), most: a.most.max(b.most) })
            }
            Term::Binary(op, a, b) => computed(op, of(a), of(b)),
            _ => None,
        };
        made.map_or(known, |made| made.within(known))
    }
}

/// The numbers that an operation gives; `None` where it may wrap, or they may be any.
fn computed(op: Op, a: Interval, b: Interval) -> Option<Interval> {
    let interval = |least, most| Some(Interval { least, most });
    match op {
        Op::Add => interval(a.least.checked_add(b.least)?, a.most.checked_add(b.most)?),
        Op::Subtract => interval(a.least.checked_sub(b.most)?, a.most - b.least),
        Op::Multiply => interval(a.least.checked_mul(b.least)?, a.most.checked_mul(b.most)?),
        // By zero, the quotient is the dividend and the remainder zero.
        Op::Divide if b.least == 0 => Some(Interval::up_to(a.most)),
        Op::Divide => interval(a.least / b.most, a.most / b.least),
        Op::Modulo if a.most < b.least => Some(a),
        Op::Modulo => Some(Interval::up_to(a.most.min(b.most.saturating_sub(1)))),
        Op::And => Some(Interval::up_to(a.most.min(b.most))),
        Op::InclusiveOr | Op::ExclusiveOr => {
            let most = a.most | b.most;
            Some(Interval::up_to(u32::MAX.checked_shr(most.leading_zeros()).unwrap_or(0)))
        }
        Op::ShiftRight if b.most < u32::BITS => interval(a.least >> b.most, a.most >> b.least),
        Op::ShiftRight => Some(Interval::up_to(a.most)),
        Op::ShiftLeft if b.most < u32::BITS && a.most.leading_zeros() >= b.most => {
            interval(a.least << b.least, a.most << b.most)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Here {
        terms: Terms,
        facts: Facts,
    }

    impl Here {
        fn new() -> Self {
            Here { terms: Terms::default(), facts: Facts::default() }
        }

        fn some(&mut self) -> Value {
            self.terms.some(Interval::ALL)
        }

        fn binary(&mut self, op: Op, a: Value, b: Value) -> Value {
            self.terms.value(Term::Binary(op, a, b))
        }

        fn with(&mut self, op: Op, a: Value, number: u32) -> Value {
            let number = self.terms.number(number);
            self.binary(op, a, number)
        }

        fn assume(&mut self, op: Op, a: Value, b: Value) {
            let condition = self.binary(op, a, b);
            self.facts.assume(&self.terms, condition, true);
        }

        fn truth(&mut self, op: Op, a: Value, b: Value) -> Option<bool> {
            let condition = self.binary(op, a, b);
            self.facts.truth(&self.terms, condition)
        }
    }

    #[test]
    fn neighbours_are_inside_where_both_ends_were_compared() {
        let mut here = Here::new();
        let (y, len) = (here.some(), here.some());
        let (before, after) = (here.with(Op::Subtract, y, 1), here.with(Op::Add, y, 1));
        let zero = here.terms.number(0);
        here.assume(Op::Greater, y, zero);
        assert_eq!(here.truth(Op::Less, before, len), None);
        here.assume(Op::Less, after, len);
        // It may be that `y + 1` has wrapped, and is zero.
        assert_eq!(here.truth(Op::Less, y, len), None);
        assert_eq!(here.truth(Op::Less, after, len), Some(true));
        let limit = here.some();
        here.assume(Op::Less, y, limit);
        for inside in [before, y, after] {
            assert_eq!(here.truth(Op::Less, inside, len), Some(true));
        }
        let beyond = here.with(Op::Add, y, 2);
        assert_eq!(here.truth(Op::Less, beyond, len), None);
    }

    #[test]
    fn differences_are_followed() {
        let mut here = Here::new();
        let [i, end, len, other] = [(); 4].map(|()| here.some());
        let least = here.terms.value(Term::Least(end, len));
        here.assume(Op::Less, i, least);
        assert_eq!(here.truth(Op::Less, i, len), Some(true));
        assert_eq!(here.truth(Op::Less, i, other), None);
        here.assume(Op::LessEqual, len, other);
        assert_eq!(here.truth(Op::Less, i, other), Some(true));
        assert_eq!(here.truth(Op::GreaterEqual, i, other), Some(false));
        let rest = here.binary(Op::Modulo, i, end);
        assert_eq!(here.truth(Op::Less, rest, len), Some(true), "not more than what it is the rest of");
    }

    #[test]
    fn intervals_know_where_operations_wrap() {
        let mut here = Here::new();
        let row = here.terms.some(Interval::up_to(15));
        let column = here.terms.some(Interval::up_to(15));
        let down = here.with(Op::Multiply, row, 16);
        let at = here.binary(Op::Add, down, column);
        let [inside, outside] = [256, 255].map(|number| here.terms.number(number));
        assert_eq!(here.truth(Op::Less, at, inside), Some(true));
        assert_eq!(here.truth(Op::Less, at, outside), None);
        let less = here.with(Op::Subtract, at, 1);
        assert_eq!(here.truth(Op::Less, less, inside), None, "it may have wrapped");
        let any = here.some();
        let far = here.with(Op::Multiply, any, 2);
        assert_eq!(here.truth(Op::Less, any, far), None);
        let halves = here.with(Op::Divide, any, 0);
        assert_eq!(here.truth(Op::LessEqual, halves, any), Some(true));
        let rest = here.binary(Op::Modulo, any, far);
        assert_eq!(here.truth(Op::Less, rest, far), None, "the divisor may be zero");
    }

    /// Every operation on all numbers of two small intervals gives nothing outside of what is computed.
    #[test]
    fn no_operation_leaves_its_interval() {
        let number = |op: Op, a: u32, b: u32| match op {
            Op::Add => a.wrapping_add(b),
            Op::Subtract => a.wrapping_sub(b),
            Op::Multiply => a.wrapping_mul(b),
            Op::Divide => a.checked_div(b).unwrap_or(a),
            Op::Modulo => a.checked_rem(b).unwrap_or(0),
            Op::And => a & b,
            Op::InclusiveOr => a | b,
            Op::ExclusiveOr => a ^ b,
            Op::ShiftLeft => a << (b & 31),
            _ => a >> (b & 31),
        };
        let ops = [
            Op::Add,
            Op::Subtract,
            Op::Multiply,
            Op::Divide,
            Op::Modulo,
            Op::And,
            Op::InclusiveOr,
            Op::ExclusiveOr,
            Op::ShiftLeft,
            Op::ShiftRight,
        ];
        let starts = [0, 1, 2, 3, 7, 8, 30, 31, 32, 33, u32::MAX - 9, u32::MAX - 4];
        let intervals: Vec<Interval> = starts
            .iter()
            .flat_map(|&least| [0, 1, 4].map(|more| Interval { least, most: least + more }))
            .collect();
        for op in ops {
            for a in &intervals {
                for b in &intervals {
                    let Some(all) = computed(op, *a, *b) else { continue };
                    for x in a.least..=a.most {
                        for y in b.least..=b.most {
                            let made = number(op, x, y);
                            assert!(
                                all.least <= made && made <= all.most,
                                "{op:?} {a:?} {b:?}: {made}, {all:?}"
                            );
                        }
                    }
                }
            }
        }
    }
}
