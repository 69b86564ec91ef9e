//! Checked kernels: every name resolved, every type known.

use proc_macro2::{Ident, Span};

use crate::builtin::{Id, Math, SubgroupOp};
use crate::order::{Order, Scope};
use crate::ty::Ty;

/// Position of a variable in its function.
pub(crate) type VarId = usize;

/// Everything that one attribute covers.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) structs: Vec<Struct>,
    pub(crate) consts: Vec<Const>,
    pub(crate) functions: Vec<Function>,
    /// Which of the functions are kernels.
    pub(crate) kernels: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) name: Ident,
    pub(crate) fields: Vec<(Ident, Ty)>,
}

#[derive(Debug)]
pub(crate) struct Const {
    pub(crate) name: Ident,
    pub(crate) ty: Ty,
    pub(crate) value: Expr,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: Ident,
    pub(crate) params: Vec<VarId>,
    pub(crate) vars: Vec<Var>,
    pub(crate) result: Ty,
    pub(crate) body: Block,
    /// Parameters that a kernel is built with.
    pub(crate) specs: Vec<VarId>,
    pub(crate) reductions: Vec<Reduction>,
    /// Whether no two work-items meet at an element that one of them writes, by its author's promise.
    pub(crate) alone: bool,
}

/// A parameter in which each work-item has a value of its own, all of which are combined in the end.
#[derive(Debug)]
pub(crate) struct Reduction {
    pub(crate) param: VarId,
    /// What each item starts with.
    pub(crate) identity: Expr,
    /// Two values, and what they make together.
    pub(crate) parts: [VarId; 2],
    pub(crate) combined: Expr,
    /// The atomic operation that is the same, if there is one.
    pub(crate) atomic: Option<AtomicOp>,
}

#[derive(Debug)]
pub(crate) struct Var {
    pub(crate) name: Ident,
    pub(crate) ty: Ty,
    pub(crate) mutable: bool,
    pub(crate) kind: VarKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VarKind {
    /// Bound by `let`, or a parameter by value.
    Value,
    /// A helper's `&mut T`.
    Ref,
    /// Elements in memory; the variable's type is the element's.
    Slice(Slice),
}

/// How elements in memory are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// 1 for slices, 2 and 3 for views.
    pub(crate) dims: u8,
    pub(crate) may: May,
    pub(crate) space: Space,
}

/// Where elements are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// In a buffer's range.
    Global,
    /// In the work-group's memory: so many, or as many as the launch says.
    Local(Option<u32>),
}

/// What a declaration allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum May {
    Read,
    Write,
    Atomic,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) stmts: Vec<Stmt>,
    /// The block's value.
    pub(crate) tail: Option<Box<Expr>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Stmt {
    Let(VarId, Option<Expr>),
    Assign(Place, Option<BinOp>, Expr),
    Expr(Expr),
    While(Expr, Block),
    Loop(Block),
    For { var: VarId, from: Expr, to: Expr, inclusive: bool, body: Block },
    Break,
    Continue,
    Return(Option<Expr>),
}

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) kind: Kind,
    pub(crate) ty: Ty,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Unit,
    Bool(bool),
    Int(i128),
    Float(f64),
    Const(usize),
    Var(VarId),
    Unary(UnOp, Box<Expr>),
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// `&&` where true, else `||`.
    Logic(bool, Box<Expr>, Box<Expr>),
    Cast(Box<Expr>),
    Field(Box<Expr>, usize),
    Component(Box<Expr>, u8),
    Swizzle(Box<Expr>, Vec<u8>),
    /// An element of an array value.
    Index(Box<Expr>, Box<Expr>),
    /// An element of a slice.
    Element(VarId, Vec<Expr>),
    /// The elements of a slice in all, or along one dimension.
    Len(VarId, Option<u8>),
    Id(Id, u8),
    Math(Math, Vec<Expr>),
    Call(usize, Vec<Arg>),
    Struct(usize, Vec<Expr>),
    Array(Vec<Expr>),
    Repeat(Box<Expr>),
    Vector(Vec<Expr>),
    Splat(Box<Expr>),
    If(Box<Expr>, Block, Block),
    /// Arms with their values; the last one without values is for all others.
    Match(Box<Expr>, Vec<(Vec<i128>, Block)>),
    Block(Block),
    Atomic(AtomicOp, VarId, Vec<Expr>, Vec<Expr>),
    /// What the items of a sub-group make together.
    Subgroup(SubgroupOp, Vec<Expr>),
    /// All items of a work-group wait for each other, and see each other's writes.
    Barrier,
    Fence(Order, Scope),
}

#[derive(Clone, Debug)]
pub(crate) enum Arg {
    Value(Expr),
    Slice(VarId),
    /// A place to be changed.
    Ref(Place),
}

