//! Constants that functions compute: helpers that are `const fn` are run here, as devices would run them.

mod calls;
mod computed;
mod math;
mod values;

use std::collections::HashMap;
use std::rc::Rc;

use proc_macro2::Span;

use crate::check::Around;
use crate::hir::{Base, BinOp, Block, Const, Expr, Function, Kind, Place, Step, Stmt, VarId};
use crate::ty::Ty;

pub(crate) use computed::computed;
use values::Value;

/// Where a value was not found, and why.
pub(crate) type Failure = (Span, String);

/// How many operations a constant may take: a compiler that never ends is worse than one that refuses.
const MOST_STEPS: u32 = 4_000_000;

/// The value of an expression, as one of literals.
pub(crate) fn evaluated(around: &Around<'_>, consts: &[Const], expr: &Expr) -> Result<Expr, Failure> {
    let mut machine = Machine { around, checked: HashMap::new(), constant: expr.span, steps: 0, calls: 0 };
    let mut frame = Frame { values: HashMap::new(), function: None, consts: Rc::from(consts) };
    match machine.value(expr, &mut frame) {
        Ok(value) => value.written(&expr.ty, around.structs, expr.span),
        Err(Stop::Failure(failure)) => Err(failure),
        Err(_) => Err((expr.span, "a constant is a value, and this jumps".into())),
    }
}

/// Why an expression or a statement is not followed by the next one.
enum Stop {
    Break,
    Continue,
    Return(Value),
    Failure(Failure),
}

/// What a call knows.
struct Frame {
    /// The variables that have a value by now.
    values: HashMap<VarId, Value>,
    function: Option<Rc<Checked>>,
    /// What the function's body names.
    consts: Rc<[Const]>,
}

/// A function, and the constants that its body names.
struct Checked {
    function: Function,
    consts: Rc<[Const]>,
}

struct Machine<'a, 'k> {
    around: &'a Around<'k>,
    checked: HashMap<usize, Rc<Checked>>,
    /// Where the constant's value is written.
    constant: Span,
    steps: u32,
    calls: usize,
}

fn unknown(span: Span) -> Stop {
    Stop::Failure((span, "this is not known when the kernel is compiled".into()))
}

impl Machine<'_, '_> {
    fn step(&mut self) -> Result<(), Stop> {
        self.steps += 1;
        if self.steps <= MOST_STEPS {
            return Ok(());
        }
        let message =
            format!("this takes more than {MOST_STEPS} steps, and a constant is computed by the compiler");
        Err(Stop::Failure((self.constant, message)))
    }

