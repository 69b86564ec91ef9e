//! Expressions.

use proc_macro2::Span;
use syn::spanned::Spanned;

use super::Checker;
use super::message::is_message;
use crate::hir::{BinOp, Block, Expr, Kind, May, UnOp, VarKind};
use crate::ty::{BOOL, Scalar, Ty, U32};

impl Checker<'_> {
    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) -> Expr {
        self.errors.at(span, message);
        Expr::new(Kind::Unit, Ty::Error, span)
    }

    /// An expression whose value is wanted as `ty`.
    pub(super) fn expr_to(&mut self, expr: &syn::Expr, ty: &Ty) -> Expr {
        let found = match (expr, self.infer.shallow(ty)) {
            (syn::Expr::Struct(made), Ty::Struct(at)) => self.make_struct(made, Some(at)),
            _ => self.expr(expr),
        };
        self.expect(&found.ty.clone(), ty, found.span);
        found
    }

    pub(super) fn expr(&mut self, expr: &syn::Expr) -> Expr {
        let span = expr.span();
        match expr {
            syn::Expr::Paren(inner) => self.expr(&inner.expr),
            syn::Expr::Group(inner) => self.expr(&inner.expr),
            syn::Expr::Lit(lit) => self.literal(&lit.lit),
            syn::Expr::Path(path) => self.path(&path.path),
            syn::Expr::Unary(unary) => self.unary(unary),
            syn::Expr::Binary(binary) => self.binary(binary),
            syn::Expr::Cast(cast) => self.cast(cast),
            syn::Expr::Field(field) => self.field(field),
            syn::Expr::Index(index) => self.index(index),
            syn::Expr::Call(call) => self.call(call),
            syn::Expr::MethodCall(call) => self.method(call),
            syn::Expr::Macro(mac) if is_message(&mac.mac) => self.message(&mac.mac),
            syn::Expr::If(branch) => self.branch(branch),
            syn::Expr::Match(choice) => self.choice(choice),
            syn::Expr::Block(block) => {
                if let Some(label) = &block.label {
                    return self.error(
                        label.span(),
                        "kernels have no labelled blocks; use a helper function that returns",
                    );
                }
                let block = self.block(&block.block);
                let ty = block_ty(&block);
                Expr::new(Kind::Block(block), ty, span)
            }
            syn::Expr::Struct(made) => self.make_struct(made, None),
            syn::Expr::Array(array) => self.make_array(array),
            syn::Expr::Repeat(repeat) => self.repeat(repeat),
            syn::Expr::Tuple(tuple) if tuple.elems.is_empty() => Expr::new(Kind::Unit, Ty::Unit, span),
            syn::Expr::Tuple(tuple) => self.tuple(tuple),
            syn::Expr::Try(asked) => self.or_return(asked),
            syn::Expr::Return(_)
            | syn::Expr::Break(_)
            | syn::Expr::Continue(_)
            | syn::Expr::While(_)
            | syn::Expr::Loop(_)
            | syn::Expr::ForLoop(_)
            | syn::Expr::Assign(_) => {
                let mut block = Block::default();
                self.stmt_expr(expr, &mut block);
                let jumps =
                    matches!(expr, syn::Expr::Return(_) | syn::Expr::Break(_) | syn::Expr::Continue(_));
                Expr::new(Kind::Block(block), if jumps { Ty::Never } else { Ty::Unit }, span)
            }
            other => {
                let message = refused(other);
                self.error(span, message)
            }
        }
    }

    pub(super) fn unary(&mut self, unary: &syn::ExprUnary) -> Expr {
        let span = unary.op.span();
        let inner = match unary.op {
            // A parameter behind a reference is its value.
            syn::UnOp::Deref(_) => return self.deref(&unary.expr, span),
            _ => self.expr(&unary.expr),
        };
        if let Ty::Struct(_) = self.infer.shallow(&inner.ty) {
            let name = if matches!(unary.op, syn::UnOp::Neg(_)) { "Neg" } else { "Not" };
            return self.overloaded(name, vec![inner], span);
        }
        let ty = inner.ty.clone();
        let op = match unary.op {
            syn::UnOp::Neg(_) => {
                self.demand(
                    &ty,
                    span,
                    Scalar::is_signed,
                    "`{}` has no sign; `0 - x` wraps, and `x as i32` converts",
                );
                UnOp::Neg
            }
            _ => {
                self.demand(
                    &ty,
                    span,
                    |s| !s.is_float(),
                    "`!` turns bits or a `bool` around, and this is `{}`",
                );
                UnOp::Not
            }
        };
        if op == UnOp::Not && ty.width().is_some() {
            return self.error(span, "`!` takes integers and `bool`, no vectors");
        }
        Expr::new(Kind::Unary(op, Box::new(inner)), ty, span)
    }

    fn deref(&mut self, expr: &syn::Expr, span: Span) -> Expr {
        let inner = self.expr(expr);
        if let Some(to) = self.pointee(&inner.ty) {
            return self.follow(inner, &to, None);
        }
        match inner.kind {
            Kind::Var(_) => inner,
            _ => self.error(span, "only a parameter behind a reference and a `Ptr` can be dereferenced"),
        }
    }

    fn binary(&mut self, binary: &syn::ExprBinary) -> Expr {
        let span = binary.op.span();
        if let Some(op) = assigning(&binary.op) {
            let mut block = Block::default();
            self.assign(&binary.left, Some(op), &binary.right, span, &mut block);
            return Expr::new(Kind::Block(block), Ty::Unit, span);
        }
        let left = self.expr(&binary.left);
        if let syn::BinOp::And(_) | syn::BinOp::Or(_) = binary.op {
            let right = self.expr(&binary.right);
            for side in [&left, &right] {
                self.expect(&side.ty.clone(), &BOOL, side.span);
            }
            let and = matches!(binary.op, syn::BinOp::And(_));
            return Expr::new(Kind::Logic(and, Box::new(left), Box::new(right)), BOOL, span);
        }
        let right = self.expr(&binary.right);
        match plain(&binary.op) {
            Some(op) => self.operation(op, left, right, span),
            None => self.error(span, "kernels do not have this operator"),
        }
    }

    /// An operator between two values: of one type, or, for arithmetic, a vector and a scalar.
    pub(super) fn operation(&mut self, op: BinOp, mut left: Expr, mut right: Expr, span: Span) -> Expr {
        if let Some(compared) = self.pointers_compared(op, &left, &right, span) {
            return compared;
        }
        let (l, r) = (self.infer.shallow(&left.ty), self.infer.shallow(&right.ty));
        if let (Some(name), true) =
            (super::overload::operator_trait(op), matches!(l, Ty::Struct(_)) || matches!(r, Ty::Struct(_)))
        {
            return self.overloaded(name, vec![left, right], span);
        }
        if let BinOp::Shl | BinOp::Shr = op {
            self.demand(&l, left.span, Scalar::is_int, "only integers are shifted, and this is `{}`");
            self.expect(&r, &U32, right.span);
            let ty = left.ty.clone();
            if l.width().is_some() {
                return self.error(span, "vectors are not shifted; do it component by component");
            }
            return Expr::new(Kind::Binary(op, Box::new(left), Box::new(right)), ty, span);
        }
        if self.around.structs.variants(&l).is_some() {
            let (sign, shown) = (op.sign(), self.show(&l));
            return self.error(
                span,
                format!(
                    "`{sign}` takes numbers, and this is `{shown}`; take it apart by `match` or `if let`"
                ),
            );
        }
        if let Ty::Enum(_) = l {
            self.expect(&r, &l, right.span);
            if !matches!(op, BinOp::Eq | BinOp::Ne) {
                let sign = op.sign();
                return self
                    .error(span, format!("`{sign}` takes numbers, and this is an enum: `kind as i32`"));
            }
            return Expr::new(Kind::Binary(op, Box::new(left), Box::new(right)), BOOL, span);
        }
        match (&l, &r) {
            (Ty::Vector(n, of), scalar) if !matches!(scalar, Ty::Vector(..)) => {
                self.expect(scalar, of, right.span);
                right = splat(*n, right);
            }
            (scalar, Ty::Vector(n, of)) if !matches!(scalar, Ty::Vector(..)) => {
                self.expect(scalar, of, left.span);
                left = splat(*n, left);
            }
            _ => self.expect(&r, &l, right.span),
        }
        let ty = left.ty.clone();
        self.operands(op, &ty, span);
        let result = if op.is_comparison() { BOOL } else { ty.clone() };
        if op.is_comparison() && ty.width().is_some() {
            return self.error(span, "vectors are not compared as a whole; compare their components");
        }
        Expr::new(Kind::Binary(op, Box::new(left), Box::new(right)), result, span)
    }

    /// What an operator wants of its operands' type.
    fn operands(&mut self, op: BinOp, ty: &Ty, span: Span) {
        let sign = op.sign();
        match op {
            BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Rem => {
                let message = format!("`{sign}` takes numbers and vectors, and this is `{{}}`");
                self.demand(ty, span, |s| s != Scalar::Bool, message);
            }
            BinOp::And | BinOp::Or | BinOp::Xor => {
                let message = format!("`{sign}` takes integers and `bool`, and this is `{{}}`");
                self.demand(ty, span, |s| !s.is_float(), message);
            }
            BinOp::Eq | BinOp::Ne => {
                self.demand(
                    ty,
                    span,
                    |_| true,
                    format!("`{sign}` takes numbers and `bool`, and this is `{{}}`"),
                );
            }
            _ => {
                let message = format!("`{sign}` takes numbers, and this is `{{}}`");
                self.demand(ty, span, |s| s != Scalar::Bool, message);
            }
        }
    }

    fn cast(&mut self, cast: &syn::ExprCast) -> Expr {
        let span = cast.as_token.span();
        let inner = self.expr(&cast.expr);
        let to = self.read_type(&cast.ty);
        match to {
            Ty::Scalar(Scalar::Bool) => {
                self.error(span, "numbers do not become `bool` by `as`; write `x != 0`")
            }
            Ty::Scalar(to_scalar) if to_scalar.is_int() && self.is_plain_enum(&inner.ty) => {
                Expr::new(Kind::Cast(Box::new(inner)), to, span)
            }
            Ty::Scalar(_) => {
                self.demand(&inner.ty.clone(), inner.span, |_| true, "`{}` cannot be converted by `as`");
                if inner.ty.width().is_some() {
                    return self.error(span, "vectors are converted component by component");
                }
                Expr::new(Kind::Cast(Box::new(inner)), to, span)
            }
            Ty::Error => Expr::new(Kind::Unit, Ty::Error, span),
            _ => {
                let to = self.show(&to);
                self.error(span, format!("`as` converts between scalars, and `{to}` is none"))
            }
        }
    }

    /// Whether it is an enum without data, which is a number.
    fn is_plain_enum(&self, ty: &Ty) -> bool {
        matches!(self.infer.shallow(ty), Ty::Enum(at) if !self.around.structs.choice(at).has_data())
    }

    fn field(&mut self, field: &syn::ExprField) -> Expr {
        let inner = self.expr(&field.base);
        let name = match &field.member {
            syn::Member::Named(name) => name.clone(),
            syn::Member::Unnamed(number) => return self.part(inner, number),
        };
        let text = name.to_string();
        match self.infer.shallow(&inner.ty) {
            Ty::Struct(at) => match self.around.structs.field(at, &text) {
                Some((field, ty)) => Expr::new(Kind::Field(Box::new(inner), field), ty, name.span()),
                None => {
                    let of = self.around.structs.name(at);
                    self.error(name.span(), format!("`{of}` has no field `{text}`"))
                }
            },
            Ty::Vector(n, of) => match component(&text, n) {
                Some(at) => Expr::new(Kind::Component(Box::new(inner), at), *of, name.span()),
                None => self.error(
                    name.span(),
                    format!(
                        "a `Vec{n}` has the components `{}`; several at once are a method, `v.xy()`",
                        &"x y z w"[..2 * n as usize - 1]
                    ),
                ),
            },
            Ty::Error | Ty::Never => Expr::new(Kind::Unit, Ty::Error, name.span()),
            Ty::Var(_) => self.error(
                name.span(),
                "nothing says yet what type this is; write it where the variable is bound",
            ),
            other => {
                let shown = self.show(&other);
                self.error(name.span(), format!("`{shown}` has no fields"))
            }
        }
    }

    /// `a[i]`, of an array value, a slice or a view.
    fn index(&mut self, index: &syn::ExprIndex) -> Expr {
        let span = index.bracket_token.span.open();
        if let Some((var, at)) = self.element(&syn::Expr::Index(index.clone())) {
            if let VarKind::Slice(slice) = &self.vars[var].kind
                && slice.may == May::Atomic
            {
                let name = self.vars[var].name.to_string();
                return self.error(span, format!("atomics are read by a method: `{name}[i].load(Relaxed)`"));
            }
            let ty = self.vars[var].ty.clone();
            return Expr::new(Kind::Element(var, at), ty, span);
        }
        let of = self.expr(&index.expr);
        if let Some(to) = self.pointee(&of.ty) {
            return self.follow(of, &to, Some(&index.index));
        }
        match self.infer.shallow(&of.ty) {
            Ty::Array(ty, len) => {
                let at = self.array_index(&index.index, len);
                Expr::new(Kind::Index(Box::new(of), Box::new(at)), *ty, span)
            }
            Ty::Vector(n, ty) => match self.expr_to(&index.index, &U32).kind {
                Kind::Int(at) if (0..i128::from(n)).contains(&at) => {
                    Expr::new(Kind::Component(Box::new(of), at as u8), *ty, span)
                }
                _ => self.error(
                    span,
                    "a vector's components have names: `v.x`, or are told apart by a literal: `v[0]`",
                ),
            },
            Ty::Error => Expr::new(Kind::Unit, Ty::Error, span),
            other => {
                let shown = self.show(&other);
                self.error(span, format!("`{shown}` cannot be indexed"))
            }
        }
    }

    /// An index into an array of this length; one that is known to be outside is refused.
    pub(super) fn array_index(&mut self, index: &syn::Expr, len: u32) -> Expr {
        let at = self.index_value(index);
        if let Kind::Int(value) = at.kind
            && value >= i128::from(len)
        {
            self.errors.at(at.span, format!("an array of {len} has no element {value}"));
        }
        at
    }

    fn branch(&mut self, branch: &syn::ExprIf) -> Expr {
        let span = branch.if_token.span;
        if let syn::Expr::Let(pattern) = &*branch.cond {
            if let Some(call) = super::exchange::exchange(&pattern.expr) {
                return self.exchange_if_let(call, &pattern.pat, branch);
            }
            return self.if_let(pattern, branch);
        }
        let condition = self.expr_to(&branch.cond, &BOOL);
        let yes = self.block(&branch.then_branch);
        let no = self.otherwise(branch);
        let ty = self.common(&[&yes, &no], span);
        if branch.else_branch.is_none() && !matches!(ty, Ty::Unit | Ty::Never | Ty::Error) {
            return self.error(span, "an `if` that has a value needs an `else`");
        }
        Expr::new(Kind::If(Box::new(condition), yes, no), ty, span)
    }

    /// The `else` of an `if`, which is empty where there is none.
    pub(super) fn otherwise(&mut self, branch: &syn::ExprIf) -> Block {
        match &branch.else_branch {
            Some((_, other)) => match &**other {
                syn::Expr::Block(block) => self.block(&block.block),
                other => {
                    let inner = self.expr(other);
                    Block { stmts: Vec::new(), tail: Some(Box::new(inner)) }
                }
            },
            None => Block::default(),
        }
    }

    /// The type that several blocks have in common.
    pub(super) fn common(&mut self, blocks: &[&Block], span: Span) -> Ty {
        let mut common: Option<Ty> = None;
        for block in blocks {
            let ty = block_ty(block);
            if self.infer.shallow(&ty) == Ty::Never {
                continue;
            }
            match &common {
                None => common = Some(ty),
                Some(first) => {
                    let at = block.tail.as_ref().map_or(span, |tail| tail.span);
                    self.expect(&ty, &first.clone(), at);
                }
            }
        }
        common.unwrap_or(Ty::Never)
    }
}

