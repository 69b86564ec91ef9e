//! Helpers in which items wait for each other, written out where they are called: what stands between two barriers is a part of the
//! kernel's own order, and on the host a loop over the items of a group.

use std::collections::BTreeSet;

use crate::errors::Errors;
use crate::flow::functions_with;
use crate::hir::{
    Arg, Base, Block, Change, Expr, Function, Kind, Module, Node, PartMut, Place, Stmt, VarId, change_block,
    walk_block,
};
use crate::ty::Ty;

/// Writes all of them out. Nobody calls them afterwards, and their own bodies are empty.
pub(crate) fn helpers(module: &mut Module, errors: &mut Errors) {
    let waiting = functions_with(module, |kind| matches!(kind, Kind::Barrier | Kind::Subgroup(..)));
    let (mut done, mut on_the_way) = (BTreeSet::new(), BTreeSet::new());
    for at in 0..module.functions.len() {
        write_out(module, at, &waiting, &mut done, &mut on_the_way, errors);
    }
    for at in waiting.into_iter().filter(|at| !module.kernels.contains(at)) {
        module.functions[at].body = Block::default();
    }
}

/// Writes out what a function calls, having done so in that.
fn write_out(
    module: &mut Module,
    at: usize,
    waiting: &BTreeSet<usize>,
    done: &mut BTreeSet<usize>,
    on_the_way: &mut BTreeSet<usize>,
    errors: &mut Errors,
) {
    if !waiting.contains(&at) || done.contains(&at) {
        return;
    }
    if !on_the_way.insert(at) {
        let name = &module.functions[at].name;
        return errors.at(
            name.span(),
            format!("`{name}` calls itself, and devices have no stack for that; use a loop"),
        );
    }
    let mut calls = BTreeSet::new();
    walk_block(&module.functions[at].body, &mut |node| {
        if let Node::Expr(Expr { kind: Kind::Call(helper, _), .. }) = node {
            calls.extend(waiting.contains(helper).then_some(*helper));
        }
    });
    for helper in calls {
        write_out(module, helper, waiting, done, on_the_way, errors);
    }
    on_the_way.remove(&at);
    let mut body = std::mem::take(&mut module.functions[at].body);
    let vars = std::mem::take(&mut module.functions[at].vars);
    let mut caller = Caller { module, waiting, vars, errors };
    caller.block(&mut body);
    let vars = caller.vars;
    (module.functions[at].body, module.functions[at].vars) = (body, vars);
    done.insert(at);
}

/// A function into which helpers are written.
struct Caller<'m> {
    module: &'m Module,
    waiting: &'m BTreeSet<usize>,
    vars: Vec<crate::hir::Var>,
    errors: &'m mut Errors,
}

