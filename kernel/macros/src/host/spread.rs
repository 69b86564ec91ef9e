//! Kernels whose items write elsewhere than at their own position, but each of them somewhere else: `y[row * n + column]`,
//! `y[4 * i + k]`, `y[i + 1]`, and `y[at]` for `at` that goes on by the launch's size. Where an index is a sum of positions and
//! loops' counters, each so many times, the launch's numbers say whether two items ever meet; where they do not, memory is reached
//! as plain Rust reaches it. Of a kernel that works in groups, each of which one thread runs, groups are to keep apart.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};

use super::Rust;
use crate::builtin::Id;
use crate::hir::{
    Arg, Base, BinOp, Expr, Kind, May, Node, Place, Slice, Space, Stmt, VarId, VarKind, walk_block,
};
use crate::ty::{Scalar, Ty, U32};
use crate::uses::Uses;

/// An index: what is added to what. All numbers are such as a launch can find out, in 64 bits.
#[derive(Clone, Default)]
struct Sum {
    /// Of items, or of groups where there are any.
    positions: [Vec<TokenStream>; 3],
    /// Positions in the group.
    locals: [Vec<TokenStream>; 3],
    /// Loops' counters: how far each goes at a turn, and how many turns there are.
    counters: BTreeMap<VarId, (TokenStream, TokenStream)>,
    rest: Vec<TokenStream>,
}

/// What is known of where items reach in what is written.
#[derive(Default)]
pub(crate) struct Spread {
    /// For each slice the test that no two items meet there, as code over the launch, if there is one.
    pub(super) tests: BTreeMap<VarId, TokenStream>,
    /// The slices in which items may meet, each with where its first index stands that tells nothing.
    meeting: BTreeMap<VarId, proc_macro2::Span>,
    /// Whether the kernel's author promises that they do not meet.
    promised: bool,
}

