//! Lengths that functions compute, ahead of everything else: structs and signatures may name them, and functions have signatures.

use crate::check::{Around, Checker};
use crate::errors::Errors;
use crate::expand::{Of, all_functions, all_structs, constants, is_integer, origin};
use crate::hir::{Const, Kind};

/// The integer constants that are written down, and those that can be computed with the structs and signatures which these make known.
/// What goes wrong on the way is said when all of it is read for good.
pub(crate) fn found(
    all: &[Of<'_, '_>],
    written: &[Const],
    is_computed: &dyn Fn(&syn::ItemConst) -> bool,
    is_kernel: &dyn Fn(&syn::ItemFn) -> bool,
) -> Vec<Const> {
    let computed = all.iter().flat_map(|(items, home, is_named)| {
        items.consts.iter().map(move |item| (item, origin(*home, *is_named, &item.vis)))
    });
    let mut missing: Vec<_> =
        computed.filter(|(item, _)| is_computed(item) && is_integer(&item.ty)).collect();
    let mut known = written.to_vec();
    // With each round more types are whole, until nothing new is found.
    loop {
        let before = missing.len();
        if before == 0 {
            return known;
        }
        let mut unheard = Errors::default();
        let structs = all_structs(all, &known, &mut unheard);
        let functions = all_functions(all, is_kernel, &structs, &mut unheard);
        let mut consts = known.clone();
        let is_plain = |item: &syn::ItemConst| !is_computed(item) && !is_integer(&item.ty);
        constants(all, &is_plain, &structs, &functions, &mut consts, &mut unheard);
        missing.retain(|(item, origin)| {
            let around = Around { structs: &structs, functions: &functions, consts: consts.len() };
            let (mut tried, mut errors) = (consts.clone(), Errors::default());
            Checker::new(&around, *origin, &mut tried, &mut errors).constant(item);
            let made = tried.pop().filter(|made| errors.is_empty() && made.name == item.ident);
            let is_found = made.as_ref().is_some_and(|made| matches!(made.value.kind, Kind::Int(_)));
            known.extend(made.filter(|_| is_found));
            !is_found
        });
        if missing.len() == before {
            return known;
        }
    }
}