    fn value(&mut self, expr: &Expr, frame: &mut Frame) -> Result<Value, Stop> {
        let span = expr.span;
        self.step()?;
        let known = |value: Option<Value>| value.ok_or_else(|| unknown(span));
        Ok(match &expr.kind {
            Kind::Unit => Value::Unit,
            Kind::Zero => self.zero(&expr.ty),
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Int(value) => Value::Int(*value),
            Kind::Float(value) => math::rounded(*value, &expr.ty),
            Kind::Const(at) => {
                let consts = frame.consts.clone();
                self.value(&consts[*at].value, frame)?
            }
            Kind::Var(var) => {
                let value = known(frame.values.get(var).cloned())?;
                // A copy of an array takes its time as well.
                self.steps = self.steps.saturating_add(value.parts());
                value
            }
            Kind::Unary(op, a) => known(math::unary(*op, &self.value(a, frame)?, &expr.ty))?,
            Kind::Binary(op, a, b) => {
                let (x, y) = (self.value(a, frame)?, self.value(b, frame)?);
                known(math::binary(*op, &x, &y, &a.ty))?
            }
            Kind::Logic(and, a, b) => match self.value(a, frame)? {
                Value::Bool(first) if first == *and => self.value(b, frame)?,
                first => first,
            },
            Kind::Cast(a) => known(math::cast(&self.value(a, frame)?, &expr.ty))?,
            Kind::Field(a, at) => known(self.value(a, frame)?.part(*at))?,
            Kind::Component(a, at) => known(self.value(a, frame)?.part(usize::from(*at)))?,
            Kind::Swizzle(a, which) => {
                let of = self.value(a, frame)?;
                let parts: Option<Vec<Value>> = which.iter().map(|at| of.part(usize::from(*at))).collect();
                known(parts.map(Value::Parts))?
            }
            Kind::Index(a, at) => self.index(a, at, &expr.ty, frame)?,
            Kind::Element(var, at) => {
                let at = known(self.values(at, frame)?.pop())?;
                let of = frame.values.get(var).ok_or_else(|| unknown(span))?;
                self.element(of, &at, &expr.ty)
            }
            Kind::Len(var, _) => match frame.values.get(var) {
                Some(Value::Parts(parts)) => Value::Int(parts.len() as i128),
                _ => return Err(unknown(span)),
            },
            Kind::Math(math, operands) => {
                let values = self.values(operands, frame)?;
                let of = operands.first().map_or(&expr.ty, |operand| &operand.ty);
                known(math::function(*math, &values, of, &expr.ty))?
            }
            Kind::Call(at, args) => self.call(*at, args, frame, span)?,
            Kind::Struct(_, list) | Kind::Array(list) | Kind::Vector(list) => {
                Value::Parts(self.values(list, frame)?)
            }
            Kind::Repeat(of) => {
                let Ty::Array(_, len) = expr.ty else { return Err(unknown(span)) };
                Value::Parts(vec![self.value(of, frame)?; len as usize])
            }
            Kind::Splat(of) => {
                let width = expr.ty.width().unwrap_or(1);
                Value::Parts(vec![self.value(of, frame)?; usize::from(width)])
            }
            Kind::If(condition, yes, no) => match self.value(condition, frame)? {
                Value::Bool(true) => self.block(yes, frame)?,
                _ => self.block(no, frame)?,
            },
            Kind::Match(of, arms) => {
                let Value::Int(of) = self.value(of, frame)? else { return Err(unknown(span)) };
                let taken = arms.iter().find(|(values, _)| values.is_empty() || values.contains(&of));
                match taken {
                    Some((_, block)) => self.block(block, frame)?,
                    None => return Err(unknown(span)),
                }
            }
            Kind::Block(block) => self.block(block, frame)?,
            Kind::Id(..)
            | Kind::Atomic(..)
            | Kind::Subgroup(..)
            | Kind::Barrier
            | Kind::Fence(..)
            | Kind::Message(..) => {
                return Err(unknown(span));
            }
        })
    }

    fn values(&mut self, list: &[Expr], frame: &mut Frame) -> Result<Vec<Value>, Stop> {
        list.iter().map(|expr| self.value(expr, frame)).collect()
    }

    /// An element of an array; of one that has a name, without a copy of all of it.
    fn index(&mut self, array: &Expr, at: &Expr, ty: &Ty, frame: &mut Frame) -> Result<Value, Stop> {
        if let Kind::Var(var) = array.kind {
            let at = self.value(at, frame)?;
            let of = frame.values.get(&var).ok_or_else(|| unknown(array.span))?;
            return Ok(self.element(of, &at, ty));
        }
        if let Kind::Const(constant) = array.kind {
            let consts = frame.consts.clone();
            if let Kind::Array(list) = &consts[constant].value.kind {
                let at = self.number(at, frame)?;
                return match list.get(at) {
                    Some(value) => self.value(value, frame),
                    None => Ok(self.zero(ty)),
                };
            }
        }
        let (of, at) = (self.value(array, frame)?, self.value(at, frame)?);
        Ok(self.element(&of, &at, ty))
    }

    /// An element; outside is zero.
    fn element(&self, of: &Value, at: &Value, ty: &Ty) -> Value {
        let at = if let Value::Int(at) = at { usize::try_from(*at).ok() } else { None };
        at.and_then(|at| of.part(at)).unwrap_or_else(|| self.zero(ty))
    }

    fn block(&mut self, block: &Block, frame: &mut Frame) -> Result<Value, Stop> {
        block.stmts.iter().try_for_each(|stmt| self.stmt(stmt, frame))?;
        match &block.tail {
            Some(tail) => self.value(tail, frame),
            None => Ok(Value::Unit),
        }
    }

