//! Checked kernels: every name resolved, every type known.

mod walk;

use proc_macro2::{Ident, Span};

use crate::builtin::{Id, Math, SubgroupOp};
use crate::enums::Enum;
use crate::generic::Actual;
use crate::messages::Message;
use crate::order::{Order, Scope};
use crate::origin::Origin;
use crate::ty::Ty;

pub(crate) use walk::{Change, Node, Part, PartMut, change, change_block, walk, walk_block, walk_stmt};

/// Position of a variable in its function.
pub(crate) type VarId = usize;

/// Everything that one attribute covers.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) structs: Vec<Struct>,
    /// Which are numbers and structs once all types are known.
    pub(crate) enums: Vec<Enum>,
    pub(crate) consts: Vec<Const>,
    pub(crate) functions: Vec<Function>,
    /// Which of the functions are kernels.
    pub(crate) kernels: Vec<usize>,
    /// What its functions say by `debug!`.
    pub(crate) messages: Vec<Message>,
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) name: Ident,
    pub(crate) fields: Vec<(Ident, Ty)>,
    /// Which generic struct it is of, and what stands for that one's parameters.
    pub(crate) template: Option<usize>,
    pub(crate) actuals: Vec<Actual>,
    /// It is one of the language's own, which the host has as well.
    pub(crate) is_library: bool,
    /// It is a pointer: its only field is the address, and its only actual is what it leads to.
    pub(crate) is_pointer: bool,
    /// It is a tuple on the host: nobody wrote it, or not with the fields that it has here, and these have numbers.
    pub(crate) is_tuple: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Const {
    pub(crate) name: Ident,
    pub(crate) origin: Origin,
    pub(crate) ty: Ty,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug)]
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
    /// The extents of its work-groups, if it says so.
    pub(crate) group: Vec<u32>,
    /// Whether devices may be less exact for speed.
    pub(crate) fast: bool,
}

/// A parameter in which each work-item has a value of its own, all of which are combined in the end.
#[derive(Clone, Debug)]
pub(crate) struct Reduction {
    pub(crate) param: VarId,
    /// What each item starts with.
    pub(crate) identity: Expr,
    /// Two values, and what they make together.
    pub(crate) parts: [VarId; 2],
    pub(crate) combined: Expr,
    /// The atomic operation that is the same, if there is one.
    pub(crate) atomic: Option<AtomicOp>,
    /// Of a vector, what two numbers make together, and what changes nothing: a result is reached one number at a time.
    pub(crate) component: Option<(Expr, Expr)>,
}

#[derive(Clone, Debug)]
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
    /// It is an image, whose texels only the library sees as they are.
    pub(crate) is_image: bool,
}

/// Where elements are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// In a buffer's range.
    Global,
    /// In the work-group's memory: so many, or as many as the launch says.
    Local(Option<u32>),
    /// Wherever the launch says that the kernel may go by pointers: the index is an address.
    Reached,
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
    /// What reading outside gives; literals once all types are known (`tuples`).
    Zero,
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
    /// What an item says of itself, and the values in it; lowered before anybody else looks (`messages`).
    Message(Box<Message>, Vec<Expr>),
}

#[derive(Clone, Debug)]
pub(crate) enum Arg {
    Value(Expr),
    Slice(VarId),
    /// A place to be changed.
    Ref(Place),
    /// What the helper sees as memory of its own (`pieces`).
    Piece(Piece),
}

/// A part of memory, or an array or a part of one: from an index on up to another one, or all of it.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) of: Whole,
    pub(crate) from: Option<Box<Expr>>,
    pub(crate) to: Option<Box<Expr>>,
}

/// What a piece is of.
#[derive(Clone, Debug)]
pub(crate) enum Whole {
    Memory(VarId),
    /// An array that is only read.
    Array(Expr),
    /// An array that the helper changes.
    Changed(Place),
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
    /// The first operand is what is to be there, the second what is written then; gives what was there.
    ExchangeIf,
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
