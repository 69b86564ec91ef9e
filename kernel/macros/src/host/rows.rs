//! The loop over own elements in launches of two and three dimensions: along the last one, row after row.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::Rust;
use super::kernel::behind_limits;
use super::reduce::Reduced;
use crate::hir::{May, Slice, Space, Stmt, VarKind};
use crate::uses::Elementwise;

impl Rust<'_> {
    /// The loop over rows of plain slices, each item its own element. It is right where the launch says that no
    /// arguments overlap, that it has so many dimensions, and that these slices have its very extents: then an item's
    /// place in the launch is its element's place in memory.
    pub(super) fn own_rows(&self, proof: &Elementwise, slots: &[usize]) -> TokenStream {
        let (rt, function, launch_dims) = (self.rt, self.function, usize::from(proof.dims));
        let own = proof.own.iter().chain(&proof.along).copied().collect();
        let values = function.reductions.iter().map(|reduction| reduction.param).collect();
        let inner = Rust { own, in_loop: true, values, ..Rust::new(self.module, self.uses, function, rt) };
        let (mut views, mut cut) = (vec![], vec![]);
        for (&param, slot) in function.params.iter().zip(slots) {
            let VarKind::Slice(Slice { dims, may, space: Space::Global }) = &function.vars[param].kind else {
                continue;
            };
            let (name, ty, dims) = (self.name(param), self.ty(&function.vars[param].ty), *dims as usize);
            let (len, extents) = (format_ident!("{}_len", name), format_ident!("{}_extents", name));
            if proof.own.contains(&param) || proof.along.contains(&param) {
                views.push(quote!(let #extents = launch.extents::<#dims>(#slot); let #len: u32 = #extents.iter().product();));
            }
            if proof.own.contains(&param) {
                views.push(quote!(let (#name, _) = launch.own::<#ty>(#slot).split(launch.count());));
                cut.push(quote!(let #name = &mut #name[from..from + count];));
            } else if proof.along.contains(&param) {
                views.push(quote!(let #name = launch.apart_plain::<#ty, #dims>(#slot).run(launch.first(), launch.count());));
                cut.push(quote!(let #name = &#name[from..from + count];));
            } else {
                let way = match may {
                    May::Atomic => format_ident!("atomics"),
                    May::Read => format_ident!("apart_plain"),
                    May::Write => format_ident!("shared"),
                };
                views.push(quote!(let #name = launch.#way::<#ty, #dims>(#slot);));
            }
        }
        let (limits, body) = self.limited_rows(&inner, launch_dims);
        let Reduced { before, fresh, taken, after } = self.reduced(slots);
        quote! {
            if launch.apart(#launch_dims) {
                #(#views)*
                #before
                for row in launch.stretches() {
                    let (from, count) = (row.at(), row.count() #limits);
                    #(#cut)*
                    for k in 0..count {
                        let item = &row.item::<#launch_dims>(k);
                        #fresh
                        'item: { #body }
                        #taken
                    }
                }
                #after
                return;
            }
        }
    }

    /// What is left of a row where all work stands behind limits of positions, and the work itself.
    fn limited_rows(&self, inner: &Rust<'_>, dims: usize) -> (TokenStream, TokenStream) {
        let function = self.function;
        let within = |dim: &u8| usize::from(*dim) < dims;
        let Some((limits, work)) =
            behind_limits(function).filter(|(all, _)| all.iter().all(|(dim, _)| within(dim)))
        else {
            let body = inner.block(&function.body);
            return (quote!(), quote!(#body;));
        };
        let limits = limits.into_iter().map(|(dim, limit)| {
            let (limit, dim) = (inner.value(limit), usize::from(dim));
            quote!(.min(row.below::<#dims>(#dim, #limit)))
        });
        let names =
            function.body.stmts.iter().filter(|s| matches!(s, Stmt::Let(..))).map(|stmt| inner.stmt(stmt));
        let work = inner.block(work);
        (quote!(#(#limits)*), quote!(#(#names)* #work;))
    }
}
