//! What need not be said: branches that are never taken, once the overrides' values are known, and barriers behind
//! barriers.

use naga::compact::{KeepUnused, compact};
use naga::{Arena, Block, Constant, Expression, Handle, Literal, Module, Statement};

/// Where conditions are looked up, and what goes with a branch.
struct Pruning<'m> {
    expressions: &'m Arena<Expression>,
    constants: &'m Arena<Constant>,
    global: &'m Arena<Expression>,
    /// What branches that are gone have computed.
    gone: Vec<Handle<Expression>>,
}

/// Prunes all functions of a module.
pub(crate) fn prune(module: &mut Module) {
    let (constants, global) = (&module.constants, &module.global_expressions);
    let functions = module.functions.iter_mut().map(|(_, function)| function);
    for function in functions.chain(module.entry_points.iter_mut().map(|entry| &mut entry.function)) {
        let mut pruning = Pruning { expressions: &function.expressions, constants, global, gone: Vec::new() };
        function.body = pruning.pruned(std::mem::take(&mut function.body));
        // What has a name counts as used.
        for expression in pruning.gone {
            function.named_expressions.shift_remove(&expression);
        }
    }
    // The expressions of branches that are gone belong to no statement any more, which is not allowed.
    compact(module, KeepUnused::No);
}

impl Pruning<'_> {
    fn truth(&self, condition: Handle<Expression>) -> Option<bool> {
        let literal = match self.expressions[condition] {
            Expression::Constant(constant) => &self.global[self.constants[constant].init],
            ref other => other,
        };
        match literal {
            Expression::Literal(Literal::Bool(value)) => Some(*value),
            _ => None,
        }
    }

    /// Keeps in mind what a block that is gone has computed.
    fn forget(&mut self, block: &Block) {
        for statement in block.iter() {
            match statement {
                Statement::Emit(range) => self.gone.extend(range.clone()),
                Statement::Call { result: Some(result), .. }
                | Statement::Atomic { result: Some(result), .. }
                | Statement::WorkGroupUniformLoad { result, .. }
                | Statement::SubgroupBallot { result, .. }
                | Statement::SubgroupGather { result, .. }
                | Statement::SubgroupCollectiveOperation { result, .. } => self.gone.push(*result),
                Statement::Block(inner) => self.forget(inner),
                Statement::If { accept, reject, .. } => {
                    self.forget(accept);
                    self.forget(reject);
                }
                Statement::Switch { cases, .. } => cases.iter().for_each(|case| self.forget(&case.body)),
                Statement::Loop { body, continuing, .. } => {
                    self.forget(body);
                    self.forget(continuing);
                }
                _ => {}
            }
        }
    }

    fn pruned(&mut self, block: Block) -> Block {
        let mut pruned = Block::with_capacity(block.len());
        let mut rest = block.span_into_iter();
        while let Some((statement, span)) = rest.next() {
            match statement {
                Statement::If { condition, accept, reject } => match self.truth(condition) {
                    Some(taken) => {
                        let (taken, gone) = if taken { (accept, reject) } else { (reject, accept) };
                        self.forget(&gone);
                        let taken = self.pruned(taken);
                        // What stands behind a jump is never reached, and may not stand there.
                        let leaves = taken.last().is_some_and(Statement::is_terminator);
                        pruned.extend_block(taken);
                        if leaves {
                            rest.for_each(|(statement, _)| self.forget(&Block::from_vec(vec![statement])));
                            return pruned;
                        }
                    }
                    None => {
                        let (accept, reject) = (self.pruned(accept), self.pruned(reject));
                        pruned.push(Statement::If { condition, accept, reject }, span);
                    }
                },
                Statement::Block(inner) => pruned.push(Statement::Block(self.pruned(inner)), span),
                Statement::Switch { selector, cases } => {
                    let case =
                        |case: naga::SwitchCase| naga::SwitchCase { body: self.pruned(case.body), ..case };
                    let cases = cases.into_iter().map(case).collect();
                    pruned.push(Statement::Switch { selector, cases }, span);
                }
                Statement::Loop { body, continuing, break_if } => {
                    let (body, continuing) = (self.pruned(body), self.pruned(continuing));
                    pruned.push(Statement::Loop { body, continuing, break_if }, span);
                }
                Statement::ControlBarrier(barrier) => match pruned.last_mut() {
                    // One that is about both.
                    Some(Statement::ControlBarrier(before)) => *before |= barrier,
                    _ => pruned.push(Statement::ControlBarrier(barrier), span),
                },
                other => pruned.push(other, span),
            }
        }
        pruned
    }
}
