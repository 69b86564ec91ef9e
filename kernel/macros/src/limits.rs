//! How deep a kernel may be nested, and how much memory its arrays may take.
//!
//! Whoever compiles a kernel does so recursively: this crate, the compiler, and what every device has. None of them
//! has a stack without an end, and most die of it without a word. What a kernel keeps in arrays of its own lies on
//! the stack of the thread that runs it on the host, and in a few kilobytes for each work-item on other devices.

use std::collections::HashSet;

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};

use crate::errors::Errors;
use crate::hir::{Block, Expr, Function, Kind, Module, Node, Part, Stmt, VarKind, walk_block};
use crate::ty::Ty;

/// How deep expressions and blocks may stand in each other. The strictest reader is naga, which takes 127 braces and
/// 200 of both together; an expression here is one level there, and a loop or a `match` two.
const LEVELS: usize = 96;

/// How deep tokens may be nested before anything is parsed, counted roughly: each bracket and each operator of a run
/// is a level. More than [`LEVELS`], since operators beside each other are none; and little enough for the stack of a
/// compiler that was built without optimisations.
const TOKEN_LEVELS: usize = 512;
/// How many of these may be brackets, which take more of the stack.
const BRACKETS: usize = 128;

/// Bytes of the arrays of one kernel, in variables and on their way from one to another: what WGSL asks every device to
/// take in one function.
const ARRAYS: u64 = 8 << 10;
/// Bytes of a constant: the least that OpenCL devices have for them.
const CONSTANT: u64 = 64 << 10;

/// Refuses what is nested so deeply that parsing it could take the compiler down.
pub(crate) fn tokens(item: &TokenStream) -> Result<(), syn::Error> {
    match too_deep(item.clone(), 0, 0) {
        Some(span) => Err(syn::Error::new(span, DEEP)),
        None => Ok(()),
    }
}

const DEEP: &str = "this is nested too deeply for devices: name a part of it by `let`, or put it into a helper; a long chain of \
                    `else if` can be a `match`";

/// Where tokens are nested too deeply.
fn too_deep(tokens: TokenStream, outer: usize, brackets: usize) -> Option<Span> {
    let mut levels = outer;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let operator = match &token {
            TokenTree::Punct(punct) if matches!(punct.as_char(), ';' | ',') => {
                levels = outer;
                false
            }
            TokenTree::Punct(punct) => punct.spacing() == Spacing::Alone,
            TokenTree::Ident(word) => word == "as" || word == "else",
            TokenTree::Group(_) | TokenTree::Literal(_) => false,
        };
        levels += usize::from(operator);
        if levels > TOKEN_LEVELS || brackets > BRACKETS {
            return Some(token.span());
        }
        let TokenTree::Group(group) = token else { continue };
        if let Some(span) = too_deep(group.stream(), levels + 1, brackets + 1) {
            return Some(span);
        }
        // A statement may end with its block.
        if group.delimiter() == Delimiter::Brace && !tokens.peek().is_some_and(goes_on) {
            levels = outer;
        }
    }
    None
}

/// Whether what stands behind a block belongs to the same expression.
fn goes_on(token: &TokenTree) -> bool {
    match token {
        TokenTree::Ident(word) => word == "else" || word == "as",
        TokenTree::Punct(punct) => "+/%^<>=|.?".contains(punct.as_char()),
        TokenTree::Group(_) | TokenTree::Literal(_) => false,
    }
}

/// Refuses functions that are nested too deeply, and those whose arrays are too large.
pub(crate) fn check(module: &Module, errors: &mut Errors) {
    for constant in &module.consts {
        let bytes = bytes(module, &constant.ty);
        if bytes > CONSTANT {
            errors.at(
                constant.name.span(),
                format!("this constant has {bytes} bytes, and devices take {CONSTANT}; pass a buffer"),
            );
        }
    }
    let mut known = vec![None; module.functions.len()];
    for (at, function) in module.functions.iter().enumerate() {
        Nesting { errors: &mut *errors, reported: false }.block(&function.body, 0);
        arrays(module, at, &mut known, errors);
    }
}

/// A walk that knows how deep it is.
struct Nesting<'e> {
    errors: &'e mut Errors,
    /// Once for each function is enough.
    reported: bool,
}

