//! Parts of memory and arrays that helpers are given as memory.
//!
//! A device has no value that says where some memory begins and how long it is. So of a helper that is given a part, another one is
//! made, which is given the whole and both ends, and moves each index; and of one that is given an array in memory's place, one that
//! takes the array.

use std::collections::HashMap;

use proc_macro2::{Ident, Span};

use crate::builtin::Math;
use crate::hir::{
    Arg, Base, BinOp, Block, Change, Expr, Function, Kind, May, Module, Piece, Place, Slice, Step, Stmt, Var,
    VarId, VarKind, Whole, change_block,
};
use crate::ty::{BOOL, Ty, U32};

/// What a helper is given in the place of one of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// What it says itself.
    Own,
    Memory,
    /// An array, and whether it is a part of one.
    Array {
        ty: Ty,
        is_part: bool,
    },
}

/// A part, inside the helper that it is given to: where it begins and how many elements it has.
#[derive(Clone, Copy)]
struct Part {
    start: VarId,
    len: VarId,
}

/// Makes helpers of those that are given parts.
pub(crate) fn lower(module: &mut Module) {
    let mut pieces = Pieces { module, made: Vec::new(), parts: HashMap::new() };
    let mut at = 0;
    // Those that are made may give away parts themselves, and come behind.
    while at < pieces.module.functions.len() {
        // Left in its place, for one that calls itself is copied meanwhile, and is to be found out later.
        let mut body = pieces.module.functions[at].body.clone();
        change_block(&mut body, &mut |node| {
            if let Change::Expr(Expr { kind: Kind::Call(helper, args), .. }) = node
                && args.iter().any(|arg| matches!(arg, Arg::Piece(_)))
            {
                pieces.call(at, helper, args);
            }
        });
        pieces.module.functions[at].body = body;
        at += 1;
    }
}

struct Pieces<'m> {
    module: &'m mut Module,
    /// The functions that were made: of which one, what it is given, and its number.
    made: Vec<(usize, Vec<Form>, usize)>,
    /// The parameters that are parts, by function.
    parts: HashMap<(usize, VarId), Part>,
}

