//! Reads without branches, for devices on which a branch around a load keeps other loads waiting.
//!
//! A read that is compared with its range is a small function in the texts of `#[kernel]`: outside it gives zero. Here it
//! becomes a load that is always made, of the range's first element where the index is outside, and a choice between that
//! and zero. A range that is read has an element: what stands for an argument over nothing is memory, too.

use naga::{
    BinaryOperator, Block, Expression, Function, Handle, Literal, Module, Range, Span, Statement, TypeInner,
};

/// Rewrites the reads of a module that are such functions.
pub(crate) fn unbranch(module: &mut Module) {
    let Module { functions, types, .. } = module;
    for (_, function) in functions.iter_mut() {
        let plain = function.result.as_ref().is_some_and(|result| {
            matches!(types[result.ty].inner, TypeInner::Scalar(_) | TypeInner::Vector { .. })
        });
        if plain && let Some(read) = Read::of(function) {
            read.rewrite(function);
        }
    }
}

/// A function that gives an element where its index is inside, and zero elsewhere.
struct Read {
    condition: Handle<Expression>,
    /// What is computed before and inside, but for the load.
    computed: Vec<Handle<Expression>>,
    array: Handle<Expression>,
    index: Handle<Expression>,
    zero: Handle<Expression>,
}

impl Read {
    fn of(function: &Function) -> Option<Self> {
        let named = function.name.as_deref().is_some_and(|name| name.starts_with("get_"));
        let mut computed = Vec::new();
        let mut statements = function.body.iter().filter(|statement| match statement {
            Statement::Emit(range) => {
                computed.extend(range.clone());
                false
            }
            _ => true,
        });
        let (first, second, none) = (statements.next()?, statements.next()?, statements.next());
        drop(statements);
        let Statement::If { condition, accept, reject } = first else { return None };
        let Statement::Return { value: Some(zero) } = *second else { return None };
        if !named || none.is_some() || !reject.is_empty() {
            return None;
        }
        let (last, before) = accept.split_last()?;
        let Statement::Return { value: Some(load) } = *last else { return None };
        for statement in before {
            let Statement::Emit(range) = statement else { return None };
            computed.extend(range.clone());
        }
        let Expression::Load { pointer } = function.expressions[load] else { return None };
        let Expression::Access { base: array, index } = function.expressions[pointer] else { return None };
        let Expression::GlobalVariable(_) = function.expressions[array] else { return None };
        computed.retain(|of| *of != load && *of != pointer && *of != zero);
        Some(Read { condition: *condition, computed, array, index, zero })
    }

    fn rewrite(self, function: &mut Function) {
        let Read { condition, computed, array, index, zero } = self;
        let expressions = &mut function.expressions;
        let mut append = |expression| expressions.append(expression, Span::UNDEFINED);
        let first = append(Expression::Literal(Literal::U32(0)));
        let chosen = |of| Expression::Select { condition, accept: of, reject: first };
        // Counted from where the range starts, if it starts elsewhere than its memory.
        let (start, at) = match function.expressions[index] {
            Expression::Binary { op: BinaryOperator::Add, left, right } => (Some(left), right),
            _ => (None, index),
        };
        let expressions = &mut function.expressions;
        let mut append = |expression| expressions.append(expression, Span::UNDEFINED);
        let begin = append(chosen(at));
        let index = match start {
            Some(left) => append(Expression::Binary { op: BinaryOperator::Add, left, right: begin }),
            None => begin,
        };
        let pointer = append(Expression::Access { base: array, index });
        let load = append(Expression::Load { pointer });
        let value = append(Expression::Select { condition, accept: load, reject: zero });
        let mut body = Block::new();
        for of in computed {
            body.push(Statement::Emit(Range::new_from_bounds(of, of)), Span::UNDEFINED);
        }
        body.push(Statement::Emit(Range::new_from_bounds(begin, value)), Span::UNDEFINED);
        body.push(Statement::Return { value: Some(value) }, Span::UNDEFINED);
        function.body = body;
    }
}
