//! One function, statement by statement, with what is known where.
//!
//! An expression has one value wherever it may be named, so what is known of it is never wrong later. A variable has
//! another value after each store; at the head of a loop it has one of which only the interval is known that all turns
//! have in common. That interval is found by following the loop until it grows no more; bounds that grow twice are given up.

use std::collections::{BTreeMap, HashMap};

use naga::{BinaryOperator as Op, MathFunction};
use naga::{Block, Expression, Function, Handle, Literal, LocalVariable, Statement, UnaryOperator};

use super::terms::{Interval, Term, Value};
use super::{FunctionInfo, Prover, is_number, is_truth, type_of};
use crate::statements::blocks_of;

/// A variable's value at the end of a way through the text, and the numbers that it may be there.
pub(super) type Ends = BTreeMap<Handle<LocalVariable>, (Value, Interval)>;

/// The ways that leave a loop's body, or a `switch`, in the middle.
#[derive(Default)]
pub(super) struct Jumps {
    pub(super) breaks: Vec<Ends>,
    pub(super) continues: Vec<Ends>,
}

pub(super) struct Walk<'p, 'm> {
    pub(super) prover: &'p mut Prover<'m>,
    pub(super) function: Function,
    info: &'p FunctionInfo,
    arguments: Vec<Value>,
    pub(super) values: HashMap<Handle<Expression>, Value>,
    /// The variables' values here; nothing where no way leads here.
    pub(super) variables: Option<BTreeMap<Handle<LocalVariable>, Value>>,
    pub(super) jumps: Vec<Jumps>,
    /// What it gives, on each way.
    given: Vec<(Value, Interval)>,
    /// Every branch's decision in order, and every called function: what tells this form of the function from others.
    pub(super) decided: Vec<u32>,
    /// What branches that are gone have computed.
    gone: Vec<Handle<Expression>>,
    /// Whether a loop is followed to find its intervals, and nothing is written.
    pub(super) trying: bool,
}

/// What a walk has made.
pub(super) struct Outcome {
    pub(super) function: Function,
    pub(super) decided: Vec<u32>,
    pub(super) value: Option<Value>,
}

impl<'p, 'm> Walk<'p, 'm> {
    pub(super) fn new(
        prover: &'p mut Prover<'m>,
        function: Function,
        info: &'m FunctionInfo,
        arguments: Vec<Value>,
    ) -> Self {
        Walk {
            prover,
            function,
            info,
            arguments,
            values: HashMap::new(),
            variables: Some(BTreeMap::new()),
            jumps: Vec::new(),
            given: Vec::new(),
            decided: Vec::new(),
            gone: Vec::new(),
            trying: false,
        }
    }

    pub(super) fn run(mut self) -> Outcome {
        let variables: Vec<_> =
            self.function.local_variables.iter().map(|(at, var)| (at, var.init)).collect();
        for (at, init) in variables {
            let value = match init {
                Some(init) => self.value(init),
                None => self.zero(at),
            };
            self.set(at, value);
        }
        let body = std::mem::take(&mut self.function.body);
        let body = self.block(&body);
        self.function.body = body;
        // What has a name counts as used.
        for expression in std::mem::take(&mut self.gone) {
            self.function.named_expressions.shift_remove(&expression);
        }
        let value = match &self.given[..] {
            [] => None,
            [(value, _)] => Some(*value),
            [(_, first), more @ ..] => {
                let all = more.iter().fold(*first, |all, (_, interval)| all.with(*interval));
                Some(self.prover.terms.some(all))
            }
        };
        Outcome { function: self.function, decided: self.decided, value }
    }

    fn zero(&mut self, variable: Handle<LocalVariable>) -> Value {
        match &self.prover.module.types[self.function.local_variables[variable].ty].inner {
            inner if is_number(inner) => self.prover.terms.number(0),
            inner if is_truth(inner) => self.prover.terms.truth(false),
            _ => self.prover.terms.some(Interval::ALL),
        }
    }

    pub(super) fn set(&mut self, variable: Handle<LocalVariable>, value: Value) {
        if let Some(variables) = &mut self.variables {
            variables.insert(variable, value);
        }
    }

    pub(super) fn interval(&self, value: Value) -> Interval {
        self.prover.facts.interval(&self.prover.terms, value)
    }

    pub(super) fn truth(&mut self, condition: Handle<Expression>) -> Option<bool> {
        let value = self.value(condition);
        match self.prover.left {
            0 => match self.prover.terms.of(value) {
                Term::Truth(truth) => Some(*truth),
                _ => None,
            },
            _ => self.prover.facts.truth(&self.prover.terms, value),
        }
    }

    pub(super) fn assume(&mut self, condition: Value, truth: bool) {
        self.prover.facts.assume(&self.prover.terms, condition, truth);
    }

    /// The value of an expression, which is computed here or was before.
    pub(super) fn value(&mut self, of: Handle<Expression>) -> Value {
        if let Some(value) = self.values.get(&of) {
            return *value;
        }
        let value = self.computed(of);
        self.values.insert(of, value);
        value
    }