impl Pieces<'_> {
    /// Turns a call with parts in function `caller` into one of the helper that takes them.
    fn call(&mut self, caller: usize, helper: &mut usize, args: &mut Vec<Arg>) {
        let (mut forms, mut given) = (Vec::new(), Vec::new());
        for arg in std::mem::take(args) {
            let Arg::Piece(Piece { of, from, to }) = arg else {
                forms.push(Form::Own);
                given.push(arg);
                continue;
            };
            let (outer, form) = match &of {
                Whole::Memory(var) => (self.parts.get(&(caller, *var)).copied(), Form::Memory),
                Whole::Array(value) => {
                    let var = if let Kind::Var(var) = value.kind { Some(var) } else { None };
                    self.array(caller, var, &value.ty, from.is_some() || to.is_some())
                }
                Whole::Changed(place) => {
                    let var = match place.base {
                        Base::Var(var) if place.path.is_empty() => Some(var),
                        _ => None,
                    };
                    self.array(caller, var, &place.ty, from.is_some() || to.is_some())
                }
            };
            given.push(match of {
                Whole::Memory(var) => Arg::Slice(var),
                Whole::Array(value) => Arg::Value(value),
                Whole::Changed(place) => Arg::Ref(place),
            });
            if form == Form::Memory || matches!(form, Form::Array { is_part: true, .. }) {
                given.push(Arg::Value(end(from, 0, outer)));
                given.push(Arg::Value(end(to, i128::from(u32::MAX), outer)));
            }
            forms.push(form);
        }
        *args = given;
        *helper = self.helper(*helper, forms);
    }

    /// What a helper sees of an array, and the part that the array is here already.
    fn array(&self, caller: usize, var: Option<VarId>, ty: &Ty, is_part: bool) -> (Option<Part>, Form) {
        let outer = var.and_then(|var| self.parts.get(&(caller, var)).copied());
        (outer, Form::Array { ty: ty.clone(), is_part: is_part || outer.is_some() })
    }

    fn helper(&mut self, of: usize, forms: Vec<Form>) -> usize {
        if let Some((.., at)) = self.made.iter().find(|(from, with, _)| (*from, with) == (of, &forms)) {
            return *at;
        }
        let at = self.module.functions.len();
        self.made.push((of, forms.clone(), at));
        let mut function = self.module.functions[of].clone();
        let (mut params, mut first) = (Vec::new(), Vec::new());
        for (param, form) in std::mem::take(&mut function.params).into_iter().zip(&forms) {
            params.push(param);
            let is_part = match form {
                Form::Own => continue,
                Form::Memory => true,
                Form::Array { ty, is_part } => {
                    let changed = may(&function.vars[param]) == Some(May::Write);
                    let var = &mut function.vars[param];
                    (var.ty, var.kind) = (ty.clone(), if changed { VarKind::Ref } else { VarKind::Value });
                    *is_part
                }
            };
            if is_part {
                let [from, to, start, len] =
                    ["from", "to", "start", "len"].map(|name| number(&mut function, name));
                params.extend([from, to]);
                first.extend(bounds(&function, param, [from, to, start, len]));
                self.parts.insert((at, param), Part { start, len });
            }
        }
        function.params = params;
        self.inside(at, &mut function, &forms);
        function.body.stmts.splice(0..0, first);
        self.module.functions.push(function);
        at
    }

    /// Each access in a helper's body becomes one of what the helper is given now.
    fn inside(&self, at: usize, function: &mut Function, forms: &[Form]) {
        let mut body = std::mem::take(&mut function.body);
        let originals = self.module.functions[self.of(at)].params.iter().copied();
        let given: Vec<VarId> =
            originals.zip(forms).filter(|(_, form)| **form != Form::Own).map(|(param, _)| param).collect();
        change_block(&mut body, &mut |node| match node {
            Change::Expr(expr) => self.access(at, function, &given, expr),
            Change::Place(place) => {
                let Base::Element(var, index) = &mut place.base else { return };
                let var = *var;
                if !given.contains(&var) {
                    return;
                }
                index.iter_mut().for_each(|index| self.moved(at, function, var, index));
                if let (Ty::Array(_, len), [index]) = (&function.vars[var].ty, &index[..])
                    && may(&function.vars[var]).is_none()
                {
                    place.path.insert(0, Step::Index(index.clone(), *len));
                    place.base = Base::Var(var);
                }
            }
        });
        function.body = body;
    }

    /// The function that this one was made of.
    fn of(&self, at: usize) -> usize {
        self.made.iter().find(|(.., made)| *made == at).map_or(at, |(of, ..)| *of)
    }

    fn access(&self, at: usize, function: &mut Function, given: &[VarId], expr: &mut Expr) {
        let span = expr.span;
        match &mut expr.kind {
            Kind::Element(var, index) if given.contains(var) => {
                let var = *var;
                index.iter_mut().for_each(|index| self.moved(at, function, var, index));
                if let ([index], None) = (&index[..], may(&function.vars[var])) {
                    let array = Expr::new(Kind::Var(var), function.vars[var].ty.clone(), span);
                    expr.kind = Kind::Index(Box::new(array), Box::new(index.clone()));
                }
            }
            Kind::Atomic(_, var, index, _) if given.contains(var) => {
                index.iter_mut().for_each(|index| self.moved(at, function, *var, index));
            }
            Kind::Len(var, _) if given.contains(var) => {
                expr.kind = match self.parts.get(&(at, *var)) {
                    Some(part) => Kind::Var(part.len),
                    None => whole_len(function, *var),
                };
            }
            Kind::Call(helper, args) => {
                for (number, arg) in args.iter_mut().enumerate() {
                    self.handed_on(function, given, (*helper, number), arg);
                }
            }
            _ => {}
        }
    }

    /// What the helper hands on to another one, at a position among its arguments.
    fn handed_on(
        &self,
        function: &Function,
        given: &[VarId],
        (helper, number): (usize, usize),
        arg: &mut Arg,
    ) {
        let (var, from, to) = match arg {
            Arg::Slice(var) => (*var, None, None),
            Arg::Piece(Piece { of: Whole::Memory(var), from, to }) => (*var, from.take(), to.take()),
            _ => return,
        };
        let of = match &function.vars[var] {
            Var { kind: VarKind::Slice(_), .. } => Whole::Memory(var),
            Var { ty, name, .. } => {
                let callee = &self.module.functions[helper];
                let changed = callee.params.get(number).and_then(|param| may(&callee.vars[*param]));
                match changed {
                    Some(May::Write) => {
                        Whole::Changed(Place { base: Base::Var(var), path: Vec::new(), ty: ty.clone() })
                    }
                    _ => Whole::Array(Expr::new(Kind::Var(var), ty.clone(), name.span())),
                }
            }
        };
        if given.contains(&var) {
            *arg = Arg::Piece(Piece { of, from, to });
        } else if from.is_some() || to.is_some() {
            *arg = Arg::Piece(Piece { of: Whole::Memory(var), from, to });
        }
    }

    /// An index into a part, as one into what it is a part of: what is outside stays so.
    fn moved(&self, at: usize, function: &mut Function, var: VarId, index: &mut Expr) {
        let Some(&Part { start, len }) = self.parts.get(&(at, var)) else { return };
        let span = index.span;
        let var = |var| Expr::new(Kind::Var(var), U32, span);
        let asked = std::mem::replace(index, var(start));
        let (before, asked) = match asked.kind {
            Kind::Var(_) | Kind::Int(_) => (None, asked),
            _ => {
                let kept = number(function, "at");
                (Some(Stmt::Let(kept, Some(asked))), var(kept))
            }
        };
        let binary = |op, a, b, ty| Expr::new(Kind::Binary(op, Box::new(a), Box::new(b)), ty, span);
        let inside = binary(BinOp::Lt, asked.clone(), var(len), BOOL);
        let value = |value| Block { stmts: Vec::new(), tail: Some(Box::new(value)) };
        let moved = value(binary(BinOp::Add, var(start), asked, U32));
        let outside = value(Expr::new(Kind::Int(i128::from(u32::MAX)), U32, span));
        *index = Expr::new(Kind::If(Box::new(inside), moved, outside), U32, span);
        if let Some(before) = before {
            let block = Block { stmts: vec![before], tail: Some(Box::new(index.clone())) };
            *index = Expr::new(Kind::Block(block), U32, span);
        }
    }
}

