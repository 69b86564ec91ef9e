//! Loops.

use super::hoist::Reached;
use super::stmt::{Body, integer};
use crate::hir::{Block, Expr, VarId};

impl<'m> Body<'_, 'm> {
    /// A loop, written twice where what it reaches can be compared before it.
    pub(super) fn perhaps_hoisted(
        &mut self,
        counting: Option<(VarId, &'m Expr)>,
        body: &'m Block,
        write: impl Fn(&mut Self, &'m Block, &[Reached<'m>]),
    ) {
        let Some((inside, reached)) = counting.and_then(|counting| self.hoisted(counting, body)) else {
            return write(self, body, &[]);
        };
        self.writer.promises = true;
        self.line(format!("if {inside} {{"));
        self.level += 1;
        write(self, body, &reached);
        self.level -= 1;
        self.line("} else {");
        self.level += 1;
        write(self, body, &[]);
        self.level -= 1;
        self.line("}");
    }

    /// A `while`.
    pub(super) fn repeated(&mut self, condition: &'m Expr, body: &'m Block, reached: &[Reached<'m>]) {
        self.line("loop {");
        self.level += 1;
        let condition = self.value(condition);
        self.line(format!("if !{condition} {{ break; }}"));
        self.promise(reached);
        self.level -= 1;
        self.braced(body, None);
        self.line("}");
    }

    /// A `for`. One that includes its end may end at the type's last value, so it is told apart before counting on.
    pub(super) fn counted(
        &mut self,
        var: VarId,
        (from, to): (&'m Expr, &'m Expr),
        inclusive: bool,
        body: &'m Block,
        reached: &[Reached<'m>],
    ) {
        let bounds = self.operands(&[from, to]);
        let ty = self.writer.ty(&from.ty);
        let (start, end) = (&bounds[0], &bounds[1]);
        let last = self.temporary("end");
        let name = self.writer.unique(&self.function.vars[var].name.to_string());
        let one = match from.ty.scalar() {
            Some(scalar) => integer(scalar, 1),
            None => "1u".into(),
        };
        self.line("{");
        self.level += 1;
        self.line(format!("let {last}: {ty} = {end};"));
        let counter = if self.function.vars[var].mutable { self.temporary("n") } else { name.clone() };
        self.names.insert(var, name.clone());
        if inclusive {
            let more = self.temporary("more");
            self.line(format!("var {counter}: {ty} = {start};"));
            self.line(format!("var {more}: bool = ({counter} <= {last});"));
            self.line("loop {");
            self.level += 1;
            self.line(format!("if !{more} {{ break; }}"));
            self.own_counter(&name, &counter, &ty);
            self.level -= 1;
            self.braced(body, None);
            self.level += 1;
            self.line("continuing {");
            self.line(format!("    {more} = ({counter} != {last});"));
            self.line(format!("    {counter} = ({counter} + {one});"));
            self.line("}");
            self.level -= 1;
        } else {
            self.line(format!(
                "for (var {counter}: {ty} = {start}; {counter} < {last}; {counter} = ({counter} + {one})) {{"
            ));
            self.level += 1;
            self.own_counter(&name, &counter, &ty);
            self.promise(reached);
            self.level -= 1;
            self.braced(body, None);
        }
        self.line("}");
        self.level -= 1;
        self.line("}");
    }

    /// The body's own copy of the counter, where it changes it.
    fn own_counter(&mut self, name: &str, counter: &str, ty: &str) {
        if name != counter {
            self.line(format!("var {name}: {ty} = {counter};"));
        }
    }
}