    fn stmt(&mut self, stmt: &Stmt, frame: &mut Frame) -> Result<(), Stop> {
        match stmt {
            Stmt::Let(var, value) => {
                let value = match (value, &frame.function) {
                    (Some(value), _) => self.value(value, frame)?,
                    (None, Some(checked)) => self.zero(&checked.function.vars[*var].ty),
                    (None, None) => Value::Unit,
                };
                frame.values.insert(*var, value);
            }
            Stmt::Assign(place, op, value) => {
                let (value, span) = (self.value(value, frame)?, value.span);
                self.assign(place, *op, value, frame)
                    .map_err(|stop| stop.unwrap_or_else(|| unknown(span)))?;
            }
            Stmt::Expr(value) => drop(self.value(value, frame)?),
            Stmt::While(condition, body) => {
                while self.value(condition, frame)? == Value::Bool(true) {
                    if self.ends(body, frame)? {
                        break;
                    }
                }
            }
            Stmt::Loop(body) => while !self.ends(body, frame)? {},
            Stmt::For { var, from, to, inclusive, body } => {
                let (Value::Int(first), Value::Int(last)) =
                    (self.value(from, frame)?, self.value(to, frame)?)
                else {
                    return Err(unknown(from.span));
                };
                for at in first..last + i128::from(*inclusive) {
                    frame.values.insert(*var, Value::Int(at));
                    if self.ends(body, frame)? {
                        break;
                    }
                }
            }
            Stmt::Break => return Err(Stop::Break),
            Stmt::Continue => return Err(Stop::Continue),
            Stmt::Return(None) => return Err(Stop::Return(Value::Unit)),
            Stmt::Return(Some(value)) => return Err(Stop::Return(self.value(value, frame)?)),
        }
        Ok(())
    }

    /// Runs a loop's body; whether the loop ends with that. An empty body is a step as well, or its loop would never be counted.
    fn ends(&mut self, body: &Block, frame: &mut Frame) -> Result<bool, Stop> {
        self.step()?;
        match self.block(body, frame) {
            Ok(_) | Err(Stop::Continue) => Ok(false),
            Err(Stop::Break) => Ok(true),
            Err(stop) => Err(stop),
        }
    }

    /// Writes to a place; none is said of what went wrong where only the statement has a span for it.
    fn assign(
        &mut self,
        place: &Place,
        op: Option<BinOp>,
        value: Value,
        frame: &mut Frame,
    ) -> Result<(), Option<Stop>> {
        let (var, path) = self.path(place, frame)?;
        let whole = frame.values.get_mut(&var).ok_or(None)?;
        // Outside nothing is written.
        let Some(part) = whole.part_mut(&path) else { return Ok(()) };
        *part = match op {
            None => value,
            Some(op) => math::binary(op, part, &value, &place.ty).ok_or(None)?,
        };
        Ok(())
    }

    /// A place, as a variable and the way into it.
    fn path(&mut self, place: &Place, frame: &mut Frame) -> Result<(VarId, Vec<usize>), Stop> {
        let (var, first): (VarId, &[Expr]) = match &place.base {
            Base::Var(var) => (*var, &[]),
            Base::Element(var, at) => (*var, at),
        };
        let mut path = Vec::new();
        for at in first {
            path.push(self.number(at, frame)?);
        }
        for step in &place.path {
            path.push(match step {
                Step::Field(_, at) => *at,
                Step::Component(at) => usize::from(*at),
                Step::Index(at, _) => self.number(at, frame)?,
            });
        }
        Ok((var, path))
    }

    /// An index.
    fn number(&mut self, at: &Expr, frame: &mut Frame) -> Result<usize, Stop> {
        match self.value(at, frame)? {
            Value::Int(value) => Ok(usize::try_from(value).unwrap_or(usize::MAX)),
            _ => Err(unknown(at.span)),
        }
    }

    /// What reading outside gives.
    fn zero(&self, ty: &Ty) -> Value {
        match ty {
            Ty::Scalar(scalar) if scalar.is_float() => Value::Float(0.0),
            Ty::Scalar(scalar) if scalar.is_int() => Value::Int(0),
            Ty::Enum(_) | Ty::Option(_) => match self.around.structs.variants(ty) {
                Some(variants) => {
                    let parts = crate::enums::parts(&variants);
                    Value::Parts(parts.iter().map(|ty| self.zero(ty)).collect())
                }
                None => Value::Int(0),
            },
            Ty::Scalar(_) => Value::Bool(false),
            Ty::Vector(width, of) => Value::Parts(vec![self.zero(of); usize::from(*width)]),
            Ty::Array(of, len) => Value::Parts(vec![self.zero(of); *len as usize]),
            Ty::Tuple(parts) => Value::Parts(parts.iter().map(|ty| self.zero(ty)).collect()),
            Ty::Struct(at) => {
                let fields = self.around.structs.fields_of(*at);
                Value::Parts(fields.iter().map(|(_, ty)| self.zero(ty)).collect())
            }
            _ => Value::Unit,
        }
    }
}
