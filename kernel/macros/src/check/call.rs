//! Calls: what the language brings along, helper functions, methods.

use proc_macro2::Span;
use syn::spanned::Spanned;

use super::Checker;
use super::exchange::exchange;
use super::helper::{Called, Given};
use super::ordered::Atomic;
use crate::builtin::{Domain, FROM_BITS, Gives, Id, Math, Method, SubgroupOp, find};
use crate::hir::{AtomicOp, BinOp, Expr, Kind, May, VarId, VarKind};
use crate::order::{Order, Promise, Scope};
use crate::origin::LIBRARY;
use crate::structs::StructName;
use crate::ty::{BOOL, F32, Guess, I32, Scalar, Ty, U32};
use crate::types::vector_width;

const UNKNOWN_PATH: &str = "a kernel calls helpers of its own `kernels` module, by their plain names";

impl Checker<'_> {
    pub(super) fn call(&mut self, call: &syn::ExprCall) -> Expr {
        let span = call.func.span();
        let syn::Expr::Path(path) = &*call.func else {
            return self.error(span, "kernels have no function values; call a function by its name");
        };
        let names: Vec<String> = path.path.segments.iter().map(|s| s.ident.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match names[..] {
            [name] => self.named_call(name, span, &path.path, call),
            [.., of, name] if vector_width(of).is_some() => self.vector_call(path, name, call),
            [.., "Ptr", name] => match self.pointer_call(&path.path, call) {
                Some(made) => made,
                None => self.call_of_type(name, span, &path.path, call),
            },
            [.., "f32", "from_bits"] => match call.args.first() {
                Some(bits) if call.args.len() == 1 => {
                    let bits = self.expr_to(bits, &U32);
                    Expr::new(Kind::Math(FROM_BITS.math, vec![bits]), F32, span)
                }
                _ => self.error(span, "`f32::from_bits` takes one `u32`"),
            },
            [.., of, name] if Scalar::from_name(of).is_some() && find(name).is_some() => {
                self.error(span, format!("write it as a method: `x.{name}(…)`"))
            }
            [_, name] => self.call_of_type(name, span, &path.path, call),
            _ => self.error(span, UNKNOWN_PATH),
        }
    }

    fn call_of_type(&mut self, name: &str, span: Span, path: &syn::Path, call: &syn::ExprCall) -> Expr {
        match self.owner_named(path) {
            Some(owner) => {
                let made = match owner {
                    StructName::Enum(at) => self.variant_call(at, name, call),
                    _ => None,
                };
                made.unwrap_or_else(|| self.associated(name, span, path, call))
            }
            None => self.error(span, UNKNOWN_PATH),
        }
    }

    fn named_call(&mut self, name: &str, span: Span, path: &syn::Path, call: &syn::ExprCall) -> Expr {
        if let Some(source) = self.around.functions.find(name, self.origin.home) {
            return self.called(source, span, path, call);
        }
        if let Some((_, id)) = Id::ALL.iter().find(|(known, _)| *known == name) {
            return self.position(*id, span, call);
        }
        if let Some(op) = SubgroupOp::from_name(name) {
            return self.subgroup(op, span, call);
        }
        if let Some((_, by)) = RELATIVE.iter().find(|(known, _)| *known == name) {
            return self.relative(*by, span, call);
        }
        match name {
            "Some" => self.some(call),
            "barrier" => {
                if let Some(extra) = call.args.first() {
                    self.errors.at(
                        extra.span(),
                        "`barrier()` takes no arguments: it is about all memory of the work-group",
                    );
                }
                Expr::new(Kind::Barrier, Ty::Unit, span)
            }
            "fence" => self.fence(Scope::Device, name, span, call),
            "group_fence" => self.fence(Scope::Group, name, span, call),
            _ if find(name).is_some() => self.error(span, format!("`{name}` is a method: `x.{name}(…)`")),
            _ => self.error(
                span,
                format!(
                    "there is no function `{name}` here; helpers stand in the same `#[windlass::kernels] mod`, or are public in one that it uses"
                ),
            ),
        }
    }

    fn fence(&mut self, scope: Scope, name: &str, span: Span, call: &syn::ExprCall) -> Expr {
        match call.args.first().and_then(Promise::of) {
            Some(Promise { scope: Some(Scope::Item), .. }) => {
                self.error(span, "a fence for the item alone orders nothing: an item sees what it did itself")
            }
            Some(promise) if promise.order != Order::Relaxed && call.args.len() == 1 => {
                let scope = promise.scope.map_or(scope, |asked| asked.min(scope));
                Expr::new(Kind::Fence(promise.order, scope), Ty::Unit, span)
            }
            _ => self
                .error(span, format!("`{name}` takes an order: `Acquire`, `Release`, `AcqRel` or `SeqCst`")),
        }
    }

    /// The value of an item that is named by how far it is from this one.
    fn relative(&mut self, by: BinOp, span: Span, call: &syn::ExprCall) -> Expr {
        let mut shuffle = self.subgroup(SubgroupOp::Shuffle, span, call);
        if let Kind::Subgroup(_, operands) = &mut shuffle.kind
            && let Some(far) = operands.pop()
        {
            let lane = Expr::new(Kind::Subgroup(SubgroupOp::Lane, Vec::new()), U32, span);
            operands.push(Expr::new(Kind::Binary(by, Box::new(lane), Box::new(far)), U32, span));
        }
        shuffle
    }

    fn subgroup(&mut self, op: SubgroupOp, span: Span, call: &syn::ExprCall) -> Expr {
        let name = op.name();
        if call.args.len() != op.operands() {
            let wants = ["no values", "one value", "a value and whose it is to be"][op.operands()];
            return self.error(span, format!("`{name}` takes {wants}"));
        }
        let mut operands = Vec::new();
        for (at, arg) in call.args.iter().enumerate() {
            let wanted = match (op, at) {
                (SubgroupOp::All | SubgroupOp::Any | SubgroupOp::Ballot, _) => BOOL,
                (_, 1) => U32,
                _ => self.infer.fresh(Guess::Any),
            };
            operands.push(self.expr_to(arg, &wanted));
        }
        let ty = match operands.first() {
            _ if op == SubgroupOp::Barrier => Ty::Unit,
            _ if op == SubgroupOp::Ballot => Ty::Vector(4, Box::new(U32)),
            Some(first) if !matches!(op, SubgroupOp::All | SubgroupOp::Any) => {
                let words = |s: Scalar| s != Scalar::Bool && s.bits() == 32;
                let ty = first.ty.clone();
                self.demand(&ty, span, words, "sub-groups combine `u32`, `i32` and `f32`, and this is `{}`");
                ty
            }
            Some(_) => BOOL,
            None => U32,
        };
        Expr::new(Kind::Subgroup(op, operands), ty, span)
    }

    fn position(&mut self, id: Id, span: Span, call: &syn::ExprCall) -> Expr {
        let name = id.name();
        let dim = match call.args.first() {
            Some(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(int), .. })) if call.args.len() == 1 => {
                int.base10_parse::<u8>().ok().filter(|dim| *dim < 3)
            }
            _ => None,
        };
        match dim {
            Some(dim) => Expr::new(Kind::Id(id, dim), U32, span),
            None => self.error(
                span,
                format!(
                    "`{name}` takes the dimension as a literal: `{name}(0)`, the outermost, to `{name}(2)`"
                ),
            ),
        }
    }

    fn vector_call(&mut self, path: &syn::ExprPath, name: &str, call: &syn::ExprCall) -> Expr {
        let span = path.span();
        let segments = &path.path.segments;
        let Some(segment) = segments.len().checked_sub(2).and_then(|at| segments.get(at)) else {
            return self.error(span, "a vector's type is missing");
        };
        let width = vector_width(&segment.ident.to_string()).unwrap_or(2);
        let of = match &segment.arguments {
            syn::PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
                Some(syn::GenericArgument::Type(ty)) => self.read_type(&ty.clone()),
                _ => self.infer.fresh(Guess::Any),
            },
            _ => self.infer.fresh(Guess::Any),
        };
        let ty = Ty::Vector(width, Box::new(of.clone()));
        let values: Vec<Expr> = call.args.iter().map(|arg| self.expr_to(arg, &of)).collect();
        self.demand(&of, span, |s| s != Scalar::Bool, "a vector's components are numbers, and this is `{}`");
        match (name, values.len()) {
            ("new", n) if n == width as usize => Expr::new(Kind::Vector(values), ty, span),
            ("splat", 1) => match values.into_iter().next() {
                Some(value) => Expr::new(Kind::Splat(Box::new(value)), ty, span),
                None => self.error(span, "`splat` takes one value"),
            },
            ("new", _) => self.error(span, format!("`Vec{width}::new` takes {width} components")),
            ("splat", _) => self.error(span, "`splat` takes one value"),
            _ => self
                .error(span, format!("a vector is made by `Vec{width}::new(…)` or `Vec{width}::splat(x)`")),
        }
    }

    pub(super) fn method(&mut self, call: &syn::ExprMethodCall) -> Expr {
        let name = call.method.to_string();
        let span = call.method.span();
        if let (Some(made), true) =
            (exchange(&call.receiver), call.method == "is_ok" || call.method == "is_err")
        {
            return self.exchanged(made, call.method == "is_ok");
        }
        if exchange(&syn::Expr::MethodCall(call.clone())).is_some() {
            return self.error(
                span,
                "ask the exchange whether it was made: `.is_ok()`, `.is_err()`, or a `match` with `Ok(was)` and `Err(was)`",
            );
        }
        if let Some(var) = self.slice(&call.receiver) {
            return self.slice_method(var, &name, call);
        }
        if let syn::Expr::Index(_) = &*call.receiver
            && let Some(var) = self.indexed_slice(&call.receiver)
            && let VarKind::Slice(slice) = &self.vars[var].kind
            && slice.may == May::Atomic
        {
            return self.atomic(var, &name, call);
        }
        let receiver = self.expr(&call.receiver);
        if receiver.ty == Ty::Error {
            return receiver;
        }
        let ty = self.infer.shallow(&receiver.ty);
        if let Ty::Option(inner) = &ty {
            return self.option_method(receiver, inner, call);
        }
        if let Some(to) = self.pointee(&ty) {
            return self.pointer_method(receiver, &to, call);
        }
        if let Some(owner) = self.around.structs.owner(&ty) {
            return self.struct_method(owner, receiver, call);
        }
        if let Some(wrapping) = wrapping(&name)
            && call.args.len() == 1
        {
            let right = self.expr(&call.args[0]);
            self.demand(&ty, span, Scalar::is_int, "wrapping arithmetic is for integers, and this is `{}`");
            return self.operation(wrapping, receiver, right, span);
        }
        if let (Ty::Array(_, len), "len") = (&ty, name.as_str()) {
            return Expr::new(Kind::Int(i128::from(*len)), U32, span);
        }
        if let Ty::Vector(width, of) = &ty
            && let Some(pattern) = swizzle(&name, *width)
        {
            let n = pattern.len() as u8;
            return Expr::new(Kind::Swizzle(Box::new(receiver), pattern), Ty::Vector(n, of.clone()), span);
        }
        match find(&name) {
            Some(method) => self.math(method, receiver, call),
            None if crate::library::find(&name).next().is_some() => self.library(&name, receiver, call),
            None => {
                let shown = self.show(&ty);
                self.error(
                    span,
                    format!(
                        "`{shown}` has no method `{name}` in kernels; docs/kernels.md lists them{}",
                        advice(&name)
                    ),
                )
            }
        }
    }

    /// A method that is a function of the language's own.
    fn library(&mut self, name: &str, receiver: Expr, call: &syn::ExprMethodCall) -> Expr {
        let (span, ty) = (call.method.span(), receiver.ty.clone());
        let is_scalar = self.infer.shallow(&ty).width().is_none();
        let mut meant = crate::library::find(name);
        let found = meant.find(|(domain, _)| is_scalar && self.infer.could_be(&ty, |s| domain.takes(s)));
        let Some((domain, function)) = found else {
            let words: Vec<&str> = crate::library::find(name).map(|(domain, _)| domain.words()).collect();
            let (words, shown) = (words.join(" and "), self.show(&ty));
            return self.error(span, format!("`{name}` is for {words}, and this is `{shown}`"));
        };
        let message = format!("`{name}` is for {}, and this is `{{}}`", domain.words());
        self.demand(&ty, span, takes_of(domain), message);
        let Some(source) = self.around.functions.find(function, LIBRARY) else {
            return self.error(span, "there is no such method");
        };
        let given = std::iter::once(Given::value(receiver)).chain(Given::all(&call.args)).collect();
        self.helper(Called { source, span, given, owner: None, own: None })
    }

    fn math(&mut self, method: &Method, receiver: Expr, call: &syn::ExprMethodCall) -> Expr {
        let (name, span, math) = (method.name, call.method.span(), method.math);
        if call.args.len() != method.operands {
            let wanted = method.operands;
            return self
                .error(span, format!("`{name}` takes {wanted} arguments besides what it is called on"));
        }
        let ty = receiver.ty.clone();
        let shallow = self.infer.shallow(&ty);
        let vector = shallow.width().is_some();
        let fits = match method.on {
            Domain::FloatVector => vector && (math != Math::Cross || shallow.width() == Some(3)),
            on => !vector || on.vectors(math),
        };
        let takes = |s| method.on.takes(s);
        if !fits || !self.infer.could_be(&ty, takes) {
            let shown = self.show(&ty);
            return self.error(span, format!("`{name}` is for {}, and this is `{shown}`", method.on.words()));
        }
        // A literal that may still become something else is decided at the end.
        let message = format!("`{name}` is for {}, and this is `{{}}`", method.on.words());
        self.demand(&ty, span, takes_of(method.on), message);
        let operand = match math {
            Math::RotateLeft | Math::RotateRight => U32,
            _ => ty.clone(),
        };
        let mut operands = vec![receiver];
        for arg in &call.args {
            operands.push(self.expr_to(arg, &operand));
        }
        let result = match method.gives {
            Gives::Same => ty,
            Gives::Bool => BOOL,
            Gives::U32 => U32,
            Gives::F32 => F32,
            Gives::Component => match shallow {
                Ty::Vector(_, of) => *of,
                other => other,
            },
        };
        let result = match math {
            // Its type is made of the receiver's, which has to be known for that.
            Math::AbsDiff => {
                if let Ty::Var(_) = self.infer.shallow(&result) {
                    self.infer.unify(&result, &I32);
                }
                unsigned(&self.infer.shallow(&result))
            }
            _ => result,
        };
        Expr::new(Kind::Math(math, operands), result, span)
    }

    fn slice_method(&mut self, var: VarId, name: &str, call: &syn::ExprMethodCall) -> Expr {
        let span = call.method.span();
        let dims = match &self.vars[var].kind {
            VarKind::Slice(slice) if slice.is_image && self.origin.home != LIBRARY => {
                return self.image_method(var, slice.dims, call);
            }
            VarKind::Slice(slice) => slice.dims,
            _ => 1,
        };
        match (name, call.args.len()) {
            ("len", 0) => Expr::new(Kind::Len(var, None), U32, span),
            ("is_empty", 0) => {
                let len = Expr::new(Kind::Len(var, None), U32, span);
                let zero = Expr::new(Kind::Int(0), U32, span);
                Expr::new(Kind::Binary(crate::hir::BinOp::Eq, Box::new(len), Box::new(zero)), BOOL, span)
            }
            ("extent", 1) if dims > 1 => match &call.args[0] {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(int), .. }) => match int.base10_parse::<u8>() {
                    Ok(dim) if dim < dims => Expr::new(Kind::Len(var, Some(dim)), U32, span),
                    _ => self.error(int.span(), format!("this view has the dimensions 0, the outermost, to {}", dims - 1)),
                },
                other => self.error(other.span(), "`extent` takes the dimension as a literal"),
            },
            ("iter" | "iter_mut" | "chunks" | "windows" | "into_iter", _) => {
                self.error(span, "kernels have no iterators; count by `for i in 0..x.len()`")
            }
            ("get" | "get_mut" | "first" | "last", _) => {
                self.error(span, "kernels have no `Option`; `x[i]` outside the range reads zero")
            }
            _ => self.error(span, format!("memory has no method `{name}` in kernels; it has `len()`, `is_empty()`, and views have `extent(d)`")),
        }
    }

    pub(super) fn indexed_slice(&self, expr: &syn::Expr) -> Option<VarId> {
        match expr {
            syn::Expr::Index(index) => self.indexed_slice(&index.expr),
            other => self.slice(other),
        }
    }

    fn atomic(&mut self, var: VarId, name: &str, call: &syn::ExprMethodCall) -> Expr {
        let span = call.method.span();
        let Some((_, at)) = self.element(&call.receiver) else {
            return self.error(span, "this is no element of atomics");
        };
        let (op, operands) = match name {
            "load" => (AtomicOp::Load, 0),
            "store" => (AtomicOp::Store, 1),
            "fetch_add" => (AtomicOp::Add, 1),
            "fetch_sub" => (AtomicOp::Sub, 1),
            "fetch_and" => (AtomicOp::And, 1),
            "fetch_or" => (AtomicOp::Or, 1),
            "fetch_xor" => (AtomicOp::Xor, 1),
            "fetch_min" => (AtomicOp::Min, 1),
            "fetch_max" => (AtomicOp::Max, 1),
            "swap" => (AtomicOp::Swap, 1),
            _ => {
                return self.error(
                    span,
                    format!("atomics have no method `{name}` in kernels; docs/kernels.md lists them"),
                );
            }
        };
        if call.args.len() != operands + 1 {
            return self
                .error(span, format!("`{name}` takes {operands} values and an order, such as `Relaxed`"));
        }
        let order = self.order(op, &call.args[operands]);
        let ty = self.vars[var].ty.clone();
        if matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) && ty == F32 {
            return self.error(span, format!("`{name}` is for integers, and this is `f32`"));
        }
        let operands = call.args.iter().take(operands).map(|arg| self.expr_to(arg, &ty)).collect();
        self.ordered(order, Atomic { op, var, at, operands, span })
    }
}