    fn computed(&mut self, of: Handle<Expression>) -> Value {
        let module = self.prover.module;
        let inner = type_of(module, self.info, of);
        let (number, truth) = (is_number(inner), is_truth(inner));
        let expression = self.function.expressions[of].clone();
        let term = match expression {
            Expression::Literal(Literal::U32(number)) => Some(Term::Number(number)),
            Expression::Literal(Literal::Bool(truth)) => Some(Term::Truth(truth)),
            Expression::Constant(constant) => {
                match module.global_expressions[module.constants[constant].init] {
                    Expression::Literal(Literal::U32(number)) => Some(Term::Number(number)),
                    Expression::Literal(Literal::Bool(truth)) => Some(Term::Truth(truth)),
                    Expression::ZeroValue(_) if number => Some(Term::Number(0)),
                    _ => None,
                }
            }
            Expression::ZeroValue(_) if number => Some(Term::Number(0)),
            Expression::ZeroValue(_) if truth => Some(Term::Truth(false)),
            Expression::FunctionArgument(at) => return self.arguments[at as usize],
            Expression::Compose { components, .. } => {
                let parts: Box<[Value]> = components.iter().map(|part| self.value(*part)).collect();
                // Vectors may be made of vectors.
                let scalars = components
                    .iter()
                    .all(|part| !matches!(type_of(module, self.info, *part), naga::TypeInner::Vector { .. }));
                let plain = scalars || matches!(inner, naga::TypeInner::Struct { .. });
                plain.then_some(Term::Whole(parts))
            }
            Expression::AccessIndex { base, index } => {
                if matches!(inner, naga::TypeInner::Pointer { .. } | naga::TypeInner::ValuePointer { .. }) {
                    None
                } else {
                    let base = self.value(base);
                    return self.prover.terms.part(base, index, Interval::ALL);
                }
            }
            Expression::Load { pointer } => return self.loaded(pointer),
            Expression::Unary { op: UnaryOperator::LogicalNot, expr } if truth => {
                let value = self.value(expr);
                return self.prover.terms.not(value);
            }
            Expression::Binary { op, left, right } => return self.binary(op, left, right, number || truth),
            Expression::Math { fun: MathFunction::Min, arg, arg1: Some(other), .. } if number => {
                Some(Term::Least(self.value(arg), self.value(other)))
            }
            Expression::Math { fun: MathFunction::Max, arg, arg1: Some(other), .. } if number => {
                Some(Term::Most(self.value(arg), self.value(other)))
            }
            _ => None,
        };
        match term {
            Some(term) => self.prover.terms.value(term),
            None => self.prover.terms.some(Interval::ALL),
        }
    }

    fn binary(&mut self, op: Op, left: Handle<Expression>, right: Handle<Expression>, known: bool) -> Value {
        let (a, b) = (self.value(left), self.value(right));
        let inner = type_of(self.prover.module, self.info, left);
        let terms = &mut self.prover.terms;
        match op {
            Op::LogicalAnd | Op::And if known && is_truth(inner) => terms.both(a, b),
            Op::LogicalOr | Op::InclusiveOr if known && is_truth(inner) => terms.either(a, b),
            // Shifts count modulo the width, so nothing is known of those that may be longer.
            _ if known && is_number(inner) => terms.value(Term::Binary(op, a, b)),
            _ => terms.some(Interval::ALL),
        }
    }

    /// What is loaded from here. Uniform buffers are written by nobody while the kernel runs.
    fn loaded(&mut self, pointer: Handle<Expression>) -> Value {
        if let Expression::LocalVariable(variable) = self.function.expressions[pointer] {
            let here = self.variables.as_ref().and_then(|variables| variables.get(&variable));
            return here.copied().unwrap_or_else(|| self.prover.terms.some(Interval::ALL));
        }
        let (mut way, mut at) = (Vec::new(), pointer);
        while let Expression::AccessIndex { base, index } = self.function.expressions[at] {
            way.push(index);
            at = base;
        }
        match self.function.expressions[at] {
            Expression::GlobalVariable(global)
                if self.prover.module.global_variables[global].space == naga::AddressSpace::Uniform =>
            {
                way.reverse();
                self.prover.terms.value(Term::Uniform(global.index(), way.into()))
            }
            _ => self.prover.terms.some(Interval::ALL),
        }
    }

