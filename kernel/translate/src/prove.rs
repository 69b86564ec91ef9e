//! What a text need not say: branches that are never taken, and barriers behind barriers.
//!
//! The texts of `#[kernel]` compare every index with its length, and leave the launch's shape open. Once that is known,
//! much of it is decided: a position in a work-group of 16 x 16 is below 16, so an index made of two of them lies inside
//! a tile of 256; a loop that counts to a buffer's length stays inside it; what stood behind `if i < x.len()` need not be
//! compared again. All functions are followed from the entry point on, each call with what is known of its arguments, and
//! those whose branches are decided otherwise in one place than in another become several functions.
//!
//! What this does away with guards memory, so a wrong conclusion here would be an access outside of it. [`facts`] concludes,
//! and is tested against arithmetic itself; [`walk`] says which conditions hold where.

mod facts;
mod terms;
#[cfg(test)]
mod tests;
mod walk;
mod ways;

use std::collections::HashMap;

use naga::compact::{KeepUnused, compact};
use naga::valid::{FunctionInfo, ModuleInfo};
use naga::{Arena, BuiltIn, Function, Handle, Module, TypeInner};

use crate::far::Far;
use facts::Facts;
use terms::{Interval, Terms, Value};
use walk::{Outcome, Walk};

/// Statements that are looked at in all, after which nothing more is proved. A kernel has some hundred; but a loop is followed
/// several times, and so is all that it calls.
const MOST_STATEMENTS: u32 = 200_000;

/// The state that all functions share.
struct Prover<'m> {
    module: &'m Module,
    info: &'m ModuleInfo,
    terms: Terms,
    facts: Facts,
    /// The functions that are written, those that others call first.
    written: Arena<Function>,
    /// Which of them is a function with certain branches decided.
    known: HashMap<(Handle<Function>, Vec<u32>), Handle<Function>>,
    left: u32,
    /// Whether what the text promises can be relied upon.
    trusted: bool,
}

/// The function that promises what it is called with: nobody need look again whether it holds.
pub(crate) const PROMISE: &str = "w_promised";

/// Proves what can be proved in all entry points of a module.
pub(crate) fn prove(module: &mut Module, info: &ModuleInfo, trusted: bool) {
    let source = module.clone();
    let mut prover = Prover {
        module: &source,
        info,
        terms: Terms::default(),
        facts: Facts::default(),
        written: Arena::new(),
        known: HashMap::new(),
        left: MOST_STATEMENTS,
        trusted,
    };
    for (at, entry) in module.entry_points.iter_mut().enumerate() {
        let arguments = prover.builtins(&entry.function, entry.workgroup_size);
        let none = prover.facts.mark();
        let walk = Walk::new(&mut prover, entry.function.clone(), info.get_entry_point(at), arguments);
        entry.function = walk.run().function;
        prover.facts.forget(none);
    }
    module.functions = prover.written;
    // The expressions of branches that are gone belong to no statement any more, which is not allowed.
    compact(module, KeepUnused::No);
}

impl Prover<'_> {
    /// Whether a call of a function is a promise that counts.
    fn is_promise(&self, function: Handle<Function>) -> bool {
        self.trusted && self.module.functions[function].name.as_deref() == Some(PROMISE)
    }

    /// A function called with these arguments: the one that is written for it, and what it gives.
    fn call(
        &mut self,
        function: Handle<Function>,
        arguments: Vec<Value>,
    ) -> (Handle<Function>, Option<Value>) {
        let module = self.module;
        let before = self.facts.mark();
        let walk = Walk::new(self, module.functions[function].clone(), &self.info[function], arguments);
        let Outcome { function: written, decided, value } = walk.run();
        self.facts.forget(before);
        // What is at an address is none of what the text says.
        let value = value.filter(|_| Far::of(&module.functions[function]).is_none());
        let same = self.known.get(&(function, decided.clone())).copied();
        let handle = same.unwrap_or_else(|| {
            let span = module.functions.get_span(function);
            let handle = self.written.append(written, span);
            self.known.insert((function, decided), handle);
            handle
        });
        (handle, value)
    }

    /// The entry point's arguments: where an item is in its work-group is below the group's extents.
    fn builtins(&mut self, function: &Function, group: [u32; 3]) -> Vec<Value> {
        let all = group.iter().fold(1_u32, |all, extent| all.saturating_mul(*extent));
        let mut values = Vec::new();
        for argument in &function.arguments {
            let interval = match argument.binding {
                Some(naga::Binding::BuiltIn(BuiltIn::LocalInvocationIndex)) => {
                    Interval::up_to(all.saturating_sub(1))
                }
                _ => Interval::ALL,
            };
            let value = match argument.binding {
                Some(naga::Binding::BuiltIn(BuiltIn::LocalInvocationId)) => {
                    let parts =
                        group.map(|extent| self.terms.some(Interval::up_to(extent.saturating_sub(1))));
                    self.terms.value(terms::Term::Whole(parts.into()))
                }
                _ => self.terms.some(interval),
            };
            values.push(value);
        }
        values
    }
}

/// Whether values of a type are numbers of 32 bits without a sign.
fn is_number(inner: &TypeInner) -> bool {
    matches!(inner, TypeInner::Scalar(naga::Scalar { kind: naga::ScalarKind::Uint, width: 4 }))
}

fn is_truth(inner: &TypeInner) -> bool {
    matches!(inner, TypeInner::Scalar(naga::Scalar { kind: naga::ScalarKind::Bool, .. }))
}

/// The type of one of a function's expressions.
fn type_of<'a>(module: &'a Module, info: &'a FunctionInfo, of: Handle<naga::Expression>) -> &'a TypeInner {
    info[of].ty.inner_with(&module.types)
}
