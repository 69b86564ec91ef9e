//! Kernels with work-groups on the host: a group is run by one thread, as loops over its items from barrier to barrier.
//!
//! Control flow around barriers is the same for all items (`uniform` has seen to that), so it is done once for the
//! group; everything between is a *region*, a loop over the items. A variable that differs between items and is used
//! in more than one region has a place for each item, from which a region takes it and to which it gives it back.
//! Loops that are the same for all items are turned inside out even without a barrier: the loop over items is then the
//! inner one, which the compiler can turn into vector instructions.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::Rust;
use super::derived::Derived;
use super::lanes::declared;
use super::model::{Fast, Region};
use super::spread::Spread;
use crate::fills::{Count, Fill};
use crate::flow::{leaves_loop, returns, used};
use crate::hir::{Base, Block, Expr, Kind, May, Node, Slice, Space, Stmt, VarId, VarKind, walk_block};
use crate::pointers::is_reached;
use crate::promise::{alone, spread_out};
use crate::ty::{Scalar, Ty};
use crate::uniform::{Differing, has_barrier};
use crate::uses::Uses;

/// Values that a memory of a group on the stack may have. Larger ones, those of a length that the launch says, and those of wider
/// elements are on the heap.
const MOST_ON_STACK: usize = 2048;

/// A group's work, step by step.
enum Step<'m> {
    /// A loop over the items.
    Region(Vec<&'m Stmt>),
    /// Nothing by itself: it separates what stands before it from what stands behind it.
    Barrier,
    /// Something that is done once.
    Once(&'m Stmt),
    If(&'m Expr, Vec<Step<'m>>, Vec<Step<'m>>),
    Block(Vec<Step<'m>>),
    While(&'m Expr, Vec<Step<'m>>),
    Loop(Vec<Step<'m>>),
    For(&'m Stmt, Vec<Step<'m>>),
}

/// What the functions of a group are made of.
struct Grouped<'s> {
    /// The variables that have a place for each item.
    kept: BTreeSet<VarId>,
    /// The local memory that the items fill first.
    filled: BTreeMap<VarId, Fill>,
    /// Whether items may return before the end.
    returns: bool,
    /// Whether groups keep apart in what is written.
    spread: &'s Spread,
    body: TokenStream,
}

struct Planner<'d> {
    differing: &'d Differing,
}

impl Planner<'_> {
    /// A block's steps; its last expression is a statement like the others (`flow::tail_to_stmt`).
    fn block<'m>(&self, block: &'m Block) -> Vec<Step<'m>> {
        let mut steps = Vec::new();
        let mut region: Vec<&'m Stmt> = Vec::new();
        for stmt in &block.stmts {
            let Some(step) = self.once(stmt) else {
                region.push(stmt);
                continue;
            };
            // A binding that never changes may come before what stands before it; all others keep their place.
            if !matches!(step, Step::Once(Stmt::Let(..))) && !region.is_empty() {
                steps.push(Step::Region(std::mem::take(&mut region)));
            }
            steps.push(step);
        }
        if !region.is_empty() {
            steps.push(Step::Region(region));
        }
        steps
    }

    fn uniform(&self, var: VarId) -> bool {
        !self.differing.vars.contains(&var)
    }

    /// A statement as something that is done once for the group; `None` where each item does it.
    fn once<'m>(&self, stmt: &'m Stmt) -> Option<Step<'m>> {
        match stmt {
            Stmt::Let(var, _) => self.uniform(*var).then_some(Step::Once(stmt)),
            Stmt::Assign(place, ..) => match place.base {
                Base::Var(var) => self.uniform(var).then_some(Step::Once(stmt)),
                Base::Element(..) => None,
            },
            Stmt::Expr(expr) => match &expr.kind {
                Kind::Barrier => Some(Step::Barrier),
                // What leaves a loop of the group's is the group's as well.
                Kind::If(condition, yes, no)
                    if [yes, no].into_iter().any(|block| self.shared(block) || leaves_loop(block)) =>
                {
                    Some(Step::If(condition, self.block(yes), self.block(no)))
                }
                Kind::Block(block) if self.shared(block) || leaves_loop(block) => {
                    Some(Step::Block(self.block(block)))
                }
                _ => None,
            },
            Stmt::While(condition, body) => {
                self.shared(body).then(|| Step::While(condition, self.block(body)))
            }
            Stmt::Loop(body) => self.shared(body).then(|| Step::Loop(self.block(body))),
            Stmt::For { body, .. } => self.shared(body).then(|| Step::For(stmt, self.block(body))),
            Stmt::Break | Stmt::Continue => Some(Step::Once(stmt)),
            Stmt::Return(_) => None,
        }
    }

    /// Whether a block has something in it that the group does once.
    fn shared(&self, block: &Block) -> bool {
        let mut found = has_barrier(block);
        walk_block(block, &mut |node| {
            if let Node::Stmt(Stmt::Assign(place, ..)) = node
                && let Base::Var(var) = place.base
            {
                found |= self.uniform(var);
            }
        });
        found
    }
}

