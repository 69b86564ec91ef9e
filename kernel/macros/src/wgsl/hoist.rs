//! Comparisons of indices that are made once for a loop. What a loop that counts to a bound reaches lies inside if its
//! farthest element does: `x[row + k]` for all `k < n` if `row < len` and `n <= len - row`. Such a loop is written twice:
//! once for where that holds, in which the text promises what follows, and once as it stands.

use std::collections::{BTreeMap, BTreeSet};

use super::stmt::Body;
use crate::hir::{
    Arg, Base, BinOp, Block, Expr, Function, Kind, Node, Place, Slice, Space, Stmt, VarId, VarKind, walk,
    walk_block,
};
use crate::ty::U32;

/// An element that a loop reaches: of which memory, and where.
pub(super) type Reached<'m> = (VarId, Vec<&'m Expr>);

/// What is known about a loop.
struct Loop<'m> {
    counter: VarId,
    /// What may have another value in another turn.
    changing: BTreeSet<VarId>,
    /// Names that are bound in each turn anew.
    bindings: BTreeMap<VarId, &'m Expr>,
}

/// An index as the counter, so many times, and what stays the same.
struct Line<'m> {
    /// Whether it is the counter not even once.
    is_still: bool,
    factor: Option<&'m Expr>,
    rest: Vec<&'m Expr>,
}

impl<'m> Loop<'m> {
    /// A loop that runs while `counter < bound`, unless something in it is in the way.
    fn new(function: &Function, (counter, bound): (VarId, &'m Expr), body: &'m Block) -> Option<Self> {
        let (mut changing, mut bindings, mut plain) = (BTreeSet::from([counter]), BTreeMap::new(), true);
        walk_block(body, &mut |node| match node {
            Node::Stmt(Stmt::Let(var, init)) => {
                changing.insert(*var);
                let fixed = init.as_ref().filter(|_| !function.vars[*var].mutable);
                bindings.extend(fixed.map(|init| (*var, init)));
            }
            Node::Stmt(Stmt::While(..) | Stmt::Loop(_) | Stmt::For { .. }) => plain = false,
            // All items of a group come to the same one.
            Node::Expr(Expr { kind: Kind::Barrier | Kind::Subgroup(..), .. }) => plain = false,
            Node::Expr(Expr { kind: Kind::Call(_, args), .. }) => {
                changing.extend(args.iter().filter_map(|arg| match arg {
                    Arg::Ref(Place { base: Base::Var(var), .. }) => Some(*var),
                    _ => None,
                }));
            }
            Node::Place(Place { base: Base::Var(var), .. }) => {
                changing.insert(*var);
            }
            _ => {}
        });
        let found = Loop { counter, changing, bindings };
        (plain && bound.ty == U32 && found.stays(bound)).then_some(found)
    }

    /// Whether an expression has one value in all turns, and may be evaluated at any time.
    fn stays(&self, expr: &Expr) -> bool {
        match &expr.kind {
            Kind::Int(_) | Kind::Len(..) | Kind::Id(..) => true,
            Kind::Var(var) => !self.changing.contains(var),
            Kind::Field(of, _) | Kind::Component(of, _) => self.stays(of),
            Kind::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul, a, b) => self.stays(a) && self.stays(b),
            Kind::Binary(BinOp::Div | BinOp::Rem, a, b) => self.stays(a) && matches!(b.kind, Kind::Int(1..)),
            _ => false,
        }
    }

