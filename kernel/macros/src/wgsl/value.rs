//! Expressions. What WGSL can say as a statement only stands in lines of its own before; operands that were written
//! already are then kept in a variable, so that everything happens in Rust's order.

use super::Writer;
use super::memory::member;
use super::stmt::{Body, integer};
use crate::builtin::Id;
use crate::hir::{BinOp, Expr, Function, Kind, Slice, Space, UnOp, VarKind};
use crate::ty::{Scalar, Ty};

impl Writer<'_> {
    /// The type of what says where an item is.
    pub(super) fn item_ty(&mut self) -> &'static str {
        let needs = self.grouped;
        if !needs {
            return "vec3<u32>";
        }
        if self.types.claim("Item") {
            self.types.text.push_str(
                "struct Item {\n    global_id: vec3<u32>,\n    local_id: vec3<u32>,\n    group_id: vec3<u32>,\n}\n\n",
            );
        }
        "Item"
    }

    /// A value that the text is built with, through a function: known values have to be defined wherever they go.
    fn built_in(&mut self, name: &str) -> String {
        let function = format!("w_{name}");
        if self.helpers.claim(&function) {
            let text = format!("fn {function}() -> u32 {{\n    return {name};\n}}\n\n");
            self.helpers.text.push_str(&text);
        }
        format!("{function}()")
    }

    /// A position: a variable in the entry point, a part of the parameter `item` in helpers.
    fn position(&mut self, id: Id, dim: u8, entry: bool) -> String {
        let axis = ["x", "y", "z"][dim as usize];
        match (id, self.grouped) {
            (Id::Global | Id::Local | Id::Group, _) if entry => format!("{}_{dim}", id.name()),
            (Id::Global, false) => format!("item.{axis}"),
            (Id::Global, true) => format!("item.global_id.{axis}"),
            (Id::GlobalSize, _) => format!("block.size_{dim}"),
            (Id::Local, _) => format!("item.local_id.{axis}"),
            (Id::LocalSize, _) => self.built_in(&format!("local_{dim}")),
            (Id::Group, _) => format!("item.group_id.{axis}"),
            (Id::Groups, _) => format!("(block.size_{dim} / local_{dim})"),
        }
    }

    pub(super) fn float(&mut self, scalar: Scalar, value: f64) -> String {
        if value.is_infinite() {
            return self.infinity(scalar, value > 0.0);
        }
        let (text, suffix) = match scalar {
            Scalar::F64 => (format!("{value:?}"), "lf"),
            Scalar::F16 => (format!("{:?}", value as f32), "h"),
            _ => (format!("{:?}", value as f32), "f"),
        };
        if text.starts_with('-') { format!("({text}{suffix})") } else { format!("{text}{suffix}") }
    }

    /// An infinity, for which WGSL has no literal, and which its compilers refuse where they find one: its bits go through a variable.
    fn infinity(&mut self, scalar: Scalar, positive: bool) -> String {
        let (bits, kept, value) = match scalar {
            Scalar::F64 => (f64::INFINITY.to_bits(), "u64", "bitcast<f64>(kept)"),
            Scalar::F16 => (u64::from(half::f16::INFINITY.to_bits()), "u32", "f16(unpack2x16float(kept).x)"),
            _ => (u64::from(f32::INFINITY.to_bits()), "u32", "bitcast<f32>(kept)"),
        };
        let (ty, name) = (self.ty(&Ty::Scalar(scalar)), format!("w_infinity_{}", scalar.name()));
        if self.helpers.claim(&name) {
            let suffix = if kept == "u64" { "lu" } else { "u" };
            self.helpers.text.push_str(&format!(
                "fn {name}() -> {ty} {{\n    var kept: {kept} = {bits}{suffix};\n    return {value};\n}}\n\n"
            ));
        }
        if positive { format!("{name}()") } else { format!("(-{name}())") }
    }

    /// A constant of the module by name, for arrays and structs.
    fn constant(&mut self, at: usize) -> String {
        if let Some(name) = self.consts.get(&at) {
            return name.clone();
        }
        let module = self.module;
        let constant = &module.consts[at];
        let name = self.unique(&constant.name.to_string());
        let (ty, value) = (self.ty(&constant.ty), self.constant_value(&constant.value));
        self.types.text.push_str(&format!("const {name}: {ty} = {value};\n\n"));
        self.consts.insert(at, name.clone());
        name
    }

    fn constant_value(&mut self, expr: &Expr) -> String {
        let scalar = expr.ty.scalar().unwrap_or(Scalar::F32);
        match &expr.kind {
            Kind::Bool(value) => value.to_string(),
            Kind::Int(value) => integer(scalar, *value),
            Kind::Float(value) => self.float(scalar, *value),
            Kind::Const(at) => self.constant(*at),
            Kind::Array(list) | Kind::Vector(list) | Kind::Struct(_, list) => {
                let parts: Vec<String> = list.iter().map(|e| self.constant_value(e)).collect();
                format!("{}({})", self.ty(&expr.ty), parts.join(", "))
            }
            Kind::Repeat(of) => {
                let part = self.constant_value(of);
                let len = if let Ty::Array(_, len) = expr.ty { len as usize } else { 1 };
                format!("{}({})", self.ty(&expr.ty), vec![part; len].join(", "))
            }
            Kind::Splat(of) => format!("{}({})", self.ty(&expr.ty), self.constant_value(of)),
            Kind::Unary(UnOp::Neg, of) => format!("(-{})", self.constant_value(of)),
            Kind::Binary(op, a, b) => {
                let text = format!("({} {} {})", self.constant_value(a), op.sign(), self.constant_value(b));
                self.cut(&expr.ty, text)
            }
            _ => "0".into(),
        }
    }
}

