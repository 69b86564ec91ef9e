//! `debug!`: what items say goes into memory that the launch brings, and is said by the program once the launch is over.
//!
//! A kernel that says something has a parameter more, which nobody passes, and so have the helpers that say something: atomic
//! numbers of 32 bits. The first counts the numbers that are taken, the second all messages, also those for which there was no
//! room; then come the messages, each with its number and one more, the item's position and its values. So to devices there is
//! nothing new in it.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use crate::builtin::{Id, Math};
use crate::errors::Errors;
use crate::flow::functions_with;
use crate::hir::{
    Arg, AtomicOp, BinOp, Block, Change, Expr, Function, Kind, May, Module, Node, Slice, Space, Stmt, Var,
    VarId, VarKind, change_block, walk,
};
use crate::ty::{F32, Scalar, Ty, U32};
use crate::uses::dims_asked;

/// What a `debug!` says: its format, and what each value is called there, if it has a name.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) format: Literal,
    pub(crate) names: Vec<Option<Ident>>,
    pub(crate) span: Span,
    /// The values' types, and how many positions stand before them; known once it is lowered.
    pub(crate) types: Vec<Ty>,
    pub(crate) positions: u8,
}

impl Message {
    fn tokens(&self, rt: &TokenStream) -> TokenStream {
        let (format, positions) = (&self.format, usize::from(self.positions));
        let mut at = 0;
        let values = self.types.iter().zip(&self.names).map(|(ty, name)| {
            let value = shown(ty, at, rt);
            at += words_of(ty);
            match name {
                Some(name) => quote!(#name = #value),
                None => value,
            }
        });
        let values: Vec<TokenStream> = values.collect();
        let line = quote_spanned!(self.span=> ::core::line!());
        quote! {
            #rt::Message {
                at: (::core::file!(), #line),
                positions: #positions,
                values: #at,
                said: |words: &[u32]| ::std::format!(#format #(, #values)*),
            }
        }
    }
}

/// The module's messages as its kernels have them.
pub(crate) fn tokens(module: &Module, rt: &TokenStream) -> Vec<TokenStream> {
    module.messages.iter().map(|message| message.tokens(rt)).collect()
}

/// A value of the numbers that a device has left, of which the first stands at `at`.
fn shown(ty: &Ty, at: usize, rt: &TokenStream) -> TokenStream {
    match ty {
        Ty::Vector(len, of) => {
            let parts = (0..usize::from(*len)).map(|part| shown(of, at + part * words_of(of), rt));
            quote!([#(#parts),*])
        }
        Ty::Scalar(Scalar::Bool) => quote!((words[#at] != 0)),
        Ty::Scalar(Scalar::F32) => quote!(f32::from_bits(words[#at])),
        Ty::Scalar(Scalar::F16) => quote!(#rt::f16::from_f32(f32::from_bits(words[#at]))),
        Ty::Scalar(scalar) => {
            let (name, high) = (format_ident!("{}", scalar.name()), at + 1);
            match scalar.bits() > 32 {
                true => quote!(((u64::from(words[#high]) << 32 | u64::from(words[#at])) as #name)),
                false => quote!((words[#at] as #name)),
            }
        }
        _ => quote!(()),
    }
}

/// How many numbers of 32 bits a value of this type takes.
fn words_of(ty: &Ty) -> usize {
    match ty {
        Ty::Scalar(scalar) if scalar.bits() > 32 => 2,
        Ty::Scalar(_) => 1,
        Ty::Vector(len, of) => usize::from(*len) * words_of(of),
        _ => 0,
    }
}

/// Turns all messages into what devices know. Afterwards `module.messages` are those that there are.
pub(crate) fn lower(module: &mut Module, errors: &mut Errors) {
    let speaking = functions_with(module, |kind| matches!(kind, Kind::Message(..)));
    let kernels = module.kernels.iter().filter(|at| speaking.contains(at));
    // More would make a launch one of more dimensions.
    let positions = kernels.map(|at| dims_asked(module, *at)).max().unwrap_or(1);
    for &at in &speaking {
        let mut body = std::mem::take(&mut module.functions[at].body);
        let Function { params, vars, name, .. } = &mut module.functions[at];
        vars.push(Var {
            name: Ident::new("w_messages", name.span()),
            ty: U32,
            mutable: false,
            kind: VarKind::Slice(Slice { dims: 1, may: May::Atomic, space: Space::Global, is_image: false }),
        });
        let memory = vars.len() - 1;
        params.push(memory);
        let mut writer = Writer { vars, memory, positions, messages: &mut module.messages, errors };
        change_block(&mut body, &mut |node| match node {
            Change::Expr(Expr { kind: Kind::Call(helper, args), .. }) if speaking.contains(helper) => {
                args.push(Arg::Slice(memory));
            }
            Change::Expr(expr) => {
                if let Kind::Message(message, values) = &mut expr.kind {
                    expr.kind = writer.said((**message).clone(), std::mem::take(values));
                }
            }
            Change::Place(_) => {}
        });
        module.functions[at].body = body;
    }
    for function in &module.functions {
        for reduction in &function.reductions {
            walk(&reduction.combined, &mut |node| {
                if let Node::Expr(Expr { kind: Kind::Call(helper, _), .. }) = node
                    && speaking.contains(helper)
                {
                    let name = &module.functions[*helper].name;
                    errors.at(
                        name.span(),
                        format!("`{name}` combines values for a reduction, and can say nothing there"),
                    );
                }
            });
        }
    }
}

/// Writes the messages of one function.
struct Writer<'f> {
    vars: &'f mut Vec<Var>,
    memory: VarId,
    positions: u8,
    messages: &'f mut Vec<Message>,
    errors: &'f mut Errors,
}

impl Writer<'_> {
    fn said(&mut self, mut message: Message, values: Vec<Expr>) -> Kind {
        let span = message.span;
        message.types = values.iter().map(|value| value.ty.clone()).collect();
        message.positions = self.positions;
        let mut stmts = Vec::new();
        let mut words = vec![number(self.messages.len() + 1, span)];
        words.extend((0..self.positions).map(|dim| Expr::new(Kind::Id(Id::Global, dim), U32, span)));
        for value in values {
            let kept = self.keep("w_said", value, &mut stmts);
            self.words(&kept, &mut words);
        }
        let all = words.len();
        self.messages.push(message);
        // Once it is full nobody counts on, so the count does not wrap.
        let room = Expr::new(Kind::Len(self.memory, None), U32, span);
        let taken = self.atomic(AtomicOp::Load, number(0, span), Vec::new());
        let fits = Kind::Binary(BinOp::Lt, Box::new(taken), Box::new(room));
        let counted = self.atomic(AtomicOp::Add, number(1, span), vec![number(1, span)]);
        stmts.push(Stmt::Expr(counted));
        let mut inside = Vec::new();
        let taken = self.atomic(AtomicOp::Add, number(0, span), vec![number(all, span)]);
        let start = self.keep("w_at", taken, &mut inside);
        for (at, word) in words.into_iter().enumerate() {
            let behind = Kind::Binary(BinOp::Add, Box::new(start.clone()), Box::new(number(at + 2, span)));
            let stored = self.atomic(AtomicOp::Store, Expr::new(behind, U32, span), vec![word]);
            inside.push(Stmt::Expr(stored));
        }
        let inside = Block { stmts: inside, tail: None };
        let fits = Box::new(Expr::new(fits, Ty::Scalar(Scalar::Bool), span));
        stmts.push(Stmt::Expr(Expr::new(Kind::If(fits, inside, Block::default()), Ty::Unit, span)));
        Kind::Block(Block { stmts, tail: None })
    }

    /// A value under a name.
    fn keep(&mut self, name: &str, value: Expr, to: &mut Vec<Stmt>) -> Expr {
        let (ty, span) = (value.ty.clone(), value.span);
        let name = Ident::new(name, span);
        self.vars.push(Var { name, ty: ty.clone(), mutable: false, kind: VarKind::Value });
        let var = self.vars.len() - 1;
        to.push(Stmt::Let(var, Some(value)));
        Expr::new(Kind::Var(var), ty, span)
    }

    /// A value as numbers of 32 bits.
    fn words(&mut self, value: &Expr, to: &mut Vec<Expr>) {
        match &value.ty {
            Ty::Vector(len, of) => {
                for at in 0..*len {
                    let part = Kind::Component(Box::new(value.clone()), at);
                    self.words(&Expr::new(part, (**of).clone(), value.span), to);
                }
            }
            Ty::Scalar(Scalar::F64) => {
                self.errors.at(value.span, "`debug!` shows no `f64`; show it `as f32`");
            }
            Ty::Scalar(Scalar::F32) => to.push(bits(value.clone())),
            Ty::Scalar(Scalar::F16) => to.push(bits(cast(value.clone(), F32))),
            Ty::Scalar(scalar) if scalar.bits() > 32 => {
                let wide = Ty::Scalar(Scalar::U64);
                let value = cast(value.clone(), wide.clone());
                let by = Expr::new(Kind::Int(32), U32, value.span);
                let high = Kind::Binary(BinOp::Shr, Box::new(value.clone()), Box::new(by));
                let high = Expr::new(high, wide, value.span);
                to.extend([cast(value, U32), cast(high, U32)]);
            }
            Ty::Scalar(_) => to.push(cast(value.clone(), U32)),
            _ => self.errors.at(value.span, "`debug!` shows numbers, truth and vectors; show a part of this"),
        }
    }

    fn atomic(&self, op: AtomicOp, at: Expr, operands: Vec<Expr>) -> Expr {
        let span = at.span;
        let ty = if op == AtomicOp::Store { Ty::Unit } else { U32 };
        Expr::new(Kind::Atomic(op, self.memory, vec![at], operands), ty, span)
    }
}

fn number(value: usize, span: Span) -> Expr {
    Expr::new(Kind::Int(value as i128), U32, span)
}

fn cast(value: Expr, to: Ty) -> Expr {
    let span = value.span;
    match value.ty == to {
        true => value,
        false => Expr::new(Kind::Cast(Box::new(value)), to, span),
    }
}

fn bits(value: Expr) -> Expr {
    let span = value.span;
    Expr::new(Kind::Math(Math::ToBits, vec![value]), U32, span)
}
