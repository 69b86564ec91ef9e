//! Expressions.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};

use super::{Reach, Rust, helper_name};
use crate::builtin::{Id, Math, SubgroupOp};
use crate::hir::{Arg, AtomicOp, Base, BinOp, Expr, Kind, UnOp, VarId, VarKind};
use crate::order::Scope;
use crate::pointers::is_reached;
use crate::ty::{Scalar, Ty};

impl Rust<'_> {
    pub(super) fn value(&self, expr: &Expr) -> TokenStream {
        let rt = self.rt;
        match &expr.kind {
            Kind::Unit => quote!(()),
            Kind::Message(..) | Kind::Zero => unreachable!("these are lowered"),
            Kind::Barrier => quote!(#rt::barrier(item)),
            // A group's items have one thread.
            Kind::Fence(_, Scope::Item | Scope::Group) => quote!(()),
            Kind::Fence(order, Scope::Device) => {
                let order = format_ident!("{}", order.name());
                quote!(#rt::fence(#rt::Order::#order))
            }
            Kind::Bool(value) => quote!(#value),
            Kind::Int(value) => self.integer(*value, &expr.ty),
            Kind::Float(value) => self.float(*value, &expr.ty),
            Kind::Const(at) => self.value(&self.module.consts[*at].value),
            Kind::Var(var) => {
                let name = self.name(*var);
                if self.is_reference(*var) { quote!((*#name)) } else { quote!(#name) }
            }
            Kind::Unary(op, a) => {
                let (ty, a) = (&a.ty, self.value(a));
                let one = |a: TokenStream| match (op, ty.scalar()) {
                    (UnOp::Neg, Some(s)) if s.is_int() => quote!((#a).wrapping_neg()),
                    (UnOp::Neg, _) => quote!((-(#a))),
                    (UnOp::Not, _) => quote!((!(#a))),
                };
                self.each(ty, a, one)
            }
            Kind::Binary(op, a, b) => {
                let (ty, a, b) = (&a.ty, self.value(a), self.value(b));
                self.arithmetic(*op, ty, a, b)
            }
            Kind::Logic(and, a, b) => {
                let (a, b) = (self.value(a), self.value(b));
                if *and { quote!((#a && #b)) } else { quote!((#a || #b)) }
            }
            Kind::Cast(a) => {
                let (from, to, a) = (a.ty.scalar(), self.ty(&expr.ty), self.value(a));
                match (from, expr.ty.scalar()) {
                    (Some(Scalar::F16), Some(Scalar::F16)) => a,
                    (Some(Scalar::Bool), Some(Scalar::F16)) => quote!(#to::from(#a as u8)),
                    // Every number that comes near the range is exact as an `f64`.
                    (_, Some(Scalar::F16)) => quote!(#to::from_f64(#a as f64)),
                    (Some(Scalar::F16), _) => quote!(((#a).to_f64() as #to)),
                    (Some(Scalar::Bool), Some(s)) if s.is_float() => quote!((#a as u8 as #to)),
                    _ => quote!((#a as #to)),
                }
            }
            Kind::Field(a, at) => {
                let Ty::Struct(of) = a.ty else { return quote!(()) };
                if self.module.structs[of].is_pointer {
                    let a = self.value(a);
                    return quote!((#a).address());
                }
                let (name, a) = (super::field(self.module, of, *at), self.value(a));
                quote!(#a.#name)
            }
            Kind::Component(a, at) => {
                let (axis, a) = (axis(*at), self.value(a));
                quote!(#a.#axis)
            }
            Kind::Swizzle(a, pattern) => {
                let (a, of) = (self.value(a), format_ident!("Vec{}", pattern.len()));
                let parts = pattern.iter().map(|at| axis(*at));
                quote!({ let v = #a; #rt::#of::new(#(v.#parts),*) })
            }
            Kind::Index(a, at) => {
                let known = match (&at.kind, &a.ty) {
                    (Kind::Int(known), Ty::Array(_, len)) if *known < i128::from(*len) => {
                        Some(Literal::u32_suffixed(*known as u32))
                    }
                    _ => None,
                };
                let (a, at) = (self.value(a), self.value(at));
                match known {
                    Some(known) => quote!((#a)[#known as usize]),
                    None => quote!(#rt::element(&(#a), #at)),
                }
            }
            Kind::Element(var, at) => {
                let name = self.name(*var);
                if self.reach(*var) == Reach::Own {
                    return quote!(#name[k]);
                }
                if let Some(window) = self.window(at) {
                    return window.read();
                }
                let at = at.iter().map(|at| self.value(at));
                if is_reached(&self.function.vars[*var].kind) {
                    return quote!(#name.get(#(#at),*));
                }
                quote!(#rt::Load::get(&#name, [#(#at),*]))
            }
            Kind::Len(var, dim) => self.length(*var, *dim),
            // On the host each item is a sub-group of its own.
            Kind::Subgroup(op, operands) => {
                let values: Vec<TokenStream> = operands.iter().map(|e| self.value(e)).collect();
                match (op, &values[..]) {
                    (SubgroupOp::Size, _) => quote!(1_u32),
                    (SubgroupOp::Lane, _) => quote!(0_u32),
                    (SubgroupOp::Id, _) => quote!(item.number()),
                    (SubgroupOp::Count, _) => quote!(item.numbers()),
                    (SubgroupOp::Barrier, _) => quote!(()),
                    (SubgroupOp::Ballot, [value]) => quote!(#rt::Vec4::new(u32::from(#value), 0, 0, 0)),
                    (SubgroupOp::ExclusiveAdd, [value, ..]) => quote!({ let _ = #value; #rt::Zero::ZERO }),
                    (_, [value]) => value.clone(),
                    (_, _) => quote!((#(#values),*).0),
                }
            }
            Kind::Id(id, dim) => {
                let (field, dim) = (id_field(*id), *dim as usize);
                match id {
                    Id::Groups => quote!(item.groups(#dim)),
                    _ => quote!(item.#field[#dim]),
                }
            }
            Kind::Math(math, operands) => self.math(*math, operands),
            Kind::Call(at, args) => self.call(*at, args),
            Kind::Struct(at, values) => {
                let item = &self.module.structs[*at];
                let fields = item.fields.iter().map(|(field, _)| field);
                let values = values.iter().map(|value| self.value(value));
                if item.is_tuple {
                    return quote!((#(#values,)*));
                }
                if item.is_pointer {
                    let ty = self.ty(&expr.ty);
                    return quote!(<#ty>::from_address(#(#values),*));
                }
                let name = match item.is_library {
                    true => self.ty(&expr.ty),
                    false => item.name.to_token_stream(),
                };
                quote!(#name { #(#fields: #values),* })
            }
            Kind::Array(values) => {
                let values = values.iter().map(|value| self.value(value));
                quote!([#(#values),*])
            }
            Kind::Repeat(of) => {
                let len = if let Ty::Array(_, len) = expr.ty { len as usize } else { 1 };
                let of = self.value(of);
                quote!([#of; #len])
            }
            Kind::Vector(values) => {
                let (name, values) =
                    (format_ident!("Vec{}", values.len()), values.iter().map(|v| self.value(v)));
                quote!(#rt::#name::new(#(#values),*))
            }
            Kind::Splat(of) => {
                let (n, of) = (expr.ty.width().unwrap_or(2), self.value(of));
                let name = format_ident!("Vec{}", n);
                quote!(#rt::#name::splat(#of))
            }
            Kind::If(condition, yes, no) => {
                let (condition, yes, no) = (self.value(condition), self.block(yes), self.block(no));
                quote!((if #condition #yes else #no))
            }
            Kind::Match(of, arms) => {
                let ty = &of.ty;
                let of = self.value(of);
                let arms = arms.iter().map(|(values, block)| {
                    let block = self.block(block);
                    let values = values.iter().map(|value| self.integer(*value, ty));
                    match values.len() {
                        0 => quote!(_ => #block),
                        _ => quote!(#(#values)|* => #block),
                    }
                });
                quote!((match #of { #(#arms)* }))
            }
            Kind::Block(block) => self.block(block),
            Kind::Atomic(op, var, at, operands) => {
                let name = self.name(*var);
                let (at, operands) =
                    (at.iter().map(|e| self.value(e)), operands.iter().map(|e| self.value(e)));
                let op = match op {
                    AtomicOp::Load => return quote!(#rt::Atomics::load(&#name, [#(#at),*])),
                    AtomicOp::Store => return quote!(#rt::Atomics::store(&#name, [#(#at),*], #(#operands),*)),
                    AtomicOp::ExchangeIf => {
                        return quote!(#rt::Atomics::exchange_if(&#name, [#(#at),*], #(#operands),*));
                    }
                    AtomicOp::Add => quote!(Add),
                    AtomicOp::Sub => quote!(Sub),
                    AtomicOp::And => quote!(And),
                    AtomicOp::Or => quote!(Or),
                    AtomicOp::Xor => quote!(Xor),
                    AtomicOp::Min => quote!(Min),
                    AtomicOp::Max => quote!(Max),
                    AtomicOp::Swap => quote!(Swap),
                };
                quote!(#rt::Atomics::update(&#name, [#(#at),*], #rt::AtomicOp::#op, #(#operands),*))
            }
        }
    }

    fn integer(&self, value: i128, ty: &Ty) -> TokenStream {
        let literal = match ty.scalar() {
            Some(Scalar::I8) => Literal::i8_suffixed(value as i8),
            Some(Scalar::U8) => Literal::u8_suffixed(value as u8),
            Some(Scalar::I16) => Literal::i16_suffixed(value as i16),
            Some(Scalar::U16) => Literal::u16_suffixed(value as u16),
            Some(Scalar::U32) => Literal::u32_suffixed(value as u32),
            Some(Scalar::I64) => Literal::i64_suffixed(value as i64),
            Some(Scalar::U64) => Literal::u64_suffixed(value as u64),
            Some(s) if s.is_float() => return self.float(value as f64, ty),
            _ => Literal::i32_suffixed(value as i32),
        };
        quote!(#literal)
    }

    fn float(&self, value: f64, ty: &Ty) -> TokenStream {
        let literal = match ty.scalar() {
            Some(scalar @ (Scalar::F32 | Scalar::F64)) if value.is_infinite() => {
                let of = format_ident!("{}", scalar.name());
                return if value > 0.0 { quote!(#of::INFINITY) } else { quote!(#of::NEG_INFINITY) };
            }
            Some(Scalar::F16) => {
                let (rt, bits) = (self.rt, half::f16::from_f64(value).to_bits());
                return quote!(#rt::f16::from_bits(#bits));
            }
            Some(Scalar::F64) => Literal::f64_suffixed(value.abs()),
            _ => Literal::f32_suffixed(value.abs() as f32),
        };
        if value.is_sign_negative() { quote!((-#literal)) } else { quote!(#literal) }
    }

    /// An operation on a scalar, or on each component of a vector.
    fn each(&self, ty: &Ty, a: TokenStream, one: impl Fn(TokenStream) -> TokenStream) -> TokenStream {
        match ty {
            Ty::Vector(..) => {
                let rt = self.rt;
                let body = one(quote!(x));
                quote!(#rt::Vector::map(#a, |x| #body))
            }
            _ => one(a),
        }
    }

    fn pair(
        &self,
        ty: &Ty,
        a: TokenStream,
        b: TokenStream,
        one: impl Fn(TokenStream, TokenStream) -> TokenStream,
    ) -> TokenStream {
        match ty {
            Ty::Vector(..) => {
                let rt = self.rt;
                let body = one(quote!(x), quote!(y));
                quote!(#rt::Vector::zip(#a, #b, |x, y| #body))
            }
            _ => one(a, b),
        }
    }

    pub(super) fn arithmetic(&self, op: BinOp, ty: &Ty, a: TokenStream, b: TokenStream) -> TokenStream {
        let rt = self.rt;
        let int = ty.scalar().is_some_and(Scalar::is_int);
        self.pair(ty, a, b, |a, b| match op {
            BinOp::Add if int => quote!((#a).wrapping_add(#b)),
            BinOp::Sub if int => quote!((#a).wrapping_sub(#b)),
            BinOp::Mul if int => quote!((#a).wrapping_mul(#b)),
            BinOp::Div if int => quote!(#rt::Integer::div(#a, #b)),
            BinOp::Rem if int => quote!(#rt::Integer::rem(#a, #b)),
            BinOp::Shl => quote!((#a).wrapping_shl(#b)),
            BinOp::Shr => quote!((#a).wrapping_shr(#b)),
            BinOp::Add => quote!((#a + #b)),
            BinOp::Sub => quote!((#a - #b)),
            BinOp::Mul => quote!((#a * #b)),
            BinOp::Div => quote!((#a / #b)),
            BinOp::Rem => quote!((#a % #b)),
            BinOp::And => quote!((#a & #b)),
            BinOp::Or => quote!((#a | #b)),
            BinOp::Xor => quote!((#a ^ #b)),
            BinOp::Eq => quote!((#a == #b)),
            BinOp::Ne => quote!((#a != #b)),
            BinOp::Lt => quote!((#a < #b)),
            BinOp::Le => quote!((#a <= #b)),
            BinOp::Gt => quote!((#a > #b)),
            BinOp::Ge => quote!((#a >= #b)),
        })
    }

    fn length(&self, var: VarId, dim: Option<u8>) -> TokenStream {
        let (rt, name) = (self.rt, self.name(var));
        let dims = match &self.function.vars[var].kind {
            VarKind::Slice(slice) => slice.dims as usize,
            _ => 1,
        };
        if self.reach(var) == Reach::Own {
            // The slice in the loop is a part; its whole length was asked for before.
            return match dim {
                Some(dim) if dims > 1 => {
                    let (extents, dim) = (format_ident!("{}_extents", name), usize::from(dim));
                    quote!(#extents[#dim])
                }
                _ => {
                    let whole = format_ident!("{}_len", name);
                    quote!(#whole)
                }
            };
        }
        let ty = self.ty(&self.function.vars[var].ty);
        let atomics =
            matches!(&self.function.vars[var].kind, VarKind::Slice(s) if s.may == crate::hir::May::Atomic);
        match (dim.map(usize::from), atomics) {
            (Some(dim), true) => quote!(#rt::Atomics::<#ty, #dims>::extent(&#name, #dim)),
            (None, true) => quote!(#rt::Atomics::<#ty, #dims>::count(&#name)),
            (Some(dim), false) => quote!(#rt::Load::<#ty, #dims>::extent(&#name, #dim)),
            (None, false) => quote!(#rt::Load::<#ty, #dims>::count(&#name)),
        }
    }

    fn math(&self, math: Math, operands: &[Expr]) -> TokenStream {
        let rt = self.rt;
        let ty = &operands[0].ty;
        let scalar = ty.scalar().unwrap_or(Scalar::F32);
        let texts: Vec<TokenStream> = operands.iter().map(|e| self.value(e)).collect();
        let a = texts[0].clone();
        let name = format_ident!("{}", math.name());
        // Functions of 16 bits are those of 32, rounded.
        let wide = |x: TokenStream| if scalar == Scalar::F16 { quote!((#x).to_f32()) } else { quote!((#x)) };
        let rounded = |x: TokenStream| if scalar == Scalar::F16 { quote!(#rt::f16::from_f32(#x)) } else { x };
        match (math, &texts[..]) {
            (Math::Dot | Math::Cross | Math::Length | Math::Distance | Math::Normalize, [_, rest @ ..]) => {
                quote!((#a).#name(#(#rest),*))
            }
            (Math::Abs, _) if scalar.is_int() => self.each(ty, a, |a| quote!((#a).wrapping_abs())),
            (Math::Clamp, [_, low, high]) => {
                // Not Rust's, which panics where the bounds are the wrong way round.
                let raised = self.pair(ty, a, low.clone(), |a, b| {
                    let (a, b) = (wide(a), wide(b));
                    rounded(quote!(#a.max(#b)))
                });
                self.pair(ty, raised, high.clone(), |a, b| {
                    let (a, b) = (wide(a), wide(b));
                    rounded(quote!(#a.min(#b)))
                })
            }
            (Math::Signum, _) if scalar.is_int() => self.each(ty, a, |a| quote!((#a).signum())),
            // Rust's own lose some sixteen units in the last place near the ends.
            (Math::Asinh | Math::Acosh | Math::Atanh, _) if scalar == Scalar::F32 => {
                self.each(ty, a, |a| quote!((f64::from(#a).#name() as f32)))
            }
            (Math::FromBits, _) => quote!(f32::from_bits(#a)),
            (Math::MulAdd, [_, b, c]) => match ty {
                Ty::Vector(..) => {
                    let [x, y, z] =
                        ["x", "y", "z"].map(|name| wide(format_ident!("{name}").into_token_stream()));
                    let one = rounded(quote!(#x.mul_add(#y, #z)));
                    quote!(#rt::Vector::zip3(#a, #b, #c, |x, y, z| #one))
                }
                _ => {
                    let (a, b, c) = (wide(a), wide(b.clone()), wide(c.clone()));
                    rounded(quote!(#a.mul_add(#b, #c)))
                }
            },
            (_, [_, b]) => self.pair(ty, a, b.clone(), |a, b| {
                let (a, b) = (wide(a), wide(b));
                rounded(quote!(#a.#name(#b)))
            }),
            _ => self.each(ty, a, |a| {
                let a = wide(a);
                rounded(quote!(#a.#name()))
            }),
        }
    }

    fn call(&self, at: usize, args: &[Arg]) -> TokenStream {
        let name = helper_name(self.module, at);
        let (mut before, mut texts, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for (number, arg) in args.iter().enumerate() {
            match arg {
                Arg::Value(value) => texts.push(self.value(value)),
                Arg::Piece(_) => {}
                Arg::Slice(var) => {
                    let name = self.name(*var);
                    texts.push(quote!(#name));
                }
                Arg::Ref(place) => {
                    if let (Base::Var(var), true) = (&place.base, place.path.is_empty()) {
                        let name = self.name(*var);
                        texts.push(match self.is_reference(*var) {
                            true => quote!(&mut *#name),
                            false => quote!(&mut #name),
                        });
                        continue;
                    }
                    let (copy, ty) = (format_ident!("copy_{}_of", number), self.ty(&place.ty));
                    let read = self.read_place(place);
                    before.push(quote!(let mut #copy: #ty = #read;));
                    texts.push(quote!(&mut #copy));
                    after.push(self.write_place(place, quote!(#copy)));
                }
            }
        }
        match before.is_empty() {
            true => quote!(#name(item, #(#texts),*)),
            false => quote!({ #(#before)* let result = #name(item, #(#texts),*); #(#after)* result }),
        }
    }
}

pub(super) fn axis(at: u8) -> proc_macro2::Ident {
    format_ident!("{}", ["x", "y", "z", "w"][at as usize])
}

fn id_field(id: Id) -> proc_macro2::Ident {
    format_ident!(
        "{}",
        match id {
            Id::Global => "global",
            Id::GlobalSize => "global_size",
            Id::Local => "local",
            Id::LocalSize => "local_size",
            Id::Group | Id::Groups => "group",
        }
    )
}