impl<'m> Body<'_, 'm> {
    /// The texts of expressions that are evaluated one after the other.
    pub(super) fn operands(&mut self, exprs: &[&'m Expr]) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for (at, expr) in exprs.iter().enumerate() {
            let before = self.lines.len();
            let text = self.value(expr);
            if self.lines.len() > before {
                // Lines were written for this one: what comes before it is evaluated before them.
                let mut moved = before;
                for (earlier, other) in texts.iter_mut().zip(&exprs[..at]) {
                    if is_fixed(other, self.function) {
                        continue;
                    }
                    let name = self.writer.unique("w_t");
                    let ty = self.writer.ty(&other.ty);
                    let line = format!("{}let {name}: {ty} = {earlier};", "    ".repeat(self.level));
                    self.lines.insert(moved, line);
                    moved += 1;
                    *earlier = name;
                }
            }
            texts.push(text);
        }
        texts
    }

    pub(super) fn value(&mut self, expr: &'m Expr) -> String {
        let scalar = expr.ty.scalar().unwrap_or(Scalar::U32);
        match &expr.kind {
            Kind::Unit | Kind::Barrier | Kind::Fence(..) => String::new(),
            Kind::Message(..) | Kind::Zero => unreachable!("these are lowered"),
            Kind::Bool(value) => value.to_string(),
            Kind::Int(value) => match scalar.is_float() {
                true => self.writer.float(scalar, *value as f64),
                false => integer(scalar, *value),
            },
            Kind::Float(value) => self.writer.float(scalar, *value),
            Kind::Const(at) => self.writer.constant(*at),
            Kind::Var(var) => self.names[var].clone(),
            Kind::Unary(UnOp::Neg, a) if scalar.is_small() && is_known(a, self.function) => {
                let text = self.value(a);
                self.at_run_time("neg", expr, &[a], &[text], |body, texts| {
                    body.writer.cut(&expr.ty, format!("(-{})", texts[0]))
                })
            }
            Kind::Unary(op, a) => {
                let a = self.value(a);
                let text = match (op, scalar) {
                    (UnOp::Neg, _) => format!("(-{a})"),
                    (UnOp::Not, Scalar::Bool) => format!("(!{a})"),
                    (UnOp::Not, _) => format!("(~{a})"),
                };
                self.writer.cut(&expr.ty, text)
            }
            Kind::Binary(op, a, b) => {
                let texts = self.operands(&[a, b]);
                match self.may_be_refused(*op, a, b) {
                    true => self.at_run_time(op.name(), expr, &[a, b], &texts, |body, texts| {
                        body.arithmetic(*op, &a.ty, &texts[0], &texts[1])
                    }),
                    false => self.arithmetic(*op, &a.ty, &texts[0], &texts[1]),
                }
            }
            Kind::Logic(and, a, b) => self.logic(*and, a, b),
            Kind::Cast(a) => {
                let (from, text) = (a.ty.scalar().unwrap_or(Scalar::U32), self.value(a));
                match scalar.is_small() && is_known(a, self.function) {
                    // What is cut off is too large for a known value.
                    true => {
                        let verb = format!("as_{}", scalar.name());
                        self.at_run_time(&verb, expr, &[a], &[text], |body, texts| {
                            body.writer.cast(scalar, from, &texts[0])
                        })
                    }
                    false => self.writer.cast(scalar, from, &text),
                }
            }
            Kind::Field(a, at) => {
                let module = self.writer.module;
                let Ty::Struct(of) = a.ty else { return String::new() };
                let name = member(&module.structs[of].fields[*at].0);
                format!("{}.{name}", self.value(a))
            }
            Kind::Component(a, at) => format!("{}.{}", self.value(a), ["x", "y", "z", "w"][*at as usize]),
            Kind::Swizzle(a, pattern) => {
                let letters: String = pattern.iter().map(|at| ["x", "y", "z", "w"][*at as usize]).collect();
                format!("{}.{letters}", self.value(a))
            }
            Kind::Index(a, index) => self.array_element(a, index, &expr.ty),
            Kind::Element(var, at) => {
                let name = self.writer.memories[self.memories[var]].name.clone();
                let at: Vec<&'m Expr> = at.iter().collect();
                format!("get_{name}({})", self.operands(&at).join(", "))
            }
            Kind::Len(var, dim) => self.length(*var, *dim),
            Kind::Id(id, dim) => self.writer.position(*id, *dim, self.entry),
            Kind::Math(math, operands) => {
                let exprs: Vec<&'m Expr> = operands.iter().collect();
                let texts = self.operands(&exprs);
                match exprs.iter().all(|e| is_known(e, self.function)) {
                    true => self.at_run_time(math.name(), expr, &exprs, &texts, |body, texts| {
                        body.writer.math(*math, &exprs[0].ty, texts)
                    }),
                    false => self.writer.math(*math, &operands[0].ty, &texts),
                }
            }
            Kind::Call(at, args) => {
                let (call, after) = self.call(*at, args);
                // Kept, so that it is called once and where it stands.
                let (name, ty) = (self.temporary("result"), self.writer.ty(&expr.ty));
                self.line(format!("let {name}: {ty} = {call};"));
                after.into_iter().for_each(|line| self.line(line));
                name
            }
            Kind::Subgroup(op, _) if op.is_number() => op.name().into(),
            Kind::Subgroup(op, operands) => {
                let exprs: Vec<&'m Expr> = operands.iter().collect();
                let call = format!("{}({})", op.wgsl(), self.operands(&exprs).join(", "));
                let (name, ty) = (self.temporary("together"), self.writer.ty(&expr.ty));
                self.line(format!("let {name}: {ty} = {call};"));
                name
            }
            Kind::Struct(_, list) | Kind::Array(list) | Kind::Vector(list) => {
                let exprs: Vec<&'m Expr> = list.iter().collect();
                let texts = self.operands(&exprs);
                format!("{}({})", self.writer.ty(&expr.ty), texts.join(", "))
            }
            Kind::Repeat(of) => {
                let len = if let Ty::Array(_, len) = expr.ty { len as usize } else { 1 };
                let text = self.value(of);
                let ty = self.writer.ty(&of.ty);
                let part = self.kept(text, "t", &ty);
                format!("{}({})", self.writer.ty(&expr.ty), vec![part; len].join(", "))
            }
            Kind::Splat(of) => {
                let text = self.value(of);
                format!("{}({text})", self.writer.ty(&expr.ty))
            }
            Kind::If(condition, yes, no) => {
                let name = self.result_variable(&expr.ty);
                self.branch(condition, yes, no, Some(&name));
                name
            }
            Kind::Match(of, arms) => {
                let name = self.result_variable(&expr.ty);
                self.choice(of, arms, Some(&name));
                name
            }
            Kind::Block(block) if Body::is_plain(block) && block.tail.is_some() => match &block.tail {
                Some(tail) => self.value(tail),
                None => String::new(),
            },
            Kind::Block(block) => {
                let name = self.result_variable(&expr.ty);
                self.line("{");
                self.braced(block, Some(&name));
                self.line("}");
                name
            }
            Kind::Atomic(op, var, at, operands) => {
                let name = self.writer.atomic(self.memories[var], *op);
                let exprs: Vec<&'m Expr> = at.iter().chain(operands).collect();
                let call = format!("{name}({})", self.operands(&exprs).join(", "));
                if expr.ty == Ty::Unit {
                    return call;
                }
                let (name, ty) = (self.temporary("was"), self.writer.ty(&expr.ty));
                self.line(format!("let {name}: {ty} = {call};"));
                name
            }
        }
    }

    /// Whether an operation is one that WGSL's compilers evaluate, and refuse if its result is not defined there.
    fn may_be_refused(&self, op: BinOp, a: &Expr, b: &Expr) -> bool {
        let known = |expr| is_known(expr, self.function);
        match op {
            BinOp::Div | BinOp::Rem if self.may_be_known_zero(b) => true,
            _ => known(a) && known(b),
        }
    }

    /// Whether a divisor is known, and not plainly another number than zero: WGSL's compilers refuse to divide by a zero that
    /// they know.
    pub(super) fn may_be_known_zero(&self, by: &Expr) -> bool {
        let is_int = by.ty.scalar().is_some_and(Scalar::is_int);
        is_int && is_known(by, self.function) && !matches!(by.kind, Kind::Int(1..))
    }

    /// An operation on values that are known when the text is compiled, through a function, behind which no compiler
    /// evaluates it: WGSL refuses constants that overflow.
    fn at_run_time(
        &mut self,
        verb: &str,
        expr: &Expr,
        operands: &[&Expr],
        texts: &[String],
        made: impl FnOnce(&mut Self, &[String]) -> String,
    ) -> String {
        let tag = self.writer.tag(&operands[0].ty);
        let name = format!("w_known_{verb}_{tag}");
        if self.writer.helpers.claim(&name) {
            let letters: Vec<String> =
                ["a", "b", "c"].iter().take(operands.len()).map(ToString::to_string).collect();
            let params: Vec<String> = letters
                .iter()
                .zip(operands)
                .map(|(letter, operand)| format!("{letter}: {}", self.writer.ty(&operand.ty)))
                .collect();
            let (result, value) = (self.writer.ty(&expr.ty), made(self, &letters));
            let params = params.join(", ");
            self.writer
                .helpers
                .text
                .push_str(&format!("fn {name}({params}) -> {result} {{\n    return {value};\n}}\n\n"));
        }
        format!("{name}({})", texts.join(", "))
    }

    fn result_variable(&mut self, ty: &Ty) -> String {
        let (name, shown) = (self.temporary("value"), self.writer.ty(ty));
        if !matches!(ty, Ty::Unit | Ty::Never) {
            self.line(format!("var {name}: {shown};"));
        }
        name
    }

    /// `&&` and `||`, whose right side is evaluated only where it matters.
    fn logic(&mut self, and: bool, a: &'m Expr, b: &'m Expr) -> String {
        let left = self.value(a);
        let before = self.lines.len();
        self.level += 1;
        let right = self.value(b);
        self.level -= 1;
        if self.lines.len() == before {
            // What costs less than a branch is evaluated whether it matters or not.
            let sign = match (is_at_hand(b), and) {
                (true, true) => "&",
                (true, false) => "|",
                (false, true) => "&&",
                (false, false) => "||",
            };
            return format!("({left} {sign} {right})");
        }
        let lines = self.lines.split_off(before);
        let name = self.temporary("value");
        self.line(format!("var {name}: bool = {left};"));
        self.line(format!("if {}{name} {{", if and { "" } else { "!" }));
        self.lines.extend(lines);
        self.level += 1;
        self.line(format!("{name} = {right};"));
        self.level -= 1;
        self.line("}");
        name
    }

    fn array_element(&mut self, array: &'m Expr, index: &'m Expr, ty: &Ty) -> String {
        let texts = self.operands(&[array, index]);
        let [of, at] = [&texts[0], &texts[1]];
        let Ty::Array(_, len) = array.ty else { return String::new() };
        // What is no variable cannot be indexed by one.
        let of = match is_path(array) {
            true => of.clone(),
            false => {
                let (name, ty) = (self.temporary("array"), self.writer.ty(&array.ty));
                self.line(format!("var {name}: {ty} = {of};"));
                name
            }
        };
        if let Kind::Int(known) = index.kind {
            return match known < i128::from(len) {
                true => format!("{of}[{known}]"),
                false => format!("{}()", self.writer.ty(ty)),
            };
        }
        let at = self.kept(at.clone(), "i", "u32");
        let (shown, name) = (self.writer.ty(ty), self.temporary("element"));
        self.line(format!("var {name}: {shown};"));
        self.line(format!("if {at} < {len}u {{ {name} = {of}[{at}]; }}"));
        name
    }

    fn length(&mut self, var: usize, dim: Option<u8>) -> String {
        let memory = &self.writer.memories[self.memories[&var]];
        let (name, space) = (memory.name.clone(), memory.slice.space.clone());
        match (space, dim) {
            (crate::hir::Space::Local(Some(len)), _) => format!("{len}u"),
            (crate::hir::Space::Local(None), _) => self.writer.built_in(&format!("{name}_len")),
            // Nobody asks how much there is where addresses lead.
            (crate::hir::Space::Reached, _) => "0u".into(),
            (crate::hir::Space::Global, None) => format!("block.{name}_len"),
            (crate::hir::Space::Global, Some(dim)) => format!("block.{name}_extent_{dim}"),
        }
    }

    pub(super) fn arithmetic(&mut self, op: BinOp, ty: &Ty, a: &str, b: &str) -> String {
        let scalar = ty.scalar().unwrap_or(Scalar::U32);
        match (op, scalar) {
            (BinOp::Shl | BinOp::Shr, _) => {
                let text = format!("({a} {} ({b} & {}u))", op.sign(), scalar.bits() - 1);
                self.writer.cut(ty, text)
            }
            (BinOp::Xor, Scalar::Bool) => format!("({a} != {b})"),
            // WGSL refuses a divisor that is known to be zero; by definition the quotient is the dividend.
            (BinOp::Div, _) if ty.scalar().is_some_and(|s| b == integer(s, 0)) => a.into(),
            (BinOp::Rem, _) if ty.scalar().is_some_and(|s| b == integer(s, 0)) => b.into(),
            (BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div, _) => {
                self.writer.cut(ty, format!("({a} {} {b})", op.sign()))
            }
            _ => format!("({a} {} {b})", op.sign()),
        }
    }
}