    /// The block with what is decided left out. The variables and facts are those behind it afterwards.
    pub(super) fn block(&mut self, block: &Block) -> Block {
        let mut written = Block::with_capacity(block.len());
        let mut rest = block.span_iter();
        while let Some((statement, span)) = rest.next() {
            self.prover.left = self.prover.left.saturating_sub(1);
            match statement {
                Statement::If { condition, accept, reject } => {
                    self.branch(&mut written, *span, *condition, [accept, reject]);
                }
                Statement::Loop { body, continuing, break_if } => {
                    let [body, continuing] = self.repeated(body, continuing, *break_if);
                    written.push(Statement::Loop { body, continuing, break_if: *break_if }, *span);
                }
                Statement::Block(inner) => written.push(Statement::Block(self.block(inner)), *span),
                Statement::Switch { cases, .. } => {
                    let cases = self.cases(cases);
                    if let Statement::Switch { selector, .. } = *statement {
                        written.push(Statement::Switch { selector, cases }, *span);
                    }
                }
                Statement::ControlBarrier(barrier) => match written.last_mut() {
                    // One that is about both.
                    Some(Statement::ControlBarrier(before)) => *before |= *barrier,
                    _ => written.push(statement.clone(), *span),
                },
                Statement::Call { function, arguments, .. } if self.prover.is_promise(*function) => {
                    let promised: Vec<Value> = arguments.iter().map(|holds| self.value(*holds)).collect();
                    promised.into_iter().for_each(|holds| self.assume(holds, true));
                }
                Statement::Call { function, arguments, result } => {
                    let function = self.call(*function, arguments, *result);
                    let (arguments, result) = (arguments.clone(), *result);
                    written.push(Statement::Call { function, arguments, result }, *span);
                }
                other => {
                    self.simple(other);
                    written.push(other.clone(), *span);
                }
            }
            if self.variables.is_none() {
                // What stands behind a jump is never reached, and may not stand there.
                rest.for_each(|(statement, _)| self.forget(statement));
                break;
            }
        }
        written
    }

    /// A statement without blocks.
    fn simple(&mut self, statement: &Statement) {
        match statement {
            Statement::Emit(range) => range.clone().for_each(|expression| {
                // Computed anew in each turn of a loop.
                let value = self.computed(expression);
                self.values.insert(expression, value);
            }),
            Statement::Store { pointer, value } => {
                let value = self.value(*value);
                self.stored(*pointer, Some(value));
            }
            Statement::Atomic { result: Some(result), .. }
            | Statement::WorkGroupUniformLoad { result, .. }
            | Statement::SubgroupBallot { result, .. }
            | Statement::SubgroupGather { result, .. }
            | Statement::SubgroupCollectiveOperation { result, .. } => self.renew(*result),
            Statement::Break => {
                let ends = self.ends();
                if let Some(jumps) = self.jumps.last_mut() {
                    jumps.breaks.extend(ends);
                }
                self.variables = None;
            }
            Statement::Continue => {
                let ends = self.ends();
                // A `switch` is left by it too: what it leads to is the loop around.
                if let Some(jumps) = self.jumps.last_mut() {
                    jumps.continues.extend(ends);
                }
                self.variables = None;
            }
            Statement::Return { value } => {
                if let Some(value) = value.map(|value| self.value(value)) {
                    self.given.push((value, self.interval(value)));
                }
                self.variables = None;
            }
            Statement::Kill => self.variables = None,
            _ => {}
        }
    }

    /// What an expression gives now is another value than before.
    fn renew(&mut self, expression: Handle<Expression>) {
        let value = self.prover.terms.some(Interval::ALL);
        self.values.insert(expression, value);
    }

    /// Something was stored through a pointer: a value, or nobody knows what.
    fn stored(&mut self, pointer: Handle<Expression>, value: Option<Value>) {
        let (mut at, mut whole) = (pointer, true);
        while let Expression::AccessIndex { base, .. } | Expression::Access { base, .. } =
            self.function.expressions[at]
        {
            (at, whole) = (base, false);
        }
        if let Expression::LocalVariable(variable) = self.function.expressions[at] {
            let value = value.filter(|_| whole).unwrap_or_else(|| self.prover.terms.some(Interval::ALL));
            self.set(variable, value);
        }
    }

    fn call(
        &mut self,
        function: Handle<Function>,
        arguments: &[Handle<Expression>],
        result: Option<Handle<Expression>>,
    ) -> Handle<Function> {
        let values = arguments.iter().map(|argument| self.value(*argument)).collect();
        let (called, value) = match self.trying {
            true => (function, None),
            false => self.prover.call(function, values),
        };
        arguments.iter().for_each(|argument| self.stored(*argument, None));
        if let Some(result) = result {
            match value {
                Some(value) => drop(self.values.insert(result, value)),
                None => self.renew(result),
            }
            if !self.trying {
                self.function.expressions[result] = Expression::CallResult(called);
            }
        }
        if !self.trying {
            self.decided.push(called.index() as u32);
        }
        called
    }

    /// Keeps in mind what a statement that is gone has computed.
    pub(super) fn forget(&mut self, statement: &Statement) {
        if self.trying {
            return;
        }
        match statement {
            Statement::Emit(range) => self.gone.extend(range.clone()),
            Statement::Call { result: Some(result), .. }
            | Statement::Atomic { result: Some(result), .. }
            | Statement::WorkGroupUniformLoad { result, .. }
            | Statement::SubgroupBallot { result, .. }
            | Statement::SubgroupGather { result, .. }
            | Statement::SubgroupCollectiveOperation { result, .. } => self.gone.push(*result),
            other => blocks_of(other).into_iter().flatten().for_each(|statement| self.forget(statement)),
        }
    }
}
