//! Ways through checked code: what a statement, an expression and a place are made of, and walks over all of it.

use super::{Arg, Base, Block, Expr, Kind, Piece, Place, Step, Stmt, Whole};

/// Writes the same for those who look and for those who change, so that neither forgets a part that the other knows.
macro_rules! parts {
    ($(#[doc = $doc:literal])* $Part:ident $parts:ident $iter:ident $($mut:tt)?) => {
        $(#[doc = $doc])*
        pub(crate) enum $Part<'a> {
            Expr(&'a $($mut)? Expr),
            /// A place that is assigned to or changed.
            Place(&'a $($mut)? Place),
            Block(&'a $($mut)? Block),
        }

        impl Stmt {
            /// Calls `each` for what the statement is made of, in the order in which it runs.
            pub(crate) fn $parts<'a>(&'a $($mut)? self, each: &mut dyn FnMut($Part<'a>)) {
                match self {
                    Stmt::Let(_, value) | Stmt::Return(value) => {
                        value.$iter().for_each(|e| each($Part::Expr(e)));
                    }
                    Stmt::Assign(place, _, value) => {
                        each($Part::Expr(value));
                        each($Part::Place(place));
                    }
                    Stmt::Expr(e) => each($Part::Expr(e)),
                    Stmt::While(condition, body) => {
                        each($Part::Expr(condition));
                        each($Part::Block(body));
                    }
                    Stmt::Loop(body) => each($Part::Block(body)),
                    Stmt::For { from, to, body, .. } => {
                        each($Part::Expr(from));
                        each($Part::Expr(to));
                        each($Part::Block(body));
                    }
                    Stmt::Break | Stmt::Continue => {}
                }
            }
        }

        impl Place {
            /// Calls `each` for the indices on the way to the place.
            pub(crate) fn $parts<'a>(&'a $($mut)? self, each: &mut dyn FnMut($Part<'a>)) {
                let Place { base, path, .. } = self;
                if let Base::Element(_, at) = base {
                    at.$iter().for_each(|e| each($Part::Expr(e)));
                }
                for step in path {
                    if let Step::Index(e, _) = step {
                        each($Part::Expr(e));
                    }
                }
            }
        }

        impl Expr {
            /// Calls `each` for what the expression is made of.
            pub(crate) fn $parts<'a>(&'a $($mut)? self, each: &mut dyn FnMut($Part<'a>)) {
                let Expr { kind, .. } = self;
                match kind {
                    Kind::Unit | Kind::Zero | Kind::Barrier | Kind::Fence(..) => {}
                    Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Const(_) => {}
                    Kind::Var(_) | Kind::Len(..) | Kind::Id(..) => {}
                    Kind::Unary(_, a)
                    | Kind::Cast(a)
                    | Kind::Field(a, _)
                    | Kind::Component(a, _)
                    | Kind::Swizzle(a, _)
                    | Kind::Repeat(a)
                    | Kind::Splat(a) => each($Part::Expr(a)),
                    Kind::Binary(_, a, b) | Kind::Logic(_, a, b) | Kind::Index(a, b) => {
                        each($Part::Expr(a));
                        each($Part::Expr(b));
                    }
                    Kind::Element(_, list)
                    | Kind::Math(_, list)
                    | Kind::Subgroup(_, list)
                    | Kind::Message(_, list)
                    | Kind::Struct(_, list)
                    | Kind::Array(list)
                    | Kind::Vector(list) => list.$iter().for_each(|e| each($Part::Expr(e))),
                    Kind::Call(_, args) => {
                        for arg in args {
                            match arg {
                                Arg::Value(e) => each($Part::Expr(e)),
                                Arg::Ref(place) => each($Part::Place(place)),
                                Arg::Slice(_) => {}
                                Arg::Piece(Piece { of, from, to }) => {
                                    match of {
                                        Whole::Memory(_) => {}
                                        Whole::Array(e) => each($Part::Expr(e)),
                                        Whole::Changed(place) => each($Part::Place(place)),
                                    }
                                    from.$iter().chain(to).for_each(|e| each($Part::Expr(e)));
                                }
                            }
                        }
                    }
                    Kind::If(condition, yes, no) => {
                        each($Part::Expr(condition));
                        each($Part::Block(yes));
                        each($Part::Block(no));
                    }
                    Kind::Match(of, arms) => {
                        each($Part::Expr(of));
                        arms.$iter().for_each(|(_, block)| each($Part::Block(block)));
                    }
                    Kind::Block(block) => each($Part::Block(block)),
                    Kind::Atomic(_, _, at, operands) => {
                        at.$iter().chain(operands).for_each(|e| each($Part::Expr(e)));
                    }
                }
            }
        }
    };
}
parts! {
    /// A part of a statement, an expression or a place.
    Part parts iter
}
parts! {
    /// A part of a statement, an expression or a place, to be changed.
    PartMut parts_mut iter_mut mut
}

/// What a walk meets.
#[derive(Clone, Copy)]
pub(crate) enum Node<'a> {
    Block(&'a Block),
    Expr(&'a Expr),
    Stmt(&'a Stmt),
    /// A place that is assigned to or changed.
    Place(&'a Place),
}

/// Calls `visit` for a block and every block, statement, place and expression below it, outer ones first.
pub(crate) fn walk_block<'a>(block: &'a Block, visit: &mut dyn FnMut(Node<'a>)) {
    visit(Node::Block(block));
    block.stmts.iter().for_each(|stmt| walk_stmt(stmt, visit));
    block.tail.iter().for_each(|tail| walk(tail, visit));
}

pub(crate) fn walk_stmt<'a>(stmt: &'a Stmt, visit: &mut dyn FnMut(Node<'a>)) {
    visit(Node::Stmt(stmt));
    stmt.parts(&mut |part| walk_part(part, visit));
}

/// Calls `visit` for an expression and everything below it.
pub(crate) fn walk<'a>(expr: &'a Expr, visit: &mut dyn FnMut(Node<'a>)) {
    visit(Node::Expr(expr));
    expr.parts(&mut |part| walk_part(part, visit));
}

fn walk_part<'a>(part: Part<'a>, visit: &mut dyn FnMut(Node<'a>)) {
    match part {
        Part::Expr(expr) => walk(expr, visit),
        Part::Block(block) => walk_block(block, visit),
        Part::Place(place) => {
            visit(Node::Place(place));
            place.parts(&mut |part| walk_part(part, visit));
        }
    }
}

/// What a walk changes.
pub(crate) enum Change<'a> {
    Expr(&'a mut Expr),
    Place(&'a mut Place),
}

/// Calls `visit` for every expression and place below a block, to change them; inner ones first.
pub(crate) fn change_block(block: &mut Block, visit: &mut dyn FnMut(Change<'_>)) {
    block.stmts.iter_mut().for_each(|stmt| stmt.parts_mut(&mut |part| change_part(part, visit)));
    block.tail.iter_mut().for_each(|tail| change(tail, visit));
}

/// The same for an expression and everything below it.
pub(crate) fn change(expr: &mut Expr, visit: &mut dyn FnMut(Change<'_>)) {
    expr.parts_mut(&mut |part| change_part(part, visit));
    visit(Change::Expr(expr));
}

fn change_part(part: PartMut<'_>, visit: &mut dyn FnMut(Change<'_>)) {
    match part {
        PartMut::Expr(expr) => change(expr, visit),
        PartMut::Block(block) => change_block(block, visit),
        PartMut::Place(place) => {
            place.parts_mut(&mut |part| change_part(part, visit));
            visit(Change::Place(place));
        }
    }
}