/// Whether an expression is made of literals and constants alone, as far as the text's compiler sees. Overrides go through
/// variables and functions.
pub(super) fn is_known(expr: &Expr, function: &Function) -> bool {
    let known = |expr: &Expr| is_known(expr, function);
    match &expr.kind {
        Kind::Float(value) => value.is_finite(),
        Kind::Bool(_) | Kind::Int(_) | Kind::Const(_) => true,
        Kind::Len(var, _) => {
            matches!(&function.vars[*var].kind, VarKind::Slice(Slice { space: Space::Local(Some(_)), .. }))
        }
        // What is made of known values goes through a function, or is a value of a known one's parts.
        Kind::Vector(list) | Kind::Array(list) | Kind::Struct(_, list) => list.iter().all(known),
        Kind::Splat(of)
        | Kind::Component(of, _)
        | Kind::Field(of, _)
        | Kind::Cast(of)
        | Kind::Unary(_, of) => known(of),
        Kind::Swizzle(of, _) | Kind::Repeat(of) => known(of),
        Kind::Logic(_, a, b) => known(a) && known(b),
        // What is outside is zero, whatever it is outside of.
        Kind::Index(of, at) => known(at) && (known(of) || is_outside(of, at)),
        Kind::Block(block) => block.stmts.is_empty() && block.tail.as_ref().is_some_and(|tail| known(tail)),
        _ => false,
    }
}

