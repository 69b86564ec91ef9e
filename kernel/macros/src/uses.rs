//! What a kernel does with its parameters: which it reads, which it writes, and whether each work-item keeps to its
//! own element.

use std::collections::BTreeSet;

use proc_macro2::Span;

use crate::builtin::Id;
use crate::errors::Errors;

use crate::hir::{
    Arg, Base, Expr, Function, Kind, May, Module, Node, Place, Slice, Space, Stmt, VarId, VarKind,
    walk_block, walk_stmt,
};
use crate::order::{Order, Scope};
use crate::ty::{Scalar, Ty};

/// What a function and its helpers do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    pub(crate) read: BTreeSet<VarId>,
    pub(crate) written: BTreeSet<VarId>,
    /// Whether positions in a work-group, local memory or barriers occur.
    pub(crate) groups: bool,
    /// Whether operations of sub-groups occur.
    pub(crate) subgroups: bool,
    /// The strongest order that a fence has.
    pub(crate) order: Option<Order>,
    /// Where an infinity is written.
    pub(crate) infinity: Option<Span>,
    /// Whether any position occurs.
    pub(crate) positions: bool,
    /// Whether one occurs that differs between the items of a group.
    pub(crate) own_position: bool,
}

/// The uses of each function of a module. A function that calls itself is reported.
pub(crate) fn all(module: &Module, errors: &mut Errors) -> Vec<Uses> {
    let mut found: Vec<Option<Uses>> = module.functions.iter().map(|_| None).collect();
    for at in 0..module.functions.len() {
        of(module, at, &mut Vec::new(), &mut found, errors);
    }
    found.into_iter().map(Option::unwrap_or_default).collect()
}

fn of(
    module: &Module,
    at: usize,
    calls: &mut Vec<usize>,
    found: &mut Vec<Option<Uses>>,
    errors: &mut Errors,
) -> Uses {
    if let Some(uses) = &found[at] {
        return uses.clone();
    }
    let function = &module.functions[at];
    if calls.contains(&at) {
        errors.at(
            function.name.span(),
            format!("`{}` calls itself, and devices have no stack for that; use a loop", function.name),
        );
        return Uses::default();
    }
    calls.push(at);
    let mut uses = Uses::default();
    uses.groups |=
        !function.group.is_empty() || function.params.iter().any(|&p| is_local(&function.vars[p].kind));
    let mut helpers: Vec<(usize, &[Arg])> = Vec::new();
    walk_block(&function.body, &mut |node| match node {
        Node::Expr(expr) => match &expr.kind {
            Kind::Element(var, _) => {
                uses.read.insert(*var);
            }
            Kind::Atomic(_, var, _, _) => {
                uses.read.insert(*var);
                uses.written.insert(*var);
            }
            Kind::Float(value) if value.is_infinite() => uses.infinity = Some(expr.span),
            Kind::Id(id, _) => {
                uses.positions = true;
                uses.own_position |= matches!(id, Id::Global | Id::Local);
                uses.groups |= id.needs_groups();
            }
            Kind::Barrier => {
                uses.groups = true;
            }
            Kind::Fence(order, scope) => {
                uses.order = uses.order.max(Some(*order));
                uses.groups |= *scope == Scope::Group;
            }
            Kind::Subgroup(..) => {
                uses.groups = true;
                uses.subgroups = true;
                uses.own_position = true;
            }
            Kind::Call(helper, args) => helpers.push((*helper, args)),
            _ => {}
        },
        Node::Place(place) => {
            if let Base::Element(var, _) = place.base {
                uses.written.insert(var);
            }
        }
        Node::Stmt(Stmt::Assign(place, Some(_), _)) => {
            if let Base::Element(var, _) = place.base {
                uses.read.insert(var);
            }
        }
        Node::Block(_) | Node::Stmt(_) => {}
    });
    for reduction in &function.reductions {
        if let Kind::Call(helper, _) = reduction.combined.kind
            && of(module, helper, calls, found, errors).positions
        {
            let span = reduction.combined.span;
            errors.at(
                span,
                "what makes one value of two asks for no positions: the values are those of any items",
            );
        }
    }
    for (helper, args) in helpers {
        let inner = of(module, helper, calls, found, errors);
        uses.groups |= inner.groups;
        uses.positions |= inner.positions;
        uses.own_position |= inner.own_position;
        uses.order = uses.order.max(inner.order);
        uses.infinity = uses.infinity.or(inner.infinity);
        for (&param, arg) in module.functions[helper].params.iter().zip(args) {
            match arg {
                Arg::Slice(var) => {
                    if inner.read.contains(&param) {
                        uses.read.insert(*var);
                    }
                    if inner.written.contains(&param) {
                        uses.written.insert(*var);
                    }
                }
                // What is behind `&mut` is read and written.
                Arg::Ref(place) => {
                    if let Base::Element(var, _) = place.base {
                        uses.read.insert(var);
                    }
                }
                Arg::Value(_) | Arg::Piece(_) => {}
            }
        }
    }
    if let Some(span) = uses.infinity.filter(|_| function.fast) {
        errors.at(
            span,
            "a kernel that is `fast` takes for granted that there are no infinities; start from `f32::MAX` or `f32::MIN`",
        );
    }
    calls.pop();
    found[at] = Some(uses.clone());
    uses
}

