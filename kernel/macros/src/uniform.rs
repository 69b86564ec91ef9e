//! What is the same for all items of a work-group, and where all of them are at once.
//!
//! A barrier waits for every item of its group, so all of them must come to it: it may stand only where control does
//! not depend on anything that differs between items. What is found here decides that, and lets the host run a group
//! as loops over its items from barrier to barrier.

use std::collections::BTreeSet;

use proc_macro2::Span;

use crate::builtin::{Id, SubgroupOp};
use crate::errors::Errors;
use crate::flow::returns;
use crate::hir::{
    Arg, Base, Block, Expr, Function, Kind, May, Module, Node, Stmt, VarId, VarKind, walk, walk_block,
};
use crate::shown::shown;
use crate::uses::Uses;

/// What differs between the items of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Differing {
    pub(crate) vars: BTreeSet<VarId>,
}

struct Analysis<'m> {
    module: &'m Module,
    uses: &'m [Uses],
    function: &'m Function,
    vars: BTreeSet<VarId>,
    /// Barriers that not all items come to, and what that depends on.
    misplaced: Vec<(Span, Option<String>)>,
    /// Operations of sub-groups, likewise.
    apart: Vec<(Span, Option<String>)>,
    /// The conditions around what is being looked at that differ between items, and that which some have left by.
    conditions: Vec<String>,
    left_by: Option<String>,
    /// Whether some items may have left the function, or the loop that is being looked at.
    left: bool,
    loop_left: bool,
    /// Whether this is inside an expression whose value is wanted, or a `match`: what is assigned there is not looked at
    /// further, and counts as differing.
    in_value: bool,
}

/// The variables of a kernel that differ between items. Barriers that some items may miss are reported, and operations of
/// sub-groups.
pub(crate) fn differing(module: &Module, uses: &[Uses], at: usize, errors: &mut Errors) -> Differing {
    let function = &module.functions[at];
    let mut analysis = Analysis {
        module,
        uses,
        function,
        vars: function.reductions.iter().map(|reduction| reduction.param).collect(),
        misplaced: Vec::new(),
        apart: Vec::new(),
        conditions: Vec::new(),
        left_by: None,
        left: false,
        loop_left: false,
        in_value: false,
    };
    // What differs makes more differ, until nothing changes.
    loop {
        let before = analysis.vars.len();
        analysis.misplaced.clear();
        analysis.apart.clear();
        (analysis.left, analysis.loop_left, analysis.left_by) = (false, false, None);
        analysis.block(&function.body, false);
        if analysis.vars.len() == before {
            break;
        }
    }
    for (span, why) in analysis.misplaced {
        let why = why.unwrap_or_else(|| {
            "whether they do depends on something that differs between them, or it stands in a `match`".into()
        });
        errors.at(
            span,
            format!(
                "not all items of a work-group come to this `barrier()`: {why}. Move it out of the `if`, the loop or the \
                 `match`, or to before the `return`"
            ),
        );
    }
    for (span, why) in analysis.apart {
        let why =
            why.unwrap_or_else(|| "whether they do depends on something that differs between them".into());
        errors.at(
            span,
            format!(
                "not all items of a sub-group come to this: {why}. Do it before the `if` or the loop, and use its value there"
            ),
        );
    }
    Differing { vars: analysis.vars }
}

