//! What the writers of regions tell each other.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use super::Rust;
use super::derived::Derived;
use crate::hir::{Expr, VarId};
use crate::uniform::Differing;

/// An access whose element is found once for all lanes.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(super) run: Ident,
    pub(super) cells: bool,
}

impl Window {
    /// The element of lane `l`: a cell, or a value that nobody writes.
    pub(super) fn read(&self) -> TokenStream {
        let run = &self.run;
        if self.cells { quote!(#run.of(l).get()) } else { quote!((*#run.of(l))) }
    }

    pub(super) fn cell(&self) -> TokenStream {
        let run = &self.run;
        quote!(#run.of(l))
    }
}

/// What is known about a region.
pub(super) struct Region<'r, 'm> {
    pub(super) rust: &'r Rust<'m>,
    pub(super) derived: &'r Derived<'m>,
    pub(super) differing: &'r Differing,
    /// Variables that are declared in it.
    pub(super) declared: BTreeSet<VarId>,
    /// Those that count its uniform loops: from, to, and whether that is one of them.
    pub(super) counters: BTreeMap<VarId, (&'m Expr, &'m Expr, bool)>,
    /// Variables of which it is known how far they go from one item to the next, beside positions.
    pub(super) moved: BTreeMap<VarId, TokenStream>,
    /// Whether it is such a variable that goes on, and positions stand.
    pub(super) stands: bool,
}

/// The items of a row for which there is anything to do, and the fast way for as many of them as it can take.
#[derive(Default)]
pub(super) struct Fast {
    /// What stands before the rows.
    pub(super) before: TokenStream,
    /// What stands in a row: `from` and `count` say for which items there is anything left to do.
    pub(super) row: TokenStream,
}
