//! Statements.

use std::collections::HashMap;

use naga::back::FunctionType;
use naga::proc::NameKey;
use naga::valid::FunctionInfo;
use naga::{Barrier, Block, Expression, Function, Handle, LocalVariable, Statement, SwitchCase, SwitchValue};

use crate::fence::Fence;

use super::Machine;
use super::program::Program;
use crate::error::{Outcome, refuse};

/// The writer of one function's body.
pub(super) struct Body<'p, 'm> {
    pub(super) program: &'p mut Program<'m>,
    pub(super) function: &'m Function,
    pub(super) info: &'m FunctionInfo,
    pub(super) ty: FunctionType,
    /// Expressions whose values are in variables.
    pub(super) named: HashMap<Handle<Expression>, String>,
    text: String,
    level: usize,
    /// Declarations to be put in front of the loop that is being written, where there are some: what a loop's body
    /// declares its `continuing` part may use, which stands above it in C.
    ahead: Option<String>,
}

impl<'p, 'm> Body<'p, 'm> {
    pub(super) fn new(
        program: &'p mut Program<'m>,
        function: &'m Function,
        info: &'m FunctionInfo,
        ty: FunctionType,
    ) -> Self {
        Body {
            program,
            function,
            info,
            ty,
            named: HashMap::new(),
            text: String::new(),
            level: 1,
            ahead: None,
        }
    }

    /// The body, with `opening` before it.
    pub(super) fn write(mut self, opening: &str) -> Outcome<String> {
        let function = self.function;
        for (handle, local) in function.local_variables.iter() {
            let is_used = |(at, e): (Handle<Expression>, &Expression)| {
                matches!(e, Expression::LocalVariable(of) if *of == handle) && self.info[at].ref_count > 0
            };
            if !function.expressions.iter().any(is_used) {
                continue;
            }
            let ty = self.program.c_type(local.ty)?;
            let init = match local.init {
                Some(init) => self.value(init)?,
                None => self.program.zero(ty)?,
            };
            let (c, name) = (self.program.type_name(ty)?, self.local(handle));
            self.line(&format!("{c} {name} = {init};"));
        }
        self.block(&function.body)?;
        Ok(format!("{opening}{}", self.text))
    }

    pub(super) fn local(&self, handle: Handle<LocalVariable>) -> String {
        let key = match self.ty {
            FunctionType::Function(function) => NameKey::FunctionLocal(function, handle),
            FunctionType::EntryPoint(at) => NameKey::EntryPointLocal(at, handle),
        };
        self.program.names.of(key).to_string()
    }

    pub(super) fn line(&mut self, text: &str) {
        for _ in 0..self.level {
            self.text.push_str("    ");
        }
        self.text.push_str(text);
        self.text.push('\n');
    }

    pub(super) fn fresh(&mut self, like: &str) -> String {
        self.program.names.fresh(like)
    }

    /// Puts an expression's value into a variable, under its own name where it has one.
    pub(super) fn declare(&mut self, handle: Handle<Expression>, value: &str) -> Outcome<()> {
        let ty = self.type_of(handle)?;
        let c = self.program.type_name(ty)?;
        let like = self.function.named_expressions.get(&handle).cloned().unwrap_or_else(|| "t".into());
        let name = self.fresh(&like);
        match &mut self.ahead {
            Some(ahead) => {
                ahead.push_str(&format!("{c} {name};\n"));
                self.line(&format!("{name} = {value};"));
            }
            None => self.line(&format!("const {c} {name} = {value};")),
        }
        self.named.insert(handle, name);
        Ok(())
    }

    /// A block inside braces of its own; what it declares nobody outside needs.
    fn nested(&mut self, block: &'m Block) -> Outcome<()> {
        let ahead = self.ahead.take();
        self.level += 1;
        self.block(block)?;
        self.level -= 1;
        self.ahead = ahead;
        Ok(())
    }

