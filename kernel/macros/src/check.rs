//! From syntax to checked functions: names are resolved, types are found, and what is no part of the language is
//! refused at its token.

mod atom;
mod call;
mod cases;
mod choice;
mod exchange;
mod expr;
mod generic;
mod helper;
mod image;
mod lent;
mod loops;
mod message;
mod ordered;
mod overload;
mod place;
mod pointer;
mod ranges;
mod reduce;
mod stmt;
mod tuple;
mod variants;

use std::collections::HashMap;
use std::ops::Range;

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;

use generic::{OPEN, Open};
pub(crate) use helper::MOST_FUNCTIONS;
use loops::Loops;

use crate::errors::Errors;
use crate::functions::{Functions, Instance};
use crate::generic::{Bound, Generic};
use crate::hir::{Change, Const, Expr, Function, Kind, Node, Var, VarId, VarKind, change_block, walk_block};
use crate::items::{Role, Signature};
use crate::origin::{Origin, meant};
use crate::structs::Structs;
use crate::ty::{Infer, Scalar, Shown, Ty};
use crate::types::Types;

/// What a function may use from around it.
pub(crate) struct Around<'a> {
    pub(crate) structs: &'a Structs<'a>,
    pub(crate) functions: &'a Functions<'a>,
    /// How many of the constants are the modules': those behind them are functions' own.
    pub(crate) consts: usize,
}

/// What a name stands for.
#[derive(Clone, Copy)]
enum Named {
    Var(VarId),
    Const(usize),
}

/// The parameters of a function.
#[derive(Default)]
struct Params {
    /// What is passed at a call.
    passed: Vec<VarId>,
    /// What the body names.
    named: Vec<VarId>,
    /// Those of the latter of which parts are passed, and which these are.
    apart: Vec<(VarId, Range<usize>)>,
}

/// A demand on a type that may not be known yet.
struct Demand {
    ty: Ty,
    span: Span,
    takes: fn(Scalar) -> bool,
    message: String,
}