/// Functions that are `subgroup_shuffle` with an item found by its distance.
const RELATIVE: [(&str, BinOp); 3] = [
    ("subgroup_shuffle_xor", BinOp::Xor),
    ("subgroup_shuffle_up", BinOp::Sub),
    ("subgroup_shuffle_down", BinOp::Add),
];

fn takes_of(domain: Domain) -> fn(Scalar) -> bool {
    match domain {
        Domain::Float | Domain::FloatVector => Scalar::is_float,
        Domain::Single => |s| s == Scalar::F32,
        Domain::Word => |s| s.is_int() && s.bits() == 32,
        Domain::Int => Scalar::is_int,
        Domain::Unsigned => |s| s.is_int() && !s.is_signed(),
        Domain::Number => |s| s != Scalar::Bool,
        Domain::Signed => Scalar::is_signed,
    }
}

fn unsigned(ty: &Ty) -> Ty {
    match ty {
        Ty::Scalar(Scalar::I8) => Ty::Scalar(Scalar::U8),
        Ty::Scalar(Scalar::I16) => Ty::Scalar(Scalar::U16),
        Ty::Scalar(Scalar::I32) => U32,
        Ty::Scalar(Scalar::I64) => Ty::Scalar(Scalar::U64),
        other => other.clone(),
    }
}