/// Something that can be assigned to.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) base: Base,
    pub(crate) path: Vec<Step>,
    pub(crate) ty: Ty,
}

#[derive(Clone, Debug)]
pub(crate) enum Base {
    Var(VarId),
    Element(VarId, Vec<Expr>),
}

/// One step into a value.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Field(usize, usize),
    Component(u8),
    /// Into an array of this length.
    Index(Expr, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnOp {
    Neg,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl BinOp {
    pub(crate) fn is_comparison(self) -> bool {
        use BinOp::{Eq, Ge, Gt, Le, Lt, Ne};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }

    /// A word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BinOp::Add => "add",
            BinOp::Sub => "sub",
            BinOp::Mul => "mul",
            BinOp::Div => "div",
            BinOp::Rem => "rem",
            BinOp::And => "and",
            BinOp::Or => "or",
            BinOp::Xor => "xor",
            BinOp::Shl => "shl",
            BinOp::Shr => "shr",
            BinOp::Eq => "eq",
            BinOp::Ne => "ne",
            BinOp::Lt => "lt",
            BinOp::Le => "le",
            BinOp::Gt => "gt",
            BinOp::Ge => "ge",
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            BinOp::Add => "+",
            BinOp::Sub => "-",
            BinOp::Mul => "*",
            BinOp::Div => "/",
            BinOp::Rem => "%",
            BinOp::And => "&",
            BinOp::Or => "|",
            BinOp::Xor => "^",
            BinOp::Shl => "<<",
            BinOp::Shr => ">>",
            BinOp::Eq => "==",
            BinOp::Ne => "!=",
            BinOp::Lt => "<",
            BinOp::Le => "<=",
            BinOp::Gt => ">",
            BinOp::Ge => ">=",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Load,
    Store,
    Add,
    Sub,
    And,
    Or,
    Xor,
    Min,
    Max,
    Swap,
}

impl Function {
    pub(crate) fn reduction(&self, param: VarId) -> Option<&Reduction> {
        self.reductions.iter().find(|reduction| reduction.param == param)
    }
}

impl Expr {
    pub(crate) fn new(kind: Kind, ty: Ty, span: Span) -> Self {
        Expr { kind, ty, span }
    }
}

/// What a walk meets.
#[derive(Clone, Copy)]
pub(crate) enum Node<'a> {
    Expr(&'a Expr),
    Stmt(&'a Stmt),
    /// A place that is assigned to or changed.
    Place(&'a Place),
}

/// Calls `visit` for every statement, place and expression below a block, outer ones first.
pub(crate) fn walk_block<'a>(block: &'a Block, visit: &mut dyn FnMut(Node<'a>)) {
    block.stmts.iter().for_each(|stmt| walk_stmt(stmt, visit));
    block.tail.iter().for_each(|tail| walk(tail, visit));
}

pub(crate) fn walk_stmt<'a>(stmt: &'a Stmt, visit: &mut dyn FnMut(Node<'a>)) {
    visit(Node::Stmt(stmt));
    match stmt {
        Stmt::Let(_, init) => init.iter().for_each(|e| walk(e, visit)),
        Stmt::Assign(place, _, value) => {
            walk(value, visit);
            walk_place(place, visit);
        }
        Stmt::Expr(e) => walk(e, visit),
        Stmt::While(condition, body) => {
            walk(condition, visit);
            walk_block(body, visit);
        }
        Stmt::Loop(body) => walk_block(body, visit),
        Stmt::For { from, to, body, .. } => {
            walk(from, visit);
            walk(to, visit);
            walk_block(body, visit);
        }
        Stmt::Return(value) => value.iter().for_each(|e| walk(e, visit)),
        Stmt::Break | Stmt::Continue => {}
    }
}

fn walk_place<'a>(place: &'a Place, visit: &mut dyn FnMut(Node<'a>)) {
    visit(Node::Place(place));
    if let Base::Element(_, at) = &place.base {
        at.iter().for_each(|e| walk(e, visit));
    }
    for step in &place.path {
        if let Step::Index(e, _) = step {
            walk(e, visit);
        }
    }
}

/// Calls `visit` for an expression and everything below it.
pub(crate) fn walk<'a>(expr: &'a Expr, visit: &mut dyn FnMut(Node<'a>)) {
    visit(Node::Expr(expr));
    match &expr.kind {
        Kind::Unit | Kind::Barrier | Kind::Fence(..) | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) => {}
        Kind::Const(_) | Kind::Var(_) | Kind::Len(..) | Kind::Id(..) => {}
        Kind::Unary(_, a)
        | Kind::Cast(a)
        | Kind::Field(a, _)
        | Kind::Component(a, _)
        | Kind::Swizzle(a, _)
        | Kind::Repeat(a)
        | Kind::Splat(a) => walk(a, visit),
        Kind::Binary(_, a, b) | Kind::Logic(_, a, b) | Kind::Index(a, b) => {
            walk(a, visit);
            walk(b, visit);
        }
        Kind::Element(_, list)
        | Kind::Math(_, list)
        | Kind::Subgroup(_, list)
        | Kind::Struct(_, list)
        | Kind::Array(list)
        | Kind::Vector(list) => list.iter().for_each(|e| walk(e, visit)),
        Kind::Call(_, args) => {
            for arg in args {
                match arg {
                    Arg::Value(e) => walk(e, visit),
                    Arg::Ref(place) => walk_place(place, visit),
                    Arg::Slice(_) => {}
                }
            }
        }
        Kind::If(condition, yes, no) => {
            walk(condition, visit);
            walk_block(yes, visit);
            walk_block(no, visit);
        }
        Kind::Match(of, arms) => {
            walk(of, visit);
            arms.iter().for_each(|(_, block)| walk_block(block, visit));
        }
        Kind::Block(block) => walk_block(block, visit),
        Kind::Atomic(_, _, at, operands) => at.iter().chain(operands).for_each(|e| walk(e, visit)),
    }
}

/// What a walk changes.
pub(crate) enum Change<'a> {
    Expr(&'a mut Expr),
    Place(&'a mut Place),
}

/// Calls `visit` for every expression and place below a block, to change them; inner ones first.
pub(crate) fn change_block(block: &mut Block, visit: &mut dyn FnMut(Change<'_>)) {
    for stmt in &mut block.stmts {
        match stmt {
            Stmt::Let(_, init) => init.iter_mut().for_each(|e| change(e, visit)),
            Stmt::Assign(place, _, value) => {
                change(value, visit);
                change_place(place, visit);
            }
            Stmt::Expr(e) => change(e, visit),
            Stmt::While(condition, body) => {
                change(condition, visit);
                change_block(body, visit);
            }
            Stmt::Loop(body) => change_block(body, visit),
            Stmt::For { from, to, body, .. } => {
                change(from, visit);
                change(to, visit);
                change_block(body, visit);
            }
            Stmt::Return(value) => value.iter_mut().for_each(|e| change(e, visit)),
            Stmt::Break | Stmt::Continue => {}
        }
    }
    block.tail.iter_mut().for_each(|tail| change(tail, visit));
}

fn change_place(place: &mut Place, visit: &mut dyn FnMut(Change<'_>)) {
    if let Base::Element(_, at) = &mut place.base {
        at.iter_mut().for_each(|e| change(e, visit));
    }
    for step in &mut place.path {
        if let Step::Index(e, _) = step {
            change(e, visit);
        }
    }
    visit(Change::Place(place));
}

pub(crate) fn change(expr: &mut Expr, visit: &mut dyn FnMut(Change<'_>)) {
    match &mut expr.kind {
        Kind::Unit | Kind::Barrier | Kind::Fence(..) | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) => {}
        Kind::Const(_) | Kind::Var(_) | Kind::Len(..) | Kind::Id(..) => {}
        Kind::Unary(_, a)
        | Kind::Cast(a)
        | Kind::Field(a, _)
        | Kind::Component(a, _)
        | Kind::Swizzle(a, _)
        | Kind::Repeat(a)
        | Kind::Splat(a) => change(a, visit),
        Kind::Binary(_, a, b) | Kind::Logic(_, a, b) | Kind::Index(a, b) => {
            change(a, visit);
            change(b, visit);
        }
        Kind::Element(_, list)
        | Kind::Math(_, list)
        | Kind::Subgroup(_, list)
        | Kind::Struct(_, list)
        | Kind::Array(list)
        | Kind::Vector(list) => list.iter_mut().for_each(|e| change(e, visit)),
        Kind::Call(_, args) => {
            for arg in args {
                match arg {
                    Arg::Value(e) => change(e, visit),
                    Arg::Ref(place) => change_place(place, visit),
                    Arg::Slice(_) => {}
                }
            }
        }
        Kind::If(condition, yes, no) => {
            change(condition, visit);
            change_block(yes, visit);
            change_block(no, visit);
        }
        Kind::Match(of, arms) => {
            change(of, visit);
            arms.iter_mut().for_each(|(_, block)| change_block(block, visit));
        }
        Kind::Block(block) => change_block(block, visit),
        Kind::Atomic(_, _, at, operands) => at.iter_mut().chain(operands).for_each(|e| change(e, visit)),
    }
    visit(Change::Expr(expr));
}