    /// An index without the names that are bound in the loop.
    fn resolved(&self, index: &'m Expr) -> &'m Expr {
        match &index.kind {
            Kind::Var(var) => self.bindings.get(var).map_or(index, |bound| self.resolved(bound)),
            _ => index,
        }
    }

    /// An index as a line along the counter.
    fn line(&self, index: &'m Expr) -> Option<Line<'m>> {
        let index = self.resolved(index);
        if index.ty != U32 {
            return None;
        }
        if self.stays(index) {
            return Some(Line { is_still: true, factor: None, rest: vec![index] });
        }
        let is_counter = |expr: &Expr| matches!(expr.kind, Kind::Var(var) if var == self.counter);
        let (mut factor, mut rest, mut open) = (None, Vec::new(), vec![index]);
        while let Some(term) = open.pop() {
            let along = match &term.kind {
                _ if self.stays(term) => {
                    rest.push(term);
                    continue;
                }
                Kind::Binary(BinOp::Add, a, b) => {
                    open.extend([&**a, &**b]);
                    continue;
                }
                Kind::Binary(BinOp::Mul, a, b) if is_counter(a) && self.stays(b) => Some(&**b),
                Kind::Binary(BinOp::Mul, a, b) if is_counter(b) && self.stays(a) => Some(&**a),
                _ if is_counter(term) => None,
                _ => return None,
            };
            if factor.replace(along).is_some() {
                return None;
            }
        }
        Some(Line { is_still: false, factor: factor?, rest })
    }
}

impl<'m> Body<'_, 'm> {
    /// What a loop that runs while `counter < bound` reaches, if that can be compared before it, and the comparison.
    pub(super) fn hoisted(
        &mut self,
        (counter, bound): (VarId, &'m Expr),
        body: &'m Block,
    ) -> Option<(String, Vec<Reached<'m>>)> {
        let function = self.function;
        let around = Loop::new(function, (counter, bound), body)?;
        let mut found: Vec<Reached<'m>> = Vec::new();
        walk_block(body, &mut |node| {
            let (var, at) = match node {
                Node::Expr(Expr { kind: Kind::Element(var, at), .. }) => (*var, at),
                Node::Place(Place { base: Base::Element(var, at), .. }) => (*var, at),
                _ => return,
            };
            let global =
                matches!(&function.vars[var].kind, VarKind::Slice(Slice { space: Space::Global, .. }));
            if global && at.iter().all(|index| around.line(index).is_some()) {
                found.push((var, at.iter().map(|index| around.resolved(index)).collect()));
            }
        });
        let bound = self.value(bound);
        let mut conditions = Vec::new();
        for (var, at) in &found {
            let limits = self.limits(*var, at.len());
            for (index, limit) in at.iter().zip(limits) {
                let condition = self.line_inside(&around.line(index)?, &bound, &limit);
                if !conditions.contains(&condition) {
                    conditions.push(condition);
                }
            }
        }
        (!conditions.is_empty()).then(|| (conditions.join(" & "), found))
    }

    /// How far the indices of a memory may go.
    fn limits(&self, var: VarId, dims: usize) -> Vec<String> {
        let name = &self.writer.memories[self.memories[&var]].name;
        match dims {
            1 => vec![format!("block.{name}_len")],
            dims => (0..dims).map(|dim| format!("block.{name}_extent_{dim}")).collect(),
        }
    }

    /// The condition that a line lies below a limit as far as the counter goes.
    fn line_inside(&mut self, line: &Line<'m>, bound: &str, limit: &str) -> String {
        let rest: Vec<String> = line.rest.iter().map(|term| self.value(term)).collect();
        let start = if rest.is_empty() { "0u".into() } else { rest.join(" + ") };
        match line.factor {
            // It does not move.
            None if line.is_still => format!("({start} < {limit})"),
            None => format!("({start} < {limit}) & ({bound} <= {limit} - ({start}))"),
            Some(factor) => {
                let factor = self.value(factor);
                format!("({start} < {limit}) & ({bound} <= ({limit} - 1u - ({start})) / {factor} + 1u)")
            }
        }
    }

    /// Says what the comparison before the loop has made sure of.
    pub(super) fn promise(&mut self, reached: &[Reached<'m>]) {
        for (var, at) in reached {
            let indices: Vec<String> = at.iter().map(|index| self.value(index)).collect();
            for (index, limit) in indices.iter().zip(self.limits(*var, at.len())) {
                self.line(format!("w_promised({index} < {limit});"));
            }
        }
    }
}

/// The counter and the bound of a loop that runs while one is below the other, if it is counted on at the end of a turn only.
pub(super) fn counting<'m>(condition: &'m Expr, body: &'m Block) -> Option<(VarId, &'m Expr)> {
    let (counter, bound) = match &condition.kind {
        Kind::Binary(BinOp::Lt, counter, bound) => (counter, bound),
        Kind::Binary(BinOp::Gt, bound, counter) => (counter, bound),
        _ => return None,
    };
    let Kind::Var(counter) = counter.kind else { return None };
    let counts =
        |stmt: &Stmt| matches!(stmt, Stmt::Assign(Place { base: Base::Var(var), .. }, ..) if *var == counter);
    let (last, before) = body.stmts.split_last()?;
    let Stmt::Assign(_, _, by) = last else { return None };
    let mut changed = false;
    let mut look = |node: Node<'_>| {
        changed |= matches!(node, Node::Place(Place { base: Base::Var(var), .. }) if *var == counter);
        // Who continues has not counted.
        changed |= matches!(node, Node::Stmt(Stmt::Continue));
    };
    before.iter().for_each(|stmt| crate::hir::walk_stmt(stmt, &mut look));
    let mut reads = false;
    walk(by, &mut |node| {
        reads |= matches!(node, Node::Expr(Expr { kind: Kind::Element(..) | Kind::Call(..), .. }))
    });
    (counts(last) && !changed && !reads && body.tail.is_none()).then_some((counter, &**bound))
}
