//! The loop over own elements in launches of two and three dimensions: along the last one, row after row.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::Rust;
use super::lines::{RowCode, Rows};
use super::reduce::Reduced;
use crate::hir::{Space, VarKind};
use crate::uniform::Differing;
use crate::uses::Elementwise;

impl Rust<'_> {
    /// The loop over rows of plain slices, each item its own element. It is right where the launch says that no
    /// arguments overlap, that it has so many dimensions, and that these slices have its very extents: then an item's
    /// place in the launch is its element's place in memory.
    pub(super) fn own_rows(
        &self,
        proof: &Elementwise,
        differing: &Differing,
        slots: &[usize],
    ) -> TokenStream {
        let (rt, function, launch_dims) = (self.rt, self.function, usize::from(proof.dims));
        let own = proof.own.iter().chain(&proof.along).copied().collect();
        let values = function.reductions.iter().map(|reduction| reduction.param).collect();
        let inner = Rust { own, in_loop: true, values, ..Rust::new(self.module, self.uses, function, rt) };
        let (mut views, mut cut) = (vec![], vec![]);
        for (&param, slot) in function.params.iter().zip(slots) {
            let VarKind::Slice(slice) = &function.vars[param].kind else { continue };
            if slice.space == Space::Reached {
                continue;
            }
            let (name, ty) = (self.name(param), self.ty(&function.vars[param].ty));
            let dims = slice.dims as usize;
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
                views.push(self.other_view(param, slice, *slot));
            }
        }
        let (limits, stmts) = inner.limited_work(proof.dims);
        let reduced = self.reduced(slots);
        let RowCode { before: same, row, .. } =
            Rows { rust: &inner, differing, reduced: &reduced, cells: BTreeSet::new() }.code(&stmts);
        let Reduced { before, after, .. } = reduced;
        quote! {
            if launch.apart(#launch_dims) {
                const D: usize = #launch_dims;
                launch.takes("plain slices, each item at its own element");
                #(#views)*
                #before
                #same
                for row in launch.rows() {
                    let (from, count) = (row.at(), row.count() #limits);
                    #(#cut)*
                    #row
                }
                #after
                return;
            }
        }
    }
}
