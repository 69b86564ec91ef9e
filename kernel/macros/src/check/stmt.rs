//! Statements.

use std::collections::HashMap;

use syn::spanned::Spanned;

use super::Checker;
use super::message::is_message;
use crate::hir::{Block, Expr, Kind, Stmt, VarKind};
use crate::ty::{Guess, Ty};

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
            syn::Stmt::Macro(mac) if is_message(&mac.mac) => {
                let said = self.message(&mac.mac);
                to.stmts.push(Stmt::Expr(said));
            }
            syn::Stmt::Macro(mac) => {
                let name = mac.mac.path.get_ident().map(ToString::to_string).unwrap_or_default();
                self.errors.at(mac.span(), format!("kernels have no macros, so no `{name}!`: nothing can be aborted on a device, and what is to be said is said by `debug!`"));
            }
        }
    }

    fn local(&mut self, local: &syn::Local, to: &mut Block) {
        self.attributes(&local.attrs);
        // `let (sine, cosine) = x.sin_cos();`
        if let (syn::Pat::Tuple(names), Some(init)) = (&local.pat, &local.init)
            && let syn::Expr::MethodCall(call) = &*init.expr
            && (call.method == "sin_cos" && call.args.is_empty() && names.elems.len() == 2)
        {
            let values = self.sin_cos(call, to);
            return self.bind_several(&names.elems, values, to);
        }
        if let (syn::Pat::Tuple(names), Some(init)) = (&local.pat, &local.init)
            && let syn::Expr::Tuple(values) = &*init.expr
            && names.elems.len() == values.elems.len()
        {
            // None of the values knows the new names, and literals may still become what they are needed as.
            let values = values.elems.iter().map(|value| self.expr(value)).collect();
            return self.bind_several(&names.elems, values, to);
        }
        let (pattern, declared) = match &local.pat {
            syn::Pat::Type(typed) => (&*typed.pat, Some(self.read_type(&typed.ty))),
            other => (other, None),
        };
        let init = local.init.as_ref().map(|init| match &declared {
            Some(ty) => self.expr_to(&init.expr, ty),
            None => self.expr(&init.expr),
        });
        if let (Some(init), Some(syn::LocalInit { diverge: Some((_, otherwise)), .. })) = (&init, &local.init)
        {
            return self.let_else(pattern, init.clone(), otherwise, to);
        }
        let ty = match (&declared, &init) {
            (Some(ty), _) => ty.clone(),
            (None, Some(init)) => init.ty.clone(),
            (None, None) => self.infer.fresh(Guess::Any),
        };
        match (pattern, init) {
            (syn::Pat::Ident(name), init) => self.bind_name(name, ty, init, to),
            (syn::Pat::Wild(_), init) => to.stmts.extend(init.map(Stmt::Expr)),
            (pattern, Some(init)) => self.bind_pattern(pattern, init, to),
            (pattern, None) => {
                self.errors.at(pattern.span(), "`let` binds a plain name here");
                self.bind_for_nothing(pattern);
            }
        }
    }

    /// Attributes are not passed on, so one that would mean something must not be taken as if it meant nothing: local memory that every item has
    /// for itself gives wrong results.
    fn attributes(&mut self, attrs: &[syn::Attribute]) {
        let is_harmless = |attr: &&syn::Attribute| {
            let words = ["allow", "expect", "warn", "deny", "forbid", "doc"];
            words.iter().any(|word| attr.path().is_ident(word)) || attr.path().segments[0].ident == "rustfmt"
        };
        for attr in attrs.iter().filter(|attr| !is_harmless(attr)) {
            let why = match attr.path().is_ident("local") {
                true => "local memory is a parameter of the kernel: `#[local] name: &mut [f32; 64]`",
                false => "this attribute means nothing on a kernel's `let`",
            };
            self.errors.at(attr.span(), why);
        }
    }

    pub(super) fn bind_name(&mut self, name: &syn::PatIdent, ty: Ty, init: Option<Expr>, to: &mut Block) {
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

    /// Binds the names of a pattern that was refused, so that nobody complains of them.
    pub(super) fn bind_for_nothing(&mut self, pattern: &syn::Pat) {
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
                    // What a compound assignment became, or a texel that is stored.
                    Kind::Block(block) if is_assignment(other) || is_call(other) => {
                        to.stmts.extend(block.stmts)
                    }
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

fn is_call(expr: &syn::Expr) -> bool {
    matches!(expr, syn::Expr::MethodCall(_))
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