impl Caller<'_> {
    fn block(&mut self, block: &mut Block) {
        // The last expression is a statement as well, whose value is the block's.
        let tail = block.tail.take().map(|tail| *tail);
        let mut stmts = Vec::new();
        for stmt in std::mem::take(&mut block.stmts) {
            self.stmt(stmt, &mut stmts);
        }
        block.tail = tail.and_then(|tail| self.called(tail, &mut stmts)).map(Box::new);
        block.stmts = stmts;
    }

    fn stmt(&mut self, stmt: Stmt, to: &mut Vec<Stmt>) {
        let stmt = match stmt {
            Stmt::Let(var, Some(value)) => {
                let value = self.called(value, to);
                Stmt::Let(var, value)
            }
            Stmt::Assign(place, op, value) => match self.called(value, to) {
                Some(value) => Stmt::Assign(place, op, value),
                None => return,
            },
            Stmt::Return(Some(value)) => {
                let value = self.called(value, to);
                Stmt::Return(value)
            }
            Stmt::Expr(value) => match self.called(value, to) {
                Some(value) => Stmt::Expr(value),
                None => return,
            },
            other => other,
        };
        let mut stmt = stmt;
        self.inside(&mut stmt);
        to.push(stmt);
    }

    /// What stands inside a statement; a call there has no place for what is written out.
    fn inside(&mut self, stmt: &mut Stmt) {
        stmt.parts_mut(&mut |part| self.part(part));
    }

    fn part(&mut self, part: PartMut<'_>) {
        match part {
            PartMut::Block(block) => self.block(block),
            PartMut::Place(place) => place.parts_mut(&mut |part| self.part(part)),
            PartMut::Expr(expr) => {
                if let Kind::Call(helper, _) = &expr.kind
                    && self.waiting.contains(helper)
                {
                    let name = &self.module.functions[*helper].name;
                    self.errors.at(
                        expr.span,
                        format!(
                            "items wait for each other in `{name}`, so its call is a statement, or all that a `let` or an assignment \
                             has on its right side"
                        ),
                    );
                    return;
                }
                expr.parts_mut(&mut |part| self.part(part));
            }
        }
    }

    /// The value of an expression; where that is a call that is to be written out, what comes before goes to `to`. None where
    /// it has none.
    fn called(&mut self, value: Expr, to: &mut Vec<Stmt>) -> Option<Expr> {
        match value.kind {
            Kind::Call(helper, args) if self.waiting.contains(&helper) => {
                let args = args.into_iter().map(|arg| self.argument(arg)).collect();
                self.written_out(helper, args, value.span, to)
            }
            kind => {
                let mut value = Expr { kind, ..value };
                value.parts_mut(&mut |part| self.part(part));
                Some(value)
            }
        }
    }

    fn argument(&mut self, mut arg: Arg) -> Arg {
        match &mut arg {
            Arg::Value(value) => self.part(PartMut::Expr(value)),
            Arg::Ref(place) => self.part(PartMut::Place(place)),
            Arg::Slice(_) | Arg::Piece(_) => {}
        }
        arg
    }

    fn written_out(
        &mut self,
        helper: usize,
        args: Vec<Arg>,
        span: proc_macro2::Span,
        to: &mut Vec<Stmt>,
    ) -> Option<Expr> {
        let module = self.module;
        let function = &module.functions[helper];
        let mut names: Vec<VarId> = Vec::new();
        for var in &function.vars {
            let (name, ty, kind) = (var.name.clone(), var.ty.clone(), var.kind.clone());
            // A parameter is bound by a `let` here, and one that is assigned to already was mutable.
            self.vars.push(crate::hir::Var { name, ty, mutable: var.mutable, kind });
            names.push(self.vars.len() - 1);
        }
        for (&param, arg) in function.params.iter().zip(args) {
            match arg {
                Arg::Value(value) => to.push(Stmt::Let(names[param], Some(value))),
                Arg::Slice(var) => names[param] = var,
                Arg::Ref(Place { base: Base::Var(var), path, .. }) if path.is_empty() => names[param] = var,
                Arg::Ref(_) | Arg::Piece(_) => {
                    let name = &function.name;
                    self.errors.at(
                        span,
                        format!("items wait for each other in `{name}`, so what it changes is a variable as a whole"),
                    );
                }
            }
        }
        let mut body = function.body.clone();
        if let Some(Stmt::Return(value)) = body.stmts.last().cloned() {
            body.stmts.pop();
            body.tail = value.map(Box::new);
        }
        self.refuse_returns(function, &body);
        rename(&mut body, &names);
        point_at(&mut body, span);
        to.extend(body.stmts);
        let tail = body.tail.map(|tail| *tail)?;
        match tail.ty {
            Ty::Unit | Ty::Never => {
                to.push(Stmt::Expr(tail));
                None
            }
            _ => Some(tail),
        }
    }

    /// Written out, a `return` would leave the kernel.
    fn refuse_returns(&mut self, function: &Function, body: &Block) {
        let mut returns = false;
        walk_block(body, &mut |node| returns |= matches!(node, Node::Stmt(Stmt::Return(_))));
        if returns {
            self.errors.at(
                function.name.span(),
                "a helper in which items wait for each other returns at its end alone; an item that has nothing to do waits all the same",
            );
        }
    }
}

/// Whoever comes to a barrier or not is a question of the call, and so are mistakes about it.
fn point_at(body: &mut Block, call: proc_macro2::Span) {
    change_block(body, &mut |node| {
        if let Change::Expr(expr) = node
            && matches!(expr.kind, Kind::Barrier | Kind::Subgroup(..))
        {
            expr.span = call;
        }
    });
}

/// Gives all variables other numbers.
fn rename(block: &mut Block, names: &[VarId]) {
    for stmt in &mut block.stmts {
        match stmt {
            Stmt::Let(var, _) | Stmt::For { var, .. } => *var = names[*var],
            _ => {}
        }
        stmt.parts_mut(&mut |part| rename_part(part, names));
    }
    block.tail.iter_mut().for_each(|tail| rename_part(PartMut::Expr(tail), names));
}

fn rename_part(part: PartMut<'_>, names: &[VarId]) {
    match part {
        PartMut::Block(block) => rename(block, names),
        PartMut::Place(place) => rename_place(place, names),
        PartMut::Expr(expr) => {
            match &mut expr.kind {
                Kind::Var(var) | Kind::Element(var, _) | Kind::Len(var, _) | Kind::Atomic(_, var, ..) => {
                    *var = names[*var];
                }
                Kind::Call(_, args) => {
                    for arg in args {
                        if let Arg::Slice(var) = arg {
                            *var = names[*var];
                        }
                    }
                }
                _ => {}
            }
            expr.parts_mut(&mut |part| rename_part(part, names));
        }
    }
}

fn rename_place(place: &mut Place, names: &[VarId]) {
    match &mut place.base {
        Base::Var(var) | Base::Element(var, _) => *var = names[*var],
    }
    place.parts_mut(&mut |part| rename_part(part, names));
}