impl Analysis<'_> {
    fn block(&mut self, block: &Block, apart: bool) {
        for stmt in &block.stmts {
            self.stmt(stmt, apart);
        }
        if let Some(tail) = &block.tail {
            self.expr(tail, apart);
        }
    }

    /// `apart`: only some items may be here.
    fn stmt(&mut self, stmt: &Stmt, apart: bool) {
        let apart = apart || self.left || self.loop_left;
        match stmt {
            Stmt::Let(var, init) => {
                if let Some(init) = init {
                    self.value(init, apart);
                    // What returns in the middle of a value does so for each item.
                    if apart || self.in_value || returns(stmt) || self.differs(init) {
                        self.vars.insert(*var);
                    }
                }
            }
            Stmt::Assign(place, _, value) => {
                self.value(value, apart);
                if let Base::Var(var) = place.base {
                    let path = place.path.iter().any(|step| match step {
                        crate::hir::Step::Index(index, _) => self.differs(index),
                        _ => false,
                    });
                    if apart || path || self.in_value || returns(stmt) || self.differs(value) {
                        self.vars.insert(var);
                    }
                }
            }
            Stmt::Expr(expr) => self.expr(expr, apart),
            Stmt::While(condition, body) => {
                self.value(condition, apart);
                let differs = self.differs(condition);
                self.under(differs.then_some(condition), |of| of.repeated(body, apart || differs));
            }
            Stmt::Loop(body) => self.repeated(body, apart),
            Stmt::For { var, from, to, body, .. } => {
                let differs = self.differs(from) || self.differs(to);
                self.value(from, apart);
                self.value(to, apart);
                if apart || differs || self.in_value {
                    self.vars.insert(*var);
                }
                self.repeated(body, apart || differs);
            }
            // What a `match` sends out of a loop is not followed: the loop counts as one that some leave.
            Stmt::Break | Stmt::Continue => self.loop_left |= apart || self.in_value,
            Stmt::Return(value) => {
                value.iter().for_each(|value| self.value(value, apart));
                if apart && !self.left {
                    self.left_by = self.conditions.last().cloned();
                }
                self.left |= apart;
            }
        }
    }

    /// A loop's body: what some items leave early they all are apart in, from its start on.
    fn repeated(&mut self, body: &Block, apart: bool) {
        let outer = std::mem::replace(&mut self.loop_left, false);
        self.block(body, apart);
        if self.loop_left {
            self.block(body, true);
        }
        self.loop_left = outer;
    }

    /// Looks at what stands under a condition, if that differs.
    fn under(&mut self, condition: Option<&Expr>, look: impl FnOnce(&mut Self)) {
        let text = condition.map(|condition| shown(self.module, self.function, condition));
        let pushed = text.is_some();
        self.conditions.extend(text);
        look(self);
        if pushed {
            self.conditions.pop();
        }
    }

    /// What keeps items away from here, if it is short enough to say.
    fn why(&self) -> Option<String> {
        let short = |text: &&String| text.len() <= 60;
        let around = self.conditions.last().filter(short);
        let around =
            around.map(|of| format!("whether they do depends on `{of}`, which differs between them"));
        let before = || {
            let left_by = self.left_by.as_ref().filter(|_| self.left).filter(short)?;
            Some(format!("some have returned before it, where `{left_by}`"))
        };
        around.or_else(before)
    }

    /// An expression whose value is wanted.
    fn value(&mut self, expr: &Expr, apart: bool) {
        let outer = std::mem::replace(&mut self.in_value, true);
        self.expr(expr, apart);
        self.in_value = outer;
    }

    fn expr(&mut self, expr: &Expr, apart: bool) {
        let apart = apart || self.left || self.loop_left;
        match &expr.kind {
            Kind::Barrier => {
                if apart || self.in_value {
                    let why = self.why();
                    self.misplaced.push((expr.span, why));
                }
            }
            Kind::Subgroup(op, operands) => {
                if apart && !op.is_number() {
                    let why = self.why();
                    self.apart.push((expr.span, why));
                }
                operands.iter().for_each(|operand| self.value(operand, apart));
            }
            Kind::If(condition, yes, no) => {
                self.value(condition, apart);
                let differs = self.differs(condition);
                let apart = apart || differs;
                self.under(differs.then_some(condition), |of| {
                    of.block(yes, apart);
                    of.block(no, apart);
                });
            }
            Kind::Match(of, arms) => {
                self.value(of, apart);
                let apart = apart || self.differs(of);
                let outer = std::mem::replace(&mut self.in_value, true);
                arms.iter().for_each(|(_, block)| self.block(block, apart));
                self.in_value = outer;
            }
            Kind::Block(block) => self.block(block, apart),
            Kind::Logic(_, a, b) => {
                self.value(a, apart);
                let apart = apart || self.differs(a);
                self.value(b, apart);
            }
            Kind::Call(_, args) => {
                for arg in args {
                    match arg {
                        Arg::Value(value) => self.value(value, apart),
                        // A helper that changes a variable does so for each item.
                        Arg::Ref(place) => {
                            if let Base::Var(var) = place.base {
                                self.vars.insert(var);
                            }
                        }
                        Arg::Slice(_) | Arg::Piece(_) => {}
                    }
                }
            }
            _ => for_parts(expr, &mut |part| self.value(part, apart)),
        }
    }

    /// Whether anything in an expression differs between items. An expression that does not can be evaluated once for
    /// the group, so what is thrown away in it counts too.
    fn differs(&self, expr: &Expr) -> bool {
        let mut differs = false;
        walk(expr, &mut |node| {
            differs |= match node {
                Node::Expr(expr) => match &expr.kind {
                    Kind::Id(id, _) => matches!(id, Id::Global | Id::Local),
                    Kind::Var(var) => self.vars.contains(var),
                    // What nobody writes is the same for all who look at one place.
                    Kind::Element(var, _) => !self.only_read(*var),
                    Kind::Atomic(..) => true,
                    Kind::Subgroup(op, _) => !matches!(op, SubgroupOp::Size | SubgroupOp::Count),
                    Kind::Call(at, args) => {
                        self.uses[*at].own_position || args.iter().any(|arg| self.may_write(arg))
                    }
                    _ => false,
                },
                Node::Place(place) => match place.base {
                    Base::Var(var) => self.vars.contains(&var),
                    Base::Element(..) => true,
                },
                Node::Block(_) | Node::Stmt(_) => false,
            };
        });
        differs
    }

    fn may_write(&self, arg: &Arg) -> bool {
        matches!(arg, Arg::Slice(var) if !self.only_read(*var))
    }

    fn only_read(&self, var: VarId) -> bool {
        matches!(&self.function.vars[var].kind, VarKind::Slice(slice) if slice.may == May::Read)
    }
}

/// The expressions right inside another one, blocks left aside.
fn for_parts<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    match &expr.kind {
        Kind::Unary(_, a)
        | Kind::Cast(a)
        | Kind::Field(a, _)
        | Kind::Component(a, _)
        | Kind::Swizzle(a, _)
        | Kind::Repeat(a)
        | Kind::Splat(a) => visit(a),
        Kind::Binary(_, a, b) | Kind::Logic(_, a, b) | Kind::Index(a, b) => {
            visit(a);
            visit(b);
        }
        Kind::Element(_, list)
        | Kind::Math(_, list)
        | Kind::Subgroup(_, list)
        | Kind::Struct(_, list)
        | Kind::Array(list)
        | Kind::Vector(list) => list.iter().for_each(visit),
        Kind::Call(_, args) => {
            for arg in args {
                if let Arg::Value(value) = arg {
                    visit(value);
                }
            }
        }
        Kind::If(condition, ..) => visit(condition),
        Kind::Match(of, _) => visit(of),
        Kind::Atomic(_, _, at, operands) => at.iter().chain(operands).for_each(visit),
        _ => {}
    }
}

/// Whether a barrier stands in a block.
pub(crate) fn has_barrier(block: &Block) -> bool {
    let mut found = false;
    walk_block(block, &mut |node| {
        found |= matches!(node, Node::Expr(Expr { kind: Kind::Barrier, .. }));
    });
    found
}