impl<'m> Rust<'m> {
    /// The function of a group, and that of a block of groups.
    pub(super) fn grouped(
        &self,
        (uses, differing, spread): (&Uses, &Differing, &Spread),
        slots: &[usize],
        filled: BTreeMap<VarId, Fill>,
    ) -> TokenStream {
        let function = self.function;
        let planner = Planner { differing };
        let steps = planner.block(&function.body);
        let mut regions = Vec::new();
        collect(&steps, &mut regions);
        let derived = Derived::new(function, differing);
        let kept = self.kept(&regions, differing, &derived);
        let returns = regions.iter().flatten().any(|stmt| returns(stmt));
        let inner = Rust {
            in_loop: true,
            apart: self.apart(uses, spread),
            kept: kept.clone(),
            alive: returns,
            values: function.reductions.iter().map(|reduction| reduction.param).collect(),
            nested: self.nested.clone(),
            ..Rust::new(self.module, self.uses, function, self.rt)
        };
        let body = Regions { rust: &inner, differing, derived: &derived }.steps(&steps);
        let group = Grouped { kept, filled, returns, spread, body };
        self.group_functions(uses, &group, slots)
    }

    /// The variables that need a place for each item.
    fn kept(&self, regions: &[Vec<&Stmt>], differing: &Differing, derived: &Derived<'_>) -> BTreeSet<VarId> {
        let sets: Vec<BTreeSet<VarId>> =
            regions.iter().map(|stmts| stmts.iter().flat_map(|stmt| used(stmt)).collect()).collect();
        let mut kept: BTreeSet<VarId> =
            self.function.reductions.iter().map(|reduction| reduction.param).collect();
        for &var in differing.vars.iter().filter(|var| !derived.contains(**var)) {
            let places = sets.iter().filter(|set| set.contains(&var)).count();
            if places > 1 || self.function.params.contains(&var) {
                kept.insert(var);
            }
        }
        kept
    }

