//! Going through a function's statements.

use naga::{Block, Function, Statement};

/// The blocks that stand in a statement.
pub(crate) fn blocks_of(statement: &Statement) -> Vec<&Block> {
    match statement {
        Statement::Block(block) => vec![block],
        Statement::If { accept, reject, .. } => vec![accept, reject],
        Statement::Switch { cases, .. } => cases.iter().map(|case| &case.body).collect(),
        Statement::Loop { body, continuing, .. } => vec![body, continuing],
        _ => Vec::new(),
    }
}

/// The same, to change them.
pub(crate) fn blocks_in(statement: &mut Statement) -> Vec<&mut Block> {
    match statement {
        Statement::Block(block) => vec![block],
        Statement::If { accept, reject, .. } => vec![accept, reject],
        Statement::Switch { cases, .. } => cases.iter_mut().map(|case| &mut case.body).collect(),
        Statement::Loop { body, continuing, .. } => vec![body, continuing],
        _ => Vec::new(),
    }
}

/// Calls `visit` for all statements of a function, in no order.
pub(crate) fn for_each<'f>(function: &'f Function, visit: &mut dyn FnMut(&'f Statement)) {
    let mut open: Vec<&Statement> = function.body.iter().collect();
    while let Some(statement) = open.pop() {
        visit(statement);
        open.extend(blocks_of(statement).into_iter().flatten());
    }
}
