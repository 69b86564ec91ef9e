//! Calls: what a helper is given, and what comes back.

use std::collections::HashMap;
use std::rc::Rc;

use proc_macro2::Span;

use super::values::Value;
use super::{Checked, Failure, Frame, Machine, Stop, unknown};
use crate::check::Checker;
use crate::errors::Errors;
use crate::hir::{Arg, Expr, Piece, VarId, Whole};
use crate::origin::LIBRARY;

/// How deep helpers may call each other; one that calls itself gets here.
const MOST_CALLS: usize = 64;

/// Where a helper's `&mut` goes back to: from which of its variables, to which one here, on which way into it, and from which element on.
struct Back {
    from: VarId,
    to: VarId,
    path: Vec<usize>,
    start: usize,
}

impl Machine<'_, '_> {
    pub(super) fn call(
        &mut self,
        at: usize,
        args: &[Arg],
        frame: &mut Frame,
        span: Span,
    ) -> Result<Value, Stop> {
        let checked = self.function(at, frame, span).map_err(Stop::Failure)?;
        let (mut values, mut backs) = (HashMap::new(), Vec::new());
        for (&param, arg) in checked.function.params.iter().zip(args) {
            let (given, back) = self.argument(arg, frame, span)?;
            backs.extend(back.map(|(to, path, start)| Back { from: param, to, path, start }));
            values.insert(param, given);
        }
        self.calls += 1;
        if self.calls > MOST_CALLS {
            let name = &checked.function.name;
            let message = format!("`{name}` is the last of {MOST_CALLS} calls within each other; use a loop");
            return Err(Stop::Failure((span, message)));
        }
        let mut inner = Frame { values, consts: checked.consts.clone(), function: Some(checked.clone()) };
        let result = match self.block(&checked.function.body, &mut inner) {
            Ok(value) | Err(Stop::Return(value)) => value,
            Err(stop) => return Err(stop),
        };
        self.calls -= 1;
        for Back { from, to, path, start } in backs {
            let place = frame.values.get_mut(&to).and_then(|whole| whole.part_mut(&path));
            match (place, inner.values.remove(&from)) {
                (Some(Value::Parts(all)), Some(Value::Parts(part))) => {
                    all.splice(start..start + part.len(), part);
                }
                (Some(place), Some(changed)) => *place = changed,
                _ => {}
            }
        }
        Ok(result)
    }

    /// What a helper is given, and where it goes back to: a variable, the way into it, and from which element on.
    fn argument(
        &mut self,
        arg: &Arg,
        frame: &mut Frame,
        span: Span,
    ) -> Result<(Value, Option<(VarId, Vec<usize>, usize)>), Stop> {
        let known = |frame: &Frame, var: VarId, path: &[usize]| {
            let whole = frame.values.get(&var).ok_or_else(|| unknown(span))?;
            Ok::<_, Stop>(path.iter().try_fold(whole.clone(), |part, at| part.part(*at)))
        };
        Ok(match arg {
            Arg::Value(value) => (self.value(value, frame)?, None),
            Arg::Slice(var) => {
                let given = known(frame, *var, &[])?;
                (given.unwrap_or(Value::Unit), Some((*var, Vec::new(), 0)))
            }
            Arg::Ref(place) => {
                let (var, path) = self.path(place, frame)?;
                let given = known(frame, var, &path)?;
                (given.unwrap_or_else(|| self.zero(&place.ty)), Some((var, path, 0)))
            }
            Arg::Piece(Piece { of, from, to }) => {
                let (whole, back) = match of {
                    Whole::Memory(var) => (known(frame, *var, &[])?, Some((*var, Vec::new()))),
                    Whole::Array(value) => (Some(self.value(value, frame)?), None),
                    Whole::Changed(place) => {
                        let (var, path) = self.path(place, frame)?;
                        (known(frame, var, &path)?, Some((var, path)))
                    }
                };
                let Some(Value::Parts(all)) = whole else { return Err(unknown(span)) };
                let mut end = |said: &Option<Box<Expr>>, missing: usize| match said {
                    Some(said) => Ok(self.number(said, frame)?.min(all.len())),
                    None => Ok(missing),
                };
                let (start, last) = (end(from, 0)?, end(to, all.len())?);
                let given = Value::Parts(all[start..last.max(start)].to_vec());
                (given, back.map(|(var, path)| (var, path, start)))
            }
        })
    }

    /// A function with its body, which is checked for this; what is wrong with it is said again when all are.
    fn function(&mut self, at: usize, frame: &Frame, span: Span) -> Result<Rc<Checked>, Failure> {
        if let Some(checked) = self.checked.get(&at) {
            return Ok(checked.clone());
        }
        let functions = self.around.functions;
        let Some(instance) = functions.made(at) else {
            return Err((span, "there is no such function".into()));
        };
        let source = &functions.sources[instance.source];
        let name = &source.signature.ident;
        if source.signature.constness.is_none() && source.origin.home != LIBRARY {
            return Err((
                span,
                format!("a constant is made by functions that are `const fn`, and `{name}` is none"),
            ));
        }
        let (mut errors, mut consts) = (Errors::default(), frame.consts[..self.around.consts].to_vec());
        let function = Checker::new(self.around, source.origin, &mut consts, &mut errors).function(&instance);
        if let Some(error) = errors.into_error() {
            return Err((span, format!("`{name}` is not run for this constant: {error}")));
        }
        let checked = Rc::new(Checked { function, consts: Rc::from(consts) });
        self.checked.insert(at, checked.clone());
        Ok(checked)
    }
}