/// A block's type: of its last expression, or of nothing at all.
pub(super) fn block_ty(block: &Block) -> Ty {
    match &block.tail {
        Some(tail) => tail.ty.clone(),
        None if crate::flow::diverges(block) => Ty::Never,
        None => Ty::Unit,
    }
}

fn splat(n: u8, value: Expr) -> Expr {
    let (ty, span) = (Ty::Vector(n, Box::new(value.ty.clone())), value.span);
    Expr::new(Kind::Splat(Box::new(value)), ty, span)
}

/// A component's number.
pub(super) fn component(name: &str, width: u8) -> Option<u8> {
    let at = ["x", "y", "z", "w"].iter().position(|axis| *axis == name)? as u8;
    (at < width).then_some(at)
}

fn plain(op: &syn::BinOp) -> Option<BinOp> {
    Some(match op {
        syn::BinOp::Add(_) => BinOp::Add,
        syn::BinOp::Sub(_) => BinOp::Sub,
        syn::BinOp::Mul(_) => BinOp::Mul,
        syn::BinOp::Div(_) => BinOp::Div,
        syn::BinOp::Rem(_) => BinOp::Rem,
        syn::BinOp::BitAnd(_) => BinOp::And,
        syn::BinOp::BitOr(_) => BinOp::Or,
        syn::BinOp::BitXor(_) => BinOp::Xor,
        syn::BinOp::Shl(_) => BinOp::Shl,
        syn::BinOp::Shr(_) => BinOp::Shr,
        syn::BinOp::Eq(_) => BinOp::Eq,
        syn::BinOp::Ne(_) => BinOp::Ne,
        syn::BinOp::Lt(_) => BinOp::Lt,
        syn::BinOp::Le(_) => BinOp::Le,
        syn::BinOp::Gt(_) => BinOp::Gt,
        syn::BinOp::Ge(_) => BinOp::Ge,
        _ => return None,
    })
}