pub(crate) struct Checker<'a> {
    around: &'a Around<'a>,
    errors: &'a mut Errors,
    /// The module's constants; a function's own are added.
    consts: &'a mut Vec<Const>,
    infer: Infer,
    vars: Vec<Var>,
    scopes: Vec<HashMap<String, Named>>,
    demands: Vec<Demand>,
    result: Ty,
    loops: Loops,
    /// What stands for the generic parameters of the function.
    bound: Bound,
    /// Where that was written.
    origin: Origin,
    /// Calls of generic helpers, whose arguments are known in the end.
    open: Vec<Open>,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(
        around: &'a Around<'a>,
        origin: Origin,
        consts: &'a mut Vec<Const>,
        errors: &'a mut Errors,
    ) -> Self {
        let module = &consts[..around.consts];
        let of_name = |name: &Ident| {
            let all = module.iter().enumerate().filter(|(_, c)| c.name == *name);
            meant(all.map(|(at, c)| (at, c.origin)), origin.home)
        };
        let known = module.iter().filter_map(|c| Some((c.name.to_string(), Named::Const(of_name(&c.name)?))));
        let known = known.collect();
        Checker {
            around,
            errors,
            consts,
            infer: Infer::default(),
            vars: Vec::new(),
            scopes: vec![known],
            demands: Vec::new(),
            result: Ty::Unit,
            loops: Loops::default(),
            bound: Bound::default(),
            origin,
            open: Vec::new(),
        }
    }

    /// Checks a function's body.
    pub(crate) fn function(mut self, instance: &Instance) -> Function {
        let (signature, source) = (&*instance.signature, &self.around.functions.sources[instance.source]);
        let body = source.body;
        self.bound = instance.bound.clone();
        for generic in &source.generics {
            self.bind_length(generic);
        }
        self.result = signature.result.clone();
        let mut reductions = self.reductions(signature);
        self.scopes.push(HashMap::new());
        let Params { passed, named, apart } = self.bind_params(signature);
        let of = |role: fn(&Role) -> bool| {
            signature.params.iter().zip(&named).filter(move |(p, _)| role(&p.role)).map(|(_, &var)| var)
        };
        let specs = of(|role| matches!(role, Role::Spec)).collect();
        for (reduction, param) in reductions.iter_mut().zip(of(|role| matches!(role, Role::Reduce(_)))) {
            reduction.param = param;
        }
        let mut body_block = self.block(body);
        let found = body_block.tail.as_ref().map(|tail| (tail.ty.clone(), tail.span));
        let wanted = self.result.clone();
        match found {
            Some((ty, span)) => self.expect(&ty, &wanted, span),
            None if wanted != Ty::Unit && !crate::flow::diverges(&body_block) => {
                let wanted = self.show(&wanted);
                self.errors.at(
                    signature.name.span(),
                    format!("the function must end in a value of type `{wanted}`"),
                );
            }
            None => {}
        }
        self.settle(&mut body_block);
        if self.result == Ty::Unit {
            crate::flow::tail_to_stmt(&mut body_block);
        }
        let structs = self.around.structs;
        let mut function = Function {
            name: signature.name.clone(),
            params: passed,
            vars: self.vars,
            result: signature.result.clone(),
            body: body_block,
            specs,
            reductions,
            alone: signature.alone,
            group: Vec::new(),
            fast: false,
        };
        for (var, parts) in apart.into_iter().rev() {
            crate::apart::put_together(&mut function, var, parts, structs);
        }
        function
    }

    /// Binds a function's parameters; of a value that is taken apart also its parts, which nothing in the body can name.
    fn bind_params(&mut self, signature: &Signature) -> Params {
        let mut all = Params::default();
        for param in &signature.params {
            let first = all.passed.len();
            for part in param.apart.iter().flat_map(|apart| &apart.parts) {
                let name = param.name.unraw().to_string();
                all.passed.push(self.nameless(&name, part.ty.clone(), false, param.name.span()));
            }
            let var = self.bind(param.name.clone(), param.ty.clone(), param.mutable, param.kind.clone());
            all.named.push(var);
            match param.apart {
                Some(_) => all.apart.push((var, first..all.passed.len())),
                None => all.passed.push(var),
            }
        }
        all
    }

    /// A generic length is a constant in the body.
    fn bind_length(&mut self, generic: &Generic) {
        let Generic::Length(name, ty) = generic else { return };
        let Some(&len) = self.bound.lengths.get(&name.to_string()) else { return };
        let value = Expr::new(Kind::Int(i128::from(len)), ty.clone(), name.span());
        self.consts.push(Const { name: name.clone(), origin: self.origin, ty: ty.clone(), value });
        let at = self.consts.len() - 1;
        self.name(name, Named::Const(at));
    }

    /// Checks a constant's value, and folds it.
    pub(crate) fn constant(mut self, item: &syn::ItemConst) {
        let before = self.consts.len();
        self.own_constant(item);
        // The value's types are settled with the constant's own.
        if let Some(constant) = self.consts.get(before) {
            let mut value = constant.value.clone();
            self.settle_expr(&mut value);
            self.consts[before].value = value;
        }
    }

    fn own_constant(&mut self, item: &syn::ItemConst) {
        let ty = self.read_type(&item.ty);
        // What the body around it still has to be told stays for later.
        let (demands, open) = (std::mem::take(&mut self.demands), std::mem::take(&mut self.open));
        let before = self.errors.count();
        let mut value = self.expr_to(&item.expr, &ty);
        self.settle_demands();
        let instances = self.settle_calls();
        crate::hir::change(&mut value, &mut |node| number_call(&instances, node));
        self.settle_expr(&mut value);
        (self.demands, self.open) = (demands, open);
        if !is_constant(&value) && self.errors.count() == before {
            match crate::evaluate::evaluated(self.around, self.consts, &value) {
                Ok(computed) => value = computed,
                Err((span, message)) => self.errors.at(span, message),
            }
        }
        self.consts.push(Const { name: item.ident.clone(), origin: self.origin, ty, value });
        let at = self.consts.len() - 1;
        self.name(&item.ident, Named::Const(at));
    }

    fn name(&mut self, ident: &Ident, named: Named) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(ident.to_string(), named);
        }
    }

    fn bind(&mut self, name: Ident, ty: Ty, mutable: bool, kind: VarKind) -> VarId {
        self.vars.push(Var { name: name.clone(), ty, mutable, kind });
        let at = self.vars.len() - 1;
        self.name(&name, Named::Var(at));
        at
    }

    fn look_up(&self, name: &str) -> Option<Named> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    fn read_type(&mut self, ty: &syn::Type) -> Ty {
        let bound = std::mem::take(&mut self.bound);
        let read = self.with_types(&bound, |types, errors| types.read(ty, errors));
        self.bound = bound;
        read
    }

    /// Reads types of a helper's signature, which names what its own module knows.
    fn with_types_of<T>(
        &mut self,
        home: usize,
        bound: &Bound,
        read: impl FnOnce(&Types<'_, '_>, &mut Errors) -> T,
    ) -> T {
        let structs = self.around.structs;
        let length = |name: &Ident| structs.length(name, home);
        read(&Types { structs, length: &length, bound, sizes: true, home }, self.errors)
    }

    /// Reads types as the function's body names them, with what stands for generic parameters.
    fn with_types<T>(&mut self, bound: &Bound, read: impl FnOnce(&Types<'_, '_>, &mut Errors) -> T) -> T {
        let (scopes, consts) = (&self.scopes, &*self.consts);
        let length = |name: &Ident| {
            let found = scopes.iter().rev().find_map(|scope| scope.get(&name.to_string()).copied());
            match found {
                Some(Named::Const(at)) => match consts[at].value.kind {
                    Kind::Int(value) => Some(value),
                    _ => None,
                },
                _ => None,
            }
        };
        read(
            &Types {
                structs: self.around.structs,
                length: &length,
                bound,
                sizes: true,
                home: self.origin.home,
            },
            self.errors,
        )
    }

    fn show(&self, ty: &Ty) -> String {
        Shown(ty, &self.infer, self.around.structs).to_string()
    }

    /// Makes `found` the type that is wanted there, or says that it is not, and how to get from one to the other.
    fn expect(&mut self, found: &Ty, wanted: &Ty, span: Span) {
        if self.infer.unify(found, wanted) {
            return;
        }
        let (found_ty, wanted_ty) = (self.infer.shallow(found), self.infer.shallow(wanted));
        let hint = match (&found_ty, &wanted_ty) {
            (Ty::Scalar(Scalar::Bool), Ty::Scalar(to)) if to.is_int() => {
                format!("; write `{} as {}`", "…", to.name())
            }
            (_, Ty::Scalar(Scalar::Bool)) if found_ty.scalar().is_some() => {
                "; compare it with something: `… != 0`".into()
            }
            (Ty::Scalar(_), Ty::Scalar(to)) => format!("; convert it: `… as {}`", to.name()),
            (Ty::Var(_), Ty::Scalar(to)) if to.is_float() => "; a float literal has a point: `1.0`".into(),
            (Ty::Scalar(from), Ty::Var(_)) if from.is_float() => {
                "; a float literal has a point: `1.0`".into()
            }
            (Ty::Unit, _) => "; the value is the last expression, without a semicolon".into(),
            _ => String::new(),
        };
        let (found, wanted) = (self.show(found), self.show(wanted));
        self.errors.at(span, format!("this is `{found}`, and `{wanted}` is wanted here{hint}"));
    }

    /// Notes what a type must be able to do, to be looked at when it is known.
    fn demand(&mut self, ty: &Ty, span: Span, takes: fn(Scalar) -> bool, message: impl Into<String>) {
        self.demands.push(Demand { ty: ty.clone(), span, takes, message: message.into() });
    }

    /// Types that are known by now replace those that were not, demands are looked at, literals are checked.
    fn settle(&mut self, block: &mut crate::hir::Block) {
        self.settle_demands();
        let instances = self.settle_calls();
        let (infer, errors) = (&self.infer, &mut *self.errors);
        for var in &mut self.vars {
            var.ty = settled(infer, &var.ty, var.name.span(), errors);
        }
        change_block(block, &mut |node| number_call(&instances, node));
        change_block(block, &mut |node| finish(infer, errors, node));
        walk_block(block, &mut |node| {
            if let Node::Expr(Expr { kind: Kind::Int(value), ty: Ty::Scalar(scalar), span }) = node
                && scalar.is_int()
                && *value > scalar.bounds().1
            {
                errors.at(*span, format!("`{value}` does not fit `{}`", scalar.name()));
            }
        });
    }

    /// Looks at what types had to be able to do.
    fn settle_demands(&mut self) {
        for demand in std::mem::take(&mut self.demands) {
            let ok = match self.infer.resolve(&demand.ty) {
                Some(ty @ (Ty::Scalar(_) | Ty::Vector(..))) => ty.scalar().is_none_or(demand.takes),
                Some(Ty::Error | Ty::Never) | None => true,
                Some(_) => false,
            };
            if !ok {
                let found = self.show(&demand.ty);
                self.errors.at(demand.span, demand.message.replace("{}", &found));
            }
        }
    }

    pub(super) fn settle_expr(&mut self, expr: &mut Expr) {
        let (infer, errors) = (&self.infer, &mut *self.errors);
        crate::hir::change(expr, &mut |node| finish(infer, errors, node));
    }
}

