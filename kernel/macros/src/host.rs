//! Native code: the same kernel as Rust that runs on the host.
//!
//! Everything is written out from the checked form and not from the user's tokens, so that arithmetic, conversions and
//! accesses mean what they mean on every device. A kernel becomes one function for a work-item, generic over how its
//! memory is reached, and, where each item keeps to its own element, a loop over plain slices besides.

mod affine;
mod assign;
mod derived;
mod early;
mod groups;
mod kernel;
mod lanes;
mod lines;
mod model;
mod nested;
mod pairs;
mod reduce;
mod rows;
mod spans;
mod spread;
mod value;

use std::collections::{BTreeSet, HashMap};

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::generic::Actual;
use crate::hir::{Block, Const, Expr, Function, Module, Slice, Stmt, Struct, VarId, VarKind};
use crate::pointers::is_reached;
use crate::ty::{Scalar, Ty};
use crate::uses::Uses;

pub(crate) use kernel::native;
pub(crate) use spread::Spread;

/// How elements are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Through a view that compares each index.
    View,
    /// As element `k` of a slice: the work-item's own one.
    Own,
}

/// The writer of one function.
#[derive(Clone)]
pub(super) struct Rust<'m> {
    pub(super) module: &'m Module,
    pub(super) uses: &'m [Uses],
    pub(super) function: &'m Function,
    /// The path of `windlass::__private`.
    pub(super) rt: &'m TokenStream,
    /// Slices that are reached as own elements.
    pub(super) own: Vec<VarId>,
    /// What `return` is: a jump out of the item's block in a loop over items.
    pub(super) in_loop: bool,
    /// Variables that have a place for each item of a group.
    pub(super) kept: BTreeSet<VarId>,
    /// Whether items of a group may be over before others are.
    pub(super) alive: bool,
    /// References that are values of the code's own.
    pub(super) values: BTreeSet<VarId>,
    /// Whether the kernel is launched in groups.
    pub(super) groups: bool,
    /// Local memories that are nested arrays.
    pub(super) nested: nested::Inner,
    /// Slices of which the launch may say that no other group reaches its elements.
    pub(super) apart: BTreeSet<VarId>,
    /// Indices of elements that are found once for several items.
    pub(super) windows: HashMap<*const Expr, model::Window>,
}

impl<'m> Rust<'m> {
    pub(super) fn new(
        module: &'m Module,
        uses: &'m [Uses],
        function: &'m Function,
        rt: &'m TokenStream,
    ) -> Self {
        let (own, kept, windows) = (Vec::new(), BTreeSet::new(), HashMap::new());
        let (values, apart) = (BTreeSet::new(), BTreeSet::new());
        let (in_loop, alive, groups, nested) = (false, false, false, nested::Inner::new());
        Rust { module, uses, function, rt, own, in_loop, kept, alive, values, groups, nested, apart, windows }
    }
}

