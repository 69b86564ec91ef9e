//! Statements.

use std::collections::HashMap;

use syn::spanned::Spanned;

use super::Checker;
use crate::builtin::Math;
use crate::hir::{Block, Expr, Kind, Stmt, VarKind};
use crate::ty::{Guess, Scalar, Ty};

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
        if let (syn::Pat::Tuple(names), Some(init)) = (&local.pat, &local.init)
            && let syn::Expr::MethodCall(call) = &*init.expr
            && (call.method == "sin_cos" && call.args.is_empty() && names.elems.len() == 2)
        {
            return self.sin_cos(names, call, to);
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

    /// `let (sine, cosine) = x.sin_cos();`, where `x` is found once.
    fn sin_cos(&mut self, names: &syn::PatTuple, call: &syn::ExprMethodCall, to: &mut Block) {
        let (angle, span) = (self.expr(&call.receiver), call.method.span());
        let ty = angle.ty.clone();
        self.demand(&ty, span, Scalar::is_float, "`sin_cos` is for floats, and this is `{}`");
        let angle = self.keep(angle, &mut to.stmts);
        let angle = Expr::new(Kind::Var(angle), ty.clone(), span);
        let values = [Math::Sin, Math::Cos]
            .map(|math| Expr::new(Kind::Math(math, vec![angle.clone()]), ty.clone(), span));
        self.bind_several(names, values.to_vec(), to);
    }

    /// `let (a, b) = (x, y);`: several bindings, none of whose values knows the new names.
    fn several(&mut self, names: &syn::PatTuple, values: &syn::ExprTuple, to: &mut Block) {
        let values: Vec<_> = values.elems.iter().map(|value| self.expr(value)).collect();
        self.bind_several(names, values, to);
    }

    fn bind_several(&mut self, names: &syn::PatTuple, values: Vec<Expr>, to: &mut Block) {
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
            syn::Expr::While(_) | syn::Expr::Loop(_) | syn::Expr::ForLoop(_) => self.repeated(expr, to),
            syn::Expr::Break(jump) => {
                if let Some(value) = &jump.expr {
                    self.errors.at(
                        value.span(),
                        "a kernel's loops have no value; assign it to a variable before `break`",
                    );
                }
                self.jump(jump.break_token.span, jump.label.as_ref(), Stmt::Break, to);
            }
            syn::Expr::Continue(jump) => {
                self.jump(jump.continue_token.span, jump.label.as_ref(), Stmt::Continue, to);
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