/// The number of the function that an open call is of.
fn number_call(instances: &[usize], node: Change<'_>) {
    if let Change::Expr(Expr { kind: Kind::Call(at, _), .. }) = node
        && let Some(open) = at.checked_sub(OPEN)
    {
        *at = instances[open];
    }
}

fn settled(infer: &Infer, ty: &Ty, span: Span, errors: &mut Errors) -> Ty {
    infer.resolve(ty).unwrap_or_else(|| {
        if errors.is_empty() {
            errors.at(span, "nothing says what type this has; write it: `let x: f32 = …`");
        }
        Ty::Error
    })
}

fn finish(infer: &Infer, errors: &mut Errors, node: Change<'_>) {
    let expr = match node {
        Change::Expr(expr) => expr,
        Change::Place(place) => {
            place.ty = infer.resolve(&place.ty).unwrap_or(Ty::Error);
            return;
        }
    };
    expr.ty = settled(infer, &expr.ty, expr.span, errors);
    if let (Kind::Int(value), Ty::Scalar(scalar)) = (&expr.kind, &expr.ty)
        && scalar.is_int()
    {
        let (low, high) = scalar.bounds();
        // The positive half of the least value stands behind a minus, which is folded right after this.
        if *value < low || *value > high + i128::from(scalar.is_signed()) {
            errors.at(expr.span, format!("`{value}` does not fit `{}`", scalar.name()));
        }
    }
    crate::fold::fold(expr);
}

/// Whether a value is known when the kernel is compiled, in every language.
fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        // By itself it is put where its name stands.
        Kind::Float(value) if value.is_infinite() => true,
        _ => is_written(expr),
    }
}

/// Whether every language can write a value down.
fn is_written(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Bool(_) | Kind::Int(_) | Kind::Const(_) => true,
        Kind::Float(value) => value.is_finite(),
        Kind::Array(list) | Kind::Vector(list) | Kind::Struct(_, list) => list.iter().all(is_written),
        Kind::Repeat(of) | Kind::Splat(of) | Kind::Unary(_, of) => is_written(of),
        Kind::Binary(_, a, b) => {
            is_written(a) && is_written(b) && expr.ty.scalar().is_some_and(Scalar::is_float)
        }
        _ => false,
    }
}
