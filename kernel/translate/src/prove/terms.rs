//! Values that a function computes, known by what they are made of: two values of one term are equal.

use std::collections::HashMap;

use naga::BinaryOperator as Op;

/// A value, by the number of its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Value(u32);

/// The numbers that a `u32` may be, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) least: u32,
    pub(super) most: u32,
}

impl Interval {
    pub(super) const ALL: Interval = Interval { least: 0, most: u32::MAX };

    pub(super) fn only(number: u32) -> Self {
        Interval { least: number, most: number }
    }

    pub(super) fn up_to(most: u32) -> Self {
        Interval { least: 0, most }
    }

    /// The smallest interval with both.
    pub(super) fn with(self, other: Interval) -> Self {
        Interval { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// What both have; `self` where that is nothing, which is so only in code that never runs.
    pub(super) fn within(self, other: Interval) -> Self {
        let (least, most) = (self.least.max(other.least), self.most.min(other.most));
        if least <= most { Interval { least, most } } else { self }
    }
}

/// What a value is made of. Numbers are of 32 bits without a sign; of other types only equality is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Term {
    /// Nothing is known but that it is one value.
    Some(u32),
    Number(u32),
    Truth(bool),
    /// All parts of a vector or a struct.
    Whole(Box<[Value]>),
    /// A part of a value whose parts are not known.
    Part(Value, u32),
    /// A part of a uniform buffer, which nobody writes: the buffer's number, and the way to the part.
    Uniform(usize, Box<[u32]>),
    Binary(Op, Value, Value),
    Least(Value, Value),
    Most(Value, Value),
    Not(Value),
    Both(Value, Value),
    Either(Value, Value),
}

/// All terms of a module.
#[derive(Debug, Default)]
pub(super) struct Terms {
    numbers: HashMap<Term, Value>,
    /// The terms, with what is known of their values wherever they stand.
    all: Vec<(Term, Interval)>,
}

impl Terms {
    pub(super) fn of(&self, value: Value) -> &Term {
        &self.all[value.0 as usize].0
    }

    /// What is known of a value wherever it stands.
    pub(super) fn everywhere(&self, value: Value) -> Interval {
        self.all[value.0 as usize].1
    }

    /// A value that is like no other.
    pub(super) fn some(&mut self, interval: Interval) -> Value {
        self.add(Term::Some(self.all.len() as u32), interval)
    }

    pub(super) fn number(&mut self, number: u32) -> Value {
        self.value(Term::Number(number))
    }

    pub(super) fn truth(&mut self, truth: bool) -> Value {
        self.value(Term::Truth(truth))
    }

    pub(super) fn value(&mut self, term: Term) -> Value {
        let interval = if let Term::Number(number) = term { Interval::only(number) } else { Interval::ALL };
        self.add(term, interval)
    }

    /// A part of a value whose numbers lie in an interval.
    pub(super) fn part(&mut self, of: Value, at: u32, interval: Interval) -> Value {
        match self.of(of) {
            Term::Whole(parts) if (at as usize) < parts.len() => parts[at as usize],
            _ => self.add(Term::Part(of, at), interval),
        }
    }

    pub(super) fn not(&mut self, of: Value) -> Value {
        match *self.of(of) {
            Term::Truth(truth) => self.truth(!truth),
            Term::Not(inner) => inner,
            _ => self.value(Term::Not(of)),
        }
    }

    pub(super) fn both(&mut self, a: Value, b: Value) -> Value {
        match (self.of(a), self.of(b)) {
            (Term::Truth(true), _) | (_, Term::Truth(false)) => b,
            (_, Term::Truth(true)) | (Term::Truth(false), _) => a,
            _ => self.value(Term::Both(a, b)),
        }
    }

    pub(super) fn either(&mut self, a: Value, b: Value) -> Value {
        match (self.of(a), self.of(b)) {
            (Term::Truth(false), _) | (_, Term::Truth(true)) => b,
            (_, Term::Truth(false)) | (Term::Truth(true), _) => a,
            _ => self.value(Term::Either(a, b)),
        }
    }

    fn add(&mut self, term: Term, interval: Interval) -> Value {
        if let Some(value) = self.numbers.get(&term) {
            return *value;
        }
        let value = Value(self.all.len() as u32);
        self.numbers.insert(term.clone(), value);
        self.all.push((term, interval));
        value
    }
}
