//! A kernel's native functions: one work-item, and all items of a block.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::lines::{RowCode, Rows};
use super::reduce::Reduced;
use super::spread::Spread;
use super::{Rust, early, nested};
use crate::fills::fills;
use crate::hir::{
    BinOp, Block, Expr, Function, Kind, May, Module, Node, Slice, Space, Stmt, VarId, VarKind, walk_block,
};
use crate::pointers::is_reached;
use crate::promise::{alone, spread_out};
use crate::ty::{Scalar, Ty};
use crate::uniform::Differing;
use crate::uses::{Elementwise, Uses, dims_asked, elementwise, position};

/// Everything that runs kernel `at` on the host: functions, and a `fn run(&Launch)` over them; and where its items reach in what
/// they write. `slots` are the positions of the parameters in the launch.
pub(crate) fn native(
    module: &Module,
    uses: &[Uses],
    at: usize,
    rt: &TokenStream,
    slots: &[usize],
    differing: &Differing,
) -> (TokenStream, Spread) {
    let written = &module.functions[at];
    let (function, nested) = match uses[at].groups {
        // An item that returns is not done with: its group is not over.
        true => nested::flat(written),
        false => (early::turned(written), nested::Inner::new()),
    };
    let rust = Rust { nested, ..Rust::new(module, uses, &function, rt) };
    let helpers: Vec<TokenStream> = reachable(module, at)
        .into_iter()
        .map(|helper| {
            let function = &module.functions[helper];
            Rust::new(module, uses, function, rt).helper(helper)
        })
        .collect();
    let spread = Rust { groups: uses[at].groups, ..rust.clone() }.spread(slots);
    if uses[at].groups {
        let grouped = rust.grouped((&uses[at], differing, &spread), slots, fills(module, written));
        return (quote!(#(#helpers)* #grouped), spread);
    }
    let item = rust.item(&uses[at]);
    let run = rust.run((&uses[at], differing, &spread), slots, usize::from(dims_asked(module, at)));
    (quote!(#(#helpers)* #item #run), spread)
}

/// The helpers that a function needs, directly or not.
fn reachable(module: &Module, at: usize) -> BTreeSet<usize> {
    let (mut found, mut open) = (BTreeSet::new(), vec![at]);
    for reduction in &module.functions[at].reductions {
        if let Kind::Call(helper, _) = reduction.combined.kind {
            found.insert(helper);
            open.push(helper);
        }
    }
    while let Some(at) = open.pop() {
        walk_block(&module.functions[at].body, &mut |node| {
            if let Node::Expr(Expr { kind: Kind::Call(helper, _), .. }) = node
                && found.insert(*helper)
            {
                open.push(*helper);
            }
        });
    }
    found
}

/// Limits of positions, each with its dimension, and the work of the items below all of them.
type Limited<'m> = (Vec<(u8, &'m Expr)>, &'m Block);

/// Whether a kernel's whole work stands behind `if position < limit && …`.
fn behind_limits(function: &Function) -> Option<Limited<'_>> {
    // Only bindings of the position may stand before it.
    let mut stmts = function.body.stmts.iter();
    let branch = loop {
        match stmts.next() {
            Some(Stmt::Let(var, Some(_)))
                if position(function, &Expr::new(Kind::Var(*var), Ty::Unit, function.name.span()))
                    .is_some() => {}
            Some(Stmt::Expr(expr)) if stmts.next().is_none() => break expr,
            _ => return None,
        }
    };
    let Kind::If(condition, yes, no) = &branch.kind else { return None };
    if !no.stmts.is_empty() || no.tail.is_some() {
        return None;
    }
    let mut limits = Vec::new();
    limits_of(function, condition, &mut limits)?;
    Some((limits, yes))
}

fn limits_of<'m>(
    function: &'m Function,
    condition: &'m Expr,
    limits: &mut Vec<(u8, &'m Expr)>,
) -> Option<()> {
    let (at, limit) = match &condition.kind {
        Kind::Logic(true, a, b) => {
            limits_of(function, a, limits)?;
            return limits_of(function, b, limits);
        }
        Kind::Binary(BinOp::Lt, at, limit) => (at, limit),
        Kind::Binary(BinOp::Gt, limit, at) => (at, limit),
        _ => return None,
    };
    limits.push((position(function, at)?, is_uniform(function, limit).then_some(limit)?));
    Some(())
}

/// Whether an expression has one value for all items, and can be evaluated at any time.
fn is_uniform(function: &Function, expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Int(_) | Kind::Len(..) | Kind::Const(_) => true,
        Kind::Var(var) => {
            let of = &function.vars[*var];
            function.params.contains(var) && !of.mutable && of.kind == VarKind::Value
        }
        Kind::Binary(_, a, b) => is_uniform(function, a) && is_uniform(function, b),
        Kind::Math(_, list) => list.iter().all(|e| is_uniform(function, e)),
        Kind::Field(of, _) | Kind::Cast(of) => is_uniform(function, of),
        _ => false,
    }
}

impl<'m> Rust<'m> {
    /// The function of one work-item.
    fn item(&self, uses: &Uses) -> TokenStream {
        let (rt, function) = (self.rt, self.function);
        let (mut generics, mut params) = (Vec::new(), Vec::new());
        for &param in &function.params {
            let (name, var) = (self.name(param), &function.vars[param]);
            match &var.kind {
                kind if is_reached(kind) => {
                    let ty = self.ty(&var.ty);
                    params.push(quote!(#name: #rt::Reached<'_, #ty>));
                }
                VarKind::Slice(slice) => {
                    let (generic, bound) = (format_ident!("S{}", param), self.bound(param, slice, uses));
                    generics.push(quote!(#generic: #bound));
                    params.push(quote!(#name: #generic));
                }
                VarKind::Ref => {
                    let ty = self.ty(&var.ty);
                    params.push(quote!(#name: &mut #ty));
                }
                VarKind::Value => {
                    let ty = self.ty(&var.ty);
                    params.push(quote!(mut #name: #ty));
                }
            }
        }
        let body = self.block(&function.body);
        quote! {
            #[inline(always)]
            fn work_item<#(#generics),*>(item: &#rt::Item, #(#params),*) #body
        }
    }

    /// The function of a block of items: looks at the launch, and takes the fastest way that is right for it.
    fn run(
        &self,
        (uses, differing, spread): (&Uses, &Differing, &Spread),
        slots: &[usize],
        dims: usize,
    ) -> TokenStream {
        let (rt, function) = (self.rt, self.function);
        let values = function.params.iter().zip(slots).filter_map(|(&param, slot)| {
            let var = &function.vars[param];
            let name = self.name(param);
            match (&var.kind, &var.ty) {
                (kind, _) if is_reached(kind) => Some(self.reached_view(param, *slot)),
                (VarKind::Slice(_) | VarKind::Ref, _) => None,
                (_, Ty::Scalar(Scalar::Bool)) => Some(quote!(let #name = launch.value::<u32>(#slot) != 0;)),
                (_, ty) => {
                    let ty = self.ty(ty);
                    Some(quote!(let #name = launch.value::<#ty>(#slot);))
                }
            }
        });
        let fast = elementwise(function, uses).map(|proof| match proof.dims {
            1 => self.own_loop(&proof, differing, slots),
            _ => self.own_rows(&proof, differing, slots),
        });
        let shared = self.items(slots, spread, None);
        let plain = self.items(slots, spread, Some((uses, differing, dims)));
        let operators = self.operators();
        quote! {
            fn run(launch: &#rt::Launch<'_>) {
                #(#values)*
                #operators
                #fast
                #plain
                #shared
            }
        }
    }

    /// The loop over items through views: with `plain`, those that are only read as slices, if the launch lets them, and in
    /// launches of so many dimensions by rows.
    fn items(
        &self,
        slots: &[usize],
        spread: &Spread,
        plain: Option<(&Uses, &Differing, usize)>,
    ) -> TokenStream {
        let (rt, function) = (self.rt, self.function);
        let (mut bindings, mut names, mut patterns, mut plains) = (vec![], vec![], vec![], vec![]);
        for (&param, slot) in function.params.iter().zip(slots) {
            let (name, var) = (self.name(param), &function.vars[param]);
            if let VarKind::Slice(Slice { dims, may, space: Space::Global, .. }) = &var.kind {
                let (ty, dims) = (self.ty(&var.ty), *dims as usize);
                match (may, plain) {
                    (May::Atomic, _) => {
                        bindings.push(quote!(let #name = launch.atomics::<#ty, #dims>(#slot);))
                    }
                    (May::Write, Some(_)) if function.alone => {
                        patterns.push(quote!(Some(#name)));
                        plains.push(alone(&ty, dims, *slot));
                    }
                    (May::Write, Some(_)) if spread.tests.contains_key(&param) => {
                        patterns.push(quote!(Some(#name)));
                        plains.push(spread_out(&spread.tests[&param], &ty, dims, *slot));
                    }
                    (May::Read, Some(_)) => {
                        patterns.push(quote!(Some(#name)));
                        plains.push(quote!(launch.plain::<#ty, #dims>(#slot)));
                    }
                    _ => bindings.push(quote!(let #name = launch.shared::<#ty, #dims>(#slot);)),
                }
            }
            names.push(if var.kind == VarKind::Ref { quote!(&mut #name) } else { quote!(#name) });
        }
        let reduced = self.reduced(slots);
        let rows = plain
            .filter(|_| !plains.is_empty())
            .map(|(uses, differing, dims)| self.plain_rows((uses, differing, dims), &reduced, spread));
        let Reduced { before, fresh, taken, after } = &reduced;
        let items = quote! {
            launch.items(|item: &#rt::Item| {
                #fresh
                work_item(item, #(#names),*);
                #taken
            });
        };
        let said = match plain {
            Some(_) => quote!(launch.takes("plain slices, each index compared");),
            None => quote!(launch.takes_words();),
        };
        let items = match rows {
            Some(rows) => quote!(#rows #said #items),
            None => quote!(#said #items),
        };
        let body = quote!(#(#bindings)* #before #items #after);
        match (plain, plains.is_empty()) {
            (Some(_), true) => quote!(),
            (Some(_), false) => quote!(if let (#(#patterns,)*) = (#(#plains,)*) { #body return; }),
            (None, _) => body,
        }
    }

    /// The loop over rows, where it finds accesses before the items go. What it does not take is left to the code behind it.
    fn plain_rows(
        &self,
        (uses, differing, dims): (&Uses, &Differing, usize),
        reduced: &Reduced,
        spread: &Spread,
    ) -> TokenStream {
        let function = self.function;
        let values = function.reductions.iter().map(|reduction| reduction.param).collect();
        let inner = Rust { in_loop: true, values, ..Rust::new(self.module, self.uses, function, self.rt) };
        let cells = self.apart(uses, spread);
        let (limits, stmts) = inner.limited_work(dims as u8);
        let RowCode { before, row, finds } = Rows { rust: &inner, differing, reduced, cells }.code(&stmts);
        let after = &reduced.after;
        match finds {
            true => quote! {
                if launch.dims() == #dims {
                    const D: usize = #dims;
                    launch.takes("plain slices, row by row");
                    #before
                    for row in launch.rows() {
                        let count = row.count() #limits;
                        #row
                    }
                    #after
                    return;
                }
            },
            false => quote!(),
        }
    }

    /// The loop over plain slices, each item its own element. It is right where the launch says that no arguments
    /// overlap and that it has one dimension.
    fn own_loop(&self, proof: &Elementwise, differing: &Differing, slots: &[usize]) -> TokenStream {
        let (rt, function) = (self.rt, self.function);
        let own = proof.own.iter().chain(&proof.along).copied().collect();
        let values = function.reductions.iter().map(|reduction| reduction.param).collect();
        let inner = Rust { own, in_loop: true, values, ..Rust::new(self.module, self.uses, function, rt) };
        let (mut views, mut lens, mut split, mut again, mut names) = (vec![], vec![], vec![], vec![], vec![]);
        for (&param, slot) in function.params.iter().zip(slots) {
            let (name, var) = (self.name(param), &function.vars[param]);
            if let VarKind::Slice(slice) = &var.kind
                && !is_reached(&var.kind)
            {
                let ty = self.ty(&var.ty);
                let (whole, len) = (format_ident!("{}_whole", name), format_ident!("{}_len", name));
                if proof.own.contains(&param) {
                    views.push(quote!(let #name = launch.own::<#ty>(#slot); let #len = #name.total();));
                    lens.push(quote!(.min(#name.count())));
                    split.push(quote!(let (#name, #whole) = #name.split(count);));
                    again.push(quote!(let #name = #rt::Rest::new(#whole);));
                } else {
                    views.push(self.other_view(param, slice, *slot));
                }
                if proof.along.contains(&param) {
                    lens.push(quote!(.min(#name.count_from(first))));
                    views.push(quote!(let #len = #rt::Load::<#ty, 1>::count(&#name);));
                    split.push(quote!(let #whole = #name; let #name = #whole.run(first, count);));
                    again.push(quote!(let #name = #whole;));
                }
            }
            names.push(if var.kind == VarKind::Ref { quote!(&mut #name) } else { quote!(#name) });
        }
        let (limits, stmts) = inner.limited_work(1);
        let reduced = self.reduced(slots);
        let RowCode { before: same, row, .. } =
            Rows { rust: &inner, differing, reduced: &reduced, cells: BTreeSet::new() }.code(&stmts);
        let Reduced { before, fresh, taken, after } = &reduced;
        quote! {
            if launch.apart(1) {
                const D: usize = 1;
                launch.takes("plain slices, each item at its own element");
                let (first, row) = (launch.first(), launch.line());
                #(#views)*
                let count = row.count() #(#lens)* #limits;
                #(#split)*
                #before
                #same
                #row
                #(#again)*
                launch.items_from(count, |item: &#rt::Item| {
                    #fresh
                    work_item(item, #(#names),*);
                    #taken
                });
                #after
                return;
            }
        }
    }

    /// What pointers lead to, by the table in a slot.
    pub(super) fn reached_view(&self, param: VarId, slot: usize) -> TokenStream {
        let (name, ty) = (self.name(param), self.ty(&self.function.vars[param].ty));
        let parts = format_ident!("{}_parts", name);
        quote! {
            let #parts = launch.reached::<#ty>(#slot);
            let #name = #parts.view();
        }
    }

    /// The view of a slice that is not the items' own. There is a proof, so it is only read, or never touched.
    pub(super) fn other_view(&self, param: VarId, slice: &Slice, slot: usize) -> TokenStream {
        let (name, ty) = (self.name(param), self.ty(&self.function.vars[param].ty));
        let dims = slice.dims as usize;
        let way = match slice.may {
            May::Atomic => format_ident!("atomics"),
            May::Read => format_ident!("apart_plain"),
            May::Write => format_ident!("shared"),
        };
        quote!(let #name = launch.#way::<#ty, #dims>(#slot);)
    }

    /// Further limits of a row in a launch of `dims` dimensions, and what its items do: where all of their work stands behind
    /// comparisons of positions, a row ends there, and its items compare nothing.
    pub(super) fn limited_work(&self, dims: u8) -> (TokenStream, Vec<&'m Stmt>) {
        let body = &self.function.body;
        let inside = |(limits, _): &Limited<'_>| limits.iter().all(|(dim, _)| *dim < dims);
        let Some((limits, work)) = behind_limits(self.function).filter(inside) else {
            return (quote!(), body.stmts.iter().collect());
        };
        let limits = limits.into_iter().map(|(dim, of)| {
            let (dim, of) = (usize::from(dim), self.value(of));
            quote!(.min(row.limited::<D>(#dim, #of)))
        });
        let names = body.stmts.iter().filter(|s| matches!(s, Stmt::Let(..)));
        (quote!(#(#limits)*), names.chain(&work.stmts).collect())
    }
}
