//! Bodies and statements.

use std::collections::{BTreeSet, HashMap};

use super::clearing::Clearing;
use super::filled::filled;
use super::hoist::counting;
use super::place::Access;
use super::value::{is_at_hand, is_known};
use super::{Writer, of_author};
use crate::builtin::SubgroupOp;
use crate::flow::{breaks, diverges, returns};
use crate::hir::{Arg, BinOp, Block, Expr, Function, Kind, Place, Stmt, VarId, VarKind};
use crate::order::marker;
use crate::ty::{Scalar, Ty};
use crate::uses::reaches_written;

/// The writer of one function's body.
pub(super) struct Body<'w, 'm> {
    pub(super) writer: &'w mut Writer<'m>,
    pub(super) function: &'m Function,
    /// Names of variables that have one by now.
    pub(super) names: HashMap<VarId, String>,
    /// Arrays whose first values nobody sees, and the lines that declare them.
    filled: BTreeSet<VarId>,
    opening: Vec<String>,
    /// Which memory a variable is.
    pub(super) memories: HashMap<VarId, usize>,
    pub(super) lines: Vec<String>,
    pub(super) level: usize,
    /// Whether this is the kernel itself and no helper.
    pub(super) entry: bool,
    /// Whether a buffer that the kernel writes may have been reached before what comes next.
    pub(super) reached: bool,
}

impl<'m> Writer<'m> {
    pub(super) fn entry_body(
        &mut self,
        function: &'m Function,
        memories: HashMap<VarId, usize>,
        names: HashMap<VarId, String>,
        clearing: &Clearing,
    ) -> String {
        let mut body = Body { entry: true, reached: false, ..Body::new(self, function, names, memories) };
        let (stmts, mut from) = (&function.body.stmts, 0);
        for (&barrier, text) in &clearing.later {
            body.stmts(&stmts[from..barrier]);
            body.lines.extend(text.lines().map(String::from));
            from = barrier;
        }
        body.stmts(&stmts[from..]);
        body.tail(&function.body);
        body.text()
    }

    /// The name of a helper as it is for these memories; it is written if it was not yet.
    pub(super) fn helper(&mut self, at: usize, given: Vec<usize>) -> String {
        let module = self.module;
        let function = &module.functions[at];
        let mut key = format!("{at}");
        for memory in &given {
            key = format!("{key},{memory}");
        }
        if let Some(name) = self.helper_names.get(&key) {
            return name.clone();
        }
        let mut wanted = of_author(&function.name.to_string());
        for memory in &given {
            wanted = format!("{wanted}_{}", self.memories[*memory].name);
        }
        let name = self.unique(&wanted);
        self.helper_names.insert(key, name.clone());
        let (mut names, mut memories, mut params, mut opening) =
            (HashMap::new(), HashMap::new(), Vec::new(), String::new());
        let mut given = given.into_iter();
        for &param in &function.params {
            let var = &function.vars[param];
            match var.kind {
                VarKind::Slice(_) => {
                    memories.extend(given.next().map(|memory| (param, memory)));
                }
                VarKind::Ref => {
                    let name = self.unique(&var.name.to_string());
                    params.push(format!("{name}: ptr<function, {}>", self.ty(&var.ty)));
                    names.insert(param, format!("(*{name})"));
                }
                VarKind::Value => {
                    let name = self.unique(&var.name.to_string());
                    let ty = self.ty(&var.ty);
                    if var.mutable || matches!(var.ty, Ty::Array(..)) {
                        // A parameter can be neither changed nor indexed by a variable.
                        let own = self.unique(&var.name.to_string());
                        opening.push_str(&format!("    var {own}: {ty} = {name};\n"));
                        names.insert(param, own);
                    } else {
                        names.insert(param, name.clone());
                    }
                    params.push(format!("{name}: {ty}"));
                }
            }
        }
        if self.uses[at].positions {
            params.push(format!("item: {}", self.item_ty()));
        }
        let result = match &function.result {
            Ty::Unit => String::new(),
            ty => format!(" -> {}", self.ty(ty)),
        };
        let mut body = Body::new(self, function, names, memories);
        body.function_block(&function.body);
        let text = body.text();
        let params = params.join(", ");
        self.functions.text.push_str(&format!("fn {name}({params}){result} {{\n{opening}{text}}}\n\n"));
        name
    }
}