impl Rust<'_> {
    pub(super) fn name(&self, var: VarId) -> Ident {
        let name = self.function.vars[var].name.to_string();
        format_ident!("{}_{}", name.trim_start_matches("r#"), var)
    }

    pub(super) fn reach(&self, var: VarId) -> Reach {
        if self.own.contains(&var) { Reach::Own } else { Reach::View }
    }

    /// Whether a variable's name stands for a reference.
    pub(super) fn is_reference(&self, var: VarId) -> bool {
        self.function.vars[var].kind == VarKind::Ref && !self.values.contains(&var)
    }

    pub(super) fn ty(&self, ty: &Ty) -> TokenStream {
        type_tokens(self.module, self.rt, ty)
    }

    pub(super) fn block(&self, block: &Block) -> TokenStream {
        let stmts = block.stmts.iter().map(|stmt| self.stmt(stmt));
        let tail = block.tail.as_ref().map(|tail| self.value(tail));
        quote!({ #(#stmts)* #tail })
    }

    pub(super) fn stmt(&self, stmt: &Stmt) -> TokenStream {
        match stmt {
            Stmt::Let(var, init) => {
                let (name, ty) = (self.name(*var), self.ty(&self.function.vars[*var].ty));
                match init {
                    Some(init) if self.kept.contains(var) => {
                        let init = self.value(init);
                        quote!(#name = #init;)
                    }
                    None if self.kept.contains(var) => {
                        let rt = self.rt;
                        quote!(#name = #rt::Zero::ZERO;)
                    }
                    Some(init) => {
                        let init = self.value(init);
                        quote!(let mut #name: #ty = #init;)
                    }
                    // What is assigned on some ways only is zero on the others, as on every device.
                    None => {
                        let rt = self.rt;
                        quote!(let mut #name: #ty = #rt::Zero::ZERO;)
                    }
                }
            }
            Stmt::Assign(place, op, value) => self.assign(place, *op, value),
            Stmt::Expr(expr) => {
                let value = self.value(expr);
                match expr.ty {
                    Ty::Unit | Ty::Never => quote!(#value;),
                    _ => quote!(let _ = #value;),
                }
            }
            Stmt::While(condition, body) => {
                let (condition, body) = (self.value(condition), self.block(body));
                quote!(while #condition #body)
            }
            Stmt::Loop(body) => {
                let body = self.block(body);
                quote!(loop #body)
            }
            Stmt::For { var, from, to, inclusive, body } => {
                if let Some(found) = self.span_loop(*var, from, to, body).filter(|_| !inclusive) {
                    return found;
                }
                let (name, from, to, body) =
                    (self.name(*var), self.value(from), self.value(to), self.block(body));
                match inclusive {
                    true => quote!(for mut #name in #from..=#to #body),
                    false => quote!(for mut #name in #from..#to #body),
                }
            }
            Stmt::Break => quote!(break;),
            Stmt::Continue => quote!(continue;),
            Stmt::Return(value) => {
                let value = value.as_ref().map(|value| self.value(value));
                match self.in_loop {
                    true if self.alive => quote!({
                        alive[k].set(false);
                        break 'item;
                    }),
                    true => quote!(break 'item;),
                    false => quote!(return #value;),
                }
            }
        }
    }

    /// A helper's definition. Slices are generic, since each caller reaches its own in its own way.
    pub(super) fn helper(&self, at: usize) -> TokenStream {
        let (rt, function) = (self.rt, self.function);
        let (mut generics, mut params) = (Vec::new(), Vec::new());
        for &param in &function.params {
            let (name, var) = (self.name(param), &function.vars[param]);
            let ty = self.ty(&var.ty);
            match &var.kind {
                kind if is_reached(kind) => params.push(quote!(#name: #rt::Reached<'_, #ty>)),
                VarKind::Slice(slice) => {
                    let generic = format_ident!("S{}", param);
                    let bound = self.bound(param, slice, &self.uses[at]);
                    generics.push(quote!(#generic: #bound));
                    params.push(quote!(#name: #generic));
                }
                VarKind::Ref => params.push(quote!(#name: &mut #ty)),
                VarKind::Value => params.push(quote!(mut #name: #ty)),
            }
        }
        let (name, body) = (helper_name(self.module, at), self.block(&function.body));
        let result = self.ty(&function.result);
        quote! {
            #[inline(always)]
            fn #name<#(#generics),*>(item: &#rt::Item, #(#params),*) -> #result #body
        }
    }

    /// What a slice's view must be able to do.
    pub(super) fn bound(&self, param: VarId, slice: &Slice, uses: &Uses) -> TokenStream {
        let (rt, ty) = (self.rt, self.ty(&self.function.vars[param].ty));
        let dims = slice.dims as usize;
        if slice.may == crate::hir::May::Atomic {
            return quote!(#rt::Atomics<#ty, #dims>);
        }
        match uses.written.contains(&param) {
            true => quote!(#rt::Store<#ty, #dims>),
            false => quote!(#rt::Load<#ty, #dims>),
        }
    }
}

pub(super) fn helper_name(module: &Module, at: usize) -> Ident {
    let name = module.functions[at].name.to_string();
    format_ident!("helper_{}_{}", name.trim_start_matches("r#"), at)
}

/// A constant's type and value.
pub(crate) fn constant(module: &Module, rt: &TokenStream, constant: &Const) -> (TokenStream, TokenStream) {
    let nothing = Function {
        name: constant.name.clone(),
        params: Vec::new(),
        vars: Vec::new(),
        result: Ty::Unit,
        body: Block::default(),
        specs: Vec::new(),
        alone: false,
        group: Vec::new(),
        fast: false,
        reductions: Vec::new(),
    };
    let rust = Rust::new(module, &[], &nothing, rt);
    (rust.ty(&constant.ty), rust.value(&constant.value))
}

/// A struct's field as Rust names it.
pub(super) fn field(module: &Module, of: usize, at: usize) -> TokenStream {
    let Struct { fields, is_tuple, .. } = &module.structs[of];
    let (name, number) = (&fields[at].0, syn::Index::from(at));
    if *is_tuple { quote!(#number) } else { quote!(#name) }
}

/// A type as Rust writes it.
pub(crate) fn type_tokens(module: &Module, rt: &TokenStream, ty: &Ty) -> TokenStream {
    match ty {
        Ty::Scalar(scalar) => {
            let name = format_ident!("{}", scalar.name());
            match scalar {
                Scalar::F16 => quote!(#rt::f16),
                _ => quote!(::core::primitive::#name),
            }
        }
        Ty::Vector(n, of) => {
            let (name, of) = (format_ident!("Vec{}", n), type_tokens(module, rt, of));
            quote!(#rt::#name<#of>)
        }
        Ty::Array(of, len) => {
            let (of, len) = (type_tokens(module, rt, of), *len as usize);
            quote!([#of; #len])
        }
        Ty::Struct(at) => {
            let Struct { name, actuals, fields, is_tuple, is_pointer, is_library, .. } = &module.structs[*at];
            if *is_library {
                return quote!(#rt::texel::#name);
            }
            if *is_pointer && let Some(Actual::Type(to)) = actuals.first() {
                let to = type_tokens(module, rt, to);
                return quote!(#rt::Ptr<#to>);
            }
            if *is_tuple {
                let types = fields.iter().map(|(_, ty)| type_tokens(module, rt, ty));
                return quote!((#(#types,)*));
            }
            let actuals = actuals.iter().map(|actual| match actual {
                Actual::Type(ty) => type_tokens(module, rt, ty),
                Actual::Length(len) => {
                    let len = proc_macro2::Literal::u32_unsuffixed(*len);
                    quote!(#len)
                }
            });
            let actuals: Vec<TokenStream> = actuals.collect();
            if actuals.is_empty() { quote!(#name) } else { quote!(#name<#(#actuals),*>) }
        }
        _ => quote!(()),
    }
}
