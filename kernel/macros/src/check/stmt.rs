//! Statements.

use std::collections::HashMap;

use syn::spanned::Spanned;

use super::Checker;
use crate::hir::{Block, Kind, Stmt, VarKind};
use crate::ty::{BOOL, Guess, Ty};

impl Checker<'_> {
    pub(super) fn block(&mut self, block: &syn::Block) -> Block {
        self.scopes.push(HashMap::new());
        let mut made = Block::default();
        let last = block.stmts.len().wrapping_sub(1);
        for (at, stmt) in block.stmts.iter().enumerate() {
            self.stmt(stmt, at == last, &mut made);
        }
        self.scopes.pop();
        made
    }

    fn stmt(&mut self, stmt: &syn::Stmt, last: bool, to: &mut Block) {
        match stmt {
            syn::Stmt::Local(local) => self.local(local, to),
            syn::Stmt::Item(syn::Item::Const(item)) => self.own_constant(item),
            syn::Stmt::Item(item) => {
                self.errors.at(
                    item.span(),
                    "a kernel's body has statements and constants; other items stand in its `#[windlass::kernels] mod`",
                );
            }
            syn::Stmt::Expr(expr, semicolon) => {
                if last && semicolon.is_none() && !is_statement(expr) {
                    let value = self.expr(expr);
                    to.tail = Some(Box::new(value));
                } else {
                    self.stmt_expr(expr, to);
                }
            }
            syn::Stmt::Macro(mac) => {
                let name = mac.mac.path.get_ident().map(ToString::to_string).unwrap_or_default();
                self.errors.at(mac.span(), format!("kernels have no macros, so no `{name}!`: nothing can be printed or aborted on a device"));
            }
        }
    }

    fn local(&mut self, local: &syn::Local, to: &mut Block) {
        if let (syn::Pat::Tuple(names), Some(init)) = (&local.pat, &local.init)
            && let syn::Expr::Tuple(values) = &*init.expr
            && names.elems.len() == values.elems.len()
            && init.diverge.is_none()
        {
            return self.several(names, values, to);
        }
        let (pattern, declared) = match &local.pat {
            syn::Pat::Type(typed) => (&*typed.pat, Some(self.read_type(&typed.ty))),
            other => (other, None),
        };
        let init = match &local.init {
            Some(init) => {
                if let Some((token, _)) = &init.diverge {
                    self.errors.at(token.span, "kernels have no `let … else`");
                }
                Some(match &declared {
                    Some(ty) => self.expr_to(&init.expr, ty),
                    None => self.expr(&init.expr),
                })
            }
            None => None,
        };
        let ty = match (&declared, &init) {
            (Some(ty), _) => ty.clone(),
            (None, Some(init)) => init.ty.clone(),
            (None, None) => self.infer.fresh(Guess::Any),
        };
        match pattern {
            syn::Pat::Ident(name) => {
                if name.by_ref.is_some() || name.subpat.is_some() {
                    self.errors.at(name.span(), "`let` binds a plain name");
                }
                if self.infer.shallow(&ty) == Ty::Unit {
                    self.errors.at(name.ident.span(), "this has no value to be kept");
                }
                // A variable that gets its value later is assigned to once.
                let mutable = name.mutability.is_some() || init.is_none();
                let var = self.bind(name.ident.clone(), ty, mutable, VarKind::Value);
                to.stmts.push(Stmt::Let(var, init));
            }
            syn::Pat::Wild(_) => to.stmts.extend(init.map(Stmt::Expr)),
            other => {
                self.errors.at(other.span(), "`let` binds a plain name; take fields one by one");
                self.bind_for_nothing(other);
            }
        }
    }

    /// `let (a, b) = (x, y);`: several bindings, none of whose values knows the new names.
    fn several(&mut self, names: &syn::PatTuple, values: &syn::ExprTuple, to: &mut Block) {
        let values: Vec<_> = values.elems.iter().map(|value| self.expr(value)).collect();
        for (name, value) in names.elems.iter().zip(values) {
            match name {
                syn::Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                    let (ty, mutable) = (value.ty.clone(), name.mutability.is_some());
                    if self.infer.shallow(&ty) == Ty::Unit {
                        self.errors.at(name.ident.span(), "this has no value to be kept");
                    }
                    let var = self.bind(name.ident.clone(), ty, mutable, VarKind::Value);
                    to.stmts.push(Stmt::Let(var, Some(value)));
                }
                syn::Pat::Wild(_) => to.stmts.push(Stmt::Expr(value)),
                other => {
                    self.errors.at(other.span(), "a `let` of several values binds a plain name to each");
                    self.bind_for_nothing(other);
                }
            }
        }
    }

    /// Binds the names of a pattern that was refused, so that nobody complains of them.
    fn bind_for_nothing(&mut self, pattern: &syn::Pat) {
        let mut open = vec![pattern];
        while let Some(pattern) = open.pop() {
            match pattern {
                syn::Pat::Ident(name) => drop(self.bind(name.ident.clone(), Ty::Error, true, VarKind::Value)),
                syn::Pat::Tuple(parts) => open.extend(&parts.elems),
                syn::Pat::TupleStruct(parts) => open.extend(&parts.elems),
                syn::Pat::Slice(parts) => open.extend(&parts.elems),
                syn::Pat::Struct(parts) => open.extend(parts.fields.iter().map(|field| &*field.pat)),
                syn::Pat::Reference(inner) => open.push(&inner.pat),
                syn::Pat::Paren(inner) => open.push(&inner.pat),
                syn::Pat::Type(typed) => open.push(&typed.pat),
                _ => {}
            }
        }
    }

    /// An expression as a statement.
    pub(super) fn stmt_expr(&mut self, expr: &syn::Expr, to: &mut Block) {
        match expr {
            syn::Expr::Assign(assign) => {
                let span = assign.eq_token.span();
                self.assign(&assign.left, None, &assign.right, span, to);
            }
            syn::Expr::While(repeat) => {
                self.refuse_label(repeat.label.as_ref());
                if let syn::Expr::Let(pattern) = &*repeat.cond {
                    self.errors.at(pattern.let_token.span, "kernels have no `while let`");
                    return;
                }
                let condition = self.expr_to(&repeat.cond, &BOOL);
                let body = self.body(&repeat.body);
                to.stmts.push(Stmt::While(condition, body));
            }
            syn::Expr::Loop(repeat) => {
                self.refuse_label(repeat.label.as_ref());
                let body = self.body(&repeat.body);
                to.stmts.push(Stmt::Loop(body));
            }
            syn::Expr::ForLoop(repeat) => self.for_loop(repeat, to),
            syn::Expr::Break(jump) => {
                self.jump(jump.break_token.span, jump.label.as_ref(), "break");
                if let Some(value) = &jump.expr {
                    self.errors.at(
                        value.span(),
                        "a kernel's loops have no value; assign it to a variable before `break`",
                    );
                }
                to.stmts.push(Stmt::Break);
            }
            syn::Expr::Continue(jump) => {
                self.jump(jump.continue_token.span, jump.label.as_ref(), "continue");
                to.stmts.push(Stmt::Continue);
            }
            syn::Expr::Return(jump) => {
                let wanted = self.result.clone();
                let value = jump.expr.as_ref().map(|value| self.expr_to(value, &wanted));
                if value.is_none() && wanted != Ty::Unit {
                    let wanted = self.show(&wanted);
                    self.errors
                        .at(jump.return_token.span, format!("a value of type `{wanted}` is to be returned"));
                }
                to.stmts.push(Stmt::Return(value));
            }
            other => {
                let value = self.expr(other);
                match value.kind {
                    // What a compound assignment became.
                    Kind::Block(block) if is_assignment(other) => to.stmts.extend(block.stmts),
                    _ => to.stmts.push(Stmt::Expr(value)),
                }
            }
        }
    }

    pub(super) fn body(&mut self, block: &syn::Block) -> Block {
        self.loops += 1;
        let mut body = self.block(block);
        self.loops -= 1;
        if let Some(tail) = body.tail.take() {
            self.expect(&tail.ty.clone(), &Ty::Unit, tail.span);
            body.stmts.push(Stmt::Expr(*tail));
        }
        body
    }

    fn jump(&mut self, span: proc_macro2::Span, label: Option<&syn::Lifetime>, what: &str) {
        if let Some(label) = label {
            self.errors
                .at(label.span(), format!("kernels have no labels; `{what}` is about the innermost loop"));
        }
        if self.loops == 0 {
            self.errors.at(span, format!("`{what}` stands in a loop"));
        }
    }

    fn refuse_label(&mut self, label: Option<&syn::Label>) {
        if let Some(label) = label {
            self.errors.at(label.span(), "kernels have no labels; put the inner loop into a helper function");
        }
    }

    fn for_loop(&mut self, repeat: &syn::ExprForLoop, to: &mut Block) {
        self.refuse_label(repeat.label.as_ref());
        let mut of = &*repeat.expr;
        while let syn::Expr::Paren(inner) = of {
            of = &inner.expr;
        }
        if let Some((range, way)) = self.way(of) {
            return self.walked(repeat, range, way, to);
        }
        let syn::Expr::Range(range) = of else {
            let message = match of {
                syn::Expr::MethodCall(call) => {
                    format!(
                        "kernels have no iterators, so no `.{}()`; a range may have `.rev()` or `.step_by(2)`, and what else \
                         there is to count, count by `while`",
                        call.method
                    )
                }
                _ => "a kernel's `for` goes over a range: `for i in 0..n`".into(),
            };
            self.errors.at(of.span(), message);
            return;
        };
        let Some((from, until)) = self.ends(range) else { return };
        let ty = from.ty.clone();
        self.scopes.push(HashMap::new());
        let (name, mutable) = self.counter(&repeat.pat);
        let var = self.bind(name, ty, mutable, VarKind::Value);
        let body = self.body(&repeat.body);
        self.scopes.pop();
        let inclusive = matches!(range.limits, syn::RangeLimits::Closed(_));
        to.stmts.push(Stmt::For { var, from, to: until, inclusive, body });
    }
}

/// Whether an expression is a statement even at the end of a block.
fn is_statement(expr: &syn::Expr) -> bool {
    matches!(
        expr,
        syn::Expr::Assign(_)
            | syn::Expr::While(_)
            | syn::Expr::Loop(_)
            | syn::Expr::ForLoop(_)
            | syn::Expr::Break(_)
            | syn::Expr::Continue(_)
            | syn::Expr::Return(_)
    ) || is_assignment(expr)
}

/// Whether an expression is `a += b` or the like.
fn is_assignment(expr: &syn::Expr) -> bool {
    use syn::BinOp as B;
    let syn::Expr::Binary(binary) = expr else { return false };
    matches!(
        binary.op,
        B::AddAssign(_)
            | B::SubAssign(_)
            | B::MulAssign(_)
            | B::DivAssign(_)
            | B::RemAssign(_)
            | B::BitAndAssign(_)
            | B::BitOrAssign(_)
            | B::BitXorAssign(_)
            | B::ShlAssign(_)
            | B::ShrAssign(_)
    )
}