/// The operator of `+=` and the like.
fn assigning(op: &syn::BinOp) -> Option<BinOp> {
    Some(match op {
        syn::BinOp::AddAssign(_) => BinOp::Add,
        syn::BinOp::SubAssign(_) => BinOp::Sub,
        syn::BinOp::MulAssign(_) => BinOp::Mul,
        syn::BinOp::DivAssign(_) => BinOp::Div,
        syn::BinOp::RemAssign(_) => BinOp::Rem,
        syn::BinOp::BitAndAssign(_) => BinOp::And,
        syn::BinOp::BitOrAssign(_) => BinOp::Or,
        syn::BinOp::BitXorAssign(_) => BinOp::Xor,
        syn::BinOp::ShlAssign(_) => BinOp::Shl,
        syn::BinOp::ShrAssign(_) => BinOp::Shr,
        _ => return None,
    })
}

/// Why an expression is no part of the language.
fn refused(expr: &syn::Expr) -> &'static str {
    match expr {
        syn::Expr::Closure(_) => {
            "kernels have no closures; write a helper function in a `#[windlass::kernels] mod`"
        }
        syn::Expr::Macro(_) => "kernels have no macros but `debug!`: nothing can be aborted on a device",
        syn::Expr::Async(_) | syn::Expr::Await(_) => {
            "nothing is awaited inside a kernel; await the event of its group"
        }
        syn::Expr::Reference(_) => "references are made for a helper's `&mut` parameters and slices only",
        syn::Expr::Range(_) => "a range stands in a `for`, and in what a helper is given: `&x[a..b]`",
        syn::Expr::Unsafe(_) => "kernels need no such promise; leave the word away",
        syn::Expr::Let(_) => "a pattern in a condition stands there alone",
        _ => "this is no part of the kernel language; see docs/kernels.md",
    }
}
