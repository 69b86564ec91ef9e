//! Regions whose items go side by side, statement by statement, so that a compiler finds vectors in them.
//!
//! This is done where a row's memory accesses are known before it starts: their indices are sums of positions, uniform
//! values and counters of uniform loops, so that neighbouring items are at neighbouring elements or at one and the same.
//! `windlass_kernel::native::lanes` says why that is right.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::Rust;
use super::affine::Affine;
use super::derived::Derived;
use super::model::{Fast, Region, Span, Window};
use crate::flow::{changes_nothing, jumps_anywhere, returns, used};
use crate::hir::{Base, BinOp, Expr, Kind, May, Node, Place, Slice, Space, Stmt, VarId, VarKind, walk_stmt};
use crate::ty::{Ty, U32};
use crate::uniform::Differing;

/// A region's code, in the order in which the lanes go through it.
pub(super) enum Piece<'m> {
    Lane(Vec<&'m Stmt>),
    /// A name for something that is the same for all.
    Once(&'m Stmt),
    For(&'m Stmt, Vec<Piece<'m>>),
}

/// The code of lanes.
struct Lanes {
    /// The test whether all accesses between two items are inside.
    test: TokenStream,
    code: TokenStream,
    /// How many items it takes at least.
    least: TokenStream,
    /// The same for two rows at a time.
    pairs: Option<TokenStream>,
}

impl<'r, 'm> Region<'r, 'm> {
    pub(super) fn new(rust: &'r Rust<'m>, derived: &'r Derived<'m>, differing: &'r Differing) -> Self {
        let (declared, counters, moved, spans) = Default::default();
        Region { rust, derived, differing, declared, counters, moved, stands: false, spans }
    }

    pub(super) fn fast(mut self, stmts: &[&'m Stmt]) -> Fast {
        let mut body: Vec<&'m Stmt> =
            stmts.iter().copied().filter(|stmt| !self.derived.is_binding(stmt)).collect();
        self.declared = declared(&body);
        let mut range = None;
        if let [Stmt::Expr(Expr { kind: Kind::If(condition, yes, no), .. })] = body[..]
            && no.stmts.is_empty()
            && no.tail.is_none()
            && yes.tail.is_none()
            && let Some(limited) = self.limited(condition)
        {
            range = Some(limited);
            body = yes.stmts.iter().filter(|stmt| !self.derived.is_binding(stmt)).collect();
        }
        let rt = self.rust.rt;
        match (range, self.lanes(&body)) {
            (Some(range), None) => Fast { row: quote!(let (from, count, _) = #range;), ..Fast::default() },
            (None, None) => {
                Fast { row: quote!(let (from, count) = (0_usize, row.count());), ..Fast::default() }
            }
            // Where a condition takes some of a row's items away, each row has bounds of its own.
            (Some(range), Some(Lanes { test, code, least, .. })) => Fast {
                row: quote! {
                    let (mut from, count, exact) = #range;
                    if exact && from + #least <= count {
                        let first = &#rt::Row::item::<D>(&row, from);
                        let last = &#rt::Row::item::<D>(&row, count - 1);
                        #test
                        #code
                    }
                },
                ..Fast::default()
            },
            (None, Some(Lanes { test, code, pairs, .. })) => Fast {
                before: quote! {
                    let first = &group.first_item();
                    let last = &group.last_item();
                    #test
                },
                row: match pairs {
                    None => quote!(let (mut from, count) = (0_usize, row.count()); #code),
                    Some(_) => quote! {
                        let count = row.count();
                        let mut from = if row.at() < paired { count / #rt::LANES * #rt::LANES } else { 0 };
                        #code
                    },
                },
                pairs,
            },
        }
    }

    /// The test whether all accesses between two items are inside, and the code for lanes that rests on it.
    fn lanes(&mut self, body: &[&'m Stmt]) -> Option<Lanes> {
        let pieces = self.pieces(body)?;
        let mut segments = Vec::new();
        collect(&pieces, &mut segments);
        let side = self.side_by_side(&segments)?;
        let mut windows = HashMap::new();
        let (mut stretches, mut tests) = (BTreeMap::new(), Vec::new());
        for segment in &segments {
            for (var, at) in self.accesses(segment) {
                let Some(along) = self.along(at) else { continue };
                let run = format_ident!("run_{}_found", windows.len());
                let (extents, stride) = (self.extents(var), self.stride(var, &along));
                tests.push(quote!(#stride <= 1));
                for (Affine { bounds, .. }, extent) in along.iter().zip(extents) {
                    tests.push(quote!(#bounds.within(#extent)));
                }
                stretches.insert(var, self.stretch(var));
                windows.insert(std::ptr::from_ref(&at[0]), Window::of_lane(run, self.is_cells(var)));
            }
        }
        if windows.is_empty() {
            return None;
        }
        let rust = Rust { windows, kept: side.clone(), ..self.rust.clone() };
        let inner = self.with(&rust, HashMap::new());
        let code: TokenStream = pieces.iter().map(|piece| inner.piece(piece)).collect();
        let (mut opening, mut closing) = (Vec::new(), Vec::new());
        let rt = rust.rt;
        for &var in &side {
            let (lanes, ty) = (lanes_name(&rust, var), rust.ty(&rust.function.vars[var].ty));
            if self.rust.kept.contains(&var) {
                let cells = super::groups::cells_name(&rust, var);
                opening.push(quote! {
                    let #cells = &#cells[from..from + #rt::LANES];
                    let mut #lanes: [#ty; #rt::LANES] = ::core::array::from_fn(|l| #cells[l].get());
                });
                closing.push(quote!(for l in 0..#rt::LANES { #cells[l].set(#lanes[l]); }));
            } else {
                opening.push(quote!(let mut #lanes: [#ty; #rt::LANES] = [#rt::Zero::ZERO; #rt::LANES];));
            }
        }
        let alls: Vec<Ident> = stretches.keys().map(|var| self.all(*var)).collect();
        let stretches = stretches.values();
        let test = quote! {
            let together = match (#(#stretches,)*) {
                (#(Some(#alls),)*) if #(#tests)&&* => Some((#(#alls,)*)),
                _ => None,
            };
        };
        let lane = quote!(let lane = |l: usize| #rt::Row::item::<D>(&row, from + l););
        if let ([Piece::Lane(stmts)], true) = (&pieces[..], side.is_empty())
            && let Some(whole) = inner.whole_row(stmts)
        {
            let code = quote! {
                if let (Some((#(#alls,)*)), true) = (together, from < count) {
                    #lane
                    #whole
                    from = count;
                }
            };
            return Some(Lanes { test, code, least: quote!(1), pairs: None });
        }
        // Where no lane keeps anything from turn to turn, a loop is the outer one: the lanes then go through memory as it lies.
        let code = match (&pieces[..], side.is_empty()) {
            ([Piece::For(of, body)], true) => {
                let body: TokenStream = body.iter().map(|piece| inner.piece(piece)).collect();
                let turn = quote! {
                    from = begin;
                    while from + #rt::LANES <= count {
                        #lane
                        #body
                        from += #rt::LANES;
                    }
                };
                let turns = inner.turns(of, &turn);
                quote! {
                    let begin = from;
                    #turns
                    from = begin + (count - begin) / #rt::LANES * #rt::LANES;
                }
            }
            _ => quote! {
                while from + #rt::LANES <= count {
                    #lane
                    #(#opening)*
                    #code
                    #(#closing)*
                    from += #rt::LANES;
                }
            },
        };
        let code = quote!(if let Some((#(#alls,)*)) = together { #code });
        let pairs = inner.pairs(&pieces, &side).map(|pairs| {
            quote! {
                let mut paired = 0_usize;
                if let Some((#(#alls,)*)) = together { #pairs }
            }
        });
        Some(Lanes { test, code, least: quote!(#rt::LANES), pairs })
    }

    /// The same region for another writer.
    pub(super) fn with<'n>(&self, rust: &'n Rust<'m>, spans: HashMap<*const Expr, Span>) -> Region<'n, 'm>
    where
        'r: 'n,
    {
        let (declared, counters, moved) = (self.declared.clone(), self.counters.clone(), self.moved.clone());
        let (derived, differing, stands) = (self.derived, self.differing, self.stands);
        Region { rust, derived, differing, declared, counters, moved, stands, spans }
    }

    /// What a loop of so many turns as its text says reaches in all of them, as far as each turn goes on by a number: the
    /// comparison of each turn's elements with it is one of numbers, which the compiler makes.
    pub(super) fn spans(&self, of: &Stmt, body: &[Piece<'m>]) -> (TokenStream, HashMap<*const Expr, Span>) {
        let (mut before, mut spans) = (TokenStream::new(), HashMap::new());
        let Stmt::For { var, from, to, inclusive: false, .. } = of else { return (before, spans) };
        if from.ty != U32 {
            return (before, spans);
        }
        let (Some(first), Some(end)) = (self.rust.literal(from), self.rust.literal(to)) else {
            return (before, spans);
        };
        let segments = body.iter().filter_map(|piece| match piece {
            Piece::Lane(stmts) => Some(stmts),
            _ => None,
        });
        let (rt, name) = (self.rust.rt, self.rust.name(*var));
        for (var_of, at) in segments.flat_map(|stmts| self.accesses(stmts)) {
            let key = std::ptr::from_ref(&at[0]);
            let Some(by) = self.linear_step(var_of, at, *var).filter(|_| end > first) else { continue };
            let (Some(window), Some(along)) = (self.rust.windows.get(&key), self.along(at)) else { continue };
            let span = format_ident!("{}_span", window.run);
            let (all, stride) = (self.all(var_of), self.stride(var_of, &along));
            let bindings: TokenStream = at.iter().map(|index| self.bindings_of(index)).collect();
            let values = at.iter().map(|index| self.rust.value(index));
            let linear = super::lines::linear(&self.extents(var_of), values);
            let (first, turns, by) = (first as u32, (end - first) as usize, by as usize);
            before.extend(quote! {
                let #span = {
                    let item = &lane(0);
                    let #name = #first;
                    #bindings
                    let each = if #stride == 0 { 1 } else { #rt::LANES };
                    &#all[#linear..][..(#turns - 1) * #by + each]
                };
            });
            spans.insert(key, Span { all: span, at: quote!((#name - #first) as usize * #by) });
        }
        (before, spans)
    }

    /// How far an access goes at a turn of a loop, if that is a number.
    fn linear_step(&self, var: VarId, at: &[Expr], counter: VarId) -> Option<i128> {
        let inner = self.rust.nested.get(&var).map_or(&[][..], |inner| inner);
        let mut by = 0;
        for (dim, index) in at.iter().enumerate() {
            let step = self.rust.step_of(&self.derived.unnamed(index), counter)?;
            by = by * dim.checked_sub(1).map_or(1, |dim| i128::from(inner[dim])) + step;
        }
        usize::try_from(by).ok().filter(|by| *by < 1 << 16).map(|_| by)
    }

    /// A loop over what is done at each of its turns.
    pub(super) fn turns(&self, of: &Stmt, turn: &TokenStream) -> TokenStream {
        let Stmt::For { var, from, to, inclusive, .. } = of else { return quote!() };
        let (name, from, to) = (self.rust.name(*var), self.rust.value(from), self.rust.value(to));
        match inclusive {
            true => quote!(for #name in #from..=#to { #turn }),
            false => quote!(for #name in #from..#to { #turn }),
        }
    }

    /// A single assignment, for all items of a row: a loop so simple that the compiler sees for itself what may be done
    /// side by side, and that has no end of odd items which take longer.
    fn whole_row(&self, stmts: &[&'m Stmt]) -> Option<TokenStream> {
        let rt = self.rust.rt;
        let [Stmt::Assign(place, op, value)] = stmts else { return None };
        let cell = self.rust.cell(place).filter(|_| changes_nothing(value))?;
        let runs = self.runs(stmts, &|all, index, stride| quote!(#rt::Line::new(#all, #index, #stride, n)));
        let n = quote!(let n = count - from;);
        if let (None, Some(to), Some(from)) = (op, self.place_window(place), self.value_window(value)) {
            return Some(quote!(#n #(#runs)* #to.copy(&#from, n);));
        }
        let (_, value) = self.assigned(place, *op, value, &cell);
        let bindings = self.bindings_in(stmts);
        Some(quote! {
            #n
            #(#runs)*
            for l in 0..n {
                let item = &lane(l);
                #bindings
                let value = #value;
                #cell.set(value);
            }
        })
    }

    /// The elements that a place is one of.
    fn place_window(&self, place: &Place) -> Option<&Ident> {
        let Base::Element(_, at) = &place.base else { return None };
        Some(&self.rust.windows.get(&std::ptr::from_ref(at.first()?))?.run)
    }

    /// The elements that a value is one of, if nobody writes them.
    fn value_window(&self, value: &Expr) -> Option<&Ident> {
        let Kind::Element(_, at) = &value.kind else { return None };
        let window = self.rust.windows.get(&std::ptr::from_ref(at.first()?))?;
        (!window.cells).then_some(&window.run)
    }

    /// The type and the new value of a cell that is assigned to.
    fn assigned(
        &self,
        place: &Place,
        op: Option<BinOp>,
        value: &Expr,
        cell: &TokenStream,
    ) -> (TokenStream, TokenStream) {
        let value = self.rust.value(value);
        let value = match op {
            Some(op) => self.rust.arithmetic(op, &place.ty, quote!(#cell.get()), value),
            None => value,
        };
        (self.rust.ty(&place.ty), value)
    }

    fn pieces(&mut self, stmts: &[&'m Stmt]) -> Option<Vec<Piece<'m>>> {
        let (mut pieces, mut segment) = (Vec::new(), Vec::new());
        for &stmt in stmts {
            if self.derived.is_binding(stmt) {
                continue;
            }
            match stmt {
                _ if returns(stmt) => return None,
                Stmt::Let(var, _) if !self.differing.vars.contains(var) => {
                    if !segment.is_empty() {
                        pieces.push(Piece::Lane(std::mem::take(&mut segment)));
                    }
                    pieces.push(Piece::Once(stmt));
                }
                Stmt::For { var, from, to, inclusive, body }
                    if !self.differing.vars.contains(var)
                        && !self.rust.function.vars[*var].mutable
                        && body.tail.is_none()
                        && !jumps_anywhere(body) =>
                {
                    if !segment.is_empty() {
                        pieces.push(Piece::Lane(std::mem::take(&mut segment)));
                    }
                    self.counters.insert(*var, (from, to, *inclusive));
                    let body: Vec<&'m Stmt> = body.stmts.iter().collect();
                    pieces.push(Piece::For(stmt, self.pieces(&body)?));
                }
                Stmt::Assign(place, _, value) if self.is_found(place) && changes_nothing(value) => {
                    if !segment.is_empty() {
                        pieces.push(Piece::Lane(std::mem::take(&mut segment)));
                    }
                    pieces.push(Piece::Lane(vec![stmt]));
                }
                _ => segment.push(stmt),
            }
        }
        if !segment.is_empty() {
            pieces.push(Piece::Lane(segment));
        }
        Some(pieces)
    }

    /// Whether a place is a whole element that is found for all lanes at once.
    fn is_found(&self, place: &Place) -> bool {
        match &place.base {
            Base::Element(var, at) if place.path.is_empty() => {
                self.is_cells(*var) && self.along(at).is_some()
            }
            _ => false,
        }
    }

    /// The variables that have a place for each lane; `None` where one of them is too large for that.
    fn side_by_side(&self, segments: &[&[&'m Stmt]]) -> Option<BTreeSet<VarId>> {
        let sets: Vec<BTreeSet<VarId>> =
            segments.iter().map(|stmts| stmts.iter().flat_map(|stmt| used(stmt)).collect()).collect();
        let all: BTreeSet<VarId> = sets.iter().flatten().copied().collect();
        let own =
            |var: &VarId| self.declared.contains(var) && sets.iter().filter(|s| s.contains(var)).count() > 1;
        let side: BTreeSet<VarId> = all
            .into_iter()
            .filter(|var| self.rust.kept.contains(var) || own(var))
            .filter(|var| self.differing.vars.contains(var) && !self.derived.contains(*var))
            .collect();
        let small = |var: &VarId| matches!(self.rust.function.vars[*var].ty, Ty::Scalar(_) | Ty::Vector(..));
        side.iter().all(small).then_some(side)
    }

    /// How each index of an access goes on.
    fn along(&self, at: &[Expr]) -> Option<Vec<Affine>> {
        at.iter().map(|index| self.affine(index)).collect()
    }

    /// A memory's extents, outermost first.
    fn extents(&self, var: VarId) -> Vec<TokenStream> {
        let (rust, all) = (self.rust, self.all(var));
        let Some(inner) = rust.nested.get(&var) else { return vec![quote!(#all.len())] };
        let (rt, name, ty, dims) =
            (rust.rt, rust.name(var), rust.ty(&rust.function.vars[var].ty), inner.len() + 1);
        let outer = quote!((#rt::Load::<#ty, #dims>::extent(&#name, 0) as usize));
        let inner = inner.iter().map(|len| {
            let len = *len as usize;
            quote!(#len)
        });
        std::iter::once(outer).chain(inner).collect()
    }

    /// How far an access is from that of the item before.
    fn stride(&self, var: VarId, along: &[Affine]) -> TokenStream {
        super::lines::linear_stride(&self.extents(var), along)
    }

    /// The accesses to whole elements of memory that can be a slice.
    fn accesses(&self, stmts: &[&'m Stmt]) -> Vec<(VarId, &'m [Expr])> {
        let mut found = elements(stmts);
        found.retain(|(var, _)| match &self.rust.function.vars[*var].kind {
            VarKind::Slice(Slice { may: May::Atomic, .. }) => false,
            VarKind::Slice(Slice { space: Space::Local(_), .. }) => true,
            VarKind::Slice(Slice { dims, may, .. }) => {
                *dims == 1 && (*may == May::Read || self.rust.apart.contains(var))
            }
            _ => false,
        });
        found
    }

    /// Whether a memory is cells: that of the group, and what no other group reaches.
    fn is_cells(&self, var: VarId) -> bool {
        self.is_local(var) || self.rust.apart.contains(&var)
    }

    fn is_local(&self, var: VarId) -> bool {
        matches!(&self.rust.function.vars[var].kind, VarKind::Slice(Slice { space: Space::Local(_), .. }))
    }

    /// All elements of a memory, by name and by how they are had.
    fn all(&self, var: VarId) -> Ident {
        format_ident!("{}_all", self.rust.name(var))
    }

    fn stretch(&self, var: VarId) -> TokenStream {
        let (rt, name, ty) =
            (self.rust.rt, self.rust.name(var), self.rust.ty(&self.rust.function.vars[var].ty));
        match self.is_cells(var) {
            true => {
                let dims = self.extents(var).len();
                quote!(#rt::Store::<#ty, #dims>::cells(&#name))
            }
            false => quote!(#rt::Load::<#ty, 1>::stretch(&#name)),
        }
    }

    pub(super) fn piece(&self, piece: &Piece<'m>) -> TokenStream {
        match piece {
            Piece::For(of, body) => {
                let (before, spans) = self.spans(of, body);
                let inner = self.with(self.rust, spans);
                let body: TokenStream = body.iter().map(|piece| inner.piece(piece)).collect();
                let turns = self.turns(of, &body);
                quote!(#before #turns)
            }
            Piece::Once(stmt) => self.rust.stmt(stmt),
            Piece::Lane(stmts) => self.segment(stmts),
        }
    }

    fn segment(&self, stmts: &[&'m Stmt]) -> TokenStream {
        let (rt, rust) = (self.rust.rt, self.rust);
        let runs = self.runs(stmts, &|all, index, stride| quote!(#rt::Run::new(#all, #index, #stride)));
        let bindings = self.bindings_in(stmts);
        let names: BTreeSet<VarId> = stmts.iter().flat_map(|stmt| used(stmt)).collect();
        let (mut takes, mut gives) = (Vec::new(), Vec::new());
        for &var in rust.kept.intersection(&names) {
            let (name, lanes) = (rust.name(var), lanes_name(rust, var));
            takes.push(quote!(let mut #name = #lanes[l];));
            gives.push(quote!(#lanes[l] = #name;));
        }
        if let [Stmt::Assign(place, op, value)] = stmts
            && changes_nothing(value)
            && let Some(cell) = rust.cell(place)
        {
            // All lanes read before the first one writes, or the compiler would have to see that they are apart.
            let (ty, value) = self.assigned(place, *op, value, &cell);
            return quote! {{
                #(#runs)*
                let values: [#ty; #rt::LANES] = ::core::array::from_fn(|l| {
                    let item = &lane(l);
                    #bindings
                    #(#takes)*
                    #value
                });
                for l in 0..#rt::LANES { #cell.set(values[l]); }
            }};
        }
        let code = stmts.iter().map(|stmt| rust.stmt(stmt));
        quote! {{
            #(#runs)*
            for l in 0..#rt::LANES {
                let item = &lane(l);
                #bindings
                #(#takes)*
                #(#code)*
                #(#gives)*
            }
        }}
    }

    /// The elements that a segment's accesses find, each by its name.
    fn runs(
        &self,
        stmts: &[&'m Stmt],
        found: &dyn Fn(Ident, TokenStream, TokenStream) -> TokenStream,
    ) -> Vec<TokenStream> {
        let run = |(var, at): (VarId, &'m [Expr])| {
            let run = &self.rust.windows.get(&std::ptr::from_ref(&at[0]))?.run;
            let stride = self.stride(var, &self.along(at)?);
            let bindings: TokenStream = at.iter().map(|index| self.bindings_of(index)).collect();
            let values = at.iter().map(|index| self.rust.value(index));
            let found = match self.spans.get(&std::ptr::from_ref(&at[0])) {
                Some(Span { all, at }) => found(all.clone(), at.clone(), stride),
                None => found(self.all(var), super::lines::linear(&self.extents(var), values), stride),
            };
            Some(quote! {
                let #run = {
                    let item = &lane(0);
                    #bindings
                    #found
                };
            })
        };
        self.accesses(stmts).into_iter().filter_map(run).collect()
    }

    /// The bindings that statements need.
    fn bindings_in(&self, stmts: &[&'m Stmt]) -> TokenStream {
        let names: BTreeSet<VarId> = stmts.iter().flat_map(|stmt| used(stmt)).collect();
        self.derived.bindings(self.rust, &names.difference(&declared(stmts)).copied().collect())
    }

    /// The bindings that an expression needs.
    pub(super) fn bindings_of(&self, expr: &Expr) -> TokenStream {
        let mut names = BTreeSet::new();
        crate::hir::walk(expr, &mut |node| {
            if let Node::Expr(Expr { kind: Kind::Var(var), .. }) = node {
                names.insert(*var);
            }
        });
        self.derived.bindings(self.rust, &names)
    }
}

/// The accesses to whole elements.
pub(super) fn elements<'m>(stmts: &[&'m Stmt]) -> Vec<(VarId, &'m [Expr])> {
    let mut found: Vec<(VarId, &'m [Expr])> = Vec::new();
    let mut take = |node: Node<'m>| match node {
        Node::Expr(Expr { kind: Kind::Element(var, at), .. }) => found.push((*var, at)),
        Node::Place(Place { base: Base::Element(var, at), path, .. }) if path.is_empty() => {
            found.push((*var, at));
        }
        _ => {}
    };
    stmts.iter().for_each(|stmt| walk_stmt(stmt, &mut take));
    found
}

/// The variables that statements declare, at any depth.
pub(super) fn declared(stmts: &[&Stmt]) -> BTreeSet<VarId> {
    let mut found = BTreeSet::new();
    for stmt in stmts {
        walk_stmt(stmt, &mut |node| {
            if let Node::Stmt(Stmt::Let(var, _) | Stmt::For { var, .. }) = node {
                found.insert(*var);
            }
        });
    }
    found
}

pub(super) fn lanes_name(rust: &Rust<'_>, var: VarId) -> Ident {
    format_ident!("{}_lanes", rust.name(var))
}

fn collect<'p, 'm>(pieces: &'p [Piece<'m>], segments: &mut Vec<&'p [&'m Stmt]>) {
    for piece in pieces {
        match piece {
            Piece::Lane(stmts) => segments.push(stmts),
            Piece::For(_, body) => collect(body, segments),
            Piece::Once(_) => {}
        }
    }
}