fn is_local(kind: &VarKind) -> bool {
    matches!(kind, VarKind::Slice(Slice { space: Space::Local(_), .. }))
}

/// The proof that a kernel works element by element: in a launch of so many dimensions each work-item writes elements at
/// its own position only, and reads what is written there only at that position.
#[derive(Clone, Debug)]
pub(crate) struct Elementwise {
    /// The dimensions of the launch, and of all that is written.
    pub(crate) dims: u8,
    /// Slices that are written, at the item's own position.
    pub(crate) own: BTreeSet<VarId>,
    /// Slices that are read at the item's own position, and nowhere else.
    pub(crate) along: BTreeSet<VarId>,
}

/// The proof, where it holds.
pub(crate) fn elementwise(function: &Function, uses: &Uses) -> Option<Elementwise> {
    if uses.groups || (uses.written.is_empty() && function.reductions.is_empty()) {
        return None;
    }
    let mut written = uses.written.iter().filter_map(|var| dims(function, *var));
    let launch = written.next().unwrap_or(1);
    if written.any(|other| other != launch) {
        return None;
    }
    let own_position = |at: &[Expr]| {
        let own = |(dim, index): (u8, &Expr)| position(function, index) == Some(dim);
        at.len() == usize::from(launch) && (0..).zip(at).all(own)
    };
    let (mut elsewhere, mut seen) = (BTreeSet::new(), BTreeSet::new());
    walk_block(&function.body, &mut |node| {
        let (var, own) = match node {
            Node::Expr(Expr { kind: Kind::Element(var, at), .. }) => (*var, own_position(at)),
            Node::Expr(Expr { kind: Kind::Atomic(_, var, ..), .. }) => (*var, false),
            Node::Place(place) => match &place.base {
                Base::Element(var, at) => (*var, own_position(at)),
                Base::Var(_) => return,
            },
            Node::Expr(Expr { kind: Kind::Call(_, args), .. }) => {
                elsewhere.extend(
                    args.iter().filter_map(|arg| if let Arg::Slice(var) = arg { Some(*var) } else { None }),
                );
                return;
            }
            _ => return,
        };
        seen.insert(var);
        if !own {
            elsewhere.insert(var);
        }
    });
    if !uses.written.is_disjoint(&elsewhere) {
        return None;
    }
    let readable = |var: &VarId| match &function.vars[*var].kind {
        VarKind::Slice(slice) => slice.may == May::Read && slice.dims == launch,
        _ => false,
    };
    let along = seen.difference(&elsewhere).copied().filter(readable).collect();
    Some(Elementwise { dims: launch, own: uses.written.clone(), along })
}

fn dims(function: &Function, var: VarId) -> Option<u8> {
    match &function.vars[var].kind {
        VarKind::Slice(slice) => Some(slice.dims),
        _ => None,
    }
}

/// The dimension of which an expression is the item's position: `global_id(d)`, a variable that is nothing else, or the component of a
/// vector that was made of such.
pub(crate) fn position(function: &Function, expr: &Expr) -> Option<u8> {
    match &made_of(function, expr).kind {
        Kind::Id(Id::Global, dim) => Some(*dim),
        Kind::Component(of, at) => match &made_of(function, of).kind {
            Kind::Vector(parts) => position(function, parts.get(usize::from(*at))?),
            _ => None,
        },
        _ => None,
    }
}

/// What an expression stands for, where it is a variable that does not change.
fn made_of<'f>(function: &'f Function, mut expr: &'f Expr) -> &'f Expr {
    while let Kind::Var(var) = &expr.kind
        && !function.vars[*var].mutable
        && let Some(bound) = bound_to(function, *var)
    {
        expr = bound;
    }
    expr
}

/// The parameters in memory that a kernel reaches at the item's own position, in all of the dimensions that it asks about.
pub(crate) fn placed(function: &Function, dims: u8) -> BTreeSet<VarId> {
    let own = |var: VarId, at: &[Expr]| {
        let global = matches!(&function.vars[var].kind, VarKind::Slice(Slice { space: Space::Global, .. }));
        let positions = at.iter().zip(0..).all(|(index, dim)| position(function, index) == Some(dim));
        (global && at.len() == usize::from(dims) && positions).then_some(var)
    };
    let mut placed = BTreeSet::new();
    walk_block(&function.body, &mut |node| match node {
        Node::Expr(Expr { kind: Kind::Element(var, at) | Kind::Atomic(_, var, at, _), .. }) => {
            placed.extend(own(*var, at));
        }
        Node::Place(Place { base: Base::Element(var, at), .. }) => placed.extend(own(*var, at)),
        _ => {}
    });
    placed
}

