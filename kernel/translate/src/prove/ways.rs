//! Ways through a function that part and come together again: branches, `switch`es and loops.

use std::collections::BTreeMap;

use naga::{Block, Expression, Function, Handle, LocalVariable, Statement};

use super::terms::{Interval, Term, Value};
use super::walk::{Ends, Jumps, Walk};
use crate::statements::blocks_of;

/// How often a loop is followed before what still grows in it is given up.
const TURNS: usize = 6;

impl Walk<'_, '_> {
    pub(super) fn branch(
        &mut self,
        written: &mut Block,
        span: naga::Span,
        condition: Handle<Expression>,
        [accept, reject]: [&Block; 2],
    ) {
        let truth = self.truth(condition);
        if !self.trying {
            self.decided.push(truth.map_or(2, u32::from));
        }
        if let Some(truth) = truth {
            let (taken, gone) = if truth { (accept, reject) } else { (reject, accept) };
            gone.iter().for_each(|statement| self.forget(statement));
            let taken = self.block(taken);
            written.extend_block(taken);
            return;
        }
        let (value, before, mark) = (self.value(condition), self.variables.clone(), self.prover.facts.mark());
        self.assume(value, true);
        let accept = self.block(accept);
        let accepted = self.ends();
        self.prover.facts.forget(mark);
        self.variables = before;
        self.assume(value, false);
        let reject = self.block(reject);
        let rejected = self.ends();
        self.prover.facts.forget(mark);
        self.variables = match (accepted, rejected) {
            (Some(accepted), Some(rejected)) => Some(self.joined(value, accepted, &rejected)),
            (Some(ends), None) => {
                self.assume(value, true);
                Some(values_of(ends))
            }
            (None, Some(ends)) => {
                self.assume(value, false);
                Some(values_of(ends))
            }
            (None, None) => None,
        };
        written.push(Statement::If { condition, accept, reject }, span);
    }

    /// The variables behind a branch. Those that are true or false on one of the ways say what the other way says together with
    /// the condition: so `&&` and `||` come out of WGSL.
    fn joined(
        &mut self,
        condition: Value,
        accepted: Ends,
        rejected: &Ends,
    ) -> BTreeMap<Handle<LocalVariable>, Value> {
        let mut joined = BTreeMap::new();
        for (variable, (yes, interval)) in accepted {
            let (no, other) = rejected.get(&variable).copied().unwrap_or((yes, interval));
            let terms = &mut self.prover.terms;
            let value = match (terms.of(yes).clone(), terms.of(no).clone()) {
                _ if yes == no => yes,
                (_, Term::Truth(false)) => terms.both(condition, yes),
                (Term::Truth(true), _) => terms.either(condition, no),
                (Term::Truth(false), _) => {
                    let not = terms.not(condition);
                    terms.both(not, no)
                }
                (_, Term::Truth(true)) => {
                    let not = terms.not(condition);
                    terms.either(not, yes)
                }
                _ => terms.some(interval.with(other)),
            };
            joined.insert(variable, value);
        }
        joined
    }

    /// Where a way ends, if one leads here.
    pub(super) fn ends(&self) -> Option<Ends> {
        let variables = self.variables.as_ref()?;
        Some(variables.iter().map(|(variable, value)| (*variable, (*value, self.interval(*value)))).collect())
    }

    /// The variables where several ways come together.
    fn together(&mut self, ways: Vec<Ends>) -> Option<BTreeMap<Handle<LocalVariable>, Value>> {
        let mut ways = ways.into_iter();
        let mut all = ways.next()?;
        for way in ways {
            for (variable, (value, interval)) in &mut all {
                let Some((other, more)) = way.get(variable) else { continue };
                if value != other {
                    *interval = interval.with(*more);
                    *value = self.prover.terms.some(*interval);
                }
            }
        }
        Some(values_of(all))
    }

    pub(super) fn cases(&mut self, cases: &[naga::SwitchCase]) -> Vec<naga::SwitchCase> {
        let (before, mark) = (self.variables.clone(), self.prover.facts.mark());
        let (mut ways, mut written) = (Vec::new(), Vec::new());
        self.jumps.push(Jumps::default());
        let mut changed = Vec::new();
        for case in cases {
            self.variables.clone_from(&before);
            // What falls through from the case before is one of the ways here.
            changed.iter().for_each(|variable| self.unknown(*variable, Interval::ALL));
            let body = self.block(&case.body);
            match case.fall_through {
                true => changed.extend(changes(&self.function, &case.body)),
                false => {
                    changed.clear();
                    ways.extend(self.ends());
                }
            }
            self.prover.facts.forget(mark);
            written.push(naga::SwitchCase { body, ..case.clone() });
        }
        let jumps = self.jumps.pop().unwrap_or_default();
        if let Some(around) = self.jumps.last_mut() {
            around.continues.extend(jumps.continues);
        }
        ways.extend(jumps.breaks);
        self.variables = self.together(ways);
        written
    }

