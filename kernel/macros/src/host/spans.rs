//! Loops of one item over elements that follow each other, `for k in 0..n { sum += x[first + k]; }`: what all turns reach is
//! compared once, where it is inside, and the turns compare nothing.

use std::collections::BTreeMap;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::lanes::{declared, elements};
use super::lines::changed;
use super::model::Window;
use super::{Reach, Rust};
use crate::hir::{
    Base, BinOp, Block, Change, Expr, Kind, May, Node, Slice, Space, Stmt, VarId, VarKind, change, walk,
    walk_block,
};
use crate::ty::{I32, U32};

/// How large a loop's body is at most, which stands in the code twice then.
const MOST_NODES: usize = 80;

/// What all turns of a loop reach with an access.
struct Span<'m> {
    var: VarId,
    at: &'m [Expr],
    /// The indices without names that the body binds.
    indices: Vec<Expr>,
    /// How far the last index goes at a turn.
    by: usize,
}

impl<'m> Rust<'m> {
    /// A loop with those accesses found before it for which that can be done, if there are any.
    pub(super) fn span_loop(
        &self,
        var: VarId,
        from: &Expr,
        to: &Expr,
        body: &'m Block,
    ) -> Option<TokenStream> {
        let counter = &self.function.vars[var];
        if counter.ty != U32 || counter.mutable || !is_small(body) {
            return None;
        }
        let turns = self.literal(from).zip(self.literal(to)).map(|(from, to)| to.saturating_sub(from).max(0));
        let spans = self.found_spans(var, turns.is_some(), body);
        if spans.is_empty() {
            return None;
        }
        let rt = self.rt;
        let (mut windows, mut names, mut found) = (self.windows.clone(), Vec::new(), Vec::new());
        for (number, Span { var: memory, at, indices, by }) in spans.iter().enumerate() {
            let name = format_ident!("span_{}_{}", var, number);
            let VarKind::Slice(slice) = &self.function.vars[*memory].kind else { continue };
            let (view, ty) = (self.name(*memory), self.ty(&self.function.vars[*memory].ty));
            let (dims, by) = (slice.dims as usize, *by);
            let cells = slice.may != May::Read;
            let all = match cells {
                true => quote!(#rt::Store::<#ty, #dims>::cells(&#view)),
                false => quote!(#rt::Load::<#ty, #dims>::stretch(&#view)),
            };
            let extents = (0..dims).map(|dim| quote!(#rt::Load::<#ty, #dims>::extent(&#view, #dim)));
            let indices = indices.iter().map(|index| self.value(index));
            found.push(quote!(#rt::span(#all, [#(#indices),*], [#(#extents),*], turns, #by)));
            windows.insert(std::ptr::from_ref(&at[0]), Window::span(name.clone(), quote!(turn * #by), cells));
            names.push(name);
        }
        let (name, from, to) = (self.name(var), self.value(from), self.value(to));
        let slow = self.block(body);
        let fast = Rust { windows, ..self.clone() }.block(body);
        Some(quote! {{
            let (begin, end): (u32, u32) = (#from, #to);
            let turns = end.saturating_sub(begin) as usize;
            let spans = {
                let #name = begin;
                (#(#found,)*)
            };
            if let (#(Some(#names),)*) = spans {
                for turn in 0..turns {
                    let #name = begin + turn as u32;
                    #fast
                }
            } else {
                for #name in begin..end #slow
            }
        }})
    }

    fn found_spans(&self, counter: VarId, any_step: bool, body: &'m Block) -> Vec<Span<'m>> {
        let stmts: Vec<&Stmt> = body.stmts.iter().collect();
        let mut bound = BTreeMap::new();
        for stmt in &stmts {
            if let Stmt::Let(var, Some(init)) = stmt
                && !self.function.vars[*var].mutable
            {
                bound.insert(*var, init);
            }
        }
        let inside = declared(&stmts);
        let changed = changed(&stmts);
        // What the body changes is another number at each turn, and what it declares is not there before.
        let stays = |expr: &Expr| {
            let mut stays = true;
            walk(expr, &mut |node| {
                stays &= match node {
                    Node::Expr(Expr { kind: Kind::Var(var), .. }) => {
                        *var == counter || !(changed.contains(var) || inside.contains(var))
                    }
                    Node::Expr(Expr { kind, ty, .. }) => {
                        let plain =
                            matches!(kind, Kind::Int(_) | Kind::Const(_) | Kind::Len(..) | Kind::Id(..));
                        let made = matches!(
                            kind,
                            Kind::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul, ..) | Kind::Cast(_)
                        );
                        plain || (made && [U32, I32].contains(ty))
                    }
                    _ => false,
                };
            });
            stays
        };
        let mut spans = Vec::new();
        for (var, at) in elements(&stmts) {
            let is_known = self.windows.contains_key(&std::ptr::from_ref(&at[0]));
            if is_known || self.reach(var) == Reach::Own || !self.may_be_span(var) {
                continue;
            }
            let mut indices = at.to_vec();
            indices.iter_mut().for_each(|index| unnamed(index, &bound));
            let steps: Option<Vec<i128>> =
                indices.iter().map(|index| self.step_of(index, counter).filter(|_| stays(index))).collect();
            let Some((by, outer)) = steps.as_deref().and_then(<[i128]>::split_last) else { continue };
            let fits = match any_step {
                true => (0..1 << 10).contains(by),
                false => (0..=1).contains(by),
            };
            if fits && outer.iter().all(|step| *step == 0) {
                spans.push(Span { var, at, indices, by: *by as usize });
            }
        }
        // A loop in which nothing goes on is another matter.
        if spans.iter().all(|span| span.by == 0) { Vec::new() } else { spans }
    }

    fn may_be_span(&self, var: VarId) -> bool {
        match &self.function.vars[var].kind {
            VarKind::Slice(Slice { may: May::Atomic, .. } | Slice { space: Space::Reached, .. }) => false,
            VarKind::Slice(Slice { may, .. }) => *may == May::Read || self.writes(var),
            _ => false,
        }
    }

    /// Whether a view of what is written can be written: helpers ask for what they need.
    fn writes(&self, var: VarId) -> bool {
        let mut written = false;
        walk_block(&self.function.body, &mut |node| {
            if let Node::Place(place) = node {
                written |= matches!(place.base, Base::Element(of, _) if of == var);
            }
        });
        written
    }

    /// A number that stands in the text.
    pub(super) fn literal(&self, of: &Expr) -> Option<i128> {
        match &of.kind {
            Kind::Int(number) => Some(*number),
            Kind::Const(at) => self.literal(&self.module.consts[*at].value),
            Kind::Cast(of) => self.literal(of),
            _ => None,
        }
    }

    /// How far a sum goes for each step of a variable, if that is a number. Other variables stand.
    pub(super) fn step_of(&self, of: &Expr, var: VarId) -> Option<i128> {
        match &of.kind {
            Kind::Var(of) => Some(i128::from(*of == var)),
            Kind::Binary(BinOp::Add, a, b) => Some(self.step_of(a, var)? + self.step_of(b, var)?),
            Kind::Binary(BinOp::Sub, a, b) => Some(self.step_of(a, var)? - self.step_of(b, var)?),
            Kind::Binary(BinOp::Mul, a, b) => match (self.step_of(a, var)?, self.step_of(b, var)?) {
                (0, 0) => Some(0),
                (step, 0) => step.checked_mul(self.literal(b)?),
                (0, step) => step.checked_mul(self.literal(a)?),
                _ => None,
            },
            Kind::Int(_) | Kind::Const(_) | Kind::Len(..) | Kind::Id(..) => Some(0),
            Kind::Cast(of) => self.step_of(of, var),
            _ => None,
        }
    }
}

/// Names of bound values as the values.
pub(super) fn unnamed(expr: &mut Expr, bound: &BTreeMap<VarId, &Expr>) {
    // Each may be made of others.
    for _ in 0..bound.len() {
        change(expr, &mut |part| {
            if let Change::Expr(expr) = part
                && let Kind::Var(var) = expr.kind
                && let Some(value) = bound.get(&var)
            {
                *expr = (*value).clone();
            }
        });
    }
}

/// Whether a body has no loops, and is short.
fn is_small(body: &Block) -> bool {
    let (mut nodes, mut loops) = (0, false);
    walk_block(body, &mut |node| {
        nodes += 1;
        loops |= matches!(node, Node::Stmt(Stmt::While(..) | Stmt::Loop(_) | Stmt::For { .. }));
    });
    !loops && nodes <= MOST_NODES
}
