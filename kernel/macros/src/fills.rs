//! Local memory that a kernel fills before it does anything else with it, and that need not be cleared therefore.
//!
//! A memory is filled by a statement that all items of a group run, that gives each element of a beginning of the memory
//! a value (`tile[y * 16 + x] = …`), and behind which they wait before anybody touches the memory in another way. How many
//! elements that is depends on the group's shape, so that what is found here is a question to the launch.

use std::collections::BTreeMap;

use crate::builtin::Id;
use crate::flow::returns;
use crate::hir::{
    Arg, Base, BinOp, Block, Expr, Function, Kind, May, Module, Node, Place, Slice, Space, Step, Stmt, VarId,
    VarKind, walk, walk_block, walk_stmt,
};
use crate::ty::{Scalar, Ty};
use crate::uniform::has_barrier;

/// Larger factors are not looked at, so that no product here overflows in any launch.
const MOST: u32 = 4096;

/// A beginning of a memory that is filled, counted in what one statement writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    /// What has to hold in a launch: the group's extent along a dimension, times a factor, is at least so much.
    pub(crate) conditions: Vec<(usize, u32, u32)>,
    pub(crate) count: Count,
    /// How many of what is written make one element of the memory.
    pub(crate) inner: u32,
    /// Which statement of the kernel's body is the barrier behind the filling, where it is one of these itself.
    pub(crate) waits: Option<usize>,
}

/// How much is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// The group's extent along a dimension, times a factor.
    Items(usize, u32),
    Number(u32),
}

/// The local memories of a kernel that are filled first.
pub(crate) fn fills(module: &Module, function: &Function) -> BTreeMap<VarId, Fill> {
    // Who has returned fills nothing.
    if function.body.stmts.iter().any(returns) {
        return BTreeMap::new();
    }
    let mut names = BTreeMap::new();
    walk_block(&function.body, &mut |node| {
        if let Node::Stmt(Stmt::Let(var, Some(value))) = node
            && !function.vars[*var].mutable
        {
            names.insert(*var, value);
        }
    });
    let is_local = |var: &&VarId| {
        let VarKind::Slice(slice) = &function.vars[**var].kind else { return false };
        matches!(slice, Slice { space: Space::Local(_), dims: 1, may: May::Write, .. })
    };
    let memories = function.params.iter().filter(is_local);
    memories
        .filter_map(|&memory| {
            let mut search = Search { module, function, names: &names, memory, found: None };
            search.block(&function.body, State::Untouched)?;
            Some((memory, search.found?))
        })
        .collect()
}

/// How a memory stands at a point of the kernel, for all items of the group alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Untouched,
    /// It is being filled, and nobody has waited yet.
    Filling,
    Filled,
    /// It may be filled, or not: whoever touches it now may find anything.
    Unknown,
}

struct Search<'m> {
    module: &'m Module,
    function: &'m Function,
    /// What names that never change stand for.
    names: &'m BTreeMap<VarId, &'m Expr>,
    memory: VarId,
    found: Option<Fill>,
}