/// Whether an index that is a literal is outside of its array.
fn is_outside(array: &Expr, at: &Expr) -> bool {
    matches!((&array.ty, &at.kind), (Ty::Array(_, len), Kind::Int(at)) if *at >= i128::from(*len))
}

/// Whether an expression's text means the same after other things have happened.
fn is_fixed(expr: &Expr, function: &Function) -> bool {
    match &expr.kind {
        Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Const(_) | Kind::Len(..) | Kind::Id(..) => true,
        Kind::Var(var) => !function.vars[*var].mutable && function.vars[*var].kind == VarKind::Value,
        _ => false,
    }
}

/// Whether an expression is arithmetic on numbers at hand.
pub(super) fn is_at_hand(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Var(_) | Kind::Len(..) | Kind::Id(..) => true,
        Kind::Unary(_, a) | Kind::Cast(a) | Kind::Field(a, _) | Kind::Component(a, _) => is_at_hand(a),
        Kind::Binary(op, a, b) => {
            let divides = matches!(op, BinOp::Div | BinOp::Rem);
            !divides && is_at_hand(a) && is_at_hand(b)
        }
        Kind::Logic(_, a, b) => is_at_hand(a) && is_at_hand(b),
        _ => false,
    }
}

/// Whether an expression names a variable, or a part of one.
fn is_path(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Var(_) | Kind::Const(_) => true,
        Kind::Field(of, _) => is_path(of),
        Kind::Index(of, at) => is_path(of) && matches!(at.kind, Kind::Int(_)),
        _ => false,
    }
}