/// `wrapping_add` and its kind, which are the operators.
fn wrapping(name: &str) -> Option<BinOp> {
    use BinOp as B;
    Some(match name {
        "wrapping_add" => B::Add,
        "wrapping_sub" => B::Sub,
        "wrapping_mul" => B::Mul,
        "wrapping_div" => B::Div,
        "wrapping_rem" => B::Rem,
        "wrapping_shl" => B::Shl,
        "wrapping_shr" => B::Shr,
        _ => return None,
    })
}

/// The components that `v.zyx()` names.
fn swizzle(name: &str, width: u8) -> Option<Vec<u8>> {
    if !(2..=4).contains(&name.len()) {
        return None;
    }
    let at = |c: char| "xyzw".find(c).map(|at| at as u8).filter(|at| *at < width);
    name.chars().map(at).collect()
}

fn advice(name: &str) -> &'static str {
    match name {
        "unwrap" | "expect" | "unwrap_or" => "; there is no `Option` and no `Result`",
        "clone" | "to_owned" | "copied" => "; every value is copied by itself",
        "push" | "pop" | "extend" => "; nothing is allocated, use an array",
        "into" | "try_into" => "; convert by `as`",
        "checked_add" | "checked_sub" | "overflowing_add" => "; arithmetic wraps, compare before",
        _ => "",
    }
}