impl Search<'_> {
    /// How the memory stands behind a block; `None` where something touches it that may come before it is filled.
    fn block(&mut self, block: &Block, mut state: State) -> Option<State> {
        let is_body = std::ptr::eq(block, &raw const self.function.body);
        for (at, stmt) in block.stmts.iter().enumerate() {
            let before = state;
            state = self.stmt(stmt, state)?;
            let waited = (before, state) == (State::Filling, State::Filled);
            if let Some(found) = self.found.as_mut().filter(|_| waited && is_body) {
                found.waits = Some(at);
            }
        }
        match &block.tail {
            Some(tail) if self.touches(tail) && state != State::Filled => None,
            _ => Some(state),
        }
    }

    fn stmt(&mut self, stmt: &Stmt, state: State) -> Option<State> {
        if state == State::Filled {
            return Some(state);
        }
        match stmt {
            Stmt::Expr(Expr { kind: Kind::Barrier, .. }) => {
                Some(if state == State::Filling { State::Filled } else { state })
            }
            Stmt::Expr(Expr { kind: Kind::Block(block), .. }) => self.block(block, state),
            Stmt::Expr(Expr { kind: Kind::If(condition, yes, no), .. })
                if has_barrier(yes) || has_barrier(no) =>
            {
                if self.touches(condition) {
                    return None;
                }
                let (a, b) = (self.block(yes, state)?, self.block(no, state)?);
                Some(if a == b { a } else { State::Unknown })
            }
            Stmt::For { body, .. } | Stmt::While(_, body) | Stmt::Loop(body) if has_barrier(body) => {
                let mut head = false;
                match stmt {
                    Stmt::For { from, to, .. } => head = self.touches(from) || self.touches(to),
                    Stmt::While(condition, _) => head = self.touches(condition),
                    _ => {}
                }
                // Each turn fills the memory for itself, since the first one has to. Behind the loop nobody knows whether
                // there was one.
                let behind = self.block(body, state)?;
                match head {
                    true => None,
                    false => Some(if behind == state { state } else { State::Unknown }),
                }
            }
            _ => match self.mentions(stmt) {
                0 => Some(state),
                1 if state == State::Untouched => {
                    let fill = self.fill(stmt)?;
                    let same = self.found.as_ref().is_none_or(|found| *found == fill);
                    self.found = Some(fill);
                    same.then_some(State::Filling)
                }
                _ => None,
            },
        }
    }

    /// What a statement fills that is the only one to touch the memory for the time.
    fn fill(&self, stmt: &Stmt) -> Option<Fill> {
        match stmt {
            Stmt::Assign(place, None, _) => self.written(place, None),
            // Some elements an item, by a loop of a known length.
            Stmt::For { var, from, to, inclusive: false, body } if !self.function.vars[*var].mutable => {
                let (Kind::Int(0), Kind::Int(turns)) = (&from.kind, &to.kind) else { return None };
                let turns = u32::try_from(*turns).ok().filter(|turns| (1..=MOST).contains(turns))?;
                let mut left = false;
                walk_block(body, &mut |node| {
                    left |= matches!(node, Node::Stmt(Stmt::Break | Stmt::Continue));
                });
                let places = body.stmts.iter().filter_map(|stmt| match stmt {
                    Stmt::Assign(place, None, _) => self.written(place, Some((*var, turns))),
                    _ => None,
                });
                places.take(1).find(|_| !left)
            }
            _ => None,
        }
    }

    fn written(&self, place: &Place, turn: Option<(VarId, u32)>) -> Option<Fill> {
        let Base::Element(memory, at) = &place.base else { return None };
        let [at] = &at[..] else { return None };
        if *memory != self.memory {
            return None;
        }
        let var = turn.map(|(var, _)| var);
        let (mut index, mut inner) = (self.linear(at, var)?, 1_u32);
        for step in &place.path {
            let Step::Index(at, len) = step else { return None };
            let step = self.linear(at, var)?;
            // What is outside of a row is not written, and no element of the next one.
            if !index.is_position() && inner == 1 || !step.is_position() {
                return None;
            }
            index = index.times(*len)?.plus(step)?;
            inner = inner.checked_mul(*len)?;
        }
        index.fill(turn.map_or(1, |(_, turns)| turns), inner)
    }

    /// An index as a sum of positions in the group.
    fn linear(&self, expr: &Expr, turn: Option<VarId>) -> Option<Linear> {
        let again = |expr: &Expr| self.linear(expr, turn);
        if !matches!(expr.ty, Ty::Scalar(Scalar::U32 | Scalar::I32)) {
            return None;
        }
        match &expr.kind {
            Kind::Int(number) => Some(Linear::number(u32::try_from(*number).ok()?)),
            Kind::Const(at) => again(&self.module.consts[*at].value),
            Kind::Cast(of) => again(of),
            Kind::Var(var) if turn == Some(*var) => Some(Linear { turn: 1, ..Linear::default() }),
            Kind::Var(var) => again(self.names.get(var)?),
            Kind::Id(Id::Local, dim) => {
                let mut linear = Linear::default();
                linear.items[usize::from(*dim)] = 1;
                Some(linear)
            }
            Kind::Binary(BinOp::Add, a, b) => again(a)?.plus(again(b)?),
            Kind::Binary(BinOp::Mul, a, b) => {
                let (a, b) = (again(a)?, again(b)?);
                match (a.as_number(), b.as_number()) {
                    (_, Some(by)) => a.times(by),
                    (Some(by), _) => b.times(by),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn touches(&self, expr: &Expr) -> bool {
        let mut count = 0;
        walk(expr, &mut |node| count += self.touch(node));
        count > 0
    }

    /// How often a statement touches the memory.
    fn mentions(&self, stmt: &Stmt) -> usize {
        let mut count = 0;
        walk_stmt(stmt, &mut |node| count += self.touch(node));
        count
    }

    fn touch(&self, node: Node<'_>) -> usize {
        match node {
            Node::Expr(Expr { kind: Kind::Element(var, _) | Kind::Atomic(_, var, ..), .. }) => {
                usize::from(*var == self.memory)
            }
            Node::Expr(Expr { kind: Kind::Call(_, args), .. }) => {
                args.iter().filter(|arg| matches!(arg, Arg::Slice(var) if *var == self.memory)).count()
            }
            Node::Place(place) => {
                usize::from(matches!(&place.base, Base::Element(var, _) if *var == self.memory))
            }
            _ => 0,
        }
    }
}

/// A sum of an item's positions in its group, and of a loop's turn, each times a factor.
#[derive(Clone, Copy, Debug, Default)]
struct Linear {
    items: [u32; 3],
    turn: u32,
    number: u32,
}

impl Linear {
    fn number(number: u32) -> Self {
        Linear { number, ..Linear::default() }
    }

    fn as_number(&self) -> Option<u32> {
        (self.items == [0; 3] && self.turn == 0).then_some(self.number)
    }

    /// Whether it is a position along one dimension, and nothing else.
    fn is_position(&self) -> bool {
        let mut factors = self.items;
        factors.sort_unstable();
        factors == [0, 0, 1] && self.turn == 0 && self.number == 0
    }

    fn plus(self, other: Linear) -> Option<Linear> {
        self.with(|own, other| own.checked_add(other), other)
    }

    fn times(self, by: u32) -> Option<Linear> {
        self.with(|own, _| own.checked_mul(by), self)
    }

    fn with(self, each: impl Fn(u32, u32) -> Option<u32>, other: Linear) -> Option<Linear> {
        let of = |own, other| each(own, other).filter(|factor| *factor <= MOST);
        let [x, y, z] = [0, 1, 2].map(|dim| of(self.items[dim], other.items[dim]));
        Some(Linear {
            items: [x?, y?, z?],
            turn: of(self.turn, other.turn)?,
            number: of(self.number, other.number)?,
        })
    }

    /// What the items fill together: along the dimension of the smallest factor, neighbours; along each other one, and by
    /// the turns, pieces that leave no gap between them if those before are long enough.
    fn fill(self, turns: u32, inner: u32) -> Option<Fill> {
        let mut dims: Vec<(u32, usize)> =
            (0..3).map(|dim| (self.items[dim], dim)).filter(|(factor, _)| *factor > 0).collect();
        dims.sort_unstable();
        let (&(smallest, _), &(largest, dim)) = (dims.first()?, dims.last()?);
        if smallest != 1 || self.number != 0 {
            return None;
        }
        let mut conditions: Vec<(usize, u32, u32)> =
            dims.windows(2).map(|pair| (pair[0].1, pair[0].0, pair[1].0)).collect();
        let count = match self.turn {
            0 => Count::Items(dim, largest),
            step => {
                conditions.push((dim, largest, step));
                Count::Number(step.checked_mul(turns)?)
            }
        };
        Some(Fill { conditions, count, inner, waits: None })
    }
}
