//! Two rows of a group at a time.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use super::groups::cells_name;
use super::lanes::{Piece, lanes_name};
use super::model::Region;
use crate::flow::has_effect;
use crate::hir::{Base, Node, Place, Stmt, VarId, walk_stmt};
use crate::ty::{Ty, U32};

impl<'m> Region<'_, 'm> {
    /// The lanes of two rows at a time, for a loop in which they only read, and add up one number each: what both rows read is
    /// loaded once, and two sums go on at the same time, where each waits for itself. A product of tiles is that.
    pub(super) fn pairs(&self, pieces: &[Piece<'m>], side: &BTreeSet<VarId>) -> Option<TokenStream> {
        let ([Piece::For(of, body)], Some(&sum), 1) = (pieces, side.first(), side.len()) else { return None };
        let (rust, rt) = (self.rust, self.rust.rt);
        let ty = &rust.function.vars[sum].ty;
        let fits = matches!(ty, Ty::Scalar(scalar) if scalar.bits() == 32) && rust.kept.contains(&sum);
        let reads = |piece: &Piece<'m>| match piece {
            Piece::Lane(stmts) => !stmts.iter().any(|stmt| writes_memory(stmt)),
            Piece::Once(_) | Piece::For(..) => false,
        };
        if !fits || !body.iter().all(reads) {
            return None;
        }
        let (before, spans) = self.spans(of, body);
        let names: Vec<Ident> = spans.values().map(|span| span.all.clone()).collect();
        let inner = self.with(rust, spans);
        let code: TokenStream = body.iter().map(|piece| inner.piece(piece)).collect();
        let (lanes, cells, ty) = (lanes_name(rust, sum), cells_name(rust, sum), rust.ty(ty));
        let lane = quote!(let lane = |l: usize| #rt::Row::item::<D>(&pair[r], from + l););
        let turn = quote! {
            for r in 0..2 {
                #lane
                let (#(#names,)*) = spans[r];
                let #lanes = &mut both[r];
                #code
            }
        };
        let turns = self.by_fours(of, &turn).unwrap_or_else(|| self.turns(of, &turn));
        Some(quote! {
            let mut rows = group.rows::<D>();
            while let (Some(row), Some(next)) = (rows.next(), rows.next()) {
                let pair = [row, next];
                let (cells, count) = (pair.map(|row| row.of(#cells)), row.count());
                let mut from = 0;
                while from + #rt::LANES <= count {
                    let spans = [0, 1].map(|r: usize| {
                        #lane
                        #before
                        (#(#names,)*)
                    });
                    let cells = [0, 1].map(|r: usize| &cells[r][from..from + #rt::LANES]);
                    let mut both: [[#ty; #rt::LANES]; 2] = [[#rt::Zero::ZERO; #rt::LANES]; 2];
                    for r in 0..2 {
                        for l in 0..#rt::LANES { both[r][l] = cells[r][l].get(); }
                    }
                    #turns
                    for r in 0..2 {
                        for l in 0..#rt::LANES { cells[r][l].set(both[r][l]); }
                    }
                    from += #rt::LANES;
                }
                paired = next.at() + count;
            }
        })
    }

    /// A loop of so many turns as its text says, four at a time: two rows' turns are too long for the compiler to write all of them
    /// out, and counting would be a sixth of the work.
    fn by_fours(&self, of: &Stmt, turn: &TokenStream) -> Option<TokenStream> {
        let Stmt::For { var, from, to, inclusive: false, .. } = of else { return None };
        let (first, end) = (self.rust.literal(from)?, self.rust.literal(to)?);
        let (first, turns) = (u32::try_from(first).ok()?, u32::try_from(end - first).ok()?);
        let (name, fours) = (self.rust.name(*var), turns / 4);
        (from.ty == U32 && turns % 4 == 0).then(|| {
            quote! {
                for four in 0..#fours {
                    for within in 0..4 {
                        let #name: u32 = #first + (four * 4 + within);
                        #turn
                    }
                }
            }
        })
    }
}

/// Whether a statement writes to memory, or might.
fn writes_memory(stmt: &Stmt) -> bool {
    let mut writes = false;
    walk_stmt(stmt, &mut |node| {
        writes |= matches!(node, Node::Place(Place { base: Base::Element(..), .. })) || has_effect(node);
    });
    writes
}