    fn block(&mut self, block: &'m Block) -> Outcome<()> {
        block.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &'m Statement) -> Outcome<()> {
        match *statement {
            Statement::Emit(ref range) => range.clone().try_for_each(|handle| self.emit(handle)),
            Statement::Block(ref block) => {
                self.line("{");
                self.nested(block)?;
                self.line("}");
                Ok(())
            }
            Statement::If { condition, ref accept, ref reject } => {
                let condition = self.value(condition)?;
                let (condition, first, second) = match accept.is_empty() {
                    true => (format!("!({})", bare(&condition)), reject, accept),
                    false => (bare(&condition).to_string(), accept, reject),
                };
                self.line(&format!("if ({condition}) {{"));
                self.nested(first)?;
                if !second.is_empty() {
                    self.line("} else {");
                    self.nested(second)?;
                }
                self.line("}");
                Ok(())
            }
            Statement::Switch { selector, ref cases } => self.switch(selector, cases),
            Statement::Loop { ref body, ref continuing, break_if } => self.repeat(body, continuing, break_if),
            Statement::Break => {
                self.line("break;");
                Ok(())
            }
            Statement::Continue => {
                self.line("continue;");
                Ok(())
            }
            Statement::Return { value } => {
                let value = value.map(|value| self.value(value)).transpose()?;
                self.line(&value.map_or("return;".into(), |value| format!("return {};", bare(&value))));
                Ok(())
            }
            Statement::ControlBarrier(barrier) if barrier == Barrier::SUB_GROUP => {
                self.open_subgroups();
                let text = self.program.dialect.subgroup_barrier();
                self.line(text);
                Ok(())
            }
            Statement::ControlBarrier(barrier) => {
                let (global, local) = spaces(barrier)?;
                let text = self.program.dialect.barrier(global, local);
                self.line(&text);
                Ok(())
            }
            Statement::MemoryBarrier(barrier) => {
                let (global, local) = spaces(barrier)?;
                let text = self.program.dialect.fence(global, local);
                self.line(&text);
                Ok(())
            }
            Statement::Store { pointer, value } => self.store(pointer, value),
            Statement::Atomic { pointer, fun, value, result } => self.atomic(pointer, fun, value, result),
            Statement::WorkGroupUniformLoad { pointer, result } => {
                let barrier = self.program.dialect.barrier(false, true);
                self.line(&barrier);
                let value = self.load(pointer)?;
                self.declare(result, &value)?;
                self.line(&barrier);
                Ok(())
            }
            Statement::SubgroupCollectiveOperation { op, collective_op, argument, result } => {
                self.collective(op, collective_op, argument, result)
            }
            Statement::SubgroupBallot { predicate, result } => self.ballot(predicate, result),
            Statement::SubgroupGather { mode, argument, result } => self.gather(mode, argument, result),
            Statement::Call { function, ref arguments, result } => self.call(function, arguments, result),
            ref other => refuse(format!("the statement {}", statement_name(other))),
        }
    }

    /// Writes a variable for an expression that is used more than once, reads memory, or has a name.
    fn emit(&mut self, handle: Handle<Expression>) -> Outcome<()> {
        if self.pointer(handle).is_some() {
            return Ok(());
        }
        if self.flat_member(handle).is_some() {
            return Ok(());
        }
        let named = self.function.named_expressions.contains_key(&handle);
        let uses = self.info[handle].ref_count;
        if !named && uses < self.function.expressions[handle].bake_ref_count() {
            return Ok(());
        }
        let value = self.value(handle)?;
        self.declare(handle, bare(&value))
    }

    fn store(&mut self, pointer: Handle<Expression>, value: Handle<Expression>) -> Outcome<()> {
        let (place, value) = (self.place(pointer)?, self.value(value)?);
        let text = match self.pointer(pointer) {
            Some((space, Some(scalar))) => {
                let place = self.program.atomic_load(space, scalar, &place)?;
                format!("{place} = {};", bare(&value))
            }
            _ => format!("{place} = {};", bare(&value)),
        };
        self.line(&text);
        Ok(())
    }

    fn call(
        &mut self,
        function: Handle<Function>,
        arguments: &[Handle<Expression>],
        result: Option<Handle<Expression>>,
    ) -> Outcome<()> {
        if let Some(fence) = Fence::of(&self.program.module().functions[function]) {
            let text = self.program.dialect.ordered(fence);
            self.line(&text);
            return Ok(());
        }
        let mut texts = Vec::new();
        for &argument in arguments {
            texts.push(self.value(argument)?);
        }
        let checked = self.program.checked;
        for global in self.program.used(&checked.info[function]) {
            texts.extend(self.program.passed_on(global, function));
        }
        let name = self.program.names.of(NameKey::Function(function)).to_string();
        let text = format!("{name}({})", texts.join(", "));
        match result {
            Some(result) => self.declare(result, &text),
            None => {
                self.line(&format!("{text};"));
                Ok(())
            }
        }
    }