impl Nesting<'_> {
    fn block(&mut self, block: &Block, level: usize) {
        for stmt in &block.stmts {
            let level = level
                + match stmt {
                    Stmt::For { .. } => 2,
                    Stmt::While(..) | Stmt::Loop(_) => 1,
                    _ => 0,
                };
            stmt.parts(&mut |part| self.part(part, level));
        }
        block.tail.iter().for_each(|tail| self.expr(tail, level));
    }

    fn part(&mut self, part: Part<'_>, level: usize) {
        match part {
            Part::Expr(expr) => self.expr(expr, level),
            Part::Block(block) => self.block(block, level),
            Part::Place(place) => place.parts(&mut |part| self.part(part, level)),
        }
    }

    fn expr(&mut self, expr: &Expr, level: usize) {
        let level = level
            + match &expr.kind {
                // Where there is no `switch` for it, each arm stands in the `else` of the one before it.
                Kind::Match(of, arms) if of.ty.scalar().is_some_and(|s| s.bits() == 64) => arms.len() + 1,
                Kind::Match(_, arms) if arms.iter().any(|(_, arm)| crate::flow::breaks(arm)) => {
                    arms.len() + 1
                }
                Kind::Match(..) => 2,
                _ => 1,
            };
        if level > LEVELS {
            if !std::mem::replace(&mut self.reported, true) {
                self.errors.at(expr.span, DEEP);
            }
            return;
        }
        expr.parts(&mut |part| self.part(part, level));
    }
}

/// How many bytes of arrays a call of a function takes. Where they become too many is reported, and counts as nothing.
fn arrays(module: &Module, at: usize, known: &mut [Option<u64>], errors: &mut Errors) -> u64 {
    if let Some(bytes) = known[at] {
        return bytes;
    }
    // A function that calls itself is refused elsewhere.
    known[at] = Some(0);
    let function = &module.functions[at];
    let (mut total, mut over) = (0_u64, None);
    let mut count = |bytes: u64, span: Span| {
        total = total.saturating_add(bytes);
        if total > ARRAYS && bytes > 0 && over.is_none() {
            over = Some((total, span));
        }
    };
    for var in function.vars.iter().filter(|var| var.kind == VarKind::Value) {
        count(array_bytes(module, &var.ty), var.name.span());
    }
    let mut calls = Vec::new();
    for (expr, in_place) in made(function) {
        if !in_place {
            count(array_bytes(module, &expr.ty), expr.span);
        }
        if let Kind::Call(helper, _) = expr.kind {
            calls.push((helper, expr.span));
        }
    }
    for (helper, span) in calls {
        count(arrays(module, helper, known, errors), span);
    }
    if let Some((bytes, span)) = over {
        errors.at(
            span,
            format!(
                "the arrays of `{}` take {bytes} bytes up to here, and a kernel has {ARRAYS} for them; keep large ones in a \
                 buffer, or in `#[local]` memory",
                function.name
            ),
        );
        total = 0;
    }
    known[at] = Some(total);
    total
}

/// The expressions of a function that make a value, and whether it is made where it is wanted: in a variable, or as a
/// part of another one.
fn made(function: &Function) -> Vec<(&Expr, bool)> {
    let (mut found, mut in_place) = (Vec::new(), HashSet::new());
    walk_block(&function.body, &mut |node| match node {
        Node::Stmt(Stmt::Let(_, Some(value))) => {
            in_place.insert(std::ptr::from_ref(value));
        }
        Node::Expr(expr) => {
            let makes = match &expr.kind {
                Kind::Struct(_, parts) | Kind::Array(parts) => {
                    in_place.extend(parts.iter().map(std::ptr::from_ref));
                    true
                }
                Kind::Repeat(part) => {
                    in_place.insert(&raw const **part);
                    true
                }
                Kind::Call(..) | Kind::Element(..) => true,
                _ => false,
            };
            if makes {
                found.push((expr, in_place.contains(&std::ptr::from_ref(expr))));
            }
        }
        Node::Block(_) | Node::Stmt(_) | Node::Place(_) => {}
    });
    found
}

/// The bytes of a type that has arrays in it.
fn array_bytes(module: &Module, ty: &Ty) -> u64 {
    if has_arrays(module, ty) { bytes(module, ty) } else { 0 }
}

fn has_arrays(module: &Module, ty: &Ty) -> bool {
    match ty {
        Ty::Array(..) => true,
        Ty::Struct(at) => module.structs[*at].fields.iter().any(|(_, ty)| has_arrays(module, ty)),
        _ => false,
    }
}

/// The bytes of a value, without padding.
fn bytes(module: &Module, ty: &Ty) -> u64 {
    match ty {
        Ty::Scalar(scalar) => u64::from(scalar.bits().div_ceil(8)),
        Ty::Vector(n, of) => u64::from(*n) * bytes(module, of),
        Ty::Array(of, len) => bytes(module, of).saturating_mul(u64::from(*len)),
        Ty::Struct(at) => {
            let fields = module.structs[*at].fields.iter();
            fields.fold(0, |sum, (_, ty)| bytes(module, ty).saturating_add(sum))
        }
        _ => 0,
    }
}
