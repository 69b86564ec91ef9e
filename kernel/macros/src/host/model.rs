//! What the writers of regions tell each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use super::Rust;
use super::derived::Derived;
use crate::hir::{Expr, VarId};
use crate::uniform::Differing;

/// An access whose element is found before the items, or the turns, come to it.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The elements.
    pub(super) run: Ident,
    /// Which of them it is.
    element: TokenStream,
    pub(super) cells: bool,
}

impl Window {
    /// The element of lane `l` of a run or a line.
    pub(super) fn of_lane(run: Ident, cells: bool) -> Self {
        let element = quote!(#run.of(l));
        Window { run, element, cells }
    }

    /// The element at a place of a span.
    pub(super) fn span(run: Ident, at: TokenStream, cells: bool) -> Self {
        let element = quote!((&#run[#at]));
        Window { run, element, cells }
    }

    /// The element's value: a cell's, or one that nobody writes.
    pub(super) fn read(&self) -> TokenStream {
        let element = &self.element;
        if self.cells { quote!(#element.get()) } else { quote!((*#element)) }
    }

    pub(super) fn cell(&self) -> TokenStream {
        self.element.clone()
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
    /// Accesses whose elements of all turns of a loop are found before it.
    pub(super) spans: HashMap<*const Expr, Span>,
}

/// What all turns of a loop reach, and where in it a turn's elements begin.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) all: Ident,
    pub(super) at: TokenStream,
}

/// The items of a row for which there is anything to do, and the fast way for as many of them as it can take.
#[derive(Default)]
pub(super) struct Fast {
    /// What stands before the rows.
    pub(super) before: TokenStream,
    /// What stands in a row: `from` and `count` say for which items there is anything left to do.
    pub(super) row: TokenStream,
    /// What goes through rows two at a time: `paired` is then behind those items that are done, but for each row's last ones.
    pub(super) pairs: Option<TokenStream>,
}