    fn switch(&mut self, selector: Handle<Expression>, cases: &'m [SwitchCase]) -> Outcome<()> {
        let selector = self.value(selector)?;
        self.line(&format!("switch ({}) {{", bare(&selector)));
        for case in cases {
            let label = match case.value {
                SwitchValue::I32(i32::MIN) => "case (-2147483647 - 1):".into(),
                SwitchValue::I32(value) => format!("case {value}:"),
                SwitchValue::U32(value) => format!("case {value}u:"),
                SwitchValue::Default => "default:".into(),
            };
            if case.body.is_empty() && case.fall_through {
                self.line(&label);
                continue;
            }
            self.line(&format!("{label} {{"));
            self.nested(&case.body)?;
            let ends = case.body.last().is_some_and(Statement::is_terminator);
            self.line(if case.fall_through || ends { "}" } else { "} break;" });
        }
        self.line("}");
        Ok(())
    }

    /// A loop. Where nothing continues, the `continuing` part is just the end of the body. Else it has to come first,
    /// in every round but the first one, since C's `continue` goes to the top.
    fn repeat(
        &mut self,
        body: &'m Block,
        continuing: &'m Block,
        break_if: Option<Handle<Expression>>,
    ) -> Outcome<()> {
        if break_if.is_none()
            && let Some((condition, step, rest)) = self.counted(body, continuing)?
        {
            let turns =
                self.turns(body).filter(|turns| *turns <= TURNS && self.program.machine == Machine::Gpu);
            if turns.is_some_and(|turns| turns.saturating_mul(self.cost(rest)) <= UNROLLED) {
                self.line("#pragma unroll");
            }
            match step.is_empty() {
                true => self.line(&format!("while ({condition}) {{")),
                false => self.line(&format!("for (; {condition}; {step}) {{")),
            }
            let ahead = self.ahead.take();
            self.level += 1;
            rest.iter().try_for_each(|statement| self.statement(statement))?;
            self.level -= 1;
            self.ahead = ahead;
            self.line("}");
            return Ok(());
        }
        if (continuing.is_empty() && break_if.is_none()) || !continues(body) {
            self.line("while (true) {");
            self.nested_with(body, |body| body.end_of_round(continuing, break_if))?;
            self.line("}");
            return Ok(());
        }
        let first = self.fresh("first");
        let outer = std::mem::take(&mut self.text);
        let ahead = self.ahead.replace(String::new());
        self.level += 1;
        self.block(body)?;
        self.level -= 1;
        let declared = std::mem::replace(&mut self.ahead, ahead).unwrap_or_default();
        let body = std::mem::replace(&mut self.text, outer);
        for line in declared.lines() {
            self.line(line);
        }
        self.line(&format!("bool {first} = true;"));
        self.line("while (true) {");
        self.level += 1;
        self.line(&format!("if (!{first}) {{"));
        let ahead = self.ahead.take();
        self.level += 1;
        self.end_of_round(continuing, break_if)?;
        self.level -= 1;
        self.ahead = ahead;
        self.line("}");
        self.line(&format!("{first} = false;"));
        self.level -= 1;
        self.text.push_str(&body);
        self.line("}");
        Ok(())
    }