/// What a variable was bound to.
fn bound_to(function: &Function, var: VarId) -> Option<&Expr> {
    let mut bound = None;
    walk_block(&function.body, &mut |node| {
        if let Node::Stmt(Stmt::Let(of, init)) = node
            && *of == var
        {
            bound = init.as_ref();
        }
    });
    bound
}

/// Calls `visit` for all that a function is made of, and the helpers that it calls, each once.
fn walk_reached(module: &Module, at: usize, visit: &mut dyn FnMut(Node<'_>)) {
    let (mut seen, mut open) = (BTreeSet::from([at]), vec![at]);
    while let Some(at) = open.pop() {
        let function = &module.functions[at];
        let mut each = |node: Node<'_>| {
            if let Node::Expr(Expr { kind: Kind::Call(helper, _), .. }) = node
                && seen.insert(*helper)
            {
                open.push(*helper);
            }
            visit(node);
        };
        walk_block(&function.body, &mut each);
        function.reductions.iter().for_each(|reduction| crate::hir::walk(&reduction.combined, &mut each));
    }
}

/// How many dimensions a kernel and its helpers ask about, and at least one.
pub(crate) fn dims_asked(module: &Module, at: usize) -> u8 {
    let mut dims = 1;
    walk_reached(module, at, &mut |node| {
        if let Node::Expr(Expr { kind: Kind::Id(_, dim), .. }) = node {
            dims = dims.max(dim + 1);
        }
    });
    dims
}

/// Whether a helper of a kernel asks where it is.
pub(crate) fn helpers_ask(module: &Module, uses: &[Uses], at: usize) -> bool {
    let mut ask = false;
    walk_reached(module, at, &mut |node| {
        if let Node::Expr(Expr { kind: Kind::Call(helper, _), .. }) = node {
            ask |= uses[*helper].positions;
        }
    });
    ask
}

/// Whether a kernel and its helpers have loops, and whether all of them end: those that count up to a bound do.
pub(crate) fn loops(module: &Module, at: usize) -> (bool, bool) {
    let (mut any, mut ends) = (false, true);
    walk_reached(module, at, &mut |node| match node {
        Node::Stmt(Stmt::While(..) | Stmt::Loop(_)) => (any, ends) = (true, false),
        Node::Stmt(Stmt::For { .. }) => any = true,
        _ => {}
    });
    (any, ends)
}

/// The scalars that occur in a function and in the helpers that it calls.
pub(crate) fn scalars(module: &Module, at: usize) -> BTreeSet<Scalar> {
    let mut found = BTreeSet::new();
    let mut functions = BTreeSet::from([at]);
    walk_reached(module, at, &mut |node| {
        if let Node::Expr(expr) = node {
            scalars_of(module, &expr.ty, &mut found);
            if let Kind::Call(helper, _) = expr.kind {
                functions.insert(helper);
            }
        }
    });
    let vars = functions.iter().flat_map(|at| &module.functions[*at].vars);
    vars.for_each(|var| scalars_of(module, &var.ty, &mut found));
    found
}

fn scalars_of(module: &Module, ty: &Ty, found: &mut BTreeSet<Scalar>) {
    match ty {
        Ty::Scalar(scalar) => {
            found.insert(*scalar);
        }
        Ty::Vector(_, of) | Ty::Array(of, _) => scalars_of(module, of, found),
        Ty::Struct(at) => module.structs[*at].fields.iter().for_each(|(_, ty)| scalars_of(module, ty, found)),
        _ => {}
    }
}

/// Whether a statement may reach, reading or writing, a buffer that the kernel writes.
pub(crate) fn reaches_written(stmt: &Stmt, function: &Function) -> bool {
    let is_buffer = |var: &VarId| match &function.vars[*var].kind {
        VarKind::Slice(slice) => {
            matches!(slice.space, Space::Global | Space::Reached) && slice.may != May::Read
        }
        _ => false,
    };
    let mut found = false;
    walk_stmt(stmt, &mut |node| {
        found |= match node {
            Node::Place(Place { base: Base::Element(var, _), .. }) => is_buffer(var),
            Node::Expr(Expr { kind: Kind::Atomic(_, var, ..), .. }) => is_buffer(var),
            Node::Expr(Expr { kind: Kind::Call(_, args), .. }) => {
                args.iter().any(|arg| matches!(arg, Arg::Slice(var) if is_buffer(var)))
            }
            _ => false,
        };
    });
    found
}
