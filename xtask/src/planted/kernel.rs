//! Faults that are planted into the kernel macro and the writer of C, one after the other, to see whether random kernels
//! find them.

use super::{Fault, verdict, with_fault};
use crate::Result;
use crate::checks::{Found, random_program, without_program};

const MEMORY: &str = "kernel/macros/src/wgsl/memory.rs";
const ATOMICS: &str = "kernel/macros/src/wgsl/atomics.rs";
const PRELUDE: &str = "kernel/macros/src/wgsl/prelude.rs";
const LOOPS: &str = "kernel/macros/src/wgsl/loops.rs";
const STMT: &str = "kernel/macros/src/wgsl/stmt.rs";
const VALUE: &str = "kernel/macros/src/wgsl/value.rs";
const C: &str = "kernel/translate/src/c/functions.rs";
const LANES: &str = "kernel/src/native/lanes.rs";

const FAULTS: &[Fault] = &[
    Fault(
        "what a message says lies one further",
        "kernel/macros/src/messages.rs",
        "number(at + 2, span)",
        "number(at + 3, span)",
    ),
    Fault("shifts are masked by one bit less", VALUE, "scalar.bits() - 1);", "scalar.bits() - 2);"),
    Fault(
        "exclusive or of truth values is equality",
        VALUE,
        r#"format!("({a} != {b})")"#,
        r#"format!("({a} == {b})")"#,
    ),
    Fault("a loop reaches its end", LOOPS, "{counter} < {last}; {counter}", "{counter} <= {last}; {counter}"),
    Fault("a range of one value is empty", LOOPS, "({counter} <= {last});", "({counter} < {last});"),
    Fault(
        "break leaves the switch",
        STMT,
        "scalar.bits() == 64 || arms.iter().any(|(_, block)| breaks(block))",
        "scalar.bits() == 64",
    ),
    Fault(
        "one element too many",
        MEMORY,
        r#"(format!("{first} < block.{name}_len")"#,
        r#"(format!("{first} <= block.{name}_len")"#,
    ),
    Fault("one column too many", MEMORY, "{i} < block.{name}_extent_{d}", "{i} <= block.{name}_extent_{d}"),
    Fault(
        "rows as long as columns",
        MEMORY,
        "({i}) * block.{name}_row + {j}",
        "({i}) * block.{name}_extent_0 + {j}",
    ),
    Fault("minima are maxima", ATOMICS, r#"AtomicOp::Min => "atomicMin""#, r#"AtomicOp::Min => "atomicMax""#),
    Fault(
        "an exchange is always said to be made",
        "kernel/macros/src/check/exchange.rs",
        "Kind::Var(made.seen), ty.clone(), name",
        "Kind::Var(made.current), ty.clone(), name",
    ),
    Fault(
        "a question mark leaves with what there is",
        "kernel/macros/src/check/variants.rs",
        "Kind::If(Box::new(is_number(&of.value, 0)), leaves, Block::default())",
        "Kind::If(Box::new(is_number(&of.value, 1)), leaves, Block::default())",
    ),
    Fault(
        "a parameter's Option is never there",
        "kernel/macros/src/apart.rs",
        "quote!(#path { .. } => #number)",
        "quote!(#path { .. } => #number * 0)",
    ),
    Fault(
        "negative indices come back from the other end",
        "kernel/macros/src/check/place.rs",
        "Math::Max, vec![value, outside]",
        "Math::Min, vec![value, outside]",
    ),
    Fault(
        "what is saturated below is the largest",
        "kernel/macros/src/library/numbers.rs",
        "if difference > a { T::MIN }",
        "if difference > a { T::MAX }",
    ),
    Fault(
        "the root of a square is one less",
        "kernel/macros/src/library/numbers.rs",
        "more * more <= a",
        "more * more < a",
    ),
    Fault(
        "a jump out of three loops goes on from the second",
        "kernel/macros/src/check/loops.rs",
        "farther.iter().map(|jump| (jump.flag, Stmt::Break))",
        "farther.iter().take(0).map(|jump| (jump.flag, Stmt::Break))",
    ),
    Fault(
        "a helper that waits is given nothing",
        "kernel/macros/src/inline.rs",
        "to.push(Stmt::Let(names[param], Some(value)))",
        "to.push(Stmt::Let(names[param], Some(value).filter(|_| false)))",
    ),
    Fault(
        "a continue of an outer loop leaves it",
        "kernel/macros/src/check/loops.rs",
        "here.iter().map(|jump| (jump.flag, jump.how.clone()))",
        "here.iter().map(|jump| (jump.flag, Stmt::Break))",
    ),
    Fault(
        "an array is gone through but for its last element",
        "kernel/macros/src/check/loops.rs",
        "to: number(len), inclusive",
        "to: number(len - 1), inclusive",
    ),
    Fault(
        "operands of an operator change places",
        "kernel/macros/src/check/overload.rs",
        "operands.into_iter().map(Given::value).collect()",
        "operands.into_iter().rev().map(Given::value).collect()",
    ),
    Fault(
        "three numbers take the room of four",
        MEMORY,
        r#"format!("array<{}, {n}>", self.ty(of))"#,
        r#"format!("vec{n}<{}>", self.ty(of))"#,
    ),
    Fault("conversions do not hold floats inside", PRELUDE, "integer(to, high),", "integer(to, low),"),
    Fault("halves are cut off", PRELUDE, "return t + sign(x);", "return t;"),
    Fault(
        "bits fall out of a rotation",
        PRELUDE,
        r#"return (x << (n & 31u)) | (x >> ((32u - (n & 31u)) & 31u));"#,
        r#"return (x << (n & 31u)) | (x >> ((31u - (n & 31u)) & 31u));"#,
    ),
    Fault(
        "an item's position along the first dimension is its group's",
        "kernel/macros/src/wgsl/entry.rs",
        "let first = launch.{axis} * each;",
        "let first = group.{axis} * each;",
    ),
    Fault(
        "a part of a reduction starts a line too late",
        "kernel/macros/src/wgsl/entry.rs",
        "let first = group_at * line;",
        "let first = (group_at + 1u) * line;",
    ),
    Fault(
        "a third of the swizzle",
        VALUE,
        r#"pattern.iter().map(|at| ["x", "y", "z", "w"]"#,
        r#"pattern.iter().map(|at| ["x", "y", "y", "w"]"#,
    ),
    Fault(
        "the least number divided by minus one",
        C,
        "// The least value has no negative.\n            ScalarKind::Sint =>",
        "ScalarKind::Float =>",
    ),
    Fault(
        "right shifts of C bring in zeros",
        C,
        "(B::ShiftLeft, ScalarKind::Sint) =>",
        "(B::ShiftLeft | B::ShiftRight, ScalarKind::Sint) =>",
    ),
    Fault(
        "cases of C run on",
        "kernel/translate/src/c/body.rs",
        r#"{ "}" } else { "} break;" });"#,
        r#"{ "}" } else { "}" });"#,
    ),
    Fault(
        "subtraction of C's atomics adds",
        "kernel/translate/src/c/atomics.rs",
        r#"(Dialect::OpenClC, A::Subtract) => "sub""#,
        r#"(Dialect::OpenClC, A::Subtract) => "add""#,
    ),
    Fault(
        "groups find the last one's memory",
        "kernel/macros/src/host/groups.rs",
        "            return quote!(0);",
        "            return quote!(u32::MAX);",
    ),
    Fault(
        "remainders are quotients",
        "kernel/macros/src/host/value.rs",
        "quote!(#rt::Integer::rem(#a, #b))",
        "quote!(#rt::Integer::div(#a, #b))",
    ),
    Fault(
        "one item too many below a limit",
        LANES,
        "n.min(limit.saturating_sub(first) as usize)",
        "n.min(limit.saturating_sub(first) as usize + 1)",
    ),
    Fault("bounds that are outside", LANES, "high < indexed(len)", "high <= indexed(len)"),
    Fault(
        "items share what they reduce",
        "kernel/macros/src/host/reduce.rs",
        "quote!(let mut #name: #ty = #identity;)",
        "quote!(let mut #name: #ty = #all;)",
    ),
    Fault(
        "a column outside is in the next row",
        "kernel/src/native/views.rs",
        "if D > 1 && at >= extent",
        "if D > 1 && at > extent",
    ),
    Fault(
        "what is left of a block starts too late",
        "kernel/src/native/items.rs",
        "let mut at = self.first() + n;",
        "let mut at = self.first() + n + 1;",
    ),
    Fault(
        "a row's last item is left out",
        "kernel/macros/src/host/lanes.rs",
        "let n = quote!(let n = count - from;);",
        "let n = quote!(let n = count - from - 1;);",
    ),
    Fault(
        "bytes are cut off a bit too late",
        "kernel/macros/src/wgsl/packed.rs",
        "scalar.bounds().1",
        "scalar.bounds().1 * 2 + 1",
    ),
    Fault(
        "small numbers keep more bits than they have",
        "kernel/macros/src/wgsl/packed.rs",
        r#"format!("(({text} << {bits}) >> {bits})")"#,
        r#"format!("({text} | {text})")"#,
    ),
    Fault(
        "local memory keeps an element of the group before",
        "kernel/src/native/groups.rs",
        "self.cells.iter().skip(from as usize)",
        "self.cells.iter().skip(from as usize + 1)",
    ),
];

/// Plants each fault, and takes it out again. Programs look for it, ten at most.
pub(super) fn plant(words: &str) -> Result<()> {
    look_for(FAULTS.iter().filter(|fault| fault.0.contains(words)))
}

/// One in the macro and one in the writer of C: enough to see that faults are found at all.
const SAMPLE: [&str; 2] = ["a loop reaches its end", "right shifts of C bring in zeros"];

/// Plants some of the faults.
pub(crate) fn sample() -> Result<()> {
    look_for(FAULTS.iter().filter(|fault| SAMPLE.contains(&fault.0)))
}

fn look_for(faults: impl Iterator<Item = &'static Fault>) -> Result<()> {
    let mut missed = Vec::new();
    for Fault(what, file, right, wrong) in faults {
        let look = || (1..=10).map(random_program).find(|found| !matches!(found, Ok(Found::Nothing)));
        match with_fault(what, file, right, wrong, look)? {
            Some(Ok(Found::Disagreement)) => println!("FOUND   {what}"),
            Some(Ok(Found::NoProgram)) => return Err(format!("with the fault \"{what}\" nothing is built")),
            Some(Err(error)) => return Err(error),
            _ => {
                println!("MISSED  {what}");
                missed.push(*what);
            }
        }
        without_program()?;
    }
    verdict("random kernels", &missed)
}

#[test]
fn faults_fit_the_sources() {
    super::fit(FAULTS);
    assert!(SAMPLE.iter().all(|name| FAULTS.iter().any(|fault| fault.0 == *name)));
}