    /// A loop that ends where a condition at its head does not hold any more, and that counts, or does nothing, before it starts
    /// again: its condition, its step, and the rest of its body.
    fn counted(
        &mut self,
        body: &'m Block,
        continuing: &'m Block,
    ) -> Outcome<Option<(String, String, &'m [Statement])>> {
        let is_head = |statement: &&Statement| matches!(statement, Statement::Emit(_));
        let emits = body.iter().take_while(is_head).count();
        let (head, rest) = body.split_at(emits);
        let Some((Statement::If { condition, accept, reject }, rest)) = rest.split_first() else {
            return Ok(None);
        };
        let leaves = |block: &Block| matches!(block[..], [Statement::Break]);
        let ends = match (accept.is_empty(), reject.is_empty()) {
            (true, false) if leaves(reject) => false,
            (false, true) if leaves(accept) => true,
            _ => return Ok(None),
        };
        if !head.iter().all(|statement| self.is_used_once(statement)) {
            return Ok(None);
        }
        let emits = continuing.iter().take_while(is_head).count();
        let step = match continuing.split_at(emits) {
            ([], []) => None,
            (_, [Statement::Store { pointer, value }]) => {
                let expressions = &self.function.expressions;
                let known = |of: &Handle<Expression>| {
                    matches!(expressions[*of], Expression::Literal(_) | Expression::Constant(_))
                };
                let variable = |of: &Handle<Expression>| match expressions[*of] {
                    Expression::Load { pointer } => {
                        matches!(expressions[pointer], Expression::LocalVariable(_))
                    }
                    _ => false,
                };
                match &expressions[*value] {
                    Expression::Binary { left, right, .. } if variable(left) && known(right) => {
                        Some((*pointer, *value))
                    }
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        if !continuing[..emits].iter().all(|statement| self.is_used_once(statement)) {
            return Ok(None);
        }
        // The condition that it goes on: what it ends by may be the opposite of something itself.
        let text = match self.function.expressions[*condition] {
            Expression::Unary { op: naga::UnaryOperator::LogicalNot, expr } if ends => {
                bare(&self.value(expr)?).to_string()
            }
            _ if ends => format!("!({})", bare(&self.value(*condition)?)),
            _ => bare(&self.value(*condition)?).to_string(),
        };
        let step = match step {
            Some((pointer, value)) => {
                let (place, value) = (self.place(pointer)?, self.value(value)?);
                format!("{place} = {}", bare(&value))
            }
            None => String::new(),
        };
        Ok(Some((text, step, rest)))
    }

    /// How often a loop whose condition compares a variable with a number takes its turn at most.
    fn turns(&self, body: &Block) -> Option<u64> {
        let condition = body.iter().find_map(|statement| match statement {
            Statement::If { condition, .. } => Some(*condition),
            _ => None,
        })?;
        let expressions = &self.function.expressions;
        let Expression::Binary { op: naga::BinaryOperator::Less, right, .. } = expressions[condition] else {
            return None;
        };
        match expressions[right] {
            Expression::Literal(naga::Literal::U32(number)) => Some(number.into()),
            Expression::Literal(naga::Literal::I32(number)) => u64::try_from(number).ok(),
            _ => None,
        }
    }

    /// How many statements a block is, those of loops in it as often as they run, or, where that is not known, a few times.
    fn cost(&self, block: &[Statement]) -> u64 {
        let one = |statement: &Statement| match statement {
            Statement::Emit(_) => 1,
            Statement::Block(block) => self.cost(block),
            Statement::If { accept, reject, .. } => 1 + self.cost(accept) + self.cost(reject),
            Statement::Switch { cases, .. } => {
                1 + cases.iter().map(|case| self.cost(&case.body)).sum::<u64>()
            }
            Statement::Loop { body, .. } => self.turns(body).unwrap_or(4).saturating_mul(self.cost(body)),
            _ => 2,
        };
        block.iter().map(one).fold(0, u64::saturating_add)
    }

    /// Whether nothing that a statement computes has a name, or is used twice.
    fn is_used_once(&self, statement: &Statement) -> bool {
        let once = |of: Handle<Expression>| {
            self.info[of].ref_count <= 1 && !self.function.named_expressions.contains_key(&of)
        };
        match statement {
            Statement::Emit(range) => range.clone().all(once),
            _ => false,
        }
    }

    fn nested_with(&mut self, block: &'m Block, end: impl FnOnce(&mut Self) -> Outcome<()>) -> Outcome<()> {
        let ahead = self.ahead.take();
        self.level += 1;
        self.block(block)?;
        end(self)?;
        self.level -= 1;
        self.ahead = ahead;
        Ok(())
    }

    fn end_of_round(&mut self, continuing: &'m Block, break_if: Option<Handle<Expression>>) -> Outcome<()> {
        self.block(continuing)?;
        if let Some(condition) = break_if {
            let condition = self.value(condition)?;
            self.line(&format!("if ({}) {{ break; }}", bare(&condition)));
        }
        Ok(())
    }
}

/// Statements that a loop may be written out into, and its turns.
const UNROLLED: u64 = 16_384;
const TURNS: u64 = 32;

/// Whether a loop's body continues that loop somewhere.
fn continues(block: &Block) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Continue => true,
        Statement::Block(block) => continues(block),
        Statement::If { accept, reject, .. } => continues(accept) || continues(reject),
        Statement::Switch { cases, .. } => cases.iter().any(|case| continues(&case.body)),
        _ => false,
    })
}

/// Which memories a barrier is about: global, local.
fn spaces(barrier: Barrier) -> Outcome<(bool, bool)> {
    if barrier.contains(Barrier::SUB_GROUP) {
        return refuse("barriers of sub-groups");
    }
    Ok((barrier.contains(Barrier::STORAGE), barrier.contains(Barrier::WORK_GROUP)))
}

/// A text without one pair of parentheses around the whole of it.
fn bare(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) else { return text };
    let mut depth = 0;
    for c in inner.chars() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return text,
            ')' => depth -= 1,
            _ => {}
        }
    }
    inner
}

/// A statement's kind, for an error.
fn statement_name(statement: &Statement) -> String {
    let text = format!("{statement:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().into()
}