impl Spread {
    /// How a slice in a buffer that is written is reached, where the kernel is not one of items at their own elements alone.
    pub(crate) fn way(&self, var: VarId, rt: &TokenStream) -> TokenStream {
        match self.meeting.get(&var) {
            _ if self.promised => quote!(#rt::Way::Promised),
            _ if self.tests.contains_key(&var) => quote!(#rt::Way::Tested),
            Some(span) => {
                let line = quote_spanned!(*span=> ::core::line!());
                quote!(#rt::Way::Meeting(::core::option::Option::Some(#line)))
            }
            None => quote!(#rt::Way::Meeting(::core::option::Option::None)),
        }
    }
}

/// How the variables of loops go on: from where, by how much, and how often.
struct Counters<'m> {
    from: BTreeMap<VarId, (&'m Expr, TokenStream, TokenStream)>,
    bindings: BTreeMap<VarId, &'m Expr>,
}

impl Rust<'_> {
    /// Whether items, or groups of them, keep apart in what is written, and what is in the way of knowing that. An author's
    /// promise needs no test.
    pub(super) fn spread(&self, slots: &[usize]) -> Spread {
        if self.function.alone {
            return Spread { promised: true, ..Spread::default() };
        }
        let counters = self.counters();
        let mut meeting: BTreeMap<VarId, proc_macro2::Span> = BTreeMap::new();
        let mut sums: BTreeMap<VarId, Vec<Sum>> = BTreeMap::new();
        let mut unknown = BTreeSet::new();
        walk_block(&self.function.body, &mut |node| {
            let (var, at) = match node {
                Node::Expr(Expr { kind: Kind::Element(var, at), .. }) => (*var, at),
                Node::Place(Place { base: Base::Element(var, at), .. }) => (*var, at),
                Node::Expr(Expr { kind: Kind::Call(_, args), .. }) => {
                    return unknown.extend(args.iter().filter_map(|arg| match arg {
                        Arg::Slice(var) | Arg::Ref(Place { base: Base::Element(var, _), .. }) => Some(*var),
                        _ => None,
                    }));
                }
                _ => return,
            };
            match (&at[..], self.is_line(var)) {
                ([index], true) => match self.sum(index, &counters) {
                    Some(sum) => sums.entry(var).or_default().push(sum),
                    None => {
                        meeting.entry(var).or_insert(index.span);
                        unknown.insert(var);
                    }
                },
                _ => drop(unknown.insert(var)),
            }
        });
        let known = sums.into_iter().filter(|(var, _)| !unknown.contains(var));
        let tests = known.filter_map(|(var, sums)| Some((var, self.test(var, &sums, slots)?))).collect();
        Spread { tests, meeting, promised: false }
    }

    /// The slices in buffers that the kernel writes, and that are plain memory where the launch lets them be.
    pub(super) fn apart(&self, uses: &Uses, spread: &Spread) -> BTreeSet<VarId> {
        let is_apart = |var: &&VarId| match &self.function.vars[**var].kind {
            VarKind::Slice(Slice { may: May::Write, space: Space::Global, .. }) => {
                uses.written.contains(var) && (self.function.alone || spread.tests.contains_key(var))
            }
            _ => false,
        };
        self.function.params.iter().filter(is_apart).copied().collect()
    }

    /// Whether a variable is a slice in a buffer that is written.
    fn is_line(&self, var: VarId) -> bool {
        matches!(
            &self.function.vars[var].kind,
            VarKind::Slice(Slice { dims: 1, may: May::Write, space: Space::Global, .. })
        )
    }

    fn test(&self, var: VarId, sums: &[Sum], slots: &[usize]) -> Option<TokenStream> {
        let rt = self.rt;
        let all = |terms: &[TokenStream]| quote!(#rt::Reach::sum(&[#(#terms),*]));
        let first = sums.first()?;
        let along: Vec<TokenStream> = first.positions.iter().map(|terms| all(terms)).collect();
        let inner: Vec<TokenStream> = first.locals.iter().map(|terms| all(terms)).collect();
        let same = |sum: &Sum| {
            let terms = sum.positions.iter().chain(&sum.locals).zip(along.iter().chain(&inner));
            terms.into_iter().all(|(terms, first)| all(terms).to_string() == first.to_string())
        };
        let mut counters: BTreeMap<VarId, (TokenStream, TokenStream)> = BTreeMap::new();
        for sum in sums {
            for (counter, (by, turns)) in &sum.counters {
                let known = counters.entry(*counter).or_insert_with(|| (by.clone(), turns.clone()));
                if known.0.to_string() != by.to_string() {
                    return None;
                }
            }
        }
        let grouped = self.groups;
        let mut turns: Vec<TokenStream> =
            counters.values().map(|(by, turns)| quote!((#by, #turns))).collect();
        if grouped {
            turns.extend((0_usize..).zip(&inner).map(|(dim, by)| quote!((#by, launch.group_size(#dim)))));
        }
        let apart = format_ident!("{}", if grouped { "keeps_groups_apart" } else { "keeps_apart" });
        let rests = sums.iter().map(|sum| all(&sum.rest));
        let at = self.function.params.iter().position(|param| *param == var)?;
        let slot = slots[at];
        sums.iter().all(same).then(|| {
            quote!(launch.#apart(#slot, &#rt::Reach {
                along: [#(#along),*],
                turns: &[#(#turns),*],
                rests: &[#(#rests),*],
            }))
        })
    }

    fn counters(&self) -> Counters<'_> {
        let (mut from, mut bindings) = (BTreeMap::new(), BTreeMap::new());
        let mut starts: BTreeMap<VarId, &Expr> = BTreeMap::new();
        let mut steps: BTreeMap<VarId, Vec<(Option<BinOp>, &Expr)>> = BTreeMap::new();
        let mut limits: BTreeMap<VarId, &Expr> = BTreeMap::new();
        let mut refs = BTreeSet::new();
        walk_block(&self.function.body, &mut |node| match node {
            Node::Stmt(Stmt::Let(var, Some(init))) => match self.function.vars[*var].mutable {
                false => drop(bindings.insert(*var, init)),
                true => drop(starts.insert(*var, init)),
            },
            Node::Stmt(Stmt::For { var, from: start, to, inclusive: false, .. })
                if !self.function.vars[*var].mutable =>
            {
                let number = |of: &Expr| self.number(of);
                if let (Some(first), Some(end)) = (number(start), number(to)) {
                    from.insert(*var, (start, quote!(1_u64), quote!(#end.saturating_sub(#first))));
                }
            }
            Node::Stmt(Stmt::Assign(Place { base: Base::Var(var), path, .. }, op, by)) if path.is_empty() => {
                steps.entry(*var).or_default().push((*op, by));
            }
            Node::Stmt(Stmt::While(Expr { kind: Kind::Binary(BinOp::Lt, at, limit), .. }, body)) => {
                // Each step stands behind a comparison of its own.
                let steps = |stmt: &Stmt, var| matches!(stmt, Stmt::Assign(Place { base: Base::Var(of), .. }, ..) if *of == var);
                if let Kind::Var(var) = at.kind
                    && body.stmts.iter().any(|stmt| steps(stmt, var))
                {
                    limits.insert(var, limit);
                }
            }
            Node::Expr(Expr { kind: Kind::Call(_, args), .. }) => {
                refs.extend(args.iter().filter_map(|arg| match arg {
                    Arg::Ref(Place { base: Base::Var(var), .. }) => Some(*var),
                    _ => None,
                }));
            }
            _ => {}
        });
        for (var, start) in starts {
            if let (Some([(Some(BinOp::Add), by)]), Some(limit)) =
                (steps.get(&var).map(|all| &all[..]), limits.get(&var))
                && !refs.contains(&var)
                && let (Some(by), Some(limit)) = (self.number(by), self.number(limit))
            {
                // As often as it fits below the limit, and once more.
                from.insert(var, (start, by.clone(), quote!(#limit.div_ceil(#by.max(1)).saturating_add(1))));
            }
        }
        Counters { from, bindings }
    }

    fn sum(&self, of: &Expr, counters: &Counters<'_>) -> Option<Sum> {
        if of.ty != U32 {
            return None;
        }
        if let Some(number) = self.number(of) {
            return Some(Sum { rest: vec![number], ..Sum::default() });
        }
        match &of.kind {
            Kind::Id(id, dim) => {
                let (mut sum, dim) = (Sum::default(), *dim as usize);
                match id {
                    Id::Global if self.groups => {
                        sum.positions[dim].push(quote!(launch.group_size(#dim)));
                        sum.locals[dim].push(quote!(1_u64));
                    }
                    Id::Global | Id::Group => sum.positions[dim].push(quote!(1_u64)),
                    Id::Local => sum.locals[dim].push(quote!(1_u64)),
                    _ => return None,
                }
                Some(sum)
            }
            Kind::Var(var) => match (counters.from.get(var), counters.bindings.get(var)) {
                (Some((start, by, turns)), _) => {
                    let mut sum = self.sum(start, counters)?;
                    sum.counters.insert(*var, (by.clone(), turns.clone()));
                    Some(sum)
                }
                (None, Some(bound)) => self.sum(bound, counters),
                _ => None,
            },
            Kind::Binary(BinOp::Add, a, b) => {
                let (mut a, b) = (self.sum(a, counters)?, self.sum(b, counters)?);
                let positions = a.positions.iter_mut().chain(&mut a.locals);
                for (to, from) in positions.zip(b.positions.into_iter().chain(b.locals)) {
                    to.extend(from);
                }
                a.rest.extend(b.rest);
                for (counter, along) in b.counters {
                    // Twice the same one: how far it goes would be the sum.
                    if a.counters.insert(counter, along).is_some() {
                        return None;
                    }
                }
                Some(a)
            }
            Kind::Binary(BinOp::Mul, a, b) => {
                let (of, by) = match self.number(b) {
                    Some(by) => (a, by),
                    None => (b, self.number(a)?),
                };
                let mut sum = self.sum(of, counters)?;
                let times = |term: &mut TokenStream| *term = quote!(#term.saturating_mul(#by));
                let positions = sum.positions.iter_mut().chain(&mut sum.locals).flatten();
                positions.chain(&mut sum.rest).for_each(times);
                sum.counters.values_mut().for_each(|(along, _)| times(along));
                Some(sum)
            }
            _ => None,
        }
    }

    /// What has one value for the whole launch, as code of `run`; nothing where it may wrap.
    fn number(&self, of: &Expr) -> Option<TokenStream> {
        match &of.kind {
            Kind::Int(number) => {
                let number = u64::try_from(*number).ok()?;
                Some(quote!(#number))
            }
            Kind::Var(var) => {
                let of = &self.function.vars[*var];
                let given = self.function.params.contains(var) && of.kind == VarKind::Value && !of.mutable;
                let name = self.name(*var);
                (given && of.ty == Ty::Scalar(Scalar::U32)).then(|| quote!(u64::from(#name)))
            }
            Kind::Id(Id::GlobalSize, dim) => {
                let dim = *dim as usize;
                Some(quote!(launch.size(#dim)))
            }
            Kind::Id(Id::LocalSize, dim) => {
                let dim = *dim as usize;
                Some(quote!(launch.group_size(#dim)))
            }
            Kind::Id(Id::Groups, dim) => {
                let dim = *dim as usize;
                Some(quote!(launch.group_count(#dim)))
            }
            Kind::Len(var, None) => {
                let at = self.function.params.iter().position(|param| param == var)?;
                let slot = self.slots_of(at)?;
                Some(quote!(launch.len(#slot)))
            }
            Kind::Binary(BinOp::Add, a, b) => {
                let (a, b) = (self.number(a)?, self.number(b)?);
                Some(quote!(#a.saturating_add(#b)))
            }
            Kind::Binary(BinOp::Mul, a, b) => {
                let (a, b) = (self.number(a)?, self.number(b)?);
                Some(quote!(#a.saturating_mul(#b)))
            }
            _ => None,
        }
    }

    /// The slot of a parameter in a buffer.
    fn slots_of(&self, param: usize) -> Option<usize> {
        let mut next = 0;
        for (at, var) in self.function.params.iter().enumerate() {
            let kind = &self.function.vars[*var].kind;
            if at == param {
                return matches!(kind, VarKind::Slice(Slice { space: Space::Global, .. })).then_some(next);
            }
            let fixed = matches!(kind, VarKind::Slice(Slice { space: Space::Local(Some(_)), .. }));
            let view = matches!(kind, VarKind::Slice(Slice { dims: 2.., .. }));
            next += usize::from(!fixed) + usize::from(view);
        }
        None
    }
}