/// What may be done with a parameter that is memory.
fn may(var: &Var) -> Option<May> {
    match &var.kind {
        VarKind::Slice(Slice { may, .. }) => Some(*may),
        _ => None,
    }
}

/// A new variable for an index or a length.
fn number(function: &mut Function, name: &str) -> VarId {
    let name = Ident::new(name, Span::call_site());
    function.vars.push(Var { name, ty: U32, mutable: false, kind: VarKind::Value });
    function.vars.len() - 1
}

/// One end of a part, counted from the beginning of the whole; where it is not said, it is `missing`.
fn end(said: Option<Box<Expr>>, missing: i128, outer: Option<Part>) -> Expr {
    let span = said.as_ref().map_or_else(Span::call_site, |said| said.span);
    let var = |var| Expr::new(Kind::Var(var), U32, span);
    let said = said.map_or_else(|| Expr::new(Kind::Int(missing), U32, span), |said| *said);
    let Some(Part { start, len }) = outer else { return said };
    let held = Expr::new(Kind::Math(Math::Min, vec![said, var(len)]), U32, span);
    Expr::new(Kind::Binary(BinOp::Add, Box::new(var(start)), Box::new(held)), U32, span)
}

/// What a helper begins with: a part ends where the whole does, and one that ends before it begins is empty.
fn bounds(function: &Function, param: VarId, [from, to, start, len]: [VarId; 4]) -> [Stmt; 2] {
    let span = function.vars[param].name.span();
    let var = |var| Expr::new(Kind::Var(var), U32, span);
    let math = |math, a, b| Expr::new(Kind::Math(math, vec![a, b]), U32, span);
    let whole = || Expr::new(whole_len(function, param), U32, span);
    let last = math(Math::Max, math(Math::Min, var(to), whole()), var(start));
    [
        Stmt::Let(start, Some(math(Math::Min, var(from), whole()))),
        Stmt::Let(
            len,
            Some(Expr::new(Kind::Binary(BinOp::Sub, Box::new(last), Box::new(var(start))), U32, span)),
        ),
    ]
}

/// How many elements there are in all of what a parameter is given.
fn whole_len(function: &Function, var: VarId) -> Kind {
    match &function.vars[var].ty {
        Ty::Array(_, len) if may(&function.vars[var]).is_none() => Kind::Int(i128::from(*len)),
        _ => Kind::Len(var, None),
    }
}