    /// How many elements of a local memory need not be cleared.
    fn filled(&self, memory: VarId, fill: Option<&Fill>) -> TokenStream {
        let each = self.nested.get(&memory).map_or(1, |inner| inner.iter().product());
        let Some(Fill { conditions, count, .. }) = fill.filter(|fill| fill.inner == each) else {
            return quote!(0);
        };
        let items = |dim: usize, factor: u32| quote!(item.local_size[#dim].saturating_mul(#factor));
        let conditions = conditions.iter().map(|(dim, factor, least)| {
            let items = items(*dim, *factor);
            quote!(#items >= #least &&)
        });
        let count = match count {
            Count::Items(dim, factor) => items(*dim, *factor),
            Count::Number(number) => quote!(#number),
        };
        quote!(if #(#conditions)* true { #count } else { 0 })
    }

    fn group_functions(
        &self,
        uses: &Uses,
        Grouped { kept, filled, returns, spread, body }: &Grouped<'_>,
        slots: &[usize],
    ) -> TokenStream {
        let (rt, function) = (self.rt, self.function);
        let (mut generics, mut params, mut names) = (vec![], vec![], vec![]);
        let (mut values, mut shared, mut patterns, mut plains) = (vec![], vec![], vec![], vec![]);
        for (&param, slot) in function.params.iter().zip(slots) {
            let (name, var) = (self.name(param), &function.vars[param]);
            let ty = self.ty(&var.ty);
            match &var.kind {
                kind if is_reached(kind) => {
                    params.push(quote!(#name: #rt::Reached<'_, #ty>));
                    values.push(self.reached_view(param, *slot));
                }
                VarKind::Slice(slice) => {
                    if slice.space == Space::Global {
                        let (generic, bound) = (format_ident!("S{}", param), self.bound(param, slice, uses));
                        generics.push(quote!(#generic: #bound));
                        params.push(quote!(#name: #generic));
                    } else {
                        let dims = slice.dims as usize;
                        params.push(quote!(#name: #rt::Local<'_, #ty, #dims>));
                    }
                    let dims = slice.dims as usize;
                    match slice {
                        Slice { space: Space::Local(local), .. } => {
                            let (store, len) = (
                                format_ident!("{}_store", name),
                                match local {
                                    Some(len) => {
                                        let len = *len as usize;
                                        quote!(#len)
                                    }
                                    None => quote!(launch.value::<u32>(#slot) as usize),
                                },
                            );
                            let inner = self.nested.get(&param).map_or(&[][..], |lens| lens);
                            let each = inner.iter().map(|len| *len as usize).product::<usize>();
                            let known = local.map(|len| len as usize * each);
                            let made = match (&var.ty, known) {
                                (Ty::Scalar(_), Some(all)) if all <= MOST_ON_STACK => {
                                    quote!(#rt::few_cells::<#ty, #all>())
                                }
                                _ => quote!(#rt::cells::<#ty>(#len * #each)),
                            };
                            values.push(quote! {
                                let #store = #made;
                                let #name = #rt::Local::new(&#store, [#len as u32 #(, #inner)*]);
                            });
                        }
                        Slice { may: May::Atomic, .. } => {
                            values.push(quote!(let #name = launch.atomics::<#ty, #dims>(#slot);));
                        }
                        Slice { may: May::Write, .. } if function.alone => {
                            shared.push(quote!(let #name = launch.shared::<#ty, #dims>(#slot);));
                            patterns.push(quote!(Some(#name)));
                            plains.push(alone(&ty, dims, *slot));
                        }
                        Slice { may: May::Write, .. } if spread.tests.contains_key(&param) => {
                            shared.push(quote!(let #name = launch.shared::<#ty, #dims>(#slot);));
                            patterns.push(quote!(Some(#name)));
                            plains.push(spread_out(&spread.tests[&param], &ty, dims, *slot));
                        }
                        Slice { may: May::Write, .. } => {
                            values.push(quote!(let #name = launch.shared::<#ty, #dims>(#slot);));
                        }
                        Slice { may: May::Read, .. } => {
                            shared.push(quote!(let #name = launch.shared::<#ty, #dims>(#slot);));
                            patterns.push(quote!(Some(#name)));
                            plains.push(quote!(launch.plain::<#ty, #dims>(#slot)));
                        }
                    }
                }
                VarKind::Ref => {
                    let all = format_ident!("{}_all", name);
                    params.push(quote!(#all: &::core::cell::Cell<#ty>));
                    names.push(quote!(&#all));
                    continue;
                }
                VarKind::Value => {
                    params.push(quote!(mut #name: #ty));
                    values.push(match &var.ty {
                        Ty::Scalar(Scalar::Bool) => quote!(let #name = launch.value::<u32>(#slot) != 0;),
                        _ => quote!(let #name = launch.value::<#ty>(#slot);),
                    });
                }
            }
            names.push(quote!(#name));
        }
        let (mut opening, mut closing) = (Vec::new(), Vec::new());
        for &var in kept {
            let (cells, name, ty) = (cells_name(self, var), self.name(var), self.ty(&function.vars[var].ty));
            params.push(quote!(#cells: &[::core::cell::Cell<#ty>]));
            values.push(quote!(let #cells = &#rt::cells::<#ty>(launch.group_items())[..];));
            names.push(quote!(#cells));
            if let Some(reduction) = function.reduction(var) {
                let (identity, all, operator) =
                    (self.value(&reduction.identity), format_ident!("{}_all", name), self.operator(var));
                opening.push(quote!(#cells.iter().for_each(|cell| cell.set(#identity));));
                closing.push(
                    quote!(#cells.iter().for_each(|cell| #all.set(#operator(#all.get(), cell.get())));),
                );
                values.push(quote!(let #all = ::core::cell::Cell::new(#identity);));
            } else if function.params.contains(&var) {
                opening.push(quote!(#cells.iter().for_each(|cell| cell.set(#name));));
            }
        }
        if *returns {
            params.push(quote!(alive: &[::core::cell::Cell<bool>]));
            values.push(quote!(let alive = &#rt::cells::<bool>(launch.group_items())[..];));
            names.push(quote!(alive));
            opening.push(quote!(alive.iter().for_each(|cell| cell.set(true));));
        }
        for &param in &function.params {
            if let VarKind::Slice(Slice { space: Space::Local(_), .. }) = function.vars[param].kind {
                let name = self.name(param);
                let from = self.filled(param, filled.get(&param));
                opening.push(quote!(#name.clear(#from);));
            }
        }
        let inferred = vec![quote!(_); generics.len()];
        let operators = self.operators();
        let after =
            function.params.iter().zip(slots).filter(|(param, _)| function.reduction(**param).is_some()).map(
                |(&param, slot)| {
                    let all = format_ident!("{}_all", self.name(param));
                    let operator = self.operator_of_numbers(param);
                    quote!(launch.reduce(#slot, #all.get(), #operator);)
                },
            );
        let call = quote! {
            match launch.dims() {
                1 => launch.groups(|group| work_group::<1, #(#inferred),*>(group, #(#names),*)),
                2 => launch.groups(|group| work_group::<2, #(#inferred),*>(group, #(#names),*)),
                _ => launch.groups(|group| work_group::<3, #(#inferred),*>(group, #(#names),*)),
            }
            #(#after)*
        };
        let fast = match plains.is_empty() {
            true => quote!(),
            false => quote!(if let (#(#patterns,)*) = (#(#plains,)*) {
                launch.takes("plain slices, a group on a thread");
                #call;
                return;
            }),
        };
        quote! {
            fn work_group<const D: usize, #(#generics),*>(group: &#rt::Group, #(#params),*) {
                // Where the group is stands in every item of it.
                let item = &group.first_item();
                #operators
                #(#opening)*
                #body
                #(#closing)*
            }

            fn run(launch: &#rt::Launch<'_>) {
                #operators
                #(#values)*
                #fast
                launch.takes_words();
                #(#shared)*
                #call
            }
        }
    }
}

/// The writer of a group's steps.
struct Regions<'r, 'm> {
    rust: &'r Rust<'m>,
    differing: &'r Differing,
    derived: &'r Derived<'m>,
}

impl<'m> Regions<'_, 'm> {
    fn steps(&self, steps: &[Step<'m>]) -> TokenStream {
        steps.iter().map(|step| self.step(step)).collect()
    }

    fn step(&self, step: &Step<'m>) -> TokenStream {
        let rust = self.rust;
        match step {
            Step::Region(stmts) => self.region(stmts),
            Step::Once(stmt) => rust.stmt(stmt),
            Step::Barrier => quote!(),
            Step::If(condition, yes, no) => {
                let (condition, yes, no) = (rust.value(condition), self.steps(yes), self.steps(no));
                quote!(if #condition { #yes } else { #no })
            }
            Step::Block(body) => self.steps(body),
            Step::While(condition, body) => {
                let (condition, body, over) = (rust.value(condition), self.steps(body), self.over());
                quote!(while #condition { #over #body })
            }
            Step::Loop(body) => {
                let (body, over) = (self.steps(body), self.over());
                quote!(loop { #over #body })
            }
            Step::For(Stmt::For { var, from, to, inclusive, .. }, body) => {
                let (name, from, to, body, over) =
                    (rust.name(*var), rust.value(from), rust.value(to), self.steps(body), self.over());
                match inclusive {
                    true => quote!(for mut #name in #from..=#to { #over #body }),
                    false => quote!(for mut #name in #from..#to { #over #body }),
                }
            }
            Step::For(..) => quote!(),
        }
    }

    /// Leaves a loop of the group's when all of its items have returned.
    fn over(&self) -> TokenStream {
        match self.rust.alive {
            true => quote!(if alive.iter().all(|alive| !alive.get()) {
                break;
            }),
            false => quote!(),
        }
    }

    /// A loop over the group's items.
    fn region(&self, stmts: &[&'m Stmt]) -> TokenStream {
        // What does nothing but give names needs no loop.
        if stmts.iter().all(|stmt| self.derived.is_binding(stmt)) {
            return quote!();
        }
        let (rt, rust) = (self.rust.rt, self.rust);
        let used: BTreeSet<VarId> = stmts.iter().flat_map(|stmt| used(stmt)).collect();
        let (mut rows, mut takes, mut gives) = (Vec::new(), Vec::new(), Vec::new());
        for &var in rust.kept.intersection(&used) {
            let (cells, name) = (cells_name(rust, var), rust.name(var));
            rows.push(quote!(let #cells = row.of(#cells);));
            takes.push(quote!(let mut #name = #cells[k].get();));
            gives.push(quote!(#cells[k].set(#name);));
        }
        let bindings = self.derived.bindings(rust, &used.difference(&declared(stmts)).copied().collect());
        let body = stmts.iter().map(|stmt| rust.stmt(stmt));
        let fast = match rust.alive {
            true => Fast { row: quote!(let (from, count) = (0_usize, row.count());), ..Fast::default() },
            false => Region::new(rust, self.derived, self.differing).fast(stmts),
        };
        if rust.alive {
            rows.push(quote!(let alive = row.of(alive);));
            takes.push(quote!(if !alive[k].get() {
                continue;
            }));
        }
        let Fast { before, row, pairs } = fast;
        let loops = quote! {
            for row in group.rows::<D>() {
                #(#rows)*
                #row
                for k in from..count {
                    let item = &#rt::Row::item::<D>(&row, k);
                    #bindings
                    #(#takes)*
                    'item: { #(#body)* }
                    #(#gives)*
                }
            }
        };
        match pairs {
            // Nothing is left of most groups.
            Some(pairs) => quote! {{
                #before
                #pairs
                if paired < group.items() || group.row_items::<D>() % #rt::LANES > 0 {
                    #loops
                }
            }},
            None => quote!({ #before #loops }),
        }
    }
}

pub(super) fn cells_name(rust: &Rust<'_>, var: VarId) -> proc_macro2::Ident {
    format_ident!("{}_cells", rust.name(var))
}

fn collect<'m>(steps: &[Step<'m>], regions: &mut Vec<Vec<&'m Stmt>>) {
    for step in steps {
        match step {
            Step::Region(stmts) => regions.push(stmts.clone()),
            Step::If(_, yes, no) => {
                collect(yes, regions);
                collect(no, regions);
            }
            Step::While(_, body) | Step::Block(body) | Step::Loop(body) | Step::For(_, body) => {
                collect(body, regions)
            }
            Step::Barrier | Step::Once(_) => {}
        }
    }
}
