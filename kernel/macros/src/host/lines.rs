//! Loops over rows of items whose accesses are found before they start: memory is reached through slices that are as long as the
//! row, so nothing is compared in the loop, and a compiler finds vectors in it.
//!
//! This is done for accesses whose index is a sum of positions and of values that are the same for all items. Those items of
//! a row for which one of them is outside go one by one as ever. Two more forms of loops are one row as well: over `i` that goes on
//! by the launch's size, where each turn is one, and over the `k` of `4 * i + k`, where all items' turns together are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::Rust;
use super::affine::Affine;
use super::derived::Derived;
use super::lanes::{declared, elements};
use super::model::{Region, Window};
use super::reduce::Reduced;
use crate::builtin::{Id, Math};
use crate::flow::{changes_nothing, jumps_anywhere, returns, used};
use crate::hir::{
    Base, BinOp, Block, Expr, Kind, May, Node, Slice, Space, Stmt, VarId, VarKind, walk, walk_stmt,
};
use crate::ty::U32;
use crate::uniform::Differing;

/// The rows of a launch.
pub(super) struct Rows<'r, 'm> {
    pub(super) rust: &'r Rust<'m>,
    pub(super) differing: &'r Differing,
    pub(super) reduced: &'r Reduced,
    /// Slices that are written, and are cells.
    pub(super) cells: BTreeSet<VarId>,
}

/// The code for a row.
pub(super) struct RowCode {
    /// What is the same for all rows.
    pub(super) before: TokenStream,
    /// The items of `row`, of which the first `count` have anything to do.
    pub(super) row: TokenStream,
    /// Whether any access is found before the items go.
    pub(super) finds: bool,
}

/// An access whose elements are found.
struct Found<'m> {
    window: Window,
    var: VarId,
    at: &'m [Expr],
    /// How each of the indices goes on.
    along: Vec<Affine>,
}

/// A loop whose turns and items are one row.
enum Shape<'m> {
    Items(Vec<&'m Stmt>),
    /// `while i < limit { …; i += by; }`.
    Strided {
        var: VarId,
        start: &'m Expr,
        limit: &'m Expr,
        by: &'m Expr,
        body: Vec<&'m Stmt>,
    },
    /// `for k in from..to { … }`, and all that it does is about `turns * position + k`.
    Joined {
        var: VarId,
        from: &'m Expr,
        to: &'m Expr,
        body: Vec<&'m Stmt>,
    },
}