impl<'w, 'm> Body<'w, 'm> {
    /// That of a helper, before whose call anything may have been done.
    pub(super) fn new(
        writer: &'w mut Writer<'m>,
        function: &'m Function,
        names: HashMap<VarId, String>,
        memories: HashMap<VarId, usize>,
    ) -> Self {
        Body {
            writer,
            function,
            names,
            filled: filled(function),
            opening: Vec::new(),
            memories,
            lines: Vec::new(),
            level: 1,
            entry: false,
            reached: true,
        }
    }
}

impl<'m> Body<'_, 'm> {
    fn text(self) -> String {
        self.opening.into_iter().chain(self.lines).map(|line| line + "\n").collect()
    }

    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.lines.push(format!("{}{}", "    ".repeat(self.level), text.as_ref()));
    }

    /// A block whose value is the function's.
    fn function_block(&mut self, block: &'m Block) {
        self.stmts(&block.stmts);
        if let Some(tail) = &block.tail {
            match tail.ty {
                Ty::Unit | Ty::Never => self.effect(tail),
                _ => {
                    let value = self.value(tail);
                    self.line(format!("return {value};"));
                }
            }
        }
    }

    /// What a block without a value ends with.
    fn tail(&mut self, block: &'m Block) {
        if let Some(tail) = &block.tail {
            self.effect(tail);
        }
    }

    /// A block in braces whose value goes into a variable, where there is one to take it.
    pub(super) fn braced(&mut self, block: &'m Block, into: Option<&str>) {
        self.level += 1;
        self.stmts(&block.stmts);
        if let Some(tail) = &block.tail {
            match into {
                Some(name) if !matches!(tail.ty, Ty::Unit | Ty::Never) => {
                    let value = self.value(tail);
                    self.line(format!("{name} = {value};"));
                }
                _ => self.effect(tail),
            }
        }
        self.level -= 1;
    }

    fn stmts(&mut self, stmts: &'m [Stmt]) {
        for stmt in stmts {
            // A loop's body may stand behind itself.
            let repeated = matches!(stmt, Stmt::While(..) | Stmt::Loop(_) | Stmt::For { .. });
            self.reached |= repeated && reaches_written(stmt, self.function);
            self.stmt(stmt);
            self.reached |= reaches_written(stmt, self.function);
            // Nothing may stand behind a jump.
            if matches!(stmt, Stmt::Break | Stmt::Continue | Stmt::Return(_)) {
                break;
            }
        }
    }

    fn stmt(&mut self, stmt: &'m Stmt) {
        match stmt {
            Stmt::Let(var, init) => self.binding(*var, init.as_ref()),
            Stmt::Assign(place, op, value) => self.assign(place, *op, value),
            Stmt::Expr(expr) => self.effect(expr),
            Stmt::While(condition, body) => {
                let counting = counting(condition, body);
                self.perhaps_hoisted(counting, body, |body, inside, reached| {
                    body.repeated(condition, inside, reached);
                });
            }
            Stmt::Loop(body) => {
                self.line("loop {");
                self.braced(body, None);
                // WGSL wants to see that a loop ends; what loops for ever here never comes back there either.
                if !breaks(body) && !body.stmts.iter().any(returns) {
                    self.level += 1;
                    self.line("if false { break; }");
                    self.level -= 1;
                }
                self.line("}");
            }
            Stmt::For { var, from, to, inclusive, body } => {
                let counts = !inclusive && !self.function.vars[*var].mutable && is_at_hand(to);
                let counting = counts.then_some((*var, to));
                self.perhaps_hoisted(counting, body, |body, inside, reached| {
                    body.counted(*var, (from, to), *inclusive, inside, reached);
                });
            }
            Stmt::Break => self.line("break;"),
            Stmt::Continue => self.line("continue;"),
            Stmt::Return(value) => {
                let value = value.as_ref().map(|value| self.value(value));
                self.line(value.map_or("return;".into(), |value| format!("return {value};")));
            }
        }
    }

    fn binding(&mut self, var: VarId, init: Option<&'m Expr>) {
        let (ty, mutable) = (&self.function.vars[var].ty, self.function.vars[var].mutable);
        let text = init.map(|init| self.value(init));
        // A name for a literal is that literal to WGSL's compilers, which refuse to divide by one that is zero.
        let known = init.is_some_and(|init| is_known(init, self.function));
        let name = self.writer.unique(&self.function.vars[var].name.to_string());
        let shown = self.writer.ty(ty);
        self.names.insert(var, name.clone());
        match text {
            Some(_) if self.filled.contains(&var) => self.opening.push(format!("    var {name}: {shown};")),
            // A value that never arrives.
            Some(_) if matches!(ty, Ty::Unit | Ty::Never | Ty::Error) => {}
            Some(value) if mutable || known || matches!(ty, Ty::Array(..) | Ty::Struct(_)) => {
                self.line(format!("var {name}: {shown} = {value};"));
            }
            Some(value) => self.line(format!("let {name}: {shown} = {value};")),
            None => self.line(format!("var {name}: {shown};")),
        }
    }

    /// An expression for what it does.
    fn effect(&mut self, expr: &'m Expr) {
        match &expr.kind {
            Kind::Unit | Kind::Var(_) | Kind::Const(_) | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) => {}
            Kind::If(condition, yes, no) => self.branch(condition, yes, no, None),
            Kind::Match(of, arms) => self.choice(of, arms, None),
            Kind::Block(block) => {
                self.line("{");
                self.braced(block, None);
                self.line("}");
            }
            Kind::Call(at, args) => {
                let (call, after) = self.call(*at, args);
                self.line(format!("{call};"));
                after.into_iter().for_each(|line| self.line(line));
            }
            Kind::Barrier => {
                // Nothing is ordered by it in buffers that nobody has reached yet, or that nobody writes.
                self.line("workgroupBarrier();");
                if self.reached {
                    self.line("storageBarrier();");
                }
            }
            Kind::Subgroup(SubgroupOp::Barrier, _) => self.line("subgroupBarrier();"),
            Kind::Fence(order, scope) => {
                let name = marker(*order, *scope);
                if self.writer.helpers.claim(&name) {
                    self.writer.helpers.text.push_str(&format!("fn {name}() {{}}\n\n"));
                }
                self.line(format!("{name}();"));
            }
            Kind::Atomic(..) => {
                // What it gives is in a variable already.
                let call = self.value(expr);
                if expr.ty == Ty::Unit {
                    self.line(format!("{call};"));
                }
            }
            _ => {
                let value = self.value(expr);
                self.line(format!("_ = {value};"));
            }
        }
    }

    pub(super) fn branch(&mut self, condition: &'m Expr, yes: &'m Block, no: &'m Block, into: Option<&str>) {
        let condition = self.value(condition);
        self.line(format!("if {condition} {{"));
        self.braced(yes, into);
        if !no.stmts.is_empty() || no.tail.is_some() {
            self.line("} else {");
            self.braced(no, into);
        }
        self.line("}");
    }

    /// A `match`: a `switch` where WGSL can say it, else a chain of `if`s. It cannot where an arm leaves the loop
    /// around, since `break` is about the `switch` there, and where the integers have 64 bits.
    pub(super) fn choice(&mut self, of: &'m Expr, arms: &'m [(Vec<i128>, Block)], into: Option<&str>) {
        let scalar = of.ty.scalar().unwrap_or(Scalar::I32);
        let value = self.value(of);
        let chained = scalar.bits() == 64 || arms.iter().any(|(_, block)| breaks(block));
        if chained {
            return self.chain(&value, scalar, arms, into);
        }
        self.line(format!("switch {value} {{"));
        self.level += 1;
        for (values, block) in arms {
            let labels: Vec<String> = values.iter().map(|v| integer(scalar, *v)).collect();
            match labels.is_empty() {
                true => self.line("default: {"),
                false => self.line(format!("case {}: {{", labels.join(", "))),
            }
            self.braced(block, into);
            self.line("}");
        }
        self.level -= 1;
        self.line("}");
    }

    fn chain(&mut self, value: &str, scalar: Scalar, arms: &'m [(Vec<i128>, Block)], into: Option<&str>) {
        let name = self.temporary("of");
        self.line(format!("let {name}: {} = {value};", scalar.name()));
        let mut open = 0;
        for (values, block) in arms {
            if values.is_empty() {
                self.line("{");
                self.braced(block, into);
                self.line("}");
                break;
            }
            let tests: Vec<String> =
                values.iter().map(|v| format!("{name} == {}", integer(scalar, *v))).collect();
            self.line(format!("if {} {{", tests.join(" || ")));
            self.braced(block, into);
            self.line("} else {");
            self.level += 1;
            open += 1;
        }
        for _ in 0..open {
            self.level -= 1;
            self.line("}");
        }
    }

    fn assign(&mut self, place: &'m Place, op: Option<BinOp>, value: &'m Expr) {
        let mut value_text = self.value(value);
        let before = self.lines.len();
        let access = self.place(place);
        if self.lines.len() > before && !matches!(value.kind, Kind::Int(_) | Kind::Float(_) | Kind::Bool(_)) {
            // The value comes first in Rust, and what the place needed may change it.
            let name = self.temporary("value");
            let ty = self.writer.ty(&value.ty);
            let line = format!("{}let {name}: {ty} = {value_text};", "    ".repeat(self.level));
            self.lines.insert(before, line);
            value_text = name;
        }
        if matches!(op, Some(BinOp::Div | BinOp::Rem)) && self.may_be_known_zero(value) {
            let (name, ty) = (self.temporary("by"), self.writer.ty(&value.ty));
            self.line(format!("var {name}: {ty} = {value_text};"));
            value_text = name;
        }
        match access {
            Access::Plain(text) => {
                let new = self.combined(place, op, &text, &value_text);
                self.line(format!("{text} = {new};"));
            }
            Access::Guarded { inside, text, memory } => {
                let (ty, read) = (place.ty.clone(), text.clone());
                let read = if memory { self.writer.loaded(&ty, &read) } else { read };
                let new = self.combined(place, op, &read, &value_text);
                let new = if memory { self.writer.as_stored(&ty, &new) } else { new };
                self.line(format!("if {inside} {{ {text} = {new}; }}"));
            }
            Access::Packed { inside, packed } => {
                let read = self.writer.packed_read(&packed);
                let (new, ty) = (self.combined(place, op, &read, &value_text), self.writer.ty(&place.ty));
                let write = self.writer.packed_write(&packed, "w_new");
                self.line(format!("if {inside} {{ let w_new: {ty} = {new}; {write} }}"));
            }
            Access::Followed(followed) => self.assign_followed(&followed, place, op, &value_text),
        }
    }

    pub(super) fn combined(&mut self, place: &Place, op: Option<BinOp>, read: &str, value: &str) -> String {
        match op {
            Some(op) => self.arithmetic(op, &place.ty, read, value),
            None => value.into(),
        }
    }

    /// A helper's call, and the lines that bring what it changed back to where it belongs.
    pub(super) fn call(&mut self, at: usize, args: &'m [Arg]) -> (String, Vec<String>) {
        let (mut texts, mut memories, mut after) = (Vec::new(), Vec::new(), Vec::new());
        // Values first, in order; places are looked at when all of them are known.
        let values: Vec<&'m Expr> = args
            .iter()
            .filter_map(|arg| if let Arg::Value(value) = arg { Some(value) } else { None })
            .collect();
        let mut values = self.operands(&values).into_iter();
        for arg in args {
            match arg {
                Arg::Value(_) => texts.extend(values.next()),
                Arg::Piece(_) => {}
                Arg::Slice(var) => memories.push(self.memories[var]),
                Arg::Ref(place) => texts.push(self.reference(place, &mut after)),
            }
        }
        if self.writer.uses[at].positions {
            texts.push(match (self.entry, self.writer.grouped) {
                (false, _) => "item".into(),
                (true, false) => "vec3<u32>(global_id_0, global_id_1, global_id_2)".into(),
                (true, true) => {
                    let triple = |name: &str| format!("vec3<u32>({name}_0, {name}_1, {name}_2)");
                    format!("Item({}, {}, {})", triple("global_id"), triple("local_id"), triple("group_id"))
                }
            });
        }
        let name = self.writer.helper(at, memories);
        (format!("{name}({})", texts.join(", ")), after)
    }

    pub(super) fn temporary(&mut self, stem: &str) -> String {
        self.writer.unique(&format!("w_{stem}"))
    }

    /// A text that may be written more than once without being evaluated more than once.
    pub(super) fn kept(&mut self, text: String, stem: &str, ty: &str) -> String {
        if is_simple(&text) {
            return text;
        }
        let name = self.temporary(stem);
        self.line(format!("let {name}: {ty} = {text};"));
        name
    }

    /// Whether a block's value is made without a statement.
    pub(super) fn is_plain(block: &Block) -> bool {
        block.stmts.is_empty() && !diverges(block)
    }
}

pub(super) fn is_simple(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// An integer literal.
pub(super) fn integer(scalar: Scalar, value: i128) -> String {
    let (low, _) = scalar.bounds();
    match scalar.register() {
        Scalar::U32 => format!("{value}u"),
        Scalar::U64 => format!("{value}lu"),
        Scalar::I64 if value == low => "(-9223372036854775807li - 1li)".into(),
        Scalar::I64 => format!("{value}li"),
        _ if value == low && scalar == Scalar::I32 => "i32(-2147483648)".into(),
        _ => format!("{value}i"),
    }
}