    fn unknown(&mut self, variable: Handle<LocalVariable>, interval: Interval) {
        let value = self.prover.terms.some(interval);
        self.set(variable, value);
    }

    /// A loop. What it changes has one value at its head, of which only the interval is known.
    pub(super) fn repeated(
        &mut self,
        body: &Block,
        continuing: &Block,
        break_if: Option<Handle<Expression>>,
    ) -> [Block; 2] {
        let mut changed = changes(&self.function, body);
        changed.extend(changes(&self.function, continuing));
        let before = self.ends().unwrap_or_default();
        let mut heads: BTreeMap<_, _> = changed
            .iter()
            .map(|variable| {
                (*variable, before.get(variable).map_or(Interval::ALL, |(_, interval)| *interval))
            })
            .collect();
        let variables = self.variables.clone();
        let trying = std::mem::replace(&mut self.trying, true);
        let mut settled = false;
        for turn in 0..TURNS {
            self.variables.clone_from(&variables);
            let (_, back, _) = self.turn(body, continuing, break_if, &heads);
            settled = true;
            for (variable, head) in &mut heads {
                let wider = back
                    .as_ref()
                    .and_then(|back| back.get(variable))
                    .map_or(*head, |(_, end)| head.with(*end));
                if wider != *head {
                    settled = false;
                    *head = if turn == 0 { wider } else { given_up(*head, wider) };
                }
            }
            if settled {
                break;
            }
        }
        if !settled {
            heads.values_mut().for_each(|head| *head = Interval::ALL);
        }
        self.trying = trying;
        self.variables = variables;
        let (blocks, _, exits) = self.turn(body, continuing, break_if, &heads);
        self.variables = self.together(exits);
        if self.variables.is_some() {
            // The names that the body gave are over.
            for variable in changed {
                let value = self.variables.as_ref().and_then(|variables| variables.get(&variable));
                let interval = value.map_or(Interval::ALL, |value| self.prover.terms.everywhere(*value));
                self.unknown(variable, interval);
            }
        }
        blocks
    }

    /// One turn of a loop: its blocks, the variables where it starts again, and those on each way out of it.
    fn turn(
        &mut self,
        body: &Block,
        continuing: &Block,
        break_if: Option<Handle<Expression>>,
        heads: &BTreeMap<Handle<LocalVariable>, Interval>,
    ) -> ([Block; 2], Option<Ends>, Vec<Ends>) {
        let mark = self.prover.facts.mark();
        heads.iter().for_each(|(variable, interval)| self.unknown(*variable, *interval));
        self.jumps.push(Jumps::default());
        let body = self.block(body);
        let Jumps { mut breaks, continues } = self.jumps.pop().unwrap_or_default();
        if !continues.is_empty() {
            // Not all ways know what the last one does.
            let ways = self.ends().into_iter().chain(continues).collect();
            self.prover.facts.forget(mark);
            self.variables = self.together(ways);
        }
        let continuing = self.block(continuing);
        let back = self.ends();
        if break_if.is_some() {
            breaks.extend(back.clone());
        }
        self.prover.facts.forget(mark);
        ([body, continuing], back, breaks)
    }
}

fn values_of(ends: Ends) -> BTreeMap<Handle<LocalVariable>, Value> {
    ends.into_iter().map(|(variable, (value, _))| (variable, value)).collect()
}

/// An interval whose growing ends go as far as they can.
fn given_up(from: Interval, to: Interval) -> Interval {
    Interval {
        least: if to.least < from.least { 0 } else { from.least },
        most: if to.most > from.most { u32::MAX } else { from.most },
    }
}

/// The variables that a block changes, also by what it calls.
fn changes(function: &Function, block: &Block) -> Vec<Handle<LocalVariable>> {
    let mut found = Vec::new();
    let mut note = |pointer: Handle<Expression>| {
        let mut at = pointer;
        while let Expression::AccessIndex { base, .. } | Expression::Access { base, .. } =
            function.expressions[at]
        {
            at = base;
        }
        if let Expression::LocalVariable(variable) = function.expressions[at] {
            found.push(variable);
        }
    };
    let mut open: Vec<&Statement> = block.iter().collect();
    while let Some(statement) = open.pop() {
        match statement {
            Statement::Store { pointer, .. } => note(*pointer),
            Statement::Call { arguments, .. } => arguments.iter().for_each(|argument| note(*argument)),
            other => open.extend(blocks_of(other).into_iter().flatten()),
        }
    }
    found.sort();
    found.dedup();
    found
}