impl<'m> Rows<'_, 'm> {
    /// The code for rows whose items do this.
    pub(super) fn code(&self, stmts: &[&'m Stmt]) -> RowCode {
        let derived = Derived::new(self.rust.function, self.differing);
        let (once, stmts) = self.hoisted(stmts);
        let mut region = Region::new(self.rust, &derived, self.differing);
        region.declared = changed(&stmts);
        let before = match once.is_empty() {
            true => quote!(),
            false => {
                let once = once.iter().map(|stmt| self.rust.stmt(stmt));
                // Any item: they ask it for the launch's extents at most.
                quote! {
                    #[allow(unused_variables)]
                    let item = &launch.first_item();
                    #(#once)*
                }
            }
        };
        let (found, row) = match self.shape(&region, &stmts) {
            Shape::Items(body) => self.items(&region, &body),
            Shape::Strided { var, start, limit, by, body } => {
                region.moved.insert(var, quote!(1_u32));
                let (found, turn) = self.turn(&region, var, &body);
                (found, self.turns(&region, &stmts, (start, limit, by), turn))
            }
            Shape::Joined { var, from, to, body } => self.joined(&mut region, &stmts, (var, from, to), &body),
        };
        if found.is_empty() {
            return RowCode { before, row: self.one_by_one(&quote!(0..count), &stmts), finds: false };
        }
        let alls: BTreeMap<VarId, TokenStream> =
            found.iter().map(|found| (found.var, self.all_of(found.var))).collect();
        let alls = alls.values();
        RowCode { before: quote!(#before #(#alls)*), row, finds: true }
    }

    /// The bindings at the start that are the same for all items and never change, and what is left.
    fn hoisted(&self, stmts: &[&'m Stmt]) -> (Vec<&'m Stmt>, Vec<&'m Stmt>) {
        let function = self.rust.function;
        let fixed = |var: &VarId| !function.vars[*var].mutable && function.vars[*var].kind == VarKind::Value;
        // What they may be made of: parameters, and each other.
        let mut known: BTreeSet<VarId> = function.params.iter().copied().filter(fixed).collect();
        let (mut once, mut rest) = (Vec::new(), Vec::new());
        let mut stmts = stmts.iter().copied();
        for stmt in stmts.by_ref() {
            let Stmt::Let(var, Some(init)) = stmt else {
                rest.push(stmt);
                break;
            };
            if !changes_nothing(init) || returns(stmt) {
                rest.push(stmt);
                break;
            }
            let inside = declared(&[stmt]);
            let made_of_known = used(stmt).iter().all(|of| inside.contains(of) || known.contains(of));
            if fixed(var) && !self.differing.vars.contains(var) && made_of_known {
                known.insert(*var);
                once.push(stmt);
            } else {
                rest.push(stmt);
            }
        }
        rest.extend(stmts);
        (once, rest)
    }

    fn shape(&self, region: &Region<'_, 'm>, stmts: &[&'m Stmt]) -> Shape<'m> {
        let own: Vec<&'m Stmt> =
            stmts.iter().copied().filter(|stmt| !region.derived.is_binding(stmt)).collect();
        let plain = self.rust.function.reductions.is_empty() && self.rust.own.is_empty();
        match own[..] {
            [Stmt::Let(var, Some(start)), Stmt::While(condition, body)] if plain => {
                self.strided(region, (*var, start), condition, body)
            }
            [Stmt::For { var, from, to, inclusive: false, body }] if plain => {
                let body = all(body);
                let fits = self.is_closed(&body, *var)
                    && !self.rust.function.vars[*var].mutable
                    && from.ty == U32
                    && region.uniform(from)
                    && region.uniform(to);
                fits.then_some(Shape::Joined { var: *var, from, to, body })
            }
            _ => None,
        }
        .unwrap_or_else(|| Shape::Items(stmts.to_vec()))
    }

    fn strided(
        &self,
        region: &Region<'_, 'm>,
        (var, start): (VarId, &'m Expr),
        condition: &'m Expr,
        body: &'m Block,
    ) -> Option<Shape<'m>> {
        let limit = match &condition.kind {
            Kind::Binary(BinOp::Lt, at, limit) if is_var(at, var) => limit,
            Kind::Binary(BinOp::Gt, limit, at) if is_var(at, var) => limit,
            _ => return None,
        };
        let mut body = all(body);
        let Some(Stmt::Assign(place, Some(BinOp::Add), by)) = body.pop() else { return None };
        let steps = matches!(place.base, Base::Var(of) if of == var) && place.path.is_empty();
        let fits = steps
            && start.ty == U32
            && self.is_closed(&body, var)
            && region.uniform(limit)
            && region.uniform(by);
        fits.then_some(Shape::Strided { var, start, limit, by, body })
    }

    /// Whether a loop's body leaves nothing to its next turn, but what is in memory, and ends at its end.
    fn is_closed(&self, body: &[&Stmt], counter: VarId) -> bool {
        let inside = declared(body);
        let mut outside = changed(body);
        outside.retain(|var| !inside.contains(var));
        let stmts = body.iter().map(|stmt| (*stmt).clone()).collect();
        outside.is_empty() && !inside.contains(&counter) && !jumps_anywhere(&Block { stmts, tail: None })
    }

    /// What each item has anew: what it reduces, and values that it may change.
    fn fresh(&self) -> TokenStream {
        let function = self.rust.function;
        let changed = function.params.iter().filter(|param| {
            let of = &function.vars[**param];
            of.kind == VarKind::Value && of.mutable
        });
        let names = changed.map(|param| self.rust.name(*param));
        let fresh = &self.reduced.fresh;
        quote!(#fresh #(let mut #names = #names;)*)
    }

    /// Items one by one, as they are written.
    fn one_by_one(&self, items: &TokenStream, stmts: &[&Stmt]) -> TokenStream {
        let (rust, rt) = (self.rust, self.rust.rt);
        let (fresh, taken) = (self.fresh(), &self.reduced.taken);
        let code = stmts.iter().map(|stmt| rust.stmt(stmt));
        quote! {
            for k in #items {
                let item = &#rt::Row::item::<D>(&row, k);
                #fresh
                'item: { #(#code)* }
                #taken
            }
        }
    }

    /// A row of items.
    fn items(&self, region: &Region<'_, 'm>, stmts: &[&'m Stmt]) -> (Vec<Found<'m>>, TokenStream) {
        let found = self.found(region, stmts);
        let (rust, rt) = (self.with(&found), self.rust.rt);
        let (fresh, taken) = (self.fresh(), &self.reduced.taken);
        let (cuts, lines) = (self.cuts(region, &found), self.lines(region, &found, None));
        let others = self.one_by_one(&quote!(inside.others(count)), stmts);
        let code = stmts.iter().map(|stmt| rust.stmt(stmt));
        let row = quote! {
            let inside = #rt::Inside::of(if count < #rt::Inside::LEAST { 0 } else { count });
            let inside = {
                let item = &#rt::Row::item::<D>(&row, 0);
                let (first, last) = (item, item);
                #cuts
                inside
            };
            #others
            if !inside.items().is_empty() {
                let (from, n) = (inside.start, inside.items().len());
                let item = &#rt::Row::item::<D>(&row, from);
                #lines
                for l in 0..n {
                    let k = from + l;
                    let item = &#rt::Row::item::<D>(&row, k);
                    #fresh
                    'item: { #(#code)* }
                    #taken
                }
            }
        };
        (found, row)
    }

    /// One turn of a strided loop, for the first `m` items of a row: `at` is where the first one of them is.
    fn turn(&self, region: &Region<'_, 'm>, var: VarId, body: &[&'m Stmt]) -> (Vec<Found<'m>>, TokenStream) {
        let found = self.found(region, body);
        let (with, rust, rt, name) = (self.with(&found), self.rust, self.rust.rt, self.rust.name(var));
        let (cuts, lines) = (self.cuts(region, &found), self.lines(region, &found, None));
        let bindings = bindings(region, body);
        let (fast, slow) = (body.iter().map(|stmt| with.stmt(stmt)), body.iter().map(|stmt| rust.stmt(stmt)));
        let turn = quote! {
            let inside = #rt::Inside::of(m);
            let inside = {
                let item = &#rt::Row::item::<D>(&row, 0);
                let ((first, last), #name) = ((item, item), at);
                #cuts
                inside
            };
            for k in inside.others(m) {
                let item = &#rt::Row::item::<D>(&row, k);
                let #name = at + k as u32;
                #bindings
                #(#slow)*
            }
            if !inside.items().is_empty() {
                let (from, n) = (inside.start, inside.items().len());
                let item = &#rt::Row::item::<D>(&row, from);
                let #name = at + from as u32;
                #lines
                for l in 0..n {
                    let k = from + l;
                    let item = &#rt::Row::item::<D>(&row, k);
                    let #name = at + k as u32;
                    #bindings
                    #(#fast)*
                }
            }
        };
        (found, turn)
    }

    /// All turns of a strided loop for a row, turn by turn, if its items' starts follow each other and nothing wraps.
    fn turns(
        &self,
        region: &Region<'_, 'm>,
        stmts: &[&'m Stmt],
        (start, limit, by): (&Expr, &Expr, &Expr),
        turn: TokenStream,
    ) -> TokenStream {
        let (rust, rt) = (self.rust, self.rust.rt);
        let others = self.one_by_one(&quote!(0..count), stmts);
        let Some(Affine { stride, .. }) = region.affine(start) else { return others };
        let (names, start) = (region.bindings_of(start), rust.value(start));
        let (limit, by) = (rust.value(limit), rust.value(by));
        quote! {
            let item = &#rt::Row::item::<D>(&row, 0);
            #names
            let (mut at, limit, by): (u32, u32, u32) = (#start, #limit, #by);
            let wraps = limit.checked_add(by).is_none() || u32::try_from(at as usize + count).is_err();
            if #stride == 1 && by > 0 && !wraps {
                while at < limit {
                    let m = count.min((limit - at) as usize);
                    #turn
                    at += by;
                }
            } else {
                #others
            }
        }
    }

    /// A row of the turns of all items of a row.
    fn joined(
        &self,
        region: &mut Region<'_, 'm>,
        stmts: &[&'m Stmt],
        (var, from, to): (VarId, &'m Expr, &'m Expr),
        body: &[&'m Stmt],
    ) -> (Vec<Found<'m>>, TokenStream) {
        region.moved.insert(var, quote!(0_u32));
        let of_items = self.found(region, body);
        region.moved.insert(var, quote!(1_u32));
        region.stands = true;
        let found = self.found(region, body);
        region.stands = false;
        if found.is_empty() || !self.only_found(region, &found, var, body) {
            region.moved.remove(&var);
            return self.items(region, stmts);
        }
        let (rust, rt, name) = (self.with(&found), self.rust.rt, self.rust.name(var));
        let (cuts, lines) = (self.cuts(region, &found), self.lines(region, &found, Some(quote!(1_usize))));
        let (from, to) = (self.rust.value(from), self.rust.value(to));
        let steps = found.iter().map(|found| linear_stride(&self.extents(found.var), &found.along));
        let moves = of_items.iter().map(|found| linear_stride(&self.extents(found.var), &found.along));
        let others = self.one_by_one(&quote!(inside.others(count)), stmts);
        let code = body.iter().map(|stmt| rust.stmt(stmt));
        let row = quote! {
            let (begin, turns) = (#from, (#to).saturating_sub(#from) as usize);
            let inside = {
                let item = &#rt::Row::item::<D>(&row, 0);
                let ((first, last), #name) = ((item, item), begin);
                let joined = turns > 0 #(&& #steps == 1)* #(&& #moves == turns)*;
                let inside = #rt::Inside::of(if joined { count.saturating_mul(turns) } else { 0 });
                #cuts
                inside.whole(turns.max(1))
            };
            #others
            if !inside.items().is_empty() {
                let n = inside.items().len() * turns;
                let item = &#rt::Row::item::<D>(&row, inside.start);
                let #name = begin;
                #lines
                for l in 0..n {
                    #(#code)*
                }
            }
        };
        (found, row)
    }

    /// Whether nothing in a body but the indices that are found depends on the position or on the counter.
    fn only_found(&self, region: &Region<'_, 'm>, found: &[Found<'m>], var: VarId, body: &[&Stmt]) -> bool {
        let inside = declared(body);
        let depends = |node: Node<'_>| match node {
            Node::Expr(Expr { kind: Kind::Id(Id::Global, _), .. }) => true,
            Node::Expr(Expr { kind: Kind::Var(of), .. }) => {
                *of == var || (region.differing.vars.contains(of) && !inside.contains(of))
            }
            // A helper asks by itself.
            Node::Expr(Expr { kind: Kind::Call(at, _), .. }) => self.rust.uses[*at].positions,
            _ => false,
        };
        let (mut all, mut indices) = (0, 0);
        body.iter().for_each(|stmt| walk_stmt(stmt, &mut |node| all += usize::from(depends(node))));
        for index in found.iter().flat_map(|found| found.at) {
            walk(index, &mut |node| indices += usize::from(depends(node)));
        }
        all == indices
    }

    /// The writer of code that reaches what is found.
    fn with(&self, found: &[Found<'m>]) -> Rust<'m> {
        let windows = found.iter().filter_map(|found| {
            let key = std::ptr::from_ref(found.at.first()?);
            Some((key, found.window.clone()))
        });
        Rust { windows: windows.collect::<HashMap<_, _>>(), ..self.rust.clone() }
    }

    /// The accesses to whole elements that can be found: those to memory that lies in one piece.
    fn found(&self, region: &Region<'_, 'm>, stmts: &[&'m Stmt]) -> Vec<Found<'m>> {
        let mut found: Vec<Found<'m>> = Vec::new();
        let mut names: HashMap<String, Ident> = HashMap::new();
        for (var, at) in elements(stmts).into_iter().filter(|(var, _)| self.in_one_piece(*var)) {
            let along = at.iter().map(|index| region.affine(signed(index).unwrap_or(index)));
            let Some(along) = along.collect::<Option<Vec<_>>>() else { continue };
            let texts = at.iter().map(|index| self.rust.value(index).to_string());
            let text = texts.fold(var.to_string(), |all, index| format!("{all} {index}"));
            let next = format_ident!("line_{}", names.len());
            let run = names.entry(text).or_insert(next).clone();
            found.push(Found { window: Window::of_lane(run, self.cells.contains(&var)), var, at, along });
        }
        found
    }

    fn in_one_piece(&self, var: VarId) -> bool {
        let VarKind::Slice(Slice { may, space: Space::Global, .. }) = &self.rust.function.vars[var].kind
        else {
            return false;
        };
        !self.rust.own.contains(&var) && (*may == May::Read || self.cells.contains(&var))
    }

    /// All elements of a memory.
    fn all_of(&self, var: VarId) -> TokenStream {
        let (rt, name, all) = (self.rust.rt, self.rust.name(var), self.all(var));
        let way = match self.cells.contains(&var) {
            true => quote!(#rt::Store::cells(&#name)),
            false => quote!(#rt::Load::stretch(&#name)),
        };
        quote!(let #all = #way.unwrap_or_default();)
    }

    fn all(&self, var: VarId) -> Ident {
        format_ident!("{}_all", self.rust.name(var))
    }

    /// A memory's extents, outermost first.
    fn extents(&self, var: VarId) -> Vec<TokenStream> {
        let VarKind::Slice(Slice { dims, .. }) = self.rust.function.vars[var].kind else { return Vec::new() };
        let (rt, name, all) = (self.rust.rt, self.rust.name(var), self.all(var));
        if dims == 1 {
            return vec![quote!(#all.len())];
        }
        let (ty, dims) = (self.rust.ty(&self.rust.function.vars[var].ty), usize::from(dims));
        (0..dims).map(|dim| quote!((#rt::Load::<#ty, #dims>::extent(&#name, #dim) as usize))).collect()
    }

    /// `inside` without the items for which an access is outside; `first` and `last` are the row's first item.
    fn cuts(&self, region: &Region<'_, 'm>, found: &[Found<'m>]) -> TokenStream {
        let mut cuts: Vec<(&Ident, TokenStream)> = Vec::new();
        for Found { window, var, at, along } in found {
            if cuts.iter().any(|(run, _)| **run == window.run) {
                continue;
            }
            let cut = at.iter().zip(along).zip(self.extents(*var)).map(|((index, along), extent)| {
                let (Affine { stride, bounds }, bindings) = (along, region.bindings_of(index));
                // Numbers with a sign end earlier.
                let extent = if signed(index).is_some() { quote!(#extent.min(1 << 31)) } else { extent };
                quote!(let inside = { #bindings inside.cut(#bounds, #stride, #extent) };)
            });
            cuts.push((&window.run, quote!(#(#cut)*)));
        }
        cuts.into_iter().map(|(_, cut)| cut).collect()
    }

    /// The elements of `n` items from `item` on, by name.
    fn lines(
        &self,
        region: &Region<'_, 'm>,
        found: &[Found<'m>],
        stride: Option<TokenStream>,
    ) -> TokenStream {
        let rt = self.rust.rt;
        let mut lines: BTreeMap<&Ident, TokenStream> = BTreeMap::new();
        for Found { window, var, at, along } in found {
            let (all, extents) = (self.all(*var), self.extents(*var));
            let bindings: TokenStream = at.iter().map(|index| region.bindings_of(index)).collect();
            let linear = linear(&extents, at.iter().map(|index| self.rust.value(index)));
            let stride = stride.clone().unwrap_or_else(|| linear_stride(&extents, along));
            let run = &window.run;
            let line = quote!(let #run = { #bindings #rt::Line::new(#all, #linear, #stride, n) };);
            lines.insert(run, line);
        }
        lines.into_values().collect()
    }
}

/// Where an element is, by its indices.
pub(super) fn linear(extents: &[TokenStream], at: impl Iterator<Item = TokenStream>) -> TokenStream {
    let mut linear = quote!(0_usize);
    for (index, extent) in at.zip(extents) {
        linear = match extents.len() {
            1 => quote!(#index as usize),
            _ => quote!((#linear * #extent + #index as usize)),
        };
    }
    linear
}

/// How far an element is from that of the item before.
pub(super) fn linear_stride(extents: &[TokenStream], along: &[Affine]) -> TokenStream {
    let mut all = quote!(0_usize);
    for (Affine { stride, .. }, extent) in along.iter().zip(extents) {
        all = match extents.len() {
            1 => quote!((#stride as usize)),
            _ => quote!(#all.wrapping_mul(#extent).wrapping_add(#stride as usize)),
        };
    }
    all
}

fn is_var(expr: &Expr, var: VarId) -> bool {
    matches!(expr.kind, Kind::Var(of) if of == var)
}

/// The number with a sign that an index is, if it is one: what is negative is outside (`Checker::index_value`).
fn signed(index: &Expr) -> Option<&Expr> {
    let Kind::Cast(held) = &index.kind else { return None };
    match &held.kind {
        Kind::Math(Math::Max, list) => match &list[..] {
            [value, Expr { kind: Kind::Int(-1), .. }] => Some(value),
            _ => None,
        },
        _ => None,
    }
}

/// The bindings that a loop's body needs, of those before it.
fn bindings(region: &Region<'_, '_>, body: &[&Stmt]) -> TokenStream {
    let names: BTreeSet<VarId> = body.iter().flat_map(|stmt| used(stmt)).collect();
    region.derived.bindings(region.rust, &names.difference(&declared(body)).copied().collect())
}

fn all(block: &Block) -> Vec<&Stmt> {
    block.stmts.iter().collect()
}

/// The variables that statements declare or change.
pub(super) fn changed(stmts: &[&Stmt]) -> BTreeSet<VarId> {
    let mut found = declared(stmts);
    for stmt in stmts {
        walk_stmt(stmt, &mut |node| {
            if let Node::Place(place) = node
                && let Base::Var(var) = place.base
            {
                found.insert(var);
            }
        });
    }
    found
}
