//! Atomic additions of floats, which WGSL has only on some devices: a function of a certain name stands for one.
//!
//! The name starts with `w_float_add_`; the function takes the float, and adds it to a word in a buffer by guessing what is
//! there until nobody came between. That is right everywhere, and slow where many come at once. A writer of another language,
//! and a device that has such atomics, put those in its place.

use naga::{
    AtomicFunction, Block, Expression, Function, Handle, Module, Range, Scalar, Span, Statement, Type,
    TypeInner,
};

/// What a function adds to, if it is one of them: the pointer to the word.
pub(crate) fn target(function: &Function) -> Option<Handle<Expression>> {
    let is_one = function.name.as_deref().is_some_and(|name| name.starts_with("w_float_add_"));
    let mut found = None;
    let mut open: Vec<&Block> = is_one.then_some(&function.body).into_iter().collect();
    while let Some(block) = open.pop() {
        for statement in block.iter() {
            match statement {
                Statement::Atomic { pointer, .. } => found = Some(*pointer),
                Statement::Loop { body, continuing, .. } => open.extend([body, continuing]),
                Statement::Block(inner) => open.push(inner),
                Statement::If { accept, reject, .. } => open.extend([accept, reject]),
                _ => {}
            }
        }
    }
    found
}

/// Makes all of them atomics of floats, for devices that have those.
pub(crate) fn native(module: &mut Module) {
    let float =
        module.types.insert(Type { name: None, inner: TypeInner::Scalar(Scalar::F32) }, Span::UNDEFINED);
    let atomic =
        module.types.insert(Type { name: None, inner: TypeInner::Atomic(Scalar::F32) }, Span::UNDEFINED);
    let Module { functions, global_variables, types, .. } = module;
    for (_, function) in functions.iter_mut() {
        let Some(pointer) = target(function) else { continue };
        let Expression::Access { base, .. } = function.expressions[pointer] else { continue };
        let Expression::GlobalVariable(global) = function.expressions[base] else { continue };
        let TypeInner::Array { size, stride, .. } = types[global_variables[global].ty].inner else {
            continue;
        };
        let array = Type { name: None, inner: TypeInner::Array { base: atomic, size, stride } };
        global_variables[global].ty = types.insert(array, Span::UNDEFINED);
        add(function, pointer, float);
    }
}

/// The function's body as one atomic step.
fn add(function: &mut Function, pointer: Handle<Expression>, float: Handle<Type>) {
    let Expression::Access { base, index } = function.expressions[pointer] else { return };
    let (base, index) = (function.expressions[base].clone(), index);
    // The index is loaded from a uniform buffer, or is a number: what it is made of stands before it.
    let mut expressions = naga::Arena::new();
    let mut body = Block::new();
    let mut append = |expression| expressions.append(expression, Span::UNDEFINED);
    let value = append(Expression::FunctionArgument(0));
    let array = append(base);
    let index = match function.expressions[index].clone() {
        Expression::Load { pointer } => {
            let Expression::AccessIndex { base, index } = function.expressions[pointer] else { return };
            let block = append(function.expressions[base].clone());
            let member = append(Expression::AccessIndex { base: block, index });
            let load = append(Expression::Load { pointer: member });
            body.push(Statement::Emit(Range::new_from_bounds(member, load)), Span::UNDEFINED);
            load
        }
        known => append(known),
    };
    let place = append(Expression::Access { base: array, index });
    let result = append(Expression::AtomicResult { ty: float, comparison: false });
    body.push(Statement::Emit(Range::new_from_bounds(place, place)), Span::UNDEFINED);
    let (fun, result) = (AtomicFunction::Add, Some(result));
    body.push(Statement::Atomic { pointer: place, fun, value, result }, Span::UNDEFINED);
    body.push(Statement::Return { value: None }, Span::UNDEFINED);
    function.expressions = expressions;
    function.named_expressions.clear();
    function.local_variables = naga::Arena::new();
    function.body = body;
}
